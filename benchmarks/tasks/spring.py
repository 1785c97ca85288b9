"""Force and energy, SEQL and HEQL behind the encoder and the ReLU network: seeds 0–9."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from peql.chapters import springs
from peql.datasets.spring import make_spring

TARGETS = ["spring_force", "spring_energy"]
MEASURES = ("true_terms", "r", "k_error", "mse_inside", "mse_outside", "cpu_seconds")
SECONDS = 60


def TASKS() -> Iterator[dict[str, Any]]:
    """The symbolic models first."""
    for models in (["SEQL", "HEQL"], ["ReLU"]):
        for seed, target, model in product(range(10), TARGETS, models):
            yield {"target": target, "model": model, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the models are set to."""
    return {model: springs.make(model).get_params() for model in springs.MODELS}


def run(target: str, model: str, seed: int) -> dict[str, Any]:
    """Fit one trial and measure it against the truth."""
    data = make_spring(target, random_state=seed)
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
