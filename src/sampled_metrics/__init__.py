"""Ranking metrics under sampling: a metric M, a protocol P and an estimator M-hat.

>>> import sampled_metrics as sm
>>> sampled = sm.estimators.naive(sm.metric("recall@10"), sm.Protocol(10_000, 99))
>>> float(sampled.expected(500).round(2))  # sampled Recall@10 of an item at rank 500 of 10,000
0.97
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import version

    from . import consistency, estimators
    from .adaptive import Adaptive, Stratified
    from .auditing import audit
    from .bounds.assumption import Assumption
    from .estimators import Estimator
    from .evaluation import compare, estimate
    from .log.read import read_log
    from .metrics import Metric, metric
    from .planning import plan
    from .protocol import Protocol
    from .published_tables import published
    from .ranking.files import rank
    from .relevant_sets import RelevantSets
    from .sequential import race

    __version__ = version("sampled-metrics")

__all__ = [
    "Adaptive",
    "Assumption",
    "Estimator",
    "Metric",
    "Protocol",
    "RelevantSets",
    "Stratified",
    "__version__",
    "audit",
    "compare",
    "consistency",
    "estimate",
    "estimators",
    "metric",
    "plan",
    "published",
    "race",
    "rank",
    "read_log",
]

#: Where each name is, and its name there; a name that is not here is a module.
_HOMES = {
    "Adaptive": ("adaptive", "Adaptive"),
    "Estimator": ("estimators", "Estimator"),
    "Metric": ("metrics", "Metric"),
    "Protocol": ("protocol", "Protocol"),
    "RelevantSets": ("relevant_sets", "RelevantSets"),
    "Stratified": ("adaptive", "Stratified"),
    "Assumption": ("bounds.assumption", "Assumption"),
    "audit": ("auditing", "audit"),
    "compare": ("evaluation", "compare"),
    "estimate": ("evaluation", "estimate"),
    "metric": ("metrics", "metric"),
    "plan": ("planning", "plan"),
    "published": ("published_tables", "published"),
    "race": ("sequential", "race"),
    "rank": ("ranking.files", "rank"),
    "read_log": ("log.read", "read_log"),
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load what is asked for: the help of the command line does not wait for SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("sampled-metrics")
    home, attribute = _HOMES.get(name, (name, ""))
    module = import_module(f".{home}", __name__)
    found = getattr(module, attribute) if attribute else module
    globals()[name] = found
    return found
