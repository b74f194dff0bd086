"""Factors, test items and training items, from files, frames or arrays, checked."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .._files import named
from .._validate import IntArray, checked_tolerance, integers, shortened
from ..log.columns import require_columns, whole_numbers
from ..log.formats import need_pyarrow
from ..log.tables import loaded

if TYPE_CHECKING:
    import pandas as pd

#: Items of each instance: the non-zero entries of a sparse matrix, or lists of items.
ItemSets = Any
#: What a file of factors must be, by its suffix.
_WANTED = {
    ".csv": "hold rows of numbers",
    ".npz": "hold one array, a matrix of numbers",
    ".parquet": "hold rows of numbers",
    ".zarr": "be an array of Zarr, a matrix of numbers",
}


def checked_held_out(held_out: ArrayLike, n_items: int | None, tolerance: float) -> IntArray:
    """The items to rank, checked; n_items is None while unknown."""
    items = integers(held_out, "held_out", 0)
    if items.ndim != 1 or not items.size:
        raise ValueError(f"held_out must be a list of one item or more, got shape {items.shape}")
    checked_tolerance(tolerance)
    if n_items is not None and items.max() >= n_items:
        raise ValueError(f"held_out must be < n_items = {n_items}, got {items.max()}")
    return items


def users_and_items(
    rows: pd.DataFrame, origin: str, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Columns user and item, checked against the `shape` of the score matrix."""
    require_columns(rows, ["user", "item"], origin)
    user, item = (whole_numbers(rows, key, 0, origin) for key in ("user", "item"))
    for key, column, n_rows in zip(("user", "item"), (user, item), shape, strict=True):
        if column.max() >= n_rows:
            raise ValueError(
                f"{key} must be < {n_rows}, the rows of the {key} factors, got {column.max()} in "
                f"{origin}"
            )
    return user, item


def load_factors(path: str | Path) -> Any:
    """A matrix of real numbers in a file; memory-mapped if .npy, opened lazily if Zarr."""
    suffix, shown = Path(path).suffix.lower(), named(path)
    requirement = _WANTED.get(suffix, "be a .npy file with a matrix")
    try:
        matrix = _open_factors(path, suffix)
        empty = suffix in _WANTED and 0 in matrix.shape
        if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or empty:
            raise ValueError(f"shape {matrix.shape} of {matrix.dtype}")
    except ImportError:
        raise
    except FileNotFoundError:
        raise ValueError(f"{shown} is missing: it must {requirement}") from None
    except Exception as problem:  # damaged files raise many types
        file_type = "" if suffix in _WANTED else _file_type(path)
        reason = file_type or shortened(str(problem).split("\n")[0], 100)
        raise ValueError(f"{shown} must {requirement}, got: {reason}") from None
    return matrix


def _open_factors(path: str | Path, suffix: str) -> Any:
    if suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2)
    if suffix == ".parquet":
        need_pyarrow()
        import pandas as pd

        return np.ascontiguousarray(pd.read_parquet(path).to_numpy())
    if suffix == ".npz":
        with np.load(path) as archive:
            (matrix,) = archive.values()
        return np.asarray(matrix)
    if suffix == ".zarr":
        try:
            import zarr
        except ImportError:
            raise ImportError(
                f"{named(path)} needs Zarr: install zarr, or save an .npy file"
            ) from None
        return zarr.open_array(str(path), mode="r")
    return np.lib.format.open_memmap(path, mode="r")


def _file_type(path: str | Path) -> str:
    """What a file is instead of .npy; empty if it is one."""
    with suppress(OSError), Path(path).open("rb") as file:
        magic = file.read(6)
        if not magic:
            return "an empty file"
        if magic.startswith(b"PK"):
            return "a .npz or another archive"
        if magic != b"\x93NUMPY":
            return "a file of another format"
    return ""


def load_train(train: Any, shape: tuple[int, int]) -> sp.csr_array | None:
    """Training items as a user-item matrix, from a file, frame, matrix or item lists."""
    if train is None:
        return None
    is_path = isinstance(train, (str, Path))
    lists = isinstance(train, (Sequence, np.ndarray)) and not is_path
    if sp.issparse(train) or lists:
        return as_csr(train, *shape)
    if not is_path or Path(train).suffix.lower() not in (".npz", ".npy"):
        rows, origin = loaded(train, "train")
        pairs = users_and_items(rows, origin, shape)
        return as_csr(sp.csr_array((np.ones(pairs[0].size), pairs), shape=shape), *shape)
    try:
        matrix = sp.csr_array(sp.load_npz(io.BytesIO(Path(train).read_bytes())))
        matrix.check_format(full_check=True)
    except FileNotFoundError:
        raise ValueError(f"{train} is missing: it must be a sparse matrix of SciPy") from None
    except Exception:  # damaged archives raise many types
        raise ValueError(
            f"{train} must be a sparse matrix of SciPy (.npz), as scipy.sparse.save_npz writes it, "
            "or a CSV or Parquet file with columns user and item"
        ) from None
    return as_csr(matrix, *shape)


def as_csr(train: ItemSets | None, n_instances: int, n_items: int) -> sp.csr_array:
    """Training items as a matrix without duplicates or stored zeros; the input is copied."""
    if train is None:
        return sp.csr_array((n_instances, n_items))
    if (
        isinstance(train, np.ndarray) and train.ndim > 1
    ):  # ambiguous: zeros and ones, or lists of items
        raise ValueError(
            "train must be a sparse matrix or a sequence of item lists, got an array of shape "
            f"{train.shape}"
        )
    sparse: Any = train if sp.issparse(train) else _csr_of_lists(train, n_items)
    matrix: sp.csr_array = sp.csr_array(sparse, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.shape != (n_instances, n_items):
        raise ValueError(
            f"train must have shape ({n_instances}, {n_items}) to match scores and held_out, got "
            f"{matrix.shape}"
        )
    return matrix


def _csr_of_lists(lists: Sequence[ArrayLike], n_items: int) -> sp.csr_array:
    # An empty list would become float.
    rows = [integers(row if np.size(row) else np.zeros(0, np.int64), "train", 0) for row in lists]
    indptr = np.concatenate(([0], np.cumsum([row.size for row in rows], dtype=np.int64)))
    indices = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    if indices.size and indices.max() >= n_items:
        raise ValueError(f"train must hold items < n_items = {n_items}, got {indices.max()}")
    return sp.csr_array((np.ones(indices.size), indices, indptr), shape=(len(rows), n_items))
