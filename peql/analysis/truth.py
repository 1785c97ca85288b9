"""The truth of a dataset at one t: its equation with numbers, and the curve over x."""

from __future__ import annotations

import numpy as np
import pandas as pd
import sympy

from ..datasets import Dataset


def feature(data: Dataset) -> str:
    """The one column besides the varying one; curves can be drawn over it."""
    columns = [c for c in data.X_train.columns if c != data.varying]
    if len(columns) != 1:
        raise ValueError(f"{data.name} has the features {columns}: a curve needs exactly one")
    return columns[0]


def on_grid(data: Dataset, t: float) -> float:
    """The value of the varying column nearest to ``t`` at which the truth is known."""
    known = data.coefficients.index.to_numpy(dtype=float)
    return float(known[np.abs(known - t).argmin()])


def true_equation(data: Dataset, t: float) -> sympy.Expr:
    """The true equation with its numbers at ``t`` on the grid."""
    values = data.coefficients.loc[on_grid(data, t)]
    symbol = sympy.Symbol(data.varying)
    return data.equation.subs(
        {sympy.Function(name)(symbol): sympy.Float(v) for name, v in values.items()}
    )


def curve(equation: sympy.Expr, data: Dataset, x: np.ndarray) -> np.ndarray:
    """An equation of one feature, with its numbers, evaluated at ``x``."""
    y = sympy.lambdify(sympy.Symbol(feature(data)), equation, "numpy")(x)
    return np.broadcast_to(np.asarray(y, dtype=float), x.shape)


def rows_at(data: Dataset, t: float, x: np.ndarray) -> pd.DataFrame:
    """The table to predict from: all ``x`` at one ``t``."""
    rows = pd.DataFrame({feature(data): x, data.varying: on_grid(data, t)})
    return rows[list(data.X_train.columns)]
