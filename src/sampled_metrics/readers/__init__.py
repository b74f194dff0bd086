"""What other libraries return, as the table that :func:`sampled_metrics.read_log` takes.

A library that ranks sampled candidates knows each candidate's score. A log needs less: how many
negatives scored above each relevant item, and how many the same. None of the libraries is imported.

An item that a run does not hold has no score, so its rank is unknown: a run cut off at its best
items is refused unless every relevant item is among them.
"""

from .link_prediction import link_prediction
from .pykeen import pykeen, pykeen_metrics
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
    "pykeen_metrics",
    "ranx",
    "recbole",
    "recbole_scores",
    "rectools",
    "trec",
]
