"""Tables in which there is nothing to find: 25 with shuffled targets and 25 of pure noise."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import peql
from peql.datasets.classbench import LAWS, make_classbench

KINDS = ("shuffled", "noise")
SIZES = ((4, 12), (6, 20), (3, 40), (8, 30), (10, 60))  # experiments, rows of each
MEASURES = ("nothing_found", "cpu_seconds")
SECONDS = 10
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields


def TASKS() -> Iterator[dict[str, Any]]:
    """Both kinds with each seed, the sizes in turn."""
    for seed, kind in product(range(25), KINDS):
        n_experiments, n_rows = SIZES[seed % len(SIZES)]
        yield {"kind": kind, "n_experiments": n_experiments, "n_rows": n_rows, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the model is set to."""
    return {"SEQL": peql.SEQL().get_params()}


def run(kind: str, n_experiments: int, n_rows: int, seed: int) -> dict[str, Any]:
    """Fit SEQL, as it is set by default, to a law's y in random order or to normal noise."""
    law = list(LAWS)[seed % len(LAWS)]
    data = make_classbench(law, random_state=seed, n_experiments=n_experiments, n_train=n_rows)
    random = np.random.default_rng([seed, 1])  # other numbers than those that drew the rows
    mixed = random.permutation(data.y_train.to_numpy())
    y = mixed if kind == "shuffled" else random.standard_normal(len(mixed))
    model = peql.SEQL(varying=data.varying, random_state=seed, verbose=False)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was found is what is asked
        model.fit(data.X_train, pd.Series(y, name="y"))
    return {
        "nothing_found": not model.solution_.used_features,
        "equation": str(model.equation_),
        "cpu_seconds": round(time.process_time() - started, 2),
    }
