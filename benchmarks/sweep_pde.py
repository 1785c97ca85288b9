"""The PDE sweep: each equation with and without cross terms, each model, seeds 0-19, one trial.

    python benchmarks/sweep_pde.py --jobs 2            # leaves results/pde.csv
    python benchmarks/sweep_pde.py --jobs 2 --noise    # leaves results/pde_noise.csv

Killed, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import product
from typing import Any

import numpy as np

import peql
from peql import results
from peql.baselines import GroupSINDy, coefficient_mse, least_squares_limit
from peql.datasets import expand_cross_terms
from peql.evaluation import has_true_terms

EQUATIONS = ["advection_diffusion", "burgers"]
MODELS = ["SEQL", "HEQL"]
SOURCES = [
    *(f"datasets/{name}.py" for name in ("pde", "field", "_derivatives")),
    *(f"baselines/{name}.py" for name in ("sindy", "_batched", "limit")),
]
NOISE = [0.0, 0.001, 0.01, 0.05]
NOISE_SEEDS = 3


def trial(
    equation: str, cross_terms: bool, model: str, seed: int, noise: float, derivatives: str
) -> dict[str, Any]:
    """Fit one trial and measure it against the truth and the least-squares limit."""
    data = peql.datasets.load(
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
        estimator = getattr(peql, model)(varying=data.varying, random_state=seed, verbose=False)
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


def tasks(noise: bool) -> list[dict[str, Any]]:
    """What to run; the SINDy baseline has no seed, so one run without noise is all of it."""
    if noise:
        return [
            {
                "equation": equation,
                "cross_terms": True,
                "model": model,
                "seed": seed,
                "noise": level,
                "derivatives": "smooth",
            }
            for seed, equation, level, model in product(
                range(NOISE_SEEDS), EQUATIONS, NOISE, ["SINDy", *MODELS]
            )
        ]
    cases = [
        {"equation": equation, "cross_terms": cross, "model": model, "seed": seed}
        for seed, equation, cross, model in product(range(20), EQUATIONS, [False, True], MODELS)
    ]
    cases += [
        {"equation": "kuramoto_sivashinsky", "cross_terms": False, "model": model, "seed": seed}
        for seed, model in product(range(10), MODELS)
    ]
    cases += [
        {"equation": equation, "cross_terms": cross, "model": "SINDy", "seed": 0}
        for equation, cross in product([*EQUATIONS, "kuramoto_sivashinsky"], [False, True])
    ]
    return [{**case, "noise": 0.0, "derivatives": "paper"} for case in cases]


def main() -> None:
    """Run what is missing and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--noise", action="store_true", help="the noise study instead")
    arguments = parser.parse_args()
    path = results.folder() / ("pde_noise.csv" if arguments.noise else "pde.csv")
    table = results.run_sweep(
        path, trial, tasks(arguments.noise), jobs=arguments.jobs, sources=SOURCES
    )
    parameters = {model: getattr(peql, model)().get_params() for model in MODELS}
    results.write_origin(path, parameters, *SOURCES)
    summary = table.groupby(["equation", "cross_terms", "noise", "model"]).agg(
        trials=("seed", "size"),
        true_terms=("true_terms", "sum"),
        worst_u_t_mse=("u_t_mse", "max"),
        limit=("limit_u_t_mse", "median"),
        worst_coefficient_mse=("coefficient_mse", "max"),
        coefficient_limit=("limit_coefficient_mse", "median"),
        median_seconds=("cpu_seconds", "median"),
    )
    print(summary.to_string())


if __name__ == "__main__":
    main()
