"""PDEs from noisy fields: which terms each method finds, and how far off its coefficients are.

Seeds from 300 were used to choose constants; the study uses others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import sympy

import peql
from peql.baselines import GroupSINDy
from peql.datasets import Dataset, expand_cross_terms, pde
from peql.equation.reading import structure

NOISE = [0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2]
SEEDS = range(10)
PAPER = ["advection_diffusion", "burgers", "kuramoto_sivashinsky"]
OTHERS = ["decay_boundary", "fitzhugh_nagumo_u", "fitzhugh_nagumo_v", "advection_diffusion_xt"]
ROWS = ["independent", "all"]
MODELS = {"SEQL": peql.SEQL, "HEQL": peql.HEQL}
METHODS = ["SINDy", *MODELS]
MEASURES = ("true_terms", "coefficient_mse", "limit_coefficient_mse", "seconds_fit")
HIGHEST = 4  # derivative among the columns: more than any equation but one needs


def _along(data: Dataset) -> list[str]:
    return [data.varying] if isinstance(data.varying, str) else list(data.varying)


def _possible(equation: str, method: str) -> bool:
    """Only a network of both coordinates has coefficients that vary along both."""
    return method == "HEQL" or not equation.endswith("_xt")


def SECONDS(task: dict[str, Any]) -> float:
    """About what a run takes."""
    return 2 if task["method"] == "SINDy" else 25


def TASKS() -> Iterator[dict[str, Any]]:
    """Each method on each field, seed by seed; SINDy also on all rows, and on integrals."""
    for fields in (PAPER, OTHERS):
        for s, e, n, m, r in product(SEEDS, fields, NOISE, METHODS, ROWS):
            if _possible(e, m) and (m == "SINDy" or r == "independent"):
                same = {"derivatives": "auto", "rows": r}
                yield {"equation": e, "noise": n, "seed": s, "method": m, **same}
    for s, e, n, r in product(SEEDS, PAPER, NOISE, ROWS):
        same = {"derivatives": "weak", "rows": r}
        yield {"equation": e, "noise": n, "seed": s, "method": "SINDy", **same}


def by_column(data: Dataset, rows: pd.DataFrame) -> dict[sympy.Expr, np.ndarray]:
    """The true terms on ``rows``: a column where there is one (integrals have no factors)."""
    found = {}
    for term in true_terms(data):
        name = str(term)
        symbols = sorted(map(str, term.free_symbols))
        value = sympy.lambdify(symbols, term)
        found[term] = rows[name].to_numpy() if name in rows else value(*(rows[s] for s in symbols))
    return {term: np.asarray(values, dtype=float) for term, values in found.items()}


def true_terms(data: Dataset) -> dict[sympy.Expr, str]:
    """Each true term and the name of its coefficient."""
    where = sympy.symbols(_along(data))
    equation = sympy.expand(expand_cross_terms(data.equation))
    return {equation.coeff(sympy.Function(k)(*where)): k for k in data.coefficients}


def limit(data: Dataset) -> float:
    """Coefficient MSE of least squares with the true terms known, at each value of varying.

    Of coefficients that vary along both coordinates there is none: each value has one row.
    """
    if not isinstance(data.varying, str):
        return np.nan
    columns = np.column_stack(list(by_column(data, data.X_train).values()))
    errors = []
    where: Any
    for where, rows in data.X_train.groupby(data.varying).indices.items():
        found = np.linalg.lstsq(columns[rows], data.y_train.to_numpy()[rows], rcond=None)[0]
        errors.append(found - data.coefficients.loc[where, list(true_terms(data).values())])
    return float(np.mean(np.square(errors)))


def coefficient_mse(equation: sympy.Expr, table: pd.DataFrame, data: Dataset) -> float:
    """Mean over the true terms; one that was not found counts as found with coefficient 0."""
    along = _along(data)
    where = sympy.symbols(along)
    places = {name: table.index.get_level_values(name).to_numpy(dtype=float) for name in along}
    letters = {sympy.Function(name)(*where): sympy.Symbol(f"_{name}") for name in table}
    flat = sympy.expand(expand_cross_terms(equation)).xreplace(letters)
    features = sorted(flat.free_symbols - {*where, *letters.values()}, key=str)
    found = sympy.Poly(flat, *features).as_dict(native=False) if features else {}
    true = peql.datasets.pde.truth(data.name, *places.values())
    errors = []
    for term, name in true_terms(data).items():
        powers = (
            sympy.Poly(term, *features).monoms()[0] if term.free_symbols <= set(features) else ()
        )
        factor = found.get(powers, sympy.Integer(0))
        value = sympy.lambdify([*letters.values(), *where], factor)
        known = value(*(table[k].to_numpy() for k in table), *places.values())
        known = np.broadcast_to(np.asarray(known, dtype=float), len(table))
        errors.append(known - true[name].to_numpy())
    return float(np.mean(np.square(errors)))


def run(
    equation: str, noise: float, seed: int, method: str, derivatives: str, rows: str
) -> dict[str, Any]:
    """Make the rows, fit, and compare with the truth.

    Networks get u and its derivatives and have to form products; SINDy gets them as columns.
    """
    started = time.perf_counter()
    data = pde.make_pde(
        equation,
        noise=noise,
        random_state=seed,
        derivatives=derivatives,
        rows=rows,
        cross_terms=method == "SINDy" or derivatives == "weak",
        order=HIGHEST,
    )
    ready = time.perf_counter()
    model: Any
    if method == "SINDy":
        model = GroupSINDy(varying=data.varying)
    else:
        model = MODELS[method](varying=data.varying, random_state=seed, verbose=False)
    model.fit(data.X_train, data.y_train)
    done = time.perf_counter()
    found = expand_cross_terms(model.equation_)
    features = [str(column) for column in data.X_train if column not in _along(data)]
    true = expand_cross_terms(data.equation)
    try:
        error = coefficient_mse(found, model.coefficients_, data)
    except (sympy.PolynomialError, ValueError):  # not linear in its coefficients
        error = np.nan
    told = data.X_train.attrs.get("noise", np.nan)
    field = pde.TARGETS[equation][1]
    solution = pde.as_fields(pde.solve(equation).u)[field]
    return {
        "true_terms": structure(found, features) == structure(true, features),
        "found": str(found),
        "coefficient_mse": error,
        "limit_coefficient_mse": limit(data),
        "noise_told": float(told[field] if isinstance(told, dict) else told) / solution.std(),
        "n_rows": len(data.X_train),
        "seconds_rows": round(ready - started, 2),
        "seconds_fit": round(done - ready, 2),
    }
