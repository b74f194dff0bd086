"""Slow reference implementations, for comparison."""
