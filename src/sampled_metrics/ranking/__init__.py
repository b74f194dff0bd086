"""Exact ranks of held-out items in the whole catalogue, with ties as intervals."""
