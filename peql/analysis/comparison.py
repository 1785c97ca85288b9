"""How a fitted model is compared with the truth, and with the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import sympy

from ..datasets import Dataset, expand_cross_terms
from ..equation.reading import structure


def step_ranges(data: Dataset) -> pd.Series:
    """max - min of the training y at each t: the paper's unit of y. Where it is 0, 1."""
    spread = data.y_train.groupby(data.X_train[data.varying].to_numpy()).agg(np.ptp)
    return spread.where(spread > 0, 1.0)


def scaled_mse(data: Dataset, X: pd.DataFrame, error: np.ndarray) -> float:
    """Mean squared ``error`` (one per row of ``X``) in the paper's units; t between grid points
    take their unit from the neighbours.
    """
    ranges = step_ranges(data)
    unit = np.interp(X[data.varying], ranges.index.to_numpy(dtype=float), ranges.to_numpy())
    return float(np.mean((np.asarray(error) / unit) ** 2))


def has_true_terms(equation: sympy.Expr, data: Dataset) -> bool:
    """Whether ``equation`` has exactly the terms of the truth, and varies only where that does.

    A product that is one of the features counts as the product. What is a number in the truth must
    be one here: a(t) sin(b(t) x) is not sin(b(t) x).

    >>> from peql.datasets import load
    >>> data = load("f3", n_t=8, n_train=16)
    >>> [has_true_terms(sympy.parse_expr(found), data) for found in ("2*x", "2*x + 1")]
    [True, False]
    """
    features = [c for c in data.X_train.columns if c != data.varying]
    found, true = (expand_cross_terms(e) for e in (equation, data.equation))
    same = structure(found, features) == structure(true, features)
    return same and _varying_places(found, features) <= _varying_places(true, features)


def form(equation: sympy.Expr, features: Sequence[str]) -> tuple:
    """The structure of an equation up to all constants, also those in exponents.

    ``structure`` tells exp(2x) from exp(3x) and x**1.4 from x**1.5, and sees the order in which a
    sum has its terms, which depends on the names of its coefficients.

    >>> x, a, b = sympy.symbols("x a b")
    >>> form(a * sympy.exp(2 * x), "x") == form(sympy.exp(b * x), "x")
    True
    >>> form(x**1.4, "x") == form(a * x**b, "x"), form(x**2, "x") == form(x**b, "x")
    (True, False)
    """
    symbols = {sympy.Symbol(name) for name in features}
    kept, power = sympy.Function("exp_"), sympy.Symbol("p")
    named = equation.replace(sympy.exp, kept).replace(
        lambda part: part.is_Pow and not part.exp.is_Rational and not part.exp.has(*symbols),
        lambda part: part.base**power,
    )
    return _sorted(structure(named, features))


def _sorted(part: Any) -> Any:
    if isinstance(part, (frozenset, tuple)):
        return tuple(sorted(map(_sorted, part), key=str))
    return part


def _functions(equation: sympy.Expr) -> set[Any]:
    return equation.atoms(sympy.core.function.AppliedUndef)


def _varying_places(equation: sympy.Expr, features: list[str]) -> frozenset:
    """The terms in which a coefficient function stands, or one of its functions' slopes does."""
    return frozenset().union(*(_place(equation, f, features) for f in _functions(equation)))


def coefficient_deviations(model: Any, data: Dataset) -> pd.Series:
    """The largest absolute error over t of each true coefficient function.

    Found functions are matched with true ones by the term they stand in.
    """
    names = match_coefficients(model.equation_, data)
    found = model.coefficients_.rename(columns=names)
    return (found[data.coefficients.columns] - data.coefficients).abs().max()


def match_coefficients(equation: sympy.Expr, data: Dataset) -> dict[str, str]:
    """The true name of each coefficient function found; the terms must be the true ones."""
    features = [c for c in data.X_train.columns if c != data.varying]
    true = {_place(data.equation, f, features): f.func.__name__ for f in _functions(data.equation)}
    return {
        f.func.__name__: true[_place(equation, f, features)]
        for f in _functions(equation)
        if _place(equation, f, features) in true
    }


def _place(equation: sympy.Expr, function: Any, features: list[str]) -> frozenset:
    """What of the equation is left when ``function`` alone is kept: says where it stands."""
    marked = equation.xreplace({f: sympy.Integer(1) for f in _functions(equation) if f != function})
    derivative = sympy.diff(marked.xreplace({function: sympy.Symbol("_c")}), sympy.Symbol("_c"))
    return structure(derivative.xreplace({sympy.Symbol("_c"): sympy.Integer(1)}), features)
