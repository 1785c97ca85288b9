"""How runs are spread: over processes of this machine, or over the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from joblib import Parallel, delayed

Row = dict[str, Any]
Task = tuple[str, Row]  # the name of what is to be run, and with what
Runs = Iterator[tuple[str, Row, Row]]  # whose, what was asked, what came of it


def results_of(
    runs: Mapping[str, Callable[..., Row]],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    cluster: Any = None,
) -> Runs:
    """Each task with its result, as they come; one that fails is {"failure": what it raised}.

    They run in ``jobs`` processes here, or on ``cluster``, a Dask client.

    >>> divide = {"divide": lambda by: {"value": 1 / by}}
    >>> [found for _, _, found in results_of(divide, [("divide", {"by": n}) for n in (2, 0)])]
    [{'value': 0.5}, {'failure': 'ZeroDivisionError: division by zero'}]
    """
    if cluster:
        return _on_cluster(cluster, runs, tasks)
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    return parallel(delayed(_call)(name, runs[name], task, os.getpid()) for name, task in tasks)


def _on_cluster(client: Any, runs: Mapping[str, Callable[..., Row]], tasks: Sequence[Task]) -> Runs:
    from concurrent.futures import CancelledError

    from distributed import as_completed

    try:
        sent = client.scatter([*runs.values()], broadcast=True, hash=False)
        shared = dict(zip(runs, sent, strict=True))
        futures = [client.submit(_call, n, shared[n], task, pure=False) for n, task in tasks]
        waiting = {future.key: task for future, task in zip(futures, tasks, strict=True)}
        for future in as_completed(futures, loop=client.loop):
            if future.status in ("cancelled", "lost"):
                raise CancelledError
            # What _call could not catch: a worker that died, or that cannot import peql.
            error = future.exception() if future.status == "error" else None
            task = waiting.pop(future.key)
            yield (*task, _failure(error)) if error else future.result()
            future.release()  # the executed notebooks need not pile up on the workers
    except (CancelledError, OSError, TimeoutError, RuntimeError) as error:
        if not isinstance(error, CancelledError) and client.status == "running":
            raise
        raise ConnectionError(
            "the Dask scheduler was lost, or the runs on it were cancelled."
        ) from None


def _call(
    name: str, run: Callable[..., Row], task: Row, parent: int | None = None
) -> tuple[str, Row, Row]:
    if parent is not None and parent != os.getpid():
        _end_with(parent)
    # One thread, so that results do not depend on the number of cores.
    os.environ["OMP_NUM_THREADS"] = "1"  # if torch is yet to be imported
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    try:
        return name, task, run(**task)
    except Exception as error:  # one bad run must not end the others
        return name, task, _failure(error)


def _failure(error: BaseException) -> Row:
    first = next(iter(str(error).splitlines()), "")
    return {"failure": f"{type(error).__name__}: {first}"}


_watching: set[int] = set()


def _end_with(parent: int) -> None:
    """End this process when ``parent`` does, however that ended; its kernels then end with it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if parent not in _watching and os.getppid() == parent:
        _watching.add(parent)
        threading.Thread(target=watch, daemon=True).start()


def check_source(here: str, there: str) -> None:
    """Raise if a worker's code is not that of the process which sent it a run."""
    if here != there:
        raise RuntimeError(
            f"this worker's source ({here}) is not the one the run was started with ({there}): "
            "install the same on both"
        )


def connect(address: str) -> Any:
    """A client of the Dask scheduler at ``address``."""
    distributed = require("distributed", extra="cluster")
    for name in ("distributed", "distributed.client"):  # what is lost, the sweep says in a line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return distributed.Client(address, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from None


def require(module: str, *, extra: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return __import__(module)
    except ImportError:
        raise ImportError(
            f"this needs {module}, which is not installed: pip install 'peql[{extra}]'"
        ) from None
