"""How many negatives or users an evaluation needs: for populations, exact ranks, and logs."""

from .logs import around, curve_log, fitted, plan
from .pairs import ESTIMATORS, Population, curve, for_all, for_pairs, plan_pair, rank_grid

__all__ = [
    "ESTIMATORS",
    "Population",
    "around",
    "curve",
    "curve_log",
    "fitted",
    "for_all",
    "for_pairs",
    "plan",
    "plan_pair",
    "rank_grid",
]
