"""What every dataset of the paper is: data to fit, data to test, and the truth to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import sympy


@dataclass(frozen=True)
class Dataset:
    """Data whose equation is known.

    Attributes:
        X_train, X_test: DataFrame with one column per feature and the column ``varying``.
        y_train, y_test: Series, the target.
        varying: the column along which the coefficients change, or a list of two.
        equation: SymPy, with coefficient functions, e.g. ``a(t)*x**2 + b(t)*x``.
        coefficients: DataFrame, indexed by the sorted values of ``varying``, one column per
            function; the index has a level for each column of ``varying``.

    >>> import peql
    >>> peql.datasets.load("f1")
    Dataset('f1': y = x**2*a(t) + x*b(t), 65536 rows to train, 32768 to test)
    """

    name: str
    X_train: pd.DataFrame
    y_train: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series
    varying: Any  # str, or list[str] for coefficients of more than one column
    equation: sympy.Expr
    coefficients: pd.DataFrame

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.y_train.name} = {self.equation}, "
            f"{len(self.X_train)} rows to train, {len(self.X_test)} to test)"
        )
