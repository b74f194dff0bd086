"""Linear algebra on one thread: on several, that of small matrices takes longer, not less."""

from collections.abc import Callable
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401  brings a BLAS of its own, to be found with NumPy's
from threadpoolctl import threadpool_limits

_Function = TypeVar("_Function", bound=Callable[..., Any])
_limited = threadpool_limits.wrap(limits=1, user_api="blas")


def one_thread(function: _Function) -> _Function:
    """A function that solves many small systems; BLAS gets its threads back afterwards."""
    found: _Function = _limited(function)
    return found
