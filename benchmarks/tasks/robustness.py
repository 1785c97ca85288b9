"""Noise and data efficiency: f1–f5 with noise in y, and with fewer rows per t and fewer t.

- Noise of 1, 5 and 10 % of y's standard deviation at the paper's size (128 t × 512), on ten seeds;
- 32 rows per t with 10 % noise, on ten seeds, the size that is aimed at;
- 128 and 8 rows per t, and 32 and 8 values of t (at 512 rows each), with 10 % noise, on three
  seeds. With noise, because without it a handful of rows determines the coefficients exactly.
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
MODELS = {"SEQL": peql.SEQL}
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._searched")]
MEASURES = ("true_terms", "extra_terms", "missing_terms", "test_mse_scaled", "cpu_seconds")
SECONDS = 10
# Noise, values of t, rows at each, seeds: many where recovery is counted, few for a trend.
BLOCKS = [
    *((noise, 128, 512, 10) for noise in (0.01, 0.05, 0.1)),
    (0.1, 128, 32, 10),
    *((0.1, 128, rows, 3) for rows in (128, 8)),
    *((0.1, n_t, 512, 3) for n_t in (32, 8)),
]


def TASKS() -> Iterator[dict[str, Any]]:
    """Each block with each function."""
    for model, (noise, n_t, n_train, n_seeds), function in product(MODELS, BLOCKS, FUNCTIONS):
        for seed in range(n_seeds):
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
        z = (value - data.coefficients[known].set_axis(value.index)) / error
        row["error_in_standard_errors"] = float(np.sqrt(np.median(z**2) / 0.4549))  # 1 if normal
    return row
