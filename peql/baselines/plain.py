"""Plain SINDy, as PySINDy has it: one number for each term, however the coefficients vary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import sympy
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._batched import Array
from .sindy import CONSTANT, GroupSINDy


class PlainSINDy(RegressorMixin, BaseEstimator):
    """PySINDy's sequentially thresholded least squares on the columns of X (``peql[sindy]``).

    Args:
        varying: the column along which coefficients change; it is left out of the candidate terms.
        threshold: terms smaller than this part of y's size are dropped.

    Attributes:
        terms_: list of the columns that were kept.
        equation_: SymPy, with a number for each term.

    >>> x = np.linspace(-1, 1, 50)
    >>> X = pd.DataFrame({"u": x, "v": x**3, "t": np.arange(50) % 5})
    >>> PlainSINDy(varying="t").fit(X, pd.Series(2 * x**3)).terms_
    ['v']
    """

    def __init__(self, *, varying: str = "t", threshold: float = 0.1) -> None:
        self.varying = varying
        self.threshold = threshold

    def fit(self, X: pd.DataFrame, y: pd.Series) -> PlainSINDy:
        """Choose the terms and their numbers; X has shape (points, terms + 1)."""
        try:
            from pysindy import STLSQ
        except ImportError as error:
            raise ImportError("PlainSINDy needs PySINDy: pip install 'peql[sindy]'") from error
        candidates = self._candidates(X)
        columns, target = candidates.to_numpy(dtype=float), np.asarray(y, dtype=float)
        if target.shape != (len(X),) or not np.isfinite(target).all():
            raise ValueError(f"y must hold {len(X)} finite numbers, one for each row of X")
        sizes = [np.sqrt(np.mean(values**2, axis=0)) for values in (columns, target)]
        column_size, y_size = (np.where(size > 0, size, 1.0) for size in sizes)
        optimiser = STLSQ(threshold=self.threshold, alpha=0.0)
        optimiser.fit(columns / column_size, target[:, None] / y_size)
        numbers = optimiser.coef_[0] * y_size / column_size
        self.numbers_ = pd.Series(numbers, index=candidates.columns)[numbers != 0]
        self.terms_ = list(self.numbers_.index)
        self.equation_ = sympy.Add(
            *(
                number * (1 if term == CONSTANT else sympy.Symbol(term))
                for term, number in self.numbers_.items()
            )
        )
        return self

    def predict(self, X: pd.DataFrame) -> Array:
        """y for rows of X."""
        check_is_fitted(self)
        return self._candidates(X)[self.terms_].to_numpy(dtype=float) @ self.numbers_.to_numpy()

    def _candidates(self, X: pd.DataFrame) -> pd.DataFrame:
        return GroupSINDy(varying=self.varying)._candidates(X)
