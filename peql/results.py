"""Tables that sweeps leave in ``results/``: resumable, never half-written, with their origin."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
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
    digest = hashlib.sha256()
    for name in (*ENGINE, *others):
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
    versions = {f"{name}_version": metadata.version(name) for name in ("torch", "numpy")}
    from . import __version__

    return {
        "peql_version": __version__,
        "source_hash": source_hash(*others),
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
) -> pd.DataFrame:
    """Call ``run(**task)`` for every task not yet in the table at ``path``; returns the table.

    A row is the task, what ``run`` returned, and its origin; a run that fails leaves its error in
    the column "failure" and is tried again next time. The file is replaced as a whole after each
    row, so a killed sweep loses only the runs under way. Rows made by other code (the engine
    or ``sources``, files of the package) or other versions are redone.
    """
    tasks = list(tasks)
    made_by = origin(*sources)
    stored: list[Any] = pd.read_csv(path).to_dict("records") if path.exists() else []
    rows = [
        row
        for row in stored
        if all(str(row.get(k)) == v for k, v in made_by.items()) and pd.isna(row.get("failure"))
    ]
    done = {_key(row, tasks) for row in rows}
    waiting = [task for task in tasks if _key(task, tasks) not in done]
    results: Iterator[tuple[dict[str, Any], dict[str, Any]]] = Parallel(
        n_jobs=jobs, return_as="generator_unordered"
    )(delayed(_call)(run, task) for task in waiting)
    order = {_key(task, tasks): i for i, task in enumerate(tasks)}
    for task, result in tqdm(results, total=len(waiting), desc=path.stem, smoothing=0):
        if "failure" in result:
            tqdm.write(f"failed: {task}: {result['failure']}")
        rows.append({**task, **result, **made_by})
        rows.sort(key=lambda row: order.get(_key(row, tasks), len(order)))
        write_table(pd.DataFrame(rows), path)
    return pd.DataFrame(rows)


def _key(row: dict[str, Any], tasks: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in (tasks[0] if tasks else ()))


def _call(run: Callable[..., dict[str, Any]], task: dict[str, Any]) -> tuple[dict, dict]:
    import torch

    torch.set_num_threads(1)  # so that results do not depend on the number of cores
    try:
        return task, run(**task)
    except Exception as error:  # one bad run must not end the others
        return task, {"failure": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as CSV."""
    _write(path, table.to_csv(index=False))


def write_origin(path: Path, parameters: dict[str, Any], *others: str) -> None:
    """Beside the table at ``path``, a JSON file: the origin of its rows and all parameters."""
    content = {**origin(*others), "parameters": parameters}
    _write(path.with_suffix(".json"), json.dumps(content, indent=2) + "\n")


def _write(path: Path, content: str) -> None:
    """The file appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
