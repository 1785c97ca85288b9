"""The tables in ``results/``: what makes each, whether the present code did, and how it is run.

A table ``results/<name>.csv`` belongs to a list of tasks, ``benchmarks/tasks/<name>.py``, which has

- ``TASKS``, a function that yields one dict for each row, ``seed`` in it as a rule,
- ``run(**task)``, which returns the rest of the row as a dict,

and may have ``MEASURES`` (the columns that ``peql table`` summarises) or ``summary`` (a function of
the table), ``finish`` (called with what ``run`` returned, returns what the row is to hold of it),
``BESIDE`` (names of further tables that ``finish`` writes), ``NEVER`` (pairs of a module and a
function or ``Class.method`` in it that no run enters, though something that it uses refers to it:
it is then no part of what made the table, and a run that enters it fails), ``N_TRIALS`` (restarts a
run; 1), ``SECONDS`` (an estimate for one run, a number or a function of the task, until there are
rows to tell), ``PARAMETERS`` (a function whose dict goes into the JSON file beside the table) and
``BATCH`` (how many seeds of a case one run makes: ``seed`` is then a list, and the run returns
{"rows": what it made of each}).
"""

from __future__ import annotations

import datetime
import importlib
import json
import platform
import sys
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from . import provenance
from .making import ORIGIN as ORIGIN
from .making import Sweep, columns_of, key_of, stored_rows, write_whole
from .making import run_all as run_all
from .making import write_table as write_table
from .running import check_source

PACKAGE = Path(__file__).parent
TASKS = "peql_tasks"  # the package as which benchmarks/tasks/ is imported


def folder() -> Path:
    """The repository's ``results/``, found from the package, whatever the working directory."""
    path = PACKAGE.parent / "results"
    if not path.is_dir():
        raise FileNotFoundError(
            "no results/ beside the peql package: the stored sweeps are part of the repository; "
            "clone it and install with 'pip install -e .'"
        )
    return path


def load(name: str) -> pd.DataFrame:
    """The table that a sweep left as ``results/<name>.csv``."""
    return pd.read_csv(folder() / f"{name}.csv")


def maker(name: str) -> str:
    """The command that makes a table.

    >>> maker("analytic")
    'python benchmarks/run.py analytic'
    """
    return f"python benchmarks/run.py {name}"


# --- the lists of tasks ----------------------------------------------------------------------


def _tasks_folder() -> Path:
    return PACKAGE.parent / "benchmarks" / "tasks"


def tables() -> list[str]:
    """The names of the tables that there are lists of tasks for.

    >>> "analytic" in tables()
    True
    """
    return sorted(path.stem for path in _tasks_folder().glob("[!_]*.py"))


def beside() -> dict[str, str]:
    """The tables that are written beside others, each with the name of that one.

    >>> beside().get("analytic") is None
    True
    """
    return {other: name for name in tables() for other in getattr(task_module(name), "BESIDE", ())}


def task_module(name: str) -> types.ModuleType:
    """The module ``benchmarks/tasks/<name>.py``."""
    if TASKS not in sys.modules:
        package = types.ModuleType(TASKS)
        package.__path__ = [str(_tasks_folder())]
        sys.modules[TASKS] = package
    return importlib.import_module(f"{TASKS}.{name}")


def tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of a table, one for each row."""
    listed = task_module(name).TASKS
    return list(listed() if callable(listed) else listed)


def run_task(name: str, expected: str, **task: Any) -> dict[str, Any]:
    """One row of a table, in whatever process; ``expected`` is the engine that it must have."""
    check_source(engine(name), expected)
    started = time.perf_counter()
    with _closed(name):
        row = task_module(name).run(**task)
    return {**row, "run_seconds": round(time.perf_counter() - started, 2)}


@contextmanager
def _closed(name: str) -> Iterator[None]:
    """While a task of the table runs, what its list says it never enters raises."""
    with ExitStack() as closed:
        for module, path in _never(name):
            place = f"{module}.{path}"
            error = RuntimeError(f"NEVER in {TASKS}.{name} names {place}, but a run entered it")
            closed.enter_context(mock.patch(place, side_effect=error))
        yield


def _never(name: str) -> Sequence[provenance.Key]:
    return getattr(task_module(name), "NEVER", ())


# --- what made a row -------------------------------------------------------------------------


def _modules() -> dict[str, provenance.Module]:
    """The package's modules and the lists of tasks, read anew where a file has changed."""
    folders = {"peql": PACKAGE, TASKS: _tasks_folder()}
    files = [path for place in folders.values() for path in sorted(place.rglob("*.py"))]
    state = tuple((path, path.stat().st_mtime_ns) for path in (*files, *_data()))
    if _READ.get("state") != state:
        _READ.update(state=state, modules=provenance.read_modules(folders), engines={}, known={})
    return _READ["modules"]


_READ: dict[str, Any] = {}


def _data() -> list[Path]:
    kinds = {".json", ".csv", ".npz", ".parquet", ".txt"}
    return [path for path in sorted(PACKAGE.rglob("*")) if path.suffix in kinds]


def engine(name: str) -> str:
    """The fingerprint of all that the runs of a table compute, as the code is now.

    >>> len(engine("analytic"))
    12
    """
    modules = _modules()
    if name not in _READ["engines"]:
        start = (f"{TASKS}.{name}", "run")
        _READ["engines"][name] = provenance.fingerprint(
            modules, [start], _data(), _READ["known"], _never(name)
        )
    return _READ["engines"][name]


def package_hash() -> str:
    """A fingerprint of the whole package, for results that any part of it may affect.

    >>> len(package_hash())
    12
    """
    modules = provenance.read_modules({"peql": PACKAGE})
    everything = [(name, own) for name, top in modules.items() for own in top.definitions]
    return provenance.fingerprint(modules, everything, _data())


