"""What the paper leaves to future work: rates, ranks, primitives, duplicates of them, smoothness.

A run takes 1 to 12 CPU seconds, all of them about 20 CPU minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from peql.chapters import future

SECONDS = 5
NEVER = [
    *(("peql.estimators.tabular", f"_SymbolicRegressor.{m}") for m in ("_searched", "_summed")),
    ("peql.search.search", "search"),
    ("peql.engine.products", "sums_of_products"),
]


def TASKS() -> Iterator[dict[str, Any]]:
    """Every experiment from five seeds."""
    yield from future.tasks()


def run(**task: Any) -> dict[str, Any]:
    """One run of one experiment."""
    return future.run(**task)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Medians of each setting."""
    keys = ["experiment", "model", "function", "value"]
    return table.groupby(keys, sort=False)[["gates", "test_mse_scaled", "jump"]].median()
