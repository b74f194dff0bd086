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

    from . import consistency, estimators, priors, readers, results, verdicts
    from .adaptive import Adaptive, Stratified
    from .auditing import audit
    from .bounds.assumption import Assumption
    from .bounds.identification import IncompatibleError, Interval, interval, shortest
    from .estimators import Estimator
    from .evaluation import compare, estimate, estimate_each
    from .example import write_example
    from .log.compact import Log
    from .log.read import read_log
    from .log_plans import plan
    from .metrics import Metric, metric
    from .protocol import Protocol
    from .published_tables import published
    from .ranking.exact import exact_ranks
    from .ranking.factors import exact_ranks_from_factors
    from .ranking.files import rank
    from .ranking.intervals import RankIntervals
    from .relevant_sets import RelevantSets
    from .sequential import race

    __version__ = version("sampled-metrics")

__all__ = [
    "Adaptive",
    "Assumption",
    "Estimator",
    "IncompatibleError",
    "Interval",
    "Log",
    "Metric",
    "Protocol",
    "RankIntervals",
    "RelevantSets",
    "Stratified",
    "__version__",
    "audit",
    "compare",
    "consistency",
    "estimate",
    "estimate_each",
    "estimators",
    "exact_ranks",
    "exact_ranks_from_factors",
    "interval",
    "metric",
    "plan",
    "priors",
    "published",
    "race",
    "rank",
    "read_log",
    "readers",
    "results",
    "shortest",
    "verdicts",
    "write_example",
]

#: The module of each name; a name that is not here is a module.
_HOMES = {
    "Adaptive": "adaptive",
    "Assumption": "bounds.assumption",
    "Estimator": "estimators",
    "IncompatibleError": "bounds.identification",
    "Interval": "bounds.identification",
    "Log": "log.compact",
    "Metric": "metrics",
    "Protocol": "protocol",
    "RankIntervals": "ranking.intervals",
    "RelevantSets": "relevant_sets",
    "Stratified": "adaptive",
    "audit": "auditing",
    "compare": "evaluation",
    "estimate": "evaluation",
    "estimate_each": "evaluation",
    "exact_ranks": "ranking.exact",
    "exact_ranks_from_factors": "ranking.factors",
    "interval": "bounds.identification",
    "metric": "metrics",
    "plan": "log_plans",
    "published": "published_tables",
    "race": "sequential",
    "rank": "ranking.files",
    "read_log": "log.read",
    "shortest": "bounds.identification",
    "write_example": "example",
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
    module = import_module(f".{_HOMES.get(name, name)}", __name__)
    attribute = getattr(module, name) if name in _HOMES else module
    globals()[name] = attribute
    return attribute
