"""Noise and few data, until the equation is lost: f1–f5, SEQL and HEQL, one seed.

- Noise of 5 to 100 % of y's standard deviation at the paper's size (128 t × 512 rows).
- Rows at each t, down to 4, and values of t, down to 3, with 30 % noise; the smallest tables of
  each kind also with 10 % and without noise.

A run takes 2 to 6 CPU seconds, all of them about 15 CPU minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import peql
from peql.analysis.comparison import has_true_terms, match_coefficients, scaled_mse
from peql.datasets.analytic import make_analytic
from peql.equation.reading import structure

FUNCTIONS = ["f1", "f2", "f3", "f4", "f5"]
MODELS = {"SEQL": peql.SEQL, "HEQL": peql.HEQL}
NEVER = [("peql.estimators.tabular", f"_SymbolicRegressor.{m}") for m in ("_searched", "_summed")]
MEASURES = ("true_terms", "extra_terms", "missing_terms", "test_mse_scaled", "cpu_seconds")
SECONDS = 4
SEEDS = range(1)
# Noise, values of t, rows at each.
CASES = [
    *((noise, 128, 512) for noise in (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)),
    *((0.3, 128, rows) for rows in (32, 8, 4)),
    *((0.3, n_t, 32) for n_t in (16, 3)),
    *((0.1, n_t, rows) for n_t, rows in ((128, 32), (128, 4), (3, 32))),
    *((0.0, n_t, rows) for n_t, rows in ((128, 4), (3, 32))),
]


def TASKS() -> Iterator[dict[str, Any]]:
    """Seed by seed, so that a sweep that is stopped has all cases from as many seeds."""
    for seed, (noise, n_t, n_train), function, model in product(SEEDS, CASES, FUNCTIONS, MODELS):
        yield {
            "model": model,
            "function": function,
            "noise": noise,
            "n_t": n_t,
            "n_train": n_train,
            "seed": seed,
        }


def PARAMETERS() -> dict[str, Any]:
    """What the models are set to."""
    return {name: model().get_params() for name, model in MODELS.items()}


def run(
    model: str, function: str, noise: float, n_t: int, n_train: int, seed: int
) -> dict[str, Any]:
    """Fit one trial to noisy rows and measure it against the truth without noise."""
    data = make_analytic(function, random_state=seed, n_t=n_t, n_train=n_train)
    random = np.random.default_rng([seed, 1])  # other numbers than those that drew x
    disturbance = noise * data.y_train.std() * random.standard_normal(len(data.y_train))
    estimator = MODELS[model](varying="t", random_state=seed, method="network", verbose=False)
    started = time.process_time()
    estimator.fit(data.X_train, data.y_train + disturbance)
    cpu_seconds = time.process_time() - started
    found, true = structure(estimator.equation_, ["x"]), structure(data.equation, ["x"])
    row = {
        "true_terms": has_true_terms(estimator.equation_, data),
        "extra_terms": len(found - true),
        "missing_terms": len(true - found),
        "equation": str(estimator.equation_),
        "test_mse_scaled": scaled_mse(
            data, data.X_test, estimator.predict(data.X_test) - data.y_test
        ),
        "error_in_standard_errors": np.nan,
        "cpu_seconds": round(cpu_seconds, 2),
    }
    if row["true_terms"] and len(estimator.t_) == len(data.coefficients):
        names = match_coefficients(estimator.equation_, data)
        known = [c for c in data.coefficients if c in names.values()]
        value = estimator.coefficients_.rename(columns=names)[known]
        error = estimator.coefficient_errors_.rename(columns=names)[known]
        true = data.coefficients[known].set_axis(value.index)
        turned = np.sign((value * true).sum())  # sin(ax) and -sin(-ax) are one equation
        z = (turned * value - true) / error
        row["error_in_standard_errors"] = float(np.sqrt(np.median(z**2) / 0.4549))  # 1 if normal
    return row
