"""What other libraries return, as the table that :func:`sampled_metrics.read_log` takes.

A library that ranks sampled candidates knows each candidate's score. A log needs less: how many
negatives scored above each relevant item, and how many the same. None of the libraries is imported.

An item that a run does not hold has no score, so its rank is unknown: a run cut off at its best
items is refused unless every relevant item is among them.
"""

from .links import link_prediction, pykeen, pykeen_metrics
from .recommenders import recbole, recbole_scores, rectools
from .runs import ranx, trec
from .scores import from_scores
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
