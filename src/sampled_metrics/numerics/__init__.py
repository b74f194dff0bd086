"""Arithmetic: distributions in logarithms, quadrature, least squares, sums over all ranks."""
