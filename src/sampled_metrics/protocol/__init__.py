"""P: the distribution of what an evaluation records, given the true rank."""

from .adaptive import Adaptive, Stratified
from .design import Design, drawn_alike, one_size
from .fixed import Protocol, Weighted, checked, fixed, thinned, thinned_counts

__all__ = [
    "Adaptive",
    "Design",
    "Protocol",
    "Stratified",
    "Weighted",
    "checked",
    "drawn_alike",
    "fixed",
    "one_size",
    "thinned",
    "thinned_counts",
]
