"""How many negatives or users an evaluation needs: for populations, exact ranks, and logs."""

from .logs import fitted, plan
from .pairs import ESTIMATORS, Population, for_all, plan_pair, rank_grid

__all__ = [
    "ESTIMATORS",
    "Population",
    "fitted",
    "for_all",
    "plan",
    "plan_pair",
    "rank_grid",
]
