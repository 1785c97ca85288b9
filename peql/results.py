"""Tables that sweeps leave in ``results/``: resumable, never half-written, with their origin."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

PACKAGE = Path(__file__).parent
# What decides a result; plots, tables and the command line may change without a new sweep.
ENGINE = [
    f"{name}.py"
    for name in (
        *("primitives", "gates", "weights", "network", "training", "formula", "refinement"),
        *("symbolic", "tables", "estimators", "evaluation", "datasets/analytic"),
    )
]


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


def source_hash(*others: str) -> str:
    """A fingerprint of the engine's code, and of ``others`` in the package if named.

    Comments, docstrings, layout and the types of arguments do not count.

    >>> len(source_hash())
    12
    """
    return _code_hash((*ENGINE, *others))


def package_hash() -> str:
    """A fingerprint of the whole package: all its code, and the data files beside it.

    >>> len(package_hash())
    12
    """
    data = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in {".json", ".mplstyle", ".csv"}:
            data.update(path.read_bytes())
    code = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return hashlib.sha256(f"{_code_hash(code)}{data.hexdigest()}".encode()).hexdigest()[:12]


def _code_hash(names: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        tree = ast.parse((PACKAGE / name).read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                del body[0]
            if isinstance(node, ast.arg):
                node.annotation = None
            if isinstance(node, ast.FunctionDef):
                node.returns = None
        digest.update(f"{name}\0{ast.unparse(tree)}\0".encode())
    return digest.hexdigest()[:12]


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def origin(*others: str) -> dict[str, str]:
    """What made a row: versions and the fingerprint of the engine and ``others``."""
    return _origin(source_hash(*others))


def package_origin() -> dict[str, str]:
    """What made a row that any part of the package may have had a hand in."""
    return _origin(package_hash())


def _origin(fingerprint: str) -> dict[str, str]:
    versions = {f"{name}_version": metadata.version(name) for name in ("torch", "numpy")}
    from . import __version__

    return {
        "peql_version": __version__,
        "source_hash": fingerprint,
        **versions,
        "python_version": platform.python_version(),
    }


def run_sweep(
    path: Path,
    run: Callable[..., dict[str, Any]],
    tasks: Iterable[dict[str, Any]],
    *,
    jobs: int = 2,
    sources: Sequence[str] = (),
    made_by: dict[str, str] | None = None,
    key: Sequence[str] | None = None,
    finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    cluster: Any = None,
) -> pd.DataFrame:
    """Call ``run(**task)`` for every task not yet in the table at ``path``; returns the table.

    A row is the task, what ``run`` returned, and its origin; a run that fails leaves its error in
    the column "failure" and is tried again next time. The file is replaced as a whole after each
    row, so a killed sweep loses only the runs under way. Rows made by other code (the engine
    or ``sources``, files of the package) or other versions are redone; ``made_by`` says otherwise
    what made a row. A row is known by the task's columns, or by those that ``key`` names.

    The runs go to ``jobs`` processes here, or to ``cluster``, a Dask client. ``finish`` is called
    in this process with what a run returned, and returns what the row is to hold of it.
    """
    tasks = list(tasks)
    names = list(key or (tasks[0] if tasks else ()))
    made_by = made_by or origin(*sources)
    rows = [
        row
        for row in _stored_rows(path)
        if all(row.get(k) == v for k, v in made_by.items()) and not row.get("failure")
    ]
    done = {_key(row, names) for row in rows}
    waiting = [task for task in tasks if _key(task, names) not in done]
    results = _on_cluster(cluster, run, waiting) if cluster else _here(jobs, run, waiting)
    order = {_key(task, names): i for i, task in enumerate(tasks)}
    for task, result in tqdm(results, total=len(waiting), desc=path.stem, smoothing=0):
        result = finish(result) if finish else result
        taken = [name for name in result if name in task]
        if taken:
            raise ValueError(
                f"a run returned {taken}, which are names of the task: its row could not hold both"
            )
        if result.get("failure"):
            tqdm.write(f"failed: {task}: {result['failure']}")
        rows.append({**task, **result, **made_by})
        rows.sort(key=lambda row: order.get(_key(row, names), len(order)))
        write_table(pd.DataFrame(rows), path)
    return pd.read_csv(StringIO(pd.DataFrame(rows).to_csv(index=False))) if rows else pd.DataFrame()


def _stored_rows(path: Path) -> list[dict[Any, Any]]:
    """The rows of a table as they are written, so that writing them again changes nothing."""
    if not path.exists():
        return []
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")


def _key(row: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in names)


Runs = Iterator[tuple[dict[str, Any], dict[str, Any]]]


def _here(jobs: int, run: Callable[..., dict[str, Any]], tasks: list[dict[str, Any]]) -> Runs:
    """Each task with its result, as they come, from processes of this machine."""
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    return parallel(delayed(_call)(run, task) for task in tasks)


def _on_cluster(
    client: Any, run: Callable[..., dict[str, Any]], tasks: list[dict[str, Any]]
) -> Runs:
    """Each task with its result, as they come, from the workers of a Dask cluster."""
    from distributed import as_completed

    [shared] = client.scatter([run], broadcast=True, hash=False)
    futures = [client.submit(_call, shared, task, pure=False) for task in tasks]
    waiting = {future.key: task for future, task in zip(futures, tasks, strict=True)}
    for future in as_completed(futures, loop=client.loop):
        # What _call could not catch: a worker that died, or that cannot import peql.
        error = future.exception() if future.status == "error" else None
        yield (waiting[future.key], _failure(error)) if error else future.result()
        future.release()  # the executed notebooks need not pile up on the workers


def _call(run: Callable[..., dict[str, Any]], task: dict[str, Any]) -> tuple[dict, dict]:
    # One thread, so that results do not depend on the number of cores.
    os.environ["OMP_NUM_THREADS"] = "1"  # if torch is yet to be imported
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    try:
        return task, run(**task)
    except Exception as error:  # one bad run must not end the others
        return task, _failure(error)


def _failure(error: BaseException) -> dict[str, Any]:
    first = next(iter(str(error).splitlines()), "")
    return {"failure": f"{type(error).__name__}: {first}"}


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as CSV."""
    write_whole(path, table.to_csv(index=False))


def write_origin(path: Path, parameters: dict[str, Any], *others: str) -> None:
    """Beside the table at ``path``, a JSON file: the origin of its rows and all parameters."""
    content = {**origin(*others), "parameters": parameters}
    write_whole(path.with_suffix(".json"), json.dumps(content, indent=2) + "\n")


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
