"""Each PDE with and without cross terms, each model, seeds 0–19, one trial each."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import peql
from peql.analysis.comparison import has_true_terms
from peql.baselines import GroupSINDy, coefficient_mse, least_squares_limit
from peql.datasets import expand_cross_terms
from peql.datasets.pde import make_pde

EQUATIONS = ["advection_diffusion", "burgers"]
MODELS = {"SEQL": peql.SEQL, "HEQL": peql.HEQL}
NEVER = [("peql.estimators.tabular", f"_SymbolicRegressor.{m}") for m in ("_searched", "_summed")]
MEASURES = ("true_terms", "u_t_mse", "coefficient_mse", "limit_u_t_mse", "cpu_seconds")
SECONDS = 20


def TASKS() -> Iterator[dict[str, Any]]:
    """SINDy has no seed, so that one run of it without noise is all there is."""
    same = {"noise": 0.0, "derivatives": "paper"}
    for seed, equation, cross, model in product(range(20), EQUATIONS, [False, True], MODELS):
        yield {"equation": equation, "cross_terms": cross, "model": model, "seed": seed, **same}
    chaos = {"equation": "kuramoto_sivashinsky", "cross_terms": False}
    for seed, model in product(range(10), MODELS):
        yield {**chaos, "model": model, "seed": seed, **same}
    for equation, cross in product([*EQUATIONS, "kuramoto_sivashinsky"], [False, True]):
        yield {"equation": equation, "cross_terms": cross, "model": "SINDy", "seed": 0, **same}


def PARAMETERS() -> dict[str, Any]:
    """What the models are set to."""
    return {name: model().get_params() for name, model in MODELS.items()}


def run(
    equation: str, cross_terms: bool, model: str, seed: int, noise: float, derivatives: str
) -> dict[str, Any]:
    """Fit one trial and measure it against the truth and the least-squares limit."""
    data = make_pde(
        equation,
        random_state=seed,
        cross_terms=cross_terms,
        noise=noise,
        derivatives=derivatives,
    )
    limit = least_squares_limit(data)
    if model == "SINDy":
        estimator: Any = GroupSINDy(varying=data.varying)
    else:
        options = {"varying": data.varying, "random_state": seed, "method": "network"}
        estimator = MODELS[model](**options, verbose=False)
    started = time.process_time()
    estimator.fit(data.X_train, data.y_train)
    cpu_seconds = time.process_time() - started
    found = expand_cross_terms(estimator.equation_)
    try:
        coefficient_error = coefficient_mse(found, estimator.coefficients_, data)
    except ValueError:  # an equation that is not linear in its coefficients
        coefficient_error = np.nan
    return {
        "true_terms": has_true_terms(found, data),
        "found": str(found),
        "u_t_mse": float(np.mean((estimator.predict(data.X_test) - data.y_test) ** 2)),
        "coefficient_mse": coefficient_error,
        "limit_u_t_mse": limit.y_mse,
        "limit_coefficient_mse": limit.coefficient_mse,
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
