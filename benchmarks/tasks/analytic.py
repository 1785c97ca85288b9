"""f1–f5 × SEQL, HEQL × seeds 0–39, one trial each, all counted."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import peql
from peql.analysis.comparison import coefficient_deviations, has_true_terms, scaled_mse
from peql.datasets.analytic import evaluate, make_analytic

FUNCTIONS = ["f1", "f2", "f3", "f4", "f5"]
MODELS = {"SEQL": peql.SEQL, "HEQL": peql.HEQL}
NEVER = [("peql.estimators.tabular", f"_SymbolicRegressor.{m}") for m in ("_searched", "_summed")]
MEASURES = ("true_terms", "test_mse_scaled", "midpoint_mse_scaled", "cpu_seconds")
SECONDS = 10


def TASKS() -> Iterator[dict[str, Any]]:
    """Each function and model with each seed."""
    for seed, function, model in product(range(40), FUNCTIONS, MODELS):
        yield {"model": model, "function": function, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the models are set to."""
    return {name: model().get_params() for name, model in MODELS.items()}


def run(model: str, function: str, seed: int) -> dict[str, Any]:
    """Fit one trial and measure it against the truth."""
    data = make_analytic(function, random_state=seed)
    estimator = MODELS[model](varying="t", random_state=seed, method="network", verbose=False)
    started = time.process_time()
    estimator.fit(data.X_train, data.y_train)
    cpu_seconds = time.process_time() - started
    error = estimator.predict(data.X_test) - data.y_test
    true_terms = has_true_terms(estimator.equation_, data)
    row = {
        "true_terms": true_terms,
        "equation": str(estimator.equation_),
        "test_mse_scaled": scaled_mse(data, data.X_test, error),
        "test_mse_raw": float(np.mean(error**2)),
        "midpoint_mse_scaled": np.nan,
        "coefficient_error": coefficient_deviations(estimator, data).max()
        if true_terms
        else np.nan,
        "validation_error": estimator.trials_["validation_error"].iloc[0],
        "seconds": round(float(estimator.trials_["seconds"].iloc[0]), 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    if model == "HEQL":
        between = midpoints(data)
        error = estimator.predict(between) - evaluate(function, between)
        row["midpoint_mse_scaled"] = scaled_mse(data, between, error)
    return row


def midpoints(data: peql.datasets.Dataset) -> pd.DataFrame:
    """The test x at t midway between the grid points."""
    t = data.coefficients.index.to_numpy()
    middle = np.repeat((t[1:] + t[:-1]) / 2, 256)
    return pd.DataFrame({"x": data.X_test["x"].to_numpy()[: len(middle)], "t": middle})
