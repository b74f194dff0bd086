"""Ranking metrics under sampling: a metric M, a protocol P and an estimator M-hat.

>>> import sampled_metrics as sm
>>> sampled = sm.estimators.naive(sm.metric("recall@10"), sm.Protocol(10_000, 99))
>>> float(sampled.expected(500).round(2))  # sampled Recall@10 of an item at rank 500 of 10,000
0.97
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

#: The module of each public name, None for modules, as listed in the stub for type checkers.
_MODULES = {
    name.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for name in node.names
}
__all__ = sorted([*_MODULES, "__version__"])


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load what is asked for: the help of the command line does not wait for SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("sampled-metrics")
    module = _MODULES[name]
    imported = import_module(f".{module or name}", __name__)
    attribute = getattr(imported, name) if module else imported
    globals()[name] = attribute
    return attribute
