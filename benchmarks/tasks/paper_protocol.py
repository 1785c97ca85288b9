"""The paper's own protocol on f1–f5: SEQL and HEQL, 34,800 steps, nothing refined.

A run trains five seeds of one case as one batch, which is cheaper than one after another. So
``cpu_seconds`` of a row is its batch's CPU time divided by its ``trained_together`` trials, not
what a trial takes alone: about half a minute of one idle core for SEQL, one and a half for HEQL.
Leaves the errors in ``results/paper_protocol.csv`` and the courses of training in
``results/curves/paper_protocol.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd

from peql import results
from peql.chapters import protocol

FUNCTIONS = ("f1", "f2", "f3", "f4", "f5")
MODELS = ("SEQL", "HEQL")
SEEDS = range(10)
BATCH = 5
SECONDS = 60
KEY = ["model", "function", "seed"]


BESIDE = ("paper_protocol_curves",)


def TASKS() -> Iterator[dict[str, Any]]:
    """Seed by seed, so that a sweep that is stopped has all cases from as many batches."""
    for seed, function, model in product(SEEDS, FUNCTIONS, MODELS):
        yield {"model": model, "function": function, "seed": seed}


def run(model: str, function: str, seed: Sequence[int]) -> dict[str, Any]:
    """The trials of a batch of seeds; the course of each is under "curve", for ``finish``."""
    rows = protocol.trials(model, function, seed)
    for row, own in zip(rows, seed, strict=True):
        course = {"error": row.pop("curve_error"), "gates": row.pop("curve_gates")}
        row["curve"] = {"model": model, "function": function, "seed": own, **course}
    return {"rows": rows}


def finish(result: dict[str, Any]) -> dict[str, Any]:
    """Put the course of a trial into the table of courses; returns the rest."""
    row = dict(result)
    curve = row.pop("curve", None)
    if curve:
        path = results.folder() / protocol.CURVES
        path.parent.mkdir(exist_ok=True)
        known = pd.read_csv(path) if path.exists() else pd.DataFrame()
        table = pd.concat([known, pd.DataFrame([curve])], ignore_index=True)
        results.write_table(table.drop_duplicates(KEY, keep="last").sort_values(KEY), path)
    return row


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """What the trials of each function and model come to."""
    groups = table.groupby(["function", "model"])
    return groups.agg(
        trials=("seed", "size"),
        true_terms=("true_terms", "sum"),
        best=("test_mse_scaled", "min"),
        mean=("test_mse_scaled", "mean"),
        cpu_seconds=("cpu_seconds", "median"),
    )
