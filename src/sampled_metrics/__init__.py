"""Ranking metrics under sampling: a metric M, a protocol P and an estimator M-hat."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import consistency, estimators
    from .metrics import Metric, metric
    from .protocol import Protocol

__all__ = ["Metric", "Protocol", "consistency", "estimators", "metric"]

_HOMES = {"Metric": "metrics", "Protocol": "protocol", "metric": "metrics"}


def __getattr__(name: str) -> Any:
    """Load what is asked for: the help of the command line does not wait for SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_HOMES.get(name, name)}", __name__)
    found = getattr(module, name) if name in _HOMES else module
    globals()[name] = found
    return found
