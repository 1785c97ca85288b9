"""Noise and data efficiency: f1–f5 with noise in y, and with fewer rows per t and fewer t.

    python benchmarks/sweep_robustness.py --jobs 2

Leaves ``results/robustness.csv``. Killed, it goes on where it stopped. What is run, and why:

- noise of 1, 5 and 10 % of y's standard deviation at the paper's size (128 t × 512), on ten seeds;
- 32 rows per t with 10 % noise, on ten seeds, the size that is aimed at;
- 128 and 8 rows per t, and 32 and 8 values of t (at 512 rows each), with 10 % noise, on three
  seeds. With noise, because without it a handful of rows determines the coefficients exactly.

``--models SEQL HEQL`` runs HEQL too, which takes twice as long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import peql
from peql import results
from peql.evaluation import has_true_terms, match_coefficients, scaled_mse
from peql.symbolic import structure

FUNCTIONS = ["f1", "f2", "f3", "f4", "f5"]
NOISE = [0.01, 0.05, 0.1]
MODELS = ["SEQL", "HEQL"]


def trial(
    model: str, function: str, noise: float, n_t: int, n_train: int, seed: int
) -> dict[str, Any]:
    """Fit one trial to noisy rows and measure it against the truth without noise."""
    data = peql.datasets.load(function, random_state=seed, n_t=n_t, n_train=n_train)
    random = np.random.default_rng([seed, 1])  # other numbers than those that drew x
    disturbance = noise * data.y_train.std() * random.standard_normal(len(data.y_train))
    estimator = getattr(peql, model)(varying="t", random_state=seed, verbose=False)
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


def tasks(models: list[str], seeds: int) -> Iterator[dict[str, Any]]:
    """What to run: ``seeds`` of them where recovery is counted, fewer where a trend is shown."""
    few = max(1, seeds // 3)
    blocks = [
        *((noise, 128, 512, seeds) for noise in NOISE),
        (0.1, 128, 32, seeds),
        *((0.1, 128, rows, few) for rows in (128, 8)),
        *((0.1, n_t, 512, few) for n_t in (32, 8)),
    ]
    for model, (noise, n_t, n_train, n), function in product(models, blocks, FUNCTIONS):
        for seed in range(n):
            yield {
                "model": model,
                "function": function,
                "noise": noise,
                "n_t": n_t,
                "n_train": n_train,
                "seed": seed,
            }


def main() -> None:
    """Run what is missing and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=["SEQL"], choices=MODELS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=results.folder() / "robustness.csv")
    arguments = parser.parse_args()
    table = results.run_sweep(
        arguments.out, trial, tasks(arguments.models, arguments.seeds), jobs=arguments.jobs
    )
    parameters = {model: getattr(peql, model)().get_params() for model in arguments.models}
    results.write_origin(arguments.out, parameters)
    summary = table.groupby(["model", "noise", "n_t", "n_train"]).agg(
        trials=("seed", "size"),
        true_terms=("true_terms", "sum"),
        extra=("extra_terms", "sum"),
        missing=("missing_terms", "sum"),
        seconds=("cpu_seconds", "median"),
    )
    print(summary.to_string())


if __name__ == "__main__":
    main()
