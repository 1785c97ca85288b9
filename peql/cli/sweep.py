"""``peql sweep``: a notebook executed for every combination of its parameters.

Each run leaves a file of its own in ``runs/``, written whole; ``results.csv`` is made from all of
them under a lock. So a killed sweep loses only the runs under way, and two sweeps into one folder
lose none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from .. import results
from ..running import connect, require, results_of
from . import subcommand
from .files import to_csv, unguarded
from .notebook import OWN_COLUMNS, Notebook, execute, is_path

TIMEOUT = 6 * 3600  # seconds that a run may take unless told otherwise

EXAMPLES = """\
examples:
  peql sweep notebooks/02_analytic.ipynb -p models SEQL HEQL -p seed 0:40 --jobs 2
      80 runs: each model with each of the seeds 0 to 39
  peql sweep notebooks/02_analytic.ipynb -p functions f1,f2 -p seed 0
      one run: functions = ["f1", "f2"]
  peql sweep notebooks/05_your_own_data.ipynb -p data mine.csv -p target y -p varying t -p seed 0:5
  peql sweep notebooks/03_pdes.ipynb -p noise 0 0.01 --dask tcp://node7:8786

values:
  A value takes the type of the parameter's default. Where that is an integer, 0:40 stands for
  0, 1, ..., 39 and 0:40:10 for 0, 10, 20, 30. Where it is a list, each value is a list of its own:
  -p models SEQL HEQL runs once with ["SEQL"] and once with ["HEQL"], and commas make a longer
  list: -p models SEQL,HEQL runs once with both. Where it is the path of a file, a path means the
  file that it names where you are, or else in the notebook's folder.

The folder gets each executed notebook and results.csv: the parameters, how the run ended, the
seconds it took, and what it recorded with peql.chapters.record, a row a call. Text that a
spreadsheet would run as a formula has an apostrophe before it, without which peql table reads it.
Killed or interrupted, the same command goes on where it stopped; runs made by another notebook,
package, parameters or file are made anew. Sweeps into one folder at the same time share it. A
notebook runs in its own folder, as in the book.
"""


def add_parser(subparsers: Any) -> None:
    """Register ``peql sweep``."""
    does = "execute a notebook for every combination of parameters"
    parser = subcommand(subparsers, "sweep", does, command, epilog=EXAMPLES)
    parser.add_argument("notebook", type=Path, help="a notebook with a cell tagged parameters")
    parser.add_argument(
        "-p",
        "--parameter",
        dest="parameters",
        action="append",
        default=[],
        nargs="+",
        metavar=("NAME", "VALUE"),
        help="a parameter and the values to run it with; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes on this machine (default 1)")
    parser.add_argument("--dask", metavar="ADDRESS", help="send the runs to this Dask scheduler")
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"after which a run is ended and counts as failed; 0: never (default {TIMEOUT})",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: sweeps/<name of the notebook>"
    )


def command(arguments: argparse.Namespace) -> int:
    """Run ``peql sweep``; 1 if a run failed."""
    notebook = Notebook.read(arguments.notebook)
    swept = notebook.values(arguments.parameters)
    if arguments.jobs < 1:
        raise ValueError(f"--jobs {arguments.jobs}: expected at least 1 process")
    if not arguments.timeout >= 0:
        raise ValueError(f"--timeout {arguments.timeout:g}: expected seconds, or 0 for no limit")
    folder = arguments.out or Path("sweeps") / arguments.notebook.stem
    n_runs = prod(len(values) for values in swept.values())
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder: name another with --out")
    print(f"{notebook.name}: {n_runs} run{'s' * (n_runs != 1)} into {folder}", flush=True)
    cluster = connect(arguments.dask) if arguments.dask else None
    options = {"jobs": arguments.jobs, "timeout": arguments.timeout or None}
    try:
        ended, n_found = sweep(notebook, swept, folder, cluster=cluster, **options)
    except ConnectionError as error:
        raise ConnectionError(
            f"{error} What is done is kept in {folder}; to go on: {arguments.command_line}"
        ) from None
    finally:
        if cluster:
            cluster.close(timeout=5)
    n_failed = ended.count("failed")
    print(f"{n_runs - n_found - n_failed} done, {n_found} found from before, {n_failed} failed")
    print(f"table: {folder / 'results.csv'}")
    return 1 if n_failed else 0


def sweep(
    notebook: Notebook,
    swept: dict[str, list[Any]],
    folder: Path,
    *,
    jobs: int = 1,
    timeout: float | None = None,
    cluster: Any = None,
) -> tuple[list[str], int]:
    """Execute every combination that ``folder`` has no run of.

    How each combination ended, "done" or "failed", and how many were done before.
    """
    require("papermill", extra="book")
    made_by = {
        "notebook_name": notebook.name,
        "notebook_hash": notebook.fingerprint(),
        **results.package_origin(),
    }
    tasks = [
        _task(notebook, dict(zip(swept, values, strict=True)), made_by)
        for values in product(*swept.values())
    ]
    store = Store(folder, made_by, [task["hash"] for task in tasks])
    before = store.done()
    waiting = [task for task in tasks if task["hash"] not in before]
    run = partial(execute, notebook, made_by["source_hash"], timeout)
    calls = [(notebook.name, task) for task in waiting]
    made = results_of({notebook.name: run}, calls, jobs=jobs, cluster=cluster)
    for _, task, result in tqdm(made, total=len(calls), desc=notebook.name, smoothing=0):
        if result["failure"]:
            tqdm.write(f"failed: {task}: {result['failure']}")
        store.add(task, {"status": "failed", **result})  # it had not begun, if it does not say so
    store.write_table()
    done = store.done()
    return ["done" if task["hash"] in done else "failed" for task in tasks], len(before)


def _task(
    notebook: Notebook, parameters: dict[str, Any], made_by: dict[str, str]
) -> dict[str, Any]:
    """The columns that say what a run is; its hash covers notebook, package, parameters, files."""
    files = {
        name: hashlib.sha256(Path(value).read_bytes()).hexdigest()
        for name, value in parameters.items()
        if is_path(notebook.defaults[name]) and Path(value).is_file()
    }
    content = json.dumps(
        [sorted(parameters.items()), sorted(made_by.items()), sorted(files.items())]
    )
    return {**parameters, "hash": hashlib.sha256(content.encode()).hexdigest()[:12]}


# --- what is kept ----------------------------------------------------------------------------


class Store:
    """A folder of runs: a JSON file each in ``runs/``, and the table made from them."""

    def __init__(self, folder: Path, made_by: dict[str, str], hashes: list[str]):
        self.folder, self.made_by = folder, made_by
        self.order = {hash: place for place, hash in enumerate(hashes)}
        self.runs = folder / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)
        self._read: dict[Path, tuple[int, dict[str, Any]]] = {}

    def add(self, task: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep a run: the executed notebook, the run's file, and the table with it."""
        executed = result.pop("executed", "")
        if executed:
            results.write_whole(self.folder / result["notebook"], executed)
        content = {"task": task, "result": result, "made_by": self.made_by}
        path = self.runs / f"{task['hash']}.json"
        results.write_whole(path, json.dumps(content, default=str) + "\n")
        self.write_table()

    def kept(self) -> list[dict[str, Any]]:
        """All runs but those of this notebook made by other code: a table never mixes two."""
        found = []
        for path in sorted(self.runs.glob("*.json")):
            changed = path.stat().st_mtime_ns
            if self._read.get(path, (0, {}))[0] != changed:
                self._read[path] = changed, _read_run(path)
            found.append(self._read[path][1])
        own = self.made_by["notebook_name"]
        mine = [
            run
            for run in found
            if run["made_by"] == self.made_by or run["made_by"]["notebook_name"] != own
        ]
        return sorted(mine, key=lambda run: self.order.get(run["task"]["hash"], len(self.order)))

    def done(self) -> set[str]:
        """The hashes, of those asked for, whose run is there and did not fail."""
        ended = {run["task"]["hash"] for run in self.kept() if run["result"]["status"] == "done"}
        return ended & set(self.order)

    def write_table(self) -> None:
        """``results.csv`` from all runs; one sweep at a time."""
        with locked(self.folder / ".lock"):
            rows = [row for run in self.kept() for row in rows_of(run)]
            if rows:
                results.write_whole(self.folder / "results.csv", to_csv(_table(rows)))


