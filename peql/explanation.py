"""What a coefficient function itself is: the same engine, run on a(t) between its breaks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import sympy
from numpy.polynomial import Polynomial
from tqdm import tqdm

from .discontinuities import find_breaks
from .symbolic import number

LEAST = 6  # values of t in a piece that are enough to say anything
EXACT = 1e-6  # relative error at which a formula counts as exact, whatever the standard errors
ROUNDING = 1e-12  # relative size of a term that is rounding error
AGREES = 2.0  # root mean square of error / standard error up to which a formula agrees with a(t)
CLOSE = 0.02  # relative error of a formula that is near, but not it
SETTINGS: dict[str, Any] = {"n_layers": 1, "max_iter": 600, "n_trials": 4, "l0_weight": 1e-3}

COLUMNS = ["coefficient", "low", "high", "expression", "error", "verdict"]


def explain(model: Any, **settings: Any) -> pd.DataFrame:
    """A formula of t for each coefficient function, piece by piece between jumps and corners.

    A row each: the ``coefficient``, the piece from ``low`` to ``high``, the ``expression`` (SymPy),
    its ``error`` (root mean square, relative to the coefficient's) and the ``verdict``, which says
    "found" only if the formula agrees with the values within their standard errors. ``settings`` go
    to the ``EQL`` that is run on each piece.
    """
    if model.t_.shape[1] != 1:
        raise ValueError(
            f"the coefficients vary along {model.t_.shape[1]} columns: only functions of one can "
            "be explained"
        )
    t = model.t_[:, 0]
    pieces = [
        (name, values.to_numpy(), np.nan_to_num(model.coefficient_errors_[name].to_numpy()), piece)
        for name, values in model.coefficients_.items()
        for piece in _pieces(
            t, values.to_numpy(), np.nan_to_num(model.coefficient_errors_[name].to_numpy())
        )
    ]
    rows = []
    hidden = None if model.verbose else True
    for name, values, errors, piece in tqdm(pieces, "explaining", disable=hidden, leave=False):
        row = {"coefficient": name, "low": t[piece][0], "high": t[piece][-1]}
        rows.append({**row, **_explain(model, t[piece], values[piece], errors[piece], settings)})
    return pd.DataFrame(rows, columns=COLUMNS)


def _pieces(t: np.ndarray, values: np.ndarray, errors: np.ndarray) -> Iterator[slice]:
    start = 0
    for b in find_breaks(t, values, errors):
        yield slice(start, b.last + 1)
        start = b.first
    yield slice(start, len(t))


def _explain(
    model: Any, t: np.ndarray, values: np.ndarray, errors: np.ndarray, settings: dict[str, Any]
) -> dict[str, Any]:
    """A number or a straight line where one agrees with the values, else what EQL finds."""
    if len(t) < LEAST:
        verdict = f"not tried: {len(t)} values of {model.varying_name_} are too few"
        return {"expression": None, "error": np.nan, "verdict": verdict}
    size = float(np.sqrt(np.mean(values**2)))
    symbol = sympy.Symbol(model.varying_name_)
    weights = 1 / np.maximum(errors, EXACT * size) ** 2 if size else np.ones(len(t))
    for degree in (0, 1):
        line = Polynomial.fit(t, values, degree, w=np.sqrt(weights)).convert()
        reach = np.abs(t).max() ** np.arange(degree + 1)
        matters = np.abs(line.coef) * reach > ROUNDING * size
        expression = sympy.Add(
            *(number(float(c)) * symbol**k for k, c in enumerate(line.coef) if matters[k])
        )
        predicted = line(t)
        if _agrees(predicted - values, errors, size):
            break
    else:
        expression, predicted = _formula(model, t, values, settings)
    difference = predicted - values
    relative = float(np.sqrt(np.mean(difference**2))) / size if size else 0.0
    constants = len(expression.atoms(sympy.Float))
    if _agrees(difference, errors, size) and 3 * constants <= len(t):
        verdict = "found"
    elif relative < CLOSE:
        verdict = "not found: this is near, but misses by more than the standard errors"
    else:
        verdict = "not found: no formula of these primitives comes near"
    return {"expression": expression, "error": relative, "verdict": verdict}


def _agrees(difference: np.ndarray, errors: np.ndarray, size: float) -> bool:
    scale = np.maximum(errors, EXACT * size)
    return bool(np.sqrt(np.mean((difference / np.where(scale > 0, scale, 1.0)) ** 2)) <= AGREES)


def _formula(
    model: Any, t: np.ndarray, values: np.ndarray, settings: dict[str, Any]
) -> tuple[sympy.Expr, np.ndarray]:
    from .estimators import EQL  # whose method this is

    options = {"primitives": model.primitives, "random_state": 0, "verbose": False, **SETTINGS}
    table = pd.DataFrame({model.varying_name_: t})
    eql = EQL(varying=model.varying_name_, **{**options, **settings})
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a trial that restarts
        eql.fit(table, values)
    return eql.equation_, eql.predict(table)
