"""Figures, tables and the data of the elements to touch."""