def _versions() -> dict[str, str]:
    from . import __version__

    return {
        "peql_version": __version__,
        **{f"{name}_version": metadata.version(name) for name in ("torch", "numpy")},
        "python_version": platform.python_version(),
    }


def package_origin() -> dict[str, str]:
    """The origin of a row that any part of the package may affect: fingerprint and versions."""
    return {"source_hash": package_hash(), **_versions()}


def problems(name: str) -> list[str]:
    """The reasons why a table is not what the present code would make."""
    path = folder() / f"{name}.csv"
    if not path.exists():
        return ["there is no table"]
    if name not in tables():
        owner = beside().get(name)
        return problems(owner) if owner else ["no list of tasks makes it"]
    rows, present = stored_rows(path), engine(name)
    wanted, found = tasks(name), []
    names = columns_of(wanted)
    others = sorted({row.get("engine", "?") for row in rows} - {present})
    if others:
        n_others = sum(row.get("engine") != present for row in rows)
        found.append(f"{n_others} of {len(rows)} rows by engine {', '.join(others)}")
    n_missing = len({key_of(task, names) for task in wanted} - {key_of(row, names) for row in rows})
    if n_missing:
        found.append(f"{n_missing} of {len(wanted)} rows are missing")
    n_failed = sum(bool(row.get("failure")) for row in rows)
    if n_failed:
        found.append(f"{n_failed} runs failed")
    return found


def caption(name: str, table: pd.DataFrame | None = None) -> str:
    """A line of Markdown that says what made a table, and whether that is the present engine.

    >>> trials = pd.DataFrame({"seed": [0, 1, 2, 5], "n_trials": 1, "made_on": "2026-01-01",
    ...                        "engine": engine("analytic")})
    >>> caption("analytic", trials).replace(engine("analytic"), "0123456789ab")
    'Made by engine `0123456789ab`: seeds 0–2, 5, one trial each, on 2026-01-01;
    [results/analytic.csv](../results/analytic.csv).'
    """
    table = load(name) if table is None else table
    made = [f"`{each}`" for each in sorted(set(table["engine"].astype(str)))]
    parts = [f"Made by engine{'s' * (len(made) > 1)} {', '.join(made)}: "]
    if "seed" in table:
        parts += [f"seed{'s' * (table['seed'].nunique() != 1)} {_ranges(table['seed'])}, "]
    n_trials = sorted(set(table["n_trials"]))
    each = " or ".join("one" if n == 1 else str(n) for n in n_trials)
    parts += [f"{each} trial{'s' * (n_trials != [1])} each, "]
    days = sorted(set(table["made_on"].astype(str)))
    parts += [f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"]
    parts += [f"; [results/{name}.csv](../results/{name}.csv)."]
    present = engine(name) if name in tables() else None
    if made != [f"`{present}`"]:
        now = f"`{present}`" if present else "not known"
        parts += [f" **This is not the present engine** ({now}); `{maker(name)}` makes it anew."]
    return "".join(parts)


def _ranges(numbers: Iterable[Any]) -> str:
    """Integers as ranges.

    >>> _ranges([3, 0, 1, 2, 7])
    '0–3, 7'
    """
    parts: list[list[int]] = []
    for number in sorted({int(n) for n in numbers}):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}–{p[-1]}" if p[1:] else str(p[0]) for p in parts)


# --- making a table -------------------------------------------------------------------------


def table_sweep(
    name: str, out: Path | None = None, tasks_: Iterable[dict[str, Any]] | None = None
) -> Sweep:
    """The sweep that makes a table: those rows that the present engine has not made."""
    made_by = {
        "n_trials": getattr(task_module(name), "N_TRIALS", 1),
        "made_on": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "engine": engine(name),
        **_versions(),
    }
    return Sweep(
        (out or folder()) / f"{name}.csv",
        partial(run_task, name, engine(name)),
        tasks(name) if tasks_ is None else tasks_,
        made_by=made_by,
        finish=getattr(task_module(name), "finish", None),
        batch=getattr(task_module(name), "BATCH", 1),
    )


def expected_seconds(name: str, sweep: Sweep) -> float | None:
    """The seconds that the waiting runs of a table take in all; None if that is unknown.

    Estimated from the stored rows, of any engine, or else from the list's ``SECONDS``.
    """
    path = folder() / f"{name}.csv"
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame()
    measured = (c for c in ("run_seconds", "cpu_seconds") if c in rows and rows[c].notna().any())
    column = next(measured, None)
    if column is None:
        estimate = getattr(task_module(name), "SECONDS", None)
        if estimate is None:
            return None if sweep.waiting else 0.0
        return sum(estimate(t) if callable(estimate) else estimate for t in sweep.waiting)
    case = [c for c in sweep.names if c != "seed" and c in rows]
    known: dict[tuple[str, ...], list[float]] = {}
    for row in rows.dropna(subset=[column]).astype(str).to_dict("records"):
        known.setdefault(key_of(row, case), []).append(float(row[column]))
    every = rows[column].mean()
    return sum(float(np.mean(known.get(key_of(task, case), every))) for task in sweep.waiting)


def write_origin(name: str, sweep: Sweep) -> None:
    """Write the JSON file beside a table: what made its rows, and all parameters."""
    made = {key: value for key, value in sweep.made_by.items() if key != "made_on"}
    parameters: dict[str, Any] = getattr(task_module(name), "PARAMETERS", dict)()
    content = json.dumps({**made, "parameters": parameters}, indent=2) + "\n"
    write_whole(sweep.path.with_suffix(".json"), content)
