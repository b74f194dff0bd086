"""Arrays of other libraries, processed on the device where they are.

They follow the array API standard; PyTorch, CuPy and JAX do with the help of array-api-compat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray


def namespace(values: Any) -> Any:
    """The array API functions for an array; None for NumPy and whatever NumPy converts."""
    if isinstance(values, (np.ndarray, np.generic)):
        return None
    is_known_library = type(values).__module__.split(".")[0] in ("torch", "cupy", "jax", "jaxlib")
    if not is_known_library and not hasattr(values, "__array_namespace__"):
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
    """A device array as a NumPy array; anything else unchanged, such as ragged lists."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if hasattr(values, "get") and type(values).__module__.startswith("cupy"):
        return values.get()
    return values


def on_host(values: Any) -> NDArray[Any]:
    """Any array as a NumPy array."""
    return np.asarray(fetched(values))


def like(values: Any, example: Any) -> Any:
    """A NumPy array in the library and on the device of `example`."""
    xp = namespace(example)
    if xp is None:
        return np.asarray(values)
    import array_api_compat

    return xp.asarray(np.ascontiguousarray(values), device=array_api_compat.device(example))


def rows(values: Any, row_index: slice | IntArray) -> Any:
    """Some rows of a matrix, on its device."""
    xp = namespace(values)
    if xp is None:
        return values[row_index]
    if isinstance(row_index, slice):
        return values[row_index, ...]
    return xp.take(values, like(row_index, values), axis=0)
