"""How the time and the memory of a fit grow with rows, values of t, features and trials.

Each row is one fit in a process of its own, whose peak memory is then that of this fit alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import peql

MEASURES = ("cpu_seconds", "megabytes")
SECONDS = 15
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields
# What grows, and to what; the rest stays as in SMALL. "ragged" is one t with so many rows, and
# thousands with four.
SIZES: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 100_000, 1_000_000),
    "values of t": (10, 100, 1_000, 10_000),
    "features": (1, 4, 16, 64),
    "trials": (1, 4, 16),
    "ragged": (4_096,),
}
SMALL = {"rows": 4_000, "values of t": 100, "features": 1, "trials": 1, "ragged": 0}
NOISE = 0.05  # of y's standard deviation: without it the search stops at once


def TASKS() -> Iterator[dict[str, Any]]:
    """Each size of what grows; trials are of the network, which alone has them."""
    for grows, sizes in SIZES.items():
        for size in sizes:
            method = "network" if grows == "trials" else "search"
            yield {"grows": grows, "size": size, "method": method, "seed": 0}


def PARAMETERS() -> dict[str, Any]:
    """What stays as it is while one thing grows."""
    return {**SMALL, "noise": NOISE}


def fit(sizes: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """A fit of HEQL to a(t)·x² + b(t)·x with noise, its time, and the memory of this process."""
    random = np.random.default_rng(seed)
    n_t = sizes["values of t"]
    t = np.resize(np.linspace(0, 1, n_t), max(sizes["rows"], 4 * n_t))
    if sizes["ragged"]:
        t = np.concatenate([np.zeros(sizes["ragged"]), np.repeat(np.linspace(0.001, 1, 5_000), 4)])
    X = pd.DataFrame(random.uniform(-2, 2, (len(t), sizes["features"]))).add_prefix("x").assign(t=t)
    y = (1 + t) * X["x0"] ** 2 + (3 - t) * X["x0"]
    y = y + NOISE * y.std() * random.standard_normal(len(y))
    options = {"n_trials": sizes["trials"], "method": method, "random_state": seed}
    model = peql.HEQL(varying="t", verbose=False, **options)
    started = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    return {
        "table_rows": len(t),
        "equation": str(model.equation_),
        "cpu_seconds": round(time.process_time() - started, 2),
        "megabytes": peak_megabytes(),
    }


def peak_megabytes() -> int:
    """The most memory that this program held: getrusage counts what its parent held as well."""
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return round(int(line.split()[1]) / 1024)
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def run(grows: str, size: int, method: str, seed: int) -> dict[str, Any]:
    """One fit in a process of its own."""
    task = {"sizes": {**SMALL, grows: size}, "method": method, "seed": seed}
    code = (
        "import json, sys; from peql.results import task_module; "
        # By its name, so that what it computes counts as what made the table.
        f"found = task_module('scaling').{fit.__name__}(**json.loads(sys.argv[1])); "
        "print(json.dumps(found))"
    )
    command = [sys.executable, "-c", code, json.dumps(task)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
