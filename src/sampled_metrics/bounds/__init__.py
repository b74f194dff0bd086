"""Ranges of exact metrics with a finite-sample proof: populations, and bets against them."""
