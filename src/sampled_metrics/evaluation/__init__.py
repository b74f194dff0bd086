"""What one's own sampled evaluation says of the exact metrics, and of who beats whom.

A correction is a vector over the sampled ranks, so each row of a log has a number, and the
users' spread of these numbers is the standard error: it holds the users that happened to be
evaluated and the negatives that happened to be drawn. The spread does not show the bias;
:mod:`sampled_metrics.bounds.identification` bounds it, and no verdict is given without that bound.
"""

from .comparison import compare
from .estimation import DEFAULT_METRICS, estimate
from .judging import UNKNOWN
from .values import ESTIMATORS, FITTED

__all__ = ["DEFAULT_METRICS", "ESTIMATORS", "FITTED", "UNKNOWN", "compare", "estimate"]
