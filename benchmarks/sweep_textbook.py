"""Two textbook laws, ten experiments with their own parameters each: seeds 0–9, one trial each.

    python benchmarks/sweep_textbook.py --jobs 2

Leaves ``results/textbook.csv``. Killed, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import peql
from peql import results
from peql.datasets.textbook import PRIMITIVES
from peql.evaluation import has_true_terms

SOURCES = ["datasets/textbook.py"]


def trial(law: str, seed: int) -> dict[str, Any]:
    """Fit one trial of SEQL and measure it against the truth."""
    data = peql.datasets.load(law, random_state=seed)
    model = peql.SEQL(
        varying=data.varying, primitives=PRIMITIVES[law], random_state=seed, verbose=False
    )
    started = time.process_time()
    model.fit(data.X_train, data.y_train)
    cpu_seconds = time.process_time() - started
    true_terms = has_true_terms(model.equation_, data)
    return {
        "true_terms": true_terms,
        "equation": str(model.equation_),
        "test_mse": float(np.mean((model.predict(data.X_test) - data.y_test) ** 2)),
        "cpu_seconds": round(cpu_seconds, 2),
    }


def main() -> None:
    """Run what is missing and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FROM", "TO"))
    parser.add_argument("--out", type=Path, default=results.folder() / "textbook.csv")
    arguments = parser.parse_args()
    tasks = [
        {"law": law, "seed": seed} for law, seed in product(PRIMITIVES, range(*arguments.seeds))
    ]
    table = results.run_sweep(arguments.out, trial, tasks, jobs=arguments.jobs, sources=SOURCES)
    results.write_origin(arguments.out, {"SEQL": peql.SEQL().get_params(), **PRIMITIVES}, *SOURCES)
    print(table.groupby("law")[["true_terms", "test_mse", "cpu_seconds"]].agg(["sum", "max"]))


if __name__ == "__main__":
    main()