def _read_run(path: Path) -> dict[str, Any]:
    """A run as ``Store.add`` wrote it."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        needed = {"task": "hash", "result": "status", "made_by": "notebook_name"}
        if all(name in run[part] for part, name in needed.items()):
            return run
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{path} is damaged: remove it, and the same command makes its run anew")


def rows_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a run, one for each record, in parts; see ``_table``."""
    task, result = dict(run["task"]), dict(run["result"])
    hash = task.pop("hash")
    taken = {*OWN_COLUMNS, *task, *run["made_by"]}

    def free(values: dict[str, Any]) -> dict[str, Any]:
        return {f"recorded_{k}" if k in taken else k: v for k, v in values.items()}

    records = result.pop("found", None) or [{"case": {}, "found": {}}]
    return [
        {
            "parameters": task,
            "case": free(record["case"]),
            "ended": {"hash": hash, **result},
            "found": free(record["found"]),
            "made_by": run["made_by"],
        }
        for record in records
    ]


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Parameters and case first, which ``peql table`` groups by, then what came out."""
    parts = ("parameters", "case", "ended", "found", "made_by")
    columns = [
        name for part in parts for name in dict.fromkeys(k for row in rows for k in row[part])
    ]
    flat = [{name: value for part in parts for name, value in row[part].items()} for row in rows]
    return pd.DataFrame(flat, columns=list(dict.fromkeys(columns)))


def read_results(path: Path) -> pd.DataFrame:
    """The ``results.csv`` of a sweep, without what guards its texts against spreadsheets."""
    return unguarded(pd.read_csv(path))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at ``path``; the system frees it when a process dies."""
    with open(path, "a") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
