"""A table in the making: row by row, resumed after a kill, and never half-written on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from . import running

# What a row says of its making, besides the task and its result.
ORIGIN = (
    *("run_seconds", "n_trials", "made_on", "engine", "peql_version"),
    *("torch_version", "numpy_version", "python_version"),
)


class Sweep:
    """A table in the making: ``run(**task)`` for every task that has no row at ``path`` yet.

    A row is the task, what ``run`` returned, and ``made_by``; a run that fails leaves its error in
    the column "failure" and is tried again next time. The file is replaced as a whole after each
    row, so that a killed sweep loses only the runs under way. A stored row counts if the "engine"
    of ``made_by`` made it. ``finish`` is called in this process with what a run returned, and
    returns what the row is to hold of it. The rows of a ``batch`` of seeds come at once.
    """

    def __init__(
        self,
        path: Path,
        run: Callable[..., dict[str, Any]],
        tasks: Iterable[dict[str, Any]],
        *,
        made_by: dict[str, Any],
        finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        batch: int = 1,
    ):
        self.path, self.run, self.made_by, self.finish = path, run, made_by, finish
        self.batch = batch
        self.tasks = list(tasks)
        self.names = columns_of(self.tasks)
        self.rows = [
            row
            for row in stored_rows(path)
            if row.get("engine") == made_by["engine"] and not row.get("failure")
        ]
        done = {key_of(row, self.names) for row in self.rows}
        self.waiting = [task for task in self.tasks if key_of(task, self.names) not in done]
        self._order = {key_of(task, self.names): i for i, task in enumerate(self.tasks)}

    def calls(self) -> list[dict[str, Any]]:
        """The waiting tasks; those of a batch as one, in the place of its first."""
        if self.batch == 1:
            return self.waiting
        batches: dict[Any, list[int]] = {}
        for task in self.waiting:
            case = tuple((k, v) for k, v in task.items() if k != "seed")
            batches.setdefault((case, task["seed"] // self.batch), []).append(task["seed"])
        return [{**dict(case), "seed": seeds} for (case, _), seeds in batches.items()]

    def add(self, task: dict[str, Any], result: dict[str, Any]) -> None:
        """Write one more row, or those of a batch; if it failed, it failed for all its seeds."""
        if self.batch == 1:
            self._append(task, result)
        else:
            rows = result.get("rows", [result] * len(task["seed"]))
            for seed, row in zip(task["seed"], rows, strict=True):
                self._append({**task, "seed": seed}, row)
        self.rows.sort(key=lambda row: self._order.get(key_of(row, self.names), len(self._order)))
        write_table(self._frame(), self.path)

    def _append(self, task: dict[str, Any], result: dict[str, Any]) -> None:
        result = self.finish(result) if self.finish else result
        taken = [name for name in result if name in task]
        if taken:
            raise ValueError(
                f"a run returned {taken}, which are names of the task: its row could not hold both"
            )
        if result.get("failure"):
            tqdm.write(f"failed: {task}: {result['failure']}")
        kept = {k: v for k, v in self.made_by.items() if k not in task and k not in result}
        self.rows.append({**task, **result, **kept})

    def _frame(self) -> pd.DataFrame:
        """The rows as a table; the columns that say how they were made come last."""
        frame = pd.DataFrame(self.rows)
        last = [name for name in ORIGIN if name in frame]
        return frame[[c for c in frame.columns if c not in last] + last]

    def table(self) -> pd.DataFrame:
        """The rows, as they are read from the file."""
        if not self.rows:
            return pd.DataFrame()
        return pd.read_csv(StringIO(self._frame().to_csv(index=False)))


def run_all(sweeps: Mapping[str, Sweep], *, jobs: int = 1, cluster: Any = None) -> None:
    """Do what is waiting, in ``jobs`` processes here, or on ``cluster``, a Dask client."""
    tasks = [(name, call) for name, sweep in sweeps.items() for call in sweep.calls()]
    runs = {name: sweep.run for name, sweep in sweeps.items()}
    made = running.results_of(runs, tasks, jobs=jobs, cluster=cluster)
    title = next(iter(sweeps)) if len(sweeps) == 1 else "rows"
    for name, task, result in tqdm(made, total=len(tasks), desc=title, smoothing=0):
        sweeps[name].add(task, result)


def stored_rows(path: Path) -> list[dict[Any, Any]]:
    """The rows of a table as they are written, so that writing them again changes nothing."""
    if not path.exists():
        return []
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")


def columns_of(tasks: Sequence[dict[str, Any]]) -> list[str]:
    """The names of all that tasks are told, in the order in which they first stand.

    >>> columns_of([{"seed": 0}, {"seed": 1, "noise": 0.1}])
    ['seed', 'noise']
    """
    return list(dict.fromkeys(name for task in tasks for name in task))


def key_of(row: Mapping[Any, Any], names: Sequence[str]) -> tuple[str, ...]:
    """What tells a row from others, as it is written in a file.

    >>> key_of({"seed": 0, "mse": 0.5}, ["seed", "noise"])
    ('0', '')
    """
    return tuple("" if row.get(name) is None else str(row[name]) for name in names)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as CSV."""
    write_whole(path, table.to_csv(index=False))


def write_whole(path: Path, content: str) -> None:
    """Write text to a file that appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
