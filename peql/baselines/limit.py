"""How well anyone can do: least squares with the true terms known; errors of coefficients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import sympy
from sympy.core.function import AppliedUndef

from ..datasets import Dataset, expand_cross_terms
from ._batched import Array, group, least_squares, triangle


class Limit(NamedTuple):
    """Mean squared errors of y and of the coefficients (mean over the true terms)."""

    y_mse: float
    coefficient_mse: float
    coefficients: pd.DataFrame


def by_term(equation: sympy.Expr, coefficients: pd.DataFrame) -> dict[sympy.Expr, Array]:
    """The factor in front of each term, at each row of ``coefficients``.

    >>> a, t, u = sympy.Function("a"), sympy.Symbol("t"), sympy.Symbol("u")
    >>> by_term(2 * a(t) * u, pd.DataFrame({"a": [1.0, 3.0]}, index=pd.Index([0, 1], name="t")))
    {u: array([2., 6.])}
    """
    varying = sympy.Symbol(str(coefficients.index.name))
    expanded = sympy.expand(expand_cross_terms(equation))
    letters = {sympy.Function(name)(varying): sympy.Symbol(name) for name in coefficients}
    features = expanded.free_symbols - {varying}
    found: dict[sympy.Expr, Array] = {}
    for part in sympy.Add.make_args(expanded):
        factor, term = part.as_independent(*features, as_Add=False)
        if term.has(AppliedUndef):
            raise ValueError(f"{term} is not linear in its coefficient, so it has no factor")
        value = sympy.lambdify([*letters.values(), varying], factor.xreplace(letters))
        columns = [coefficients[name].to_numpy(dtype=float) for name in coefficients]
        values = value(*columns, coefficients.index.to_numpy(dtype=float))
        found[term] = found.get(term, 0.0) + np.broadcast_to(values, len(coefficients))
    return found


def coefficient_mse(equation: sympy.Expr, coefficients: pd.DataFrame, data: Dataset) -> float:
    """The mean squared error of the coefficients found, averaged over the true terms.

    A true term that was not found counts as found with coefficient zero; terms that do not belong
    are not counted, so look at the terms as well.
    """
    found, true = by_term(equation, coefficients), by_term(data.equation, data.coefficients)
    where, known = data.coefficients.index, coefficients.index
    missing = np.zeros(len(known))
    errors = [np.interp(where, known, found.get(term, missing)) - true[term] for term in true]
    return float(np.mean(np.square(errors)))


def least_squares_limit(data: Dataset) -> Limit:
    """Fit the true terms at each value of ``varying``: the least error that the data allow.

    >>> from peql.datasets import load
    >>> limit = least_squares_limit(load("f1", n_t=8, n_train=16))
    >>> limit.y_mse < 1e-20, limit.coefficient_mse < 1e-20
    (True, True)
    """
    by_term(data.equation, data.coefficients)  # raises if least squares does not apply
    where, equation = sympy.Symbol(data.varying), sympy.expand(expand_cross_terms(data.equation))
    letters = list(data.coefficients)
    terms = [equation.coeff(sympy.Function(letter)(where)) for letter in letters]
    names = [name for name in data.X_train if name != data.varying]
    evaluate = sympy.lambdify([sympy.Symbol(name) for name in names], terms)

    def columns(X: pd.DataFrame) -> Array:
        values = evaluate(*(X[name].to_numpy() for name in names))
        return np.column_stack([np.broadcast_to(value, len(X)) for value in values])

    rows = columns(data.X_train), data.y_train.to_numpy()
    values, grouped, y = group(*rows, data.X_train[data.varying])
    weights = least_squares(triangle(grouped, y), np.ones(len(terms), dtype=bool))
    index = pd.Index(values, name=data.varying)
    coefficients = pd.DataFrame(weights, index=index, columns=letters)
    at_test = coefficients.loc[data.X_test[data.varying]].to_numpy()
    predicted = (columns(data.X_test) * at_test).sum(axis=1)
    return Limit(
        y_mse=float(np.mean((predicted - data.y_test.to_numpy()) ** 2)),
        coefficient_mse=coefficient_mse(data.equation, coefficients, data),
        coefficients=coefficients,
    )
