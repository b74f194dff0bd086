"""Data sets, and the ranks, logs and tables that are bundled."""
