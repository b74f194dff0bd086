"""Exact ranks of held-out items in the whole catalogue, ties kept as intervals."""
