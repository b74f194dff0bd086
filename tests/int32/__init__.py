"""The tests as where NumPy's default integer has 32 bits."""
