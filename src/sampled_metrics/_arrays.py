"""Arrays of other libraries, left on the device where they are.

By the array API standard, which PyTorch, CuPy and JAX follow with the help of array-api-compat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validate import IntArray


def namespace(values: Any) -> Any:
    """The functions for an array of another library, None for NumPy and whatever it takes."""
    if isinstance(values, (np.ndarray, np.generic)):
        return None
    known = type(values).__module__.split(".")[0] in ("torch", "cupy", "jax", "jaxlib")
    if not known and not hasattr(values, "__array_namespace__"):
        return None
    try:
        import array_api_compat
    except ImportError:
        raise ImportError(
            f"arrays of {type(values).__module__.split('.')[0]} need array-api-compat: install "
            "sampled-metrics[arrays]"
        ) from None
    return array_api_compat.array_namespace(values)


def fetched(values: Any) -> Any:
    """An array of a device as one of NumPy, and all else as it is: lists of any lengths, too."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if hasattr(values, "get") and type(values).__module__.startswith("cupy"):
        return values.get()
    return values


def on_host(values: Any) -> NDArray[Any]:
    """An array of any library as one of NumPy."""
    return np.asarray(fetched(values))


def like(values: Any, example: Any) -> Any:
    """An array of NumPy as one of another's library, on its device."""
    xp = namespace(example)
    if xp is None:
        return np.asarray(values)
    import array_api_compat

    return xp.asarray(np.ascontiguousarray(values), device=array_api_compat.device(example))


def rows(values: Any, at: slice | IntArray) -> Any:
    """Some rows of a matrix of any library, where it is."""
    xp = namespace(values)
    if xp is None:
        return values[at]
    if isinstance(at, slice):
        return values[at, ...]
    return xp.take(values, like(at, values), axis=0)
