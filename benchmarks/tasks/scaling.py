"""How the time and the memory of a fit grow with rows, values of t, features and trials.

Each row is one fit in a process of its own, whose peak memory is then that of this fit alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

MEASURES = ("cpu_seconds", "megabytes")
SECONDS = 15
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

FIT = """
import json, resource, sys, time, warnings
import numpy as np, pandas as pd, peql

size, seed, noise = json.loads(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
random = np.random.default_rng(seed)
n_t = size["values of t"]
t = np.resize(np.linspace(0, 1, n_t), max(size["rows"], 4 * n_t))
if size["ragged"]:
    t = np.concatenate([np.zeros(size["ragged"]), np.repeat(np.linspace(0.001, 1, 5_000), 4)])
X = pd.DataFrame(random.uniform(-2, 2, (len(t), size["features"]))).add_prefix("x").assign(t=t)
y = (1 + t) * X["x0"] ** 2 + (3 - t) * X["x0"]
y = y + noise * y.std() * random.standard_normal(len(y))
model = peql.HEQL(
    varying="t", n_trials=size["trials"], method=size["method"], random_state=seed, verbose=False
)
started = time.process_time()
with warnings.catch_warnings(action="ignore"):
    model.fit(X, y)
print(json.dumps({
    "table_rows": len(t),
    "equation": str(model.equation_),
    "cpu_seconds": round(time.process_time() - started, 2),
    "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
}))
"""


def TASKS() -> Iterator[dict[str, Any]]:
    """Each size of what grows; trials are of the network, which alone has them."""
    for grows, sizes in SIZES.items():
        for size in sizes:
            method = "network" if grows == "trials" else "search"
            yield {"grows": grows, "size": size, "method": method, "seed": 0}


def PARAMETERS() -> dict[str, Any]:
    """What stays as it is while one thing grows."""
    return {**SMALL, "noise": NOISE}


def run(grows: str, size: int, method: str, seed: int) -> dict[str, Any]:
    """One fit of HEQL in a process of its own."""
    sizes = json.dumps({**SMALL, grows: size, "method": method})
    command = [sys.executable, "-c", FIT, sizes, str(seed), str(NOISE)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
