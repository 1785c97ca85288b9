"""SINDy with group sparsity: sparse regression whose coefficients vary along one coordinate.

S. Rudy, A. Alla, S. Brunton and J. Kutz, "Data-driven identification of parametric partial
differential equations", SIAM J. Appl. Dyn. Syst. 18 (2019): ridge regression at each value of the
varying coordinate, where a term is dropped at all values together when the norm of its
coefficients over them is small; an AIC-like loss chooses how small.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count
from string import ascii_lowercase

import numpy as np
import pandas as pd
import sympy
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._suggest import unknown_name
from ._batched import Array, Mask, group, least_squares, ridge, squared_residual, triangle

CONSTANT = "1"
MAX_PASSES = 5


class GroupSINDy(RegressorMixin, BaseEstimator):
    """Linear in the columns of X, with coefficients that vary along one of them.

    Args:
        varying: the column of X along which coefficients change; the others are the candidate
            terms.
        constant: whether the constant is a candidate too, under the name "1".
        ridge: weight of the squared coefficients while terms are being dropped.
        n_tolerances: how many thresholds are tried.
        epsilon: mean squared residual of the scaled y below which the loss sees no gain.

    Attributes:
        terms_: list of the columns that were kept.
        equation_: SymPy, with one coefficient function per term, named in the order of ``terms_``.
        coefficients_: DataFrame, indexed by the values of ``varying``, one column per function.
        path_: DataFrame of the tolerances tried: the terms that each kept, and its loss.

    >>> t, u = np.repeat(np.linspace(0, 1, 5), 20), np.tile(np.linspace(-1, 1, 20), 5)
    >>> X = pd.DataFrame({"u": u, "v": u**2, "t": t})
    >>> model = GroupSINDy(varying="t").fit(X, (1 + t) * u**2)
    >>> model.equation_, model.coefficients_["a"].round(6).tolist()
    (v*a(t), [1.0, 1.25, 1.5, 1.75, 2.0])
    """

    def __init__(
        self,
        *,
        varying: str = "t",
        constant: bool = True,
        ridge: float = 1e-5,
        n_tolerances: int = 50,
        epsilon: float = 1e-5,
    ) -> None:
        self.varying = varying
        self.constant = constant
        self.ridge = ridge
        self.n_tolerances = n_tolerances
        self.epsilon = epsilon

    def fit(self, X: pd.DataFrame, y: pd.Series) -> GroupSINDy:
        """Choose the terms, then fit their coefficients; X has shape (points, terms + 1)."""
        candidates = self._candidates(X)
        rows = np.asarray(y, dtype=float)
        if rows.shape != (len(X),) or not np.isfinite(rows).all():
            raise ValueError(f"y must hold {len(X)} finite numbers, one for each row of X")
        if len(X) < candidates.shape[1] + 2:
            raise ValueError(f"{candidates.shape[1]} terms need more rows than the {len(X)} of X")
        values, columns, target = group(candidates.to_numpy(dtype=float), rows, X[self.varying])
        # Columns are scaled over all groups, y within each, so that one threshold suits them all.
        column_size = _or_one(np.sqrt((columns**2).sum(axis=(0, 1))))
        y_size = _or_one(len(values) * np.sqrt((target**2).sum(axis=1, keepdims=True)))
        factor = triangle(columns / column_size, target / y_size)

        tolerances = self._tolerances(factor)
        kept = [_surviving(factor, tolerance, self.ridge) for tolerance in tolerances]
        loss = {key: self._loss(factor, np.array(key), len(X)) for key in {*map(tuple, kept)}}
        losses = [loss[tuple(mask)] for mask in kept]
        self.path_ = pd.DataFrame(
            {
                "tolerance": tolerances,
                "terms": [candidates.columns[mask].tolist() for mask in kept],
                "loss": losses,
            }
        )
        best = kept[int(np.argmin(losses))]
        self.terms_ = candidates.columns[best].tolist()
        self.coefficients_ = pd.DataFrame(
            least_squares(factor, best) * y_size / column_size[best],
            index=pd.Index(values, name=self.varying),
            columns=_letters(len(self.terms_), taken=X.columns),
        )
        self.equation_ = self._equation()
        return self

    def predict(self, X: pd.DataFrame) -> Array:
        """y for rows of X; between the values of ``varying`` seen in fit, by interpolation."""
        check_is_fitted(self)
        candidates, where = self._candidates(X)[self.terms_], X[self.varying]
        known = self.coefficients_.index
        if len(X) and (where.min() < known[0] or where.max() > known[-1]):
            raise ValueError(
                f"{self.varying} goes from {where.min():g} to {where.max():g}, outside the "
                f"[{known[0]:g}, {known[-1]:g}] that was fitted"
            )
        found = self.coefficients_.to_numpy().T
        factors = np.column_stack([np.interp(where, known, function) for function in found])
        return (candidates.to_numpy() * factors).sum(axis=1)

    def _candidates(self, X: pd.DataFrame) -> pd.DataFrame:
        if not isinstance(X, pd.DataFrame):
            raise TypeError(f"X must be a DataFrame with named columns, got {type(X).__name__}")
        if self.varying not in X:
            raise unknown_name("varying column", self.varying, map(str, X.columns))
        if not np.isfinite(X.to_numpy(dtype=float)).all():
            raise ValueError("X has values that are NaN or infinite: drop those rows")
        candidates = X.drop(columns=self.varying)
        return candidates.assign(**{CONSTANT: 1.0}) if self.constant else candidates

    def _tolerances(self, factor: Array) -> Array:
        everything = np.ones(factor.shape[2] - 1, dtype=bool)
        sizes = np.linalg.norm(ridge(factor, everything, self.ridge), axis=0)
        if not sizes.any():
            return np.zeros(1)
        ladder = np.geomspace(sizes[sizes > 0].min(), sizes.max(), self.n_tolerances)
        return np.append(0, ladder[:-1])

    def _loss(self, factor: Array, kept: Mask, rows: int) -> float:
        """AIC for small samples; ``epsilon`` stops it rewarding fits below the data's error."""
        terms = kept.sum()
        fit = rows * np.log(squared_residual(factor, kept) / rows + self.epsilon)
        return fit + 2 * terms + 2 * terms * (terms + 1) / (rows - terms - 1)

    def _equation(self) -> sympy.Expr:
        where = sympy.Symbol(self.varying)
        functions = [sympy.Function(letter)(where) for letter in self.coefficients_]
        terms = [1 if term == CONSTANT else sympy.Symbol(term) for term in self.terms_]
        return sympy.Add(*(f * term for f, term in zip(functions, terms, strict=True)))


def _surviving(factor: Array, tolerance: float, weight: float) -> Mask:
    """Drop the terms whose ridge coefficients have a norm below ``tolerance``, fit, and repeat."""
    kept = np.ones(factor.shape[2] - 1, dtype=bool)
    for _ in range(MAX_PASSES):
        large = kept & (np.linalg.norm(ridge(factor, kept, weight), axis=0) >= tolerance)
        if not large.any() or (large == kept).all():
            break
        kept = large
    return kept


def _or_one(sizes: Array) -> Array:
    """Sizes to divide by: a column of zeros stays as it is."""
    return np.where(sizes > 0, sizes, 1.0)


def _letters(n: int, taken: Iterable[str]) -> list[str]:
    names = chain(ascii_lowercase, (f"a{i}" for i in count()))
    free = (name for name in names if name not in set(taken))
    return [next(free) for _ in range(n)]
