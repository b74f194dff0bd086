"""What one's own sampled evaluation says of the exact metrics, and of who beats whom."""

from .comparison import compare
from .estimation import DEFAULT_METRICS, estimate
from .judging import UNKNOWN
from .values import ESTIMATORS, FITTED

__all__ = ["DEFAULT_METRICS", "ESTIMATORS", "FITTED", "UNKNOWN", "compare", "estimate"]
