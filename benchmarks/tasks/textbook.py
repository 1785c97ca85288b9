"""Two textbook laws, ten experiments with their own parameters each: seeds 0–9, one trial each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import peql
from peql.analysis.comparison import has_true_terms
from peql.datasets.textbook import PRIMITIVES, make_textbook

MEASURES = ("true_terms", "test_mse", "cpu_seconds")
SECONDS = 10
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields


def TASKS() -> Iterator[dict[str, Any]]:
    """Each law with each seed."""
    for law, seed in product(PRIMITIVES, range(10)):
        yield {"law": law, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the model is set to, and the primitives for each law."""
    return {"SEQL": peql.SEQL().get_params(), **PRIMITIVES}


def run(law: str, seed: int) -> dict[str, Any]:
    """Fit one trial of SEQL and measure it against the truth."""
    data = make_textbook(law, random_state=seed)
    model = peql.SEQL(
        varying=data.varying, primitives=PRIMITIVES[law], random_state=seed, verbose=False
    )
    started = time.process_time()
    model.fit(data.X_train, data.y_train)
    cpu_seconds = time.process_time() - started
    return {
        "true_terms": has_true_terms(model.equation_, data),
        "equation": str(model.equation_),
        "test_mse": float(np.mean((model.predict(data.X_test) - data.y_test) ** 2)),
        "cpu_seconds": round(cpu_seconds, 2),
    }
