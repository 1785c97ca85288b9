"""Φ-SO's eight laws × noise of 0, 0.1, 1, 10 % of y's rms × seeds 0–9, one trial of SEQL each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import peql
from peql.datasets.classbench import LAWS, has_true_form, make_classbench

NOISES = (0.0, 0.1, 0.01, 0.001)  # the ends first
MEASURES = ("right_form", "test_mse", "cpu_seconds")
SECONDS = 12
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields


def TASKS() -> Iterator[dict[str, Any]]:
    """Each seed with all laws and noises, so that a table in the making is balanced."""
    for seed, noise, law in product(range(10), NOISES, LAWS):
        yield {"law": law, "noise": noise, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the model is set to."""
    return {"SEQL": peql.SEQL().get_params()}


def run(law: str, noise: float, seed: int) -> dict[str, Any]:
    """Fit one trial of SEQL as it is set by default and compare it with the law."""
    data = make_classbench(law, random_state=seed, noise=noise)
    model = peql.SEQL(varying=data.varying, random_state=seed, verbose=False)
    started = time.process_time()
    model.fit(data.X_train, data.y_train)
    cpu_seconds = time.process_time() - started
    return {
        "right_form": has_true_form(model.equation_, data),
        "equation": str(model.equation_),
        "method": model.trials_["method"][model.best_trial_],
        "test_mse": float(np.mean((model.predict(data.X_test) - data.y_test) ** 2)),
        "n_alternatives": len(model.alternatives_),
        "cpu_seconds": round(cpu_seconds, 2),
    }
