"""Readers: the output of other libraries as the table that :func:`sampled_metrics.read_log` takes.

They count how many negatives scored above each relevant item, and how many the same. No other
library is imported. A run that was cut off at its best items is refused if a relevant item is
missing, because an item without a score has an unknown rank.
"""

from .link_prediction import link_prediction
from .pykeen import pykeen
from .ranx import ranx
from .recbole import recbole, recbole_scores
from .rectools import rectools
from .scores import from_scores
from .trec import trec
from .weighted import counts_above

__all__ = [
    "counts_above",
    "from_scores",
    "link_prediction",
    "pykeen",
    "ranx",
    "recbole",
    "recbole_scores",
    "rectools",
    "trec",
]
