"""What a coefficient function itself is: the same engine, run on a(t) between its breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch
from numpy.polynomial import Polynomial
from tqdm import tqdm

from ..engine.solver import Points
from ..equation.reading import number, read
from ..search.search import search
from ..solution import Solution
from .breaks import find_breaks

LEAST = 6  # values of t in a piece that are enough to say anything
EXACT = 1e-6  # relative error at which a formula counts as exact, whatever the standard errors
ROUNDING = 1e-12  # relative size of a term that is rounding error
AGREES = 2.0  # root mean square of error / standard error up to which a formula agrees with a(t)
EFFORT = 0.2  # of the search for one formula
CLOSE = 0.02  # relative error of a formula that is near, but not it

COLUMNS = ["coefficient", "low", "high", "expression", "error", "verdict"]


def explain(
    solution: Solution,
    coefficients: Sequence[str] | None = None,
    progress: bool = False,
    *,
    smoothed: bool = False,
) -> pd.DataFrame:
    """A formula of t for each coefficient function, piece by piece between jumps and corners.

    A row each: the ``coefficient``, the piece from ``low`` to ``high``, the ``expression`` (SymPy),
    its ``error`` (root mean square, relative to the coefficient's) and the ``verdict``, which says
    "consistent" only if the formula agrees with the values within their standard errors. Between
    labels there is nothing to explain: the table is empty. Jumps of a ``smoothed`` field's
    coefficients are looked for as ``jumps`` does.

    >>> import peql
    >>> data = peql.datasets.load("f1", n_t=32, n_train=32)
    >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> explain(model.solution_, ["b"])[["low", "high", "expression"]].round(2).values.tolist()
    [[-3.0, -0.2, -3.00000000000000], [0.2, 3.0, 3.00000000000000]]
    """
    if solution.t.shape[1] != 1:
        raise ValueError(
            f"the coefficients vary along {solution.t.shape[1]} columns: only functions of one can "
            "be explained"
        )
    t = solution.t[:, 0]
    names = solution.coefficients.columns if coefficients is None else coefficients
    errors = solution.coefficient_errors.fillna(0.0)
    curves = {
        name: (solution.coefficients[name].to_numpy(), errors[name].to_numpy())
        for name in (names if solution.labels is None else ())
    }
    pieces = [
        (name, *curve, p) for name, curve in curves.items() for p in _pieces(t, *curve, smoothed)
    ]
    rows = []
    hidden = None if progress else True
    for name, values, error, piece in tqdm(pieces, "explaining", disable=hidden, leave=False):
        row = {"coefficient": name, "low": t[piece][0], "high": t[piece][-1]}
        found = _explain(solution.varying[0], t[piece], values[piece], error[piece])
        rows.append({**row, **found})
    return pd.DataFrame(rows, columns=COLUMNS)


def _pieces(
    t: np.ndarray, values: np.ndarray, errors: np.ndarray, smoothed: bool
) -> Iterator[slice]:
    start = 0
    for b in find_breaks(t, values, errors, smoothed=smoothed):
        yield slice(start, b.last + 1)
        start = b.first
    yield slice(start, len(t))


def _explain(varying: str, t: np.ndarray, values: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """A number or a straight line where one agrees with the values, else what a search finds."""
    if len(t) < LEAST:
        verdict = f"not tried: {len(t)} values of {varying} are too few"
        return {"expression": None, "error": np.nan, "verdict": verdict}
    size = float(np.sqrt(np.mean(values**2)))
    symbol = sympy.Symbol(varying)
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
        expression, predicted = _formula(varying, t, values)
    difference = predicted - values
    relative = float(np.sqrt(np.mean(difference**2))) / size if size else 0.0
    constants = len(expression.atoms(sympy.Float))
    if _agrees(difference, errors, size) and 3 * constants <= len(t):
        verdict = "consistent"
    elif relative < CLOSE:
        verdict = "not found: this is near, but misses by more than the standard errors"
    else:
        verdict = "not found: no formula of these primitives comes near"
    return {"expression": expression, "error": relative, "verdict": verdict}


def _agrees(difference: np.ndarray, errors: np.ndarray, size: float) -> bool:
    scale = np.maximum(errors, EXACT * size)
    return bool(np.sqrt(np.mean((difference / np.where(scale > 0, scale, 1.0)) ** 2)) <= AGREES)


def _formula(varying: str, t: np.ndarray, values: np.ndarray) -> tuple[sympy.Expr, np.ndarray]:
    """The best form that the search finds for one curve."""
    unit, size = float(np.abs(t).max()) or 1.0, float(np.abs(values).max()) or 1.0
    x, y = torch.from_numpy(t / unit)[None, :, None], torch.from_numpy(values / size)[None]
    ones = torch.ones_like(y)
    points = Points(x, y, ones, ones[..., None])
    best = search(points, effort=EFFORT, progress=False)[0]
    box = np.array([[t.min()], [t.max()]])
    names = [varying], ["step"]  # one curve is one step: nothing varies
    equation = read(best.formula, best.weights, *names, [unit], [0.0], size, box=box)
    weights = [torch.from_numpy(w)[:, None] for w in best.weights.T]
    return equation.expression, size * best.formula(weights, x)[0].numpy()
