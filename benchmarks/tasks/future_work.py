"""What the paper leaves to future work: rates, ranks, primitives, few data, smoothness.

Leaves ``results/future_work.csv``; about ten minutes on one core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from peql.chapters import future

SOURCES = ("chapters/protocol.py", "chapters/future.py")


def TASKS() -> Iterator[dict[str, Any]]:
    """Every experiment from three seeds."""
    yield from future.tasks()


def run(**task: Any) -> dict[str, Any]:
    """One run of one experiment."""
    return future.run(**task)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Medians of each setting."""
    keys = ["experiment", "model", "function", "value"]
    return table.groupby(keys, sort=False)[["gates", "test_mse_scaled", "jump"]].median()
