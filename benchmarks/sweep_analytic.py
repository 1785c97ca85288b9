"""The reported sweep: f1–f5 × SEQL, HEQL × seeds 0–39, one trial each, all counted.

    python benchmarks/sweep_analytic.py --jobs 2

Leaves ``results/analytic.csv``. Killed, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import peql
from peql import results
from peql.datasets.analytic import evaluate
from peql.evaluation import coefficient_errors, has_true_terms, scaled_mse

FUNCTIONS = ["f1", "f2", "f3", "f4", "f5"]
MODELS = ["SEQL", "HEQL"]


def trial(model: str, function: str, seed: int) -> dict[str, Any]:
    """Fit one trial and measure it against the truth."""
    data = peql.datasets.load(function, random_state=seed)
    estimator = getattr(peql, model)(varying="t", random_state=seed, verbose=False)
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
        "coefficient_error": coefficient_errors(estimator, data).max() if true_terms else np.nan,
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


def main() -> None:
    """Run what is missing and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 40), metavar=("FROM", "TO"))
    parser.add_argument("--out", type=Path, default=results.folder() / "analytic.csv")
    arguments = parser.parse_args()
    tasks = [
        {"model": model, "function": function, "seed": seed}
        for seed, function, model in product(range(*arguments.seeds), FUNCTIONS, MODELS)
    ]
    table = results.run_sweep(arguments.out, trial, tasks, jobs=arguments.jobs)
    parameters = {model: getattr(peql, model)().get_params() for model in MODELS}
    results.write_origin(arguments.out, parameters)
    summary = table.groupby(["function", "model"]).agg(
        trials=("seed", "size"),
        true_terms=("true_terms", "sum"),
        worst_test_mse=("test_mse_scaled", "max"),
        worst_midpoint_mse=("midpoint_mse_scaled", "max"),
        median_seconds=("cpu_seconds", "median"),
        slowest=("cpu_seconds", "max"),
        peak_memory_mb=("peak_memory_mb", "max"),
    )
    print(summary.to_string())


if __name__ == "__main__":
    main()
