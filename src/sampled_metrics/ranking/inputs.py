"""Factors, test items and training items, from files or frames, checked."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from .._files import named
from .._validate import IntArray, shortened
from ..log.columns import need, whole_numbers
from ..log.sources import Tabular, loaded, need_pyarrow


def users_and_items(
    rows: pd.DataFrame, source: str, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Columns user and item, as rows of factors of these numbers."""
    need(rows, ["user", "item"], source)
    user, item = (whole_numbers(rows, key, 0, source) for key in ("user", "item"))
    for key, column, n_rows in zip(("user", "item"), (user, item), shape, strict=True):
        if column.max() >= n_rows:
            raise ValueError(
                f"{key} must be < {n_rows}, the rows of the {key} factors, got {column.max()} in "
                f"{source}"
            )
    return user, item


def load_factors(path: str | Path) -> Any:
    """A matrix of real numbers in a file of NumPy, mapped."""
    shown = named(path)
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".npz", ".parquet"):
        return _read_factors(path, suffix, shown)
    if suffix == ".zarr":
        return _open_zarr(path, shown)
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise ValueError(f"{shown} is missing: it must be a .npy file with a matrix") from None
    except Exception as problem:  # the parser of a damaged header raises whatever it stumbles on
        found = _found(path, problem)
        raise ValueError(f"{shown} must be a .npy file with a matrix, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise ValueError(f"{shown} must be a .npy file with a matrix of numbers, got {found}")
    return matrix


def _read_factors(path: str | Path, suffix: str, shown: str) -> NDArray[Any]:
    """A matrix of real numbers in a CSV file without names of columns, or alone in an archive."""
    wanted = "one array, a matrix of numbers" if suffix == ".npz" else "rows of numbers"
    try:
        if suffix == ".csv":
            matrix = np.loadtxt(path, delimiter=",", ndmin=2)
        elif suffix == ".parquet":
            need_pyarrow()
            matrix = np.ascontiguousarray(pd.read_parquet(path).to_numpy())
        else:
            with np.load(path) as archive:
                (matrix,) = archive.values()
    except FileNotFoundError:
        raise ValueError(f"{shown} is missing: it must hold {wanted}") from None
    except Exception as problem:
        found = shortened(str(problem).split("\n")[0], 100)
        raise ValueError(f"{shown} must hold {wanted}, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or not matrix.size:
        raise ValueError(f"{shown} must hold {wanted}, got shape {matrix.shape}")
    return np.asarray(matrix)


def _open_zarr(path: str | Path, shown: str) -> Any:
    """An array of Zarr, whose rows are read when they are asked for."""
    try:
        import zarr
    except ImportError:
        raise ImportError(f"{shown} needs Zarr: install zarr, or save an .npy file") from None
    try:
        matrix = zarr.open_array(str(path), mode="r")
    except Exception as problem:
        found = shortened(str(problem).split("\n")[0], 100)
        raise ValueError(f"{shown} must be an array of Zarr, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise ValueError(f"{shown} must be an array of Zarr, a matrix of numbers, got {found}")
    return matrix


def _found(path: str | Path, problem: Exception) -> str:
    """What a file is that should be one of NumPy's."""
    with suppress(OSError):
        with Path(path).open("rb") as file:
            begins = file.read(6)
        if not begins:
            return "an empty file"
        if begins.startswith(b"PK"):
            return "a .npz or another archive"
        if begins != b"\x93NUMPY":
            return "a file of another format"
    return shortened(str(problem).split("\n")[0], 100)


def load_train(train: Tabular | None, shape: tuple[int, int]) -> sp.csr_array | None:
    """Training items as a matrix of users and items."""
    if train is None:
        return None
    if isinstance(train, pd.DataFrame) or Path(train).suffix.lower() not in (".npz", ".npy"):
        rows, source = loaded(train, "train")
        pairs = users_and_items(rows, source, shape)
        return sp.csr_array((np.ones(pairs[0].size), pairs), shape=shape)
    try:
        matrix = sp.csr_array(sp.load_npz(io.BytesIO(Path(train).read_bytes())))
        matrix.check_format(full_check=True)
    except FileNotFoundError:
        raise ValueError(f"{train} is missing: it must be a sparse matrix of SciPy") from None
    except Exception:  # so does the reader of a damaged archive
        raise ValueError(
            f"{train} must be a sparse matrix of SciPy (.npz), as scipy.sparse.save_npz writes it, "
            "or a CSV or Parquet file with columns user and item"
        ) from None
    return matrix
