"""The spring sweep: force and energy, SEQL and HEQL behind the encoder and the ReLU network.

    python benchmarks/sweep_spring.py --jobs 2      # leaves results/spring.csv

Seeds 0-9, one trial each. Killed, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import product
from typing import Any

import peql
from peql import results
from peql.chapters import springs

TARGETS = ["spring_force", "spring_energy"]
SEEDS = range(10)
SOURCES = ["encoded.py", "baselines/relu.py", "datasets/spring.py"]


def trial(target: str, model: str, seed: int) -> dict[str, Any]:
    """Fit one trial and measure it against the truth."""
    data = peql.datasets.load(target, random_state=seed)
    started = time.process_time(), time.perf_counter()
    fitted = springs.make(model, random_state=seed, verbose=False)
    fitted.fit(data.images_train, data.X_train["t"], data.y_train)
    cpu_seconds, seconds = time.process_time() - started[0], time.perf_counter() - started[1]
    return {
        **springs.measure(fitted, data),
        "cpu_seconds": round(cpu_seconds, 2),
        "seconds": round(seconds, 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Run what is missing and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    tasks = [
        {"target": target, "model": model, "seed": seed}
        for models in (["SEQL", "HEQL"], ["ReLU"])
        for seed, target, model in product(SEEDS, TARGETS, models)
    ]
    path = results.folder() / "spring.csv"
    table = results.run_sweep(path, trial, tasks, jobs=arguments.jobs, sources=SOURCES)
    parameters = {model: springs.make(model).get_params() for model in springs.MODELS}
    results.write_origin(path, parameters, *SOURCES)
    summary = table.groupby(["target", "model"]).agg(
        trials=("seed", "size"),
        true_terms=("true_terms", "sum"),
        smallest_r=("r", "min"),
        worst_k_error=("k_error", "max"),
        worst_inside=("mse_inside", "max"),
        worst_outside=("mse_outside", "max"),
        median_seconds=("cpu_seconds", "median"),
    )
    print(summary.to_string())


if __name__ == "__main__":
    main()
