"""Makes the tables in results/, each from its list of tasks in benchmarks/tasks/.

    python benchmarks/run.py                       # all of them: what the present engine lacks
    python benchmarks/run.py analytic pde          # these
    python benchmarks/run.py --plan                # how long it would take
    python benchmarks/run.py --check               # which are not the present engine's; 1 if any
    python benchmarks/run.py analytic --seeds 300:310 --out sweeps/tuning
    python benchmarks/run.py --dask tcp://node7:8786

Killed at any moment, the same command goes on where it stopped. Reported seeds are those of the
lists; seeds from 300 are for tuning and never go into results/.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from peql import results
from peql._suggest import unknown_name
from peql.cli import table
from peql.running import connect


def main(given: list[str] | None = None) -> int:
    """Run what is missing and print what it comes to."""
    parser = argparse.ArgumentParser(
        description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="TABLE", help="default: all")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes on this machine (all cores)"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="send the runs to this Dask scheduler")
    parser.add_argument("--plan", action="store_true", help="only say how long it would take")
    parser.add_argument("--check", action="store_true", help="only list what is not present")
    parser.add_argument("--seeds", metavar="FROM:TO", help="other seeds; needs --out")
    parser.add_argument("--out", type=Path, help="another folder than results/")
    arguments = parser.parse_args(given)
    names = arguments.names or results.tables()
    for name in names:
        if name not in results.tables():
            raise SystemExit(f"run.py: {unknown_name('table', name, results.tables())}")
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: expected at least 1 process")
    if arguments.seeds and not arguments.out:
        parser.error("--seeds needs --out: results/ has the seeds of the lists and no others")
    if arguments.check:
        return check(sorted({*names, *table.stored()}) if not arguments.names else names)
    return make(names, arguments)


def check(names: list[str]) -> int:
    """Print every table and what is wrong with it; 1 if anything is."""
    stale = {name: problems for name in names if (problems := results.problems(name))}
    for name in names:
        told = "; ".join(stale[name]) if name in stale else "made by the present engine"
        print(f"{name:15} {told}")
    if stale:
        print(f"{len(stale)} of {len(names)} tables are not what the present code makes.")
    return 1 if stale else 0


def make(names: list[str], arguments: argparse.Namespace) -> int:
    """Run what is missing of the tables; 1 if a run failed."""
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    cluster: Any = connect(arguments.dask) if arguments.dask else None
    with cluster or nullcontext():
        cores = sum(cluster.nthreads().values()) if cluster else arguments.jobs
        sweeps = {
            name: results.table_sweep(name, arguments.out, with_seeds(name, arguments.seeds))
            for name in names
        }
        announce(sweeps, cores)
        if arguments.plan:
            return 0
        results.run_all(sweeps, jobs=arguments.jobs, cluster=cluster)
    n_failed = 0
    for name, sweep in sweeps.items():
        results.write_origin(name, sweep)
        rows = sweep.table()
        n_failed += sum(bool(row.get("failure")) for row in sweep.rows)
        if len(rows):
            shown = table.as_text(table.stored_summary(name, rows))
            print(f"\n{name}: {sweep.path}\n{shown}", end="")
    if n_failed:
        print(f"{n_failed} runs failed: the same command tries them again", file=sys.stderr)
    return 1 if n_failed else 0


def with_seeds(name: str, seeds: str | None) -> list[dict[str, Any]] | None:
    """The tasks of a table with other seeds than its own, such as ``300:310``."""
    if seeds is None:
        return None
    cases = {
        tuple(item for item in task.items() if item[0] != "seed"): task
        for task in results.tasks(name)
        if "seed" in task
    }
    return [
        {**case, "seed": seed}
        for seed in range(*map(int, seeds.split(":")))
        for case in cases.values()
    ]


def announce(sweeps: dict[str, results.Sweep], cores: int) -> None:
    """Print what there is to do and how long it will take."""
    total, unknown = 0.0, []
    for name, sweep in sweeps.items():
        seconds = results.expected_seconds(name, sweep)
        if seconds is None:
            unknown.append(name)
        told = "unknown time" if seconds is None else duration(seconds / cores)
        print(f"{name:15} {len(sweep.waiting):4} of {len(sweep.tasks):4} rows to make, {told}")
        total += seconds or 0.0
    also = f", and {', '.join(unknown)}, of which nothing is known" if unknown else ""
    print(f"about {duration(total / cores)} on {cores} cores{also}", flush=True)


def duration(seconds: float) -> str:
    """Seconds, in minutes or hours where there are many.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
