"""What is wrong with a user's table or images is said before anything is computed from them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_complex_dtype, is_numeric_dtype
from torch import Tensor, nn

from .._suggest import unknown_name
from ..columns import days
from ..columns import numbers as as_numbers

LARGEST = 1e75  # of a column: its fourth power, and one divided by it, are still numbers


def column_indices(
    columns: Sequence[str], varying: str | int | Sequence[str | int], named: bool = True
) -> list[int]:
    """Where the varying columns are; ``varying`` is a name, a position, or a list of them."""
    several = isinstance(varying, Sequence) and not isinstance(varying, str)
    indices = [
        _column_index(columns, one, named)  # type: ignore[arg-type]
        for one in (varying if several else [varying])  # type: ignore[union-attr]
    ]
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(f"varying={varying!r}: expected different columns, at least one")
    return indices


def _column_index(columns: Sequence[str], varying: str | int, named: bool) -> int:
    n = len(columns)
    if isinstance(varying, str):
        if not named:
            raise ValueError(
                f"varying={varying!r}, but X has no column names: pass a DataFrame, or the "
                f"position of the column, 0 to {n - 1}"
            )
        if varying not in columns:
            raise unknown_name("varying column", varying, columns)
        return list(columns).index(varying)
    try:
        position = operator.index(varying)  # any kind of integer
    except TypeError as error:
        raise ValueError(f"varying={varying!r}: expected a column's name or position") from error
    if not -n <= position < n:
        raise ValueError(f"varying={varying}: X has {n} columns, numbered 0 to {n - 1}")
    return position % n


def check_table(X: Any, labels: str | None = None) -> Any:
    """Say what is wrong with a table before anything is computed from it; returns it.

    The column ``labels`` need hold no numbers.
    """
    X = _plain(X)
    if isinstance(X, pd.DataFrame):
        X = _check_frame(X, labels)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
        _check_finite(X, [f"number {k}" for k in range(X.shape[1])])
    shape = _shape(X)
    if len(shape) == 2 and shape[0] == 0:
        raise ValueError("X is empty (0 sample(s)), while a minimum of 1 is required: pass rows")
    return X


def _plain(values: Any) -> Any:
    """What is masked as NaN; of whole numbers without end, an error that says so."""
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        return np.where(missing, np.nan, values.data) if missing.any() else values.data
    if not isinstance(values, (pd.DataFrame, pd.Series)):
        array = np.asarray(values)
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, Real) for v in array):
            return as_numbers(pd.Series(array, name="y")).to_numpy()
        if array.dtype == object and array.ndim == 2:
            for k, column in enumerate(array.T):
                if all(isinstance(v, Real) for v in column):
                    as_numbers(pd.Series(column, name=k))
    return values


def _shape(values: Any) -> tuple[int, ...]:
    return values.shape if hasattr(values, "shape") else np.asarray(values).shape


def check_target(y: Any, X: Any) -> Any:
    """Say what is wrong with ``y``; returns it."""
    y = _plain(y)
    rows = [shape[0] for shape in (_shape(X), _shape(y)) if shape]
    if len(set(rows)) > 1:
        raise ValueError(f"X has {rows[0]} rows and y has {rows[1]}: each row of X needs one y")
    column = y if isinstance(y, pd.Series) else pd.Series(np.asarray(y).ravel())
    if is_complex_dtype(column.dtype):
        raise ValueError("Complex data not supported: y holds complex numbers")
    if not (is_numeric_dtype(column.dtype) or _holds_numbers(column)):
        raise ValueError(f"y holds no numbers but {column.dtype}: pass a numeric column")
    values = as_numbers(column).to_numpy()
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise ValueError(
            f"y has {bad} values that are NaN or infinity: drop those rows or fill them"
        )
    _check_size(values[:, None], ["y"])
    return values if isinstance(y, pd.Series) else y


def _check_frame(frame: pd.DataFrame, labels: str | None) -> pd.DataFrame:
    if not len(frame.columns):
        raise ValueError("X has 0 feature(s) (no columns) while a minimum of 1 is required")
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice:
        raise ValueError(f"columns {twice} of X are there more than once: rename or drop them")
    objects = {c: as_numbers(frame[c]) for c in frame if _holds_numbers(frame[c])}
    frame = frame.copy() if objects else frame
    for name, column in objects.items():
        frame[name] = column
    other = {
        str(c): str(kind)
        for c, kind in frame.dtypes.items()
        if c != labels and (not is_numeric_dtype(kind) or is_complex_dtype(kind))
    }
    if other:
        raise ValueError(
            f"columns of X that hold no numbers: {other}. Drop them, or encode them as numbers"
        )
    rest = frame if labels is None else frame.drop(columns=labels)
    _check_finite(rest.to_numpy(dtype=float, na_value=np.nan), [repr(c) for c in rest])
    if labels is not None and frame[labels].isna().any():
        n = int(frame[labels].isna().sum())
        raise ValueError(f"the varying column {labels!r} has {n} rows without a label: drop them")
    return frame


def dates_as_days(X: Any, varying: str | int | Sequence[str | int]) -> Any:
    """A DataFrame whose varying columns hold days since 2000-01-01 where they held dates.

    >>> dates_as_days(pd.DataFrame({"day": ["2000-01-03"]}), "day")["day"].tolist()
    [2.0]
    """
    if not isinstance(X, pd.DataFrame) or X.columns.has_duplicates:
        return X
    several = isinstance(varying, Sequence) and not isinstance(varying, str)
    chosen: Any = varying if several else [varying]
    names = [X.columns[v] if v in range(-len(X.columns), len(X.columns)) else v for v in chosen]
    made = {name: days(X[name]) for name in names if name in X.columns}
    return X.assign(**{name: column for name, column in made.items() if column is not None})


def numbers(column: pd.Series) -> pd.Series | None:
    """The column if it holds numbers, None if it holds anything else (labels, say)."""
    numeric = is_numeric_dtype(column.dtype) and not isinstance(column.dtype, pd.CategoricalDtype)
    return column if numeric or _holds_numbers(column) else None


def _holds_numbers(column: pd.Series) -> bool:
    """Whether a column of Python objects has numbers only."""
    return column.dtype == object and all(isinstance(value, Real) for value in column)


def _check_finite(values: np.ndarray, names: Sequence[str]) -> None:
    counts = np.sum(~np.isfinite(values), axis=0)
    bad = [f"column {name} has {n}" for name, n in zip(names, counts, strict=True) if n]
    if bad:
        raise ValueError(
            f"X has values that are NaN or infinity: {', '.join(bad)}. Drop those rows or fill them"
        )
    _check_size(values, [f"column {name} of X" for name in names])


def _check_size(values: np.ndarray, names: Sequence[str]) -> None:
    """Coefficients of columns that are too large or small cannot be written as numbers."""
    sizes = np.abs(values).max(axis=0, initial=0.0)
    for name, size in zip(names, map(float, sizes), strict=True):
        if size > 0 and not 1 / LARGEST <= size <= LARGEST:
            raise ValueError(
                f"{name} holds numbers up to {size:.1g}: expected at most {LARGEST:g} and at "
                f"least {1 / LARGEST:g}, so give it in other units"
            )


# --- images ----------------------------------------------------------------------------------


def check_images(images: Any) -> Tensor:
    """Images (row, image, ...) as a tensor, after saying what is wrong with them."""
    pictures = torch.as_tensor(np.asarray(images, dtype=np.float32))
    if pictures.ndim < 3:
        raise ValueError(
            f"images has shape {tuple(pictures.shape)}: expected (row, image, ...), also where a "
            "row has one image; images[:, None] adds that dimension"
        )
    if not pictures.isfinite().all():
        raise ValueError("images has values that are NaN or infinity: drop those rows or fill them")
    return pictures


def check_column(name: str, values: Any) -> np.ndarray:
    """Numbers (row,), after saying what is wrong with them."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"{name} has shape {column.shape}: expected one number a row, (row,)")
    if not np.isfinite(column).all():
        raise ValueError(f"{name} has values that are NaN or infinity: drop those rows")
    return column


@torch.no_grad()
def check_encoder(encoder: nn.Module, pictures: Tensor) -> int:
    """Try the encoder on a few images; the number of its latent variables."""
    few = pictures[:4].flatten(0, 1)
    try:
        z = encoder.eval()(few)
    except Exception as error:
        raise ValueError(
            f"the encoder failed on images of shape {tuple(few.shape)}, (row, ...): {error}"
        ) from error
    if not isinstance(z, Tensor) or z.ndim != 2 or len(z) != len(few):
        shape = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(
            f"the encoder makes {shape} of images of shape {tuple(few.shape)}: expected "
            f"({len(few)}, latent), a row of latent variables for each"
        )
    return z.shape[1]
