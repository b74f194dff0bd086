"""Run small linear algebra on one thread: for small matrices several threads are slower."""

from collections.abc import Callable
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that it is limited too
from threadpoolctl import threadpool_limits

_Function = TypeVar("_Function", bound=Callable[..., Any])
_limited = threadpool_limits.wrap(limits=1, user_api="blas")


def one_thread(function: _Function) -> _Function:
    """Limit BLAS to one thread during a function that solves many small systems."""
    wrapped: _Function = _limited(function)
    return wrapped
