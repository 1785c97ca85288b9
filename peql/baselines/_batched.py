"""Least squares in every group of rows at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def group(columns: Array, y: Array, by: pd.Series) -> tuple[Array, Array, Array]:
    """Sort rows into the groups of equal ``by``.

    Returns the values of ``by`` (groups,), the columns (groups, rows, columns) and y (groups,
    rows), where rows is the size of the largest group: smaller ones are filled with zeros, which
    least squares does not see.
    """
    values, number = np.unique(by.to_numpy(dtype=float), return_inverse=True)
    order = np.argsort(number, kind="stable")
    sizes = np.bincount(number)
    within = np.arange(len(number)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table = np.zeros((len(values), sizes.max(), columns.shape[1] + 1))
    table[number[order], within] = np.column_stack([columns, y])[order]
    return values, table[:, :, :-1], table[:, :, -1]


def triangle(columns: Array, y: Array) -> Array:
    """R of the QR of [columns, y] in each group: all that least squares needs of the rows."""
    both = np.concatenate([columns, y[:, :, None]], axis=2)
    return np.asarray(np.linalg.qr(both, mode="r"))


def least_squares(factor: Array, kept: Mask) -> Array:
    """The coefficients of the kept columns in each group; shape (groups, kept columns)."""
    columns, y = factor[:, :, :-1][:, :, kept], factor[:, :, -1:]
    return (np.linalg.pinv(columns) @ y)[:, :, 0]


def ridge(factor: Array, kept: Mask, weight: float) -> Array:
    """As ``least_squares``, plus ``weight`` times the squared coefficients; zero where not kept."""
    columns, y = factor[:, :, :-1][:, :, kept], factor[:, :, -1:]
    transposed = columns.transpose(0, 2, 1)
    normal = transposed @ columns + weight * np.eye(columns.shape[2])
    coefficients = np.zeros((len(factor), len(kept)))
    coefficients[:, kept] = np.linalg.solve(normal, transposed @ y)[:, :, 0]
    return coefficients


def squared_residual(factor: Array, kept: Mask) -> float:
    """The sum of squared residuals of ``least_squares``, over all groups."""
    fitted = factor[:, :, :-1][:, :, kept] @ least_squares(factor, kept)[:, :, None]
    return float(((fitted - factor[:, :, -1:]) ** 2).sum())
