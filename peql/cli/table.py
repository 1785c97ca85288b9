"""``peql table``: summaries of the sweeps in ``results/``, printed or exported."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .. import results
from .._suggest import unknown_name
from ..equation.writing import ROUNDING
from . import subcommand
from .files import to_csv
from .sweep import read_results

# In a row of a sweep come the task, then its result, which begins with one of these, then the
# origin, which ends with these.
RESULT_BEGINS = ("true_terms", "hash", "status")
ORIGIN = ("notebook_name", "notebook_hash", "source_hash", *results.ORIGIN)
TOLD = ("equation", "verdict")  # texts of which a summary shows the most frequent

EXAMPLES = """\
examples:
  peql table                                    the tables that there are
  peql table analytic                           recovered, errors and seconds of each case
  peql table analytic --format latex --out analytic.tex
  peql table analytic --rows --format csv       every trial
  peql table sweeps/02_analytic/results.csv     a sweep of your own

A case is what shares all parameters but the seed. Of each error there are the median and the
worst, of seconds the median and the longest, of any other number the median; of equations and
verdicts the most frequent.
"""


def add_parser(subparsers: Any) -> None:
    """Register ``peql table``."""
    does = "print or export the results of sweeps"
    parser = subcommand(subparsers, "table", does, command, epilog=EXAMPLES)
    parser.add_argument("name", nargs="?", help="a table in results/, or a CSV file of a sweep")
    parser.add_argument("--format", choices=WRITERS, default="text")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there, not to the screen")
    parser.add_argument("--rows", action="store_true", help="every row, not one for each case")


def command(arguments: argparse.Namespace) -> int:
    """Run ``peql table``."""
    if arguments.name is None:
        table = overview()
    else:
        table = read(arguments.name)
        if not arguments.rows:
            table = stored_summary(arguments.name, table)
    content = WRITERS[arguments.format](table)
    if arguments.out is None:
        print(content, end="")
    else:
        results.write_whole(arguments.out, content)
    return 0


def read(name: str) -> pd.DataFrame:
    """The table ``results/<name>.csv``, or the one at the path ``name``; says how to make it."""
    if name.endswith(".csv"):
        if not Path(name).is_file():
            raise FileNotFoundError(f"no table at {name}: 'peql sweep' leaves a results.csv")
        return read_results(Path(name))
    present = stored()
    if name in present:
        return results.load(name)
    if name in results.tables():
        raise FileNotFoundError(f"no results/{name}.csv yet; this makes it: {results.maker(name)}")
    raise unknown_name("table", name, sorted({*present, *results.tables()}))


def stored_summary(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The summary of a table, by its list of tasks if that has one."""
    if name in results.beside():
        return table
    if name not in results.tables():
        return summary(table)
    own = getattr(results.task_module(name), "summary", None)
    if own is not None:
        return own(table).reset_index()
    measures = getattr(results.task_module(name), "MEASURES", None)
    parameters = {column for task in results.tasks(name) for column in task}
    return summary(table, measures, parameters)


def stored() -> list[str]:
    """The names of the tables in ``results/``."""
    return sorted(path.stem for path in results.folder().glob("*.csv"))


def overview() -> pd.DataFrame:
    """Every table that is stored or could be: rows, whether up to date, what makes it."""
    present = {name: len(results.load(name)) for name in stored()}
    return pd.DataFrame(
        {
            "table": name,
            "rows": str(present.get(name, "absent")),
            "problems": "; ".join(results.problems(name)) or "none",
            "made by": results.maker(name) if name in results.tables() else "not known",
        }
        for name in sorted({*present, *results.tables()})
    )


def summary(
    table: pd.DataFrame,
    measures: Sequence[str] | None = None,
    parameters: Collection[str] | None = None,
) -> pd.DataFrame:
    """One row for each case of a sweep: how many trials, how many recovered, errors, seconds.

    Of the columns that hold results, those that ``measures`` names; all if it is None. The columns
    that hold ``parameters`` are those before the first result if it is None.

    >>> trials = pd.DataFrame({
    ...     "model": ["SEQL", "SEQL"], "seed": [0, 1],
    ...     "true_terms": [True, False], "test_mse": [1e-30, 1e-3],
    ... })
    >>> summary(trials).iloc[0].to_dict()
    {'model': 'SEQL', 'trials': 2, 'true_terms': '1 of 2', 'median test_mse': 0.0005,
     'worst test_mse': 0.001}
    """
    columns = [c for c in table.columns if c not in ORIGIN and not c.endswith("_version")]
    if parameters is not None:
        columns.sort(key=lambda name: name not in parameters)
        begins: int | None = sum(name in parameters for name in columns)
    else:
        begins = next((i for i, name in enumerate(columns) if name in RESULT_BEGINS), None)
    if begins is None:
        raise ValueError(
            f"the columns {', '.join(columns)} are not a sweep's: expected one of "
            f"{', '.join(RESULT_BEGINS)} after the parameters; --rows shows the table as it is"
        )
    case = [c for c in columns[:begins] if c != "seed"]
    measured = [c for c in columns[begins:] if measures is None or c in (*measures, "failure")]
    case.sort(key=lambda name: name in ("model", "models"))  # the models of a case side by side
    if not case:
        return pd.DataFrame([_measures(table, measured)])
    # Sorted stably by the case, so that models keep the order in which they were run.
    groups = table.sort_values(case[:-1], kind="stable") if case[1:] else table
    rows = []
    for values, trials in groups.groupby(case, sort=False, dropna=False):
        rows.append({**dict(zip(case, values, strict=True)), **_measures(trials, measured)})
    return pd.DataFrame(rows)


def _measures(trials: pd.DataFrame, columns: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"trials": len(trials)}
    if "failure" in columns and trials["failure"].notna().any():
        row["failed"] = int(trials["failure"].notna().sum())
    for name in columns:
        values = trials[name].dropna()
        if pd.api.types.is_bool_dtype(values):
            row[name] = f"{values.sum()} of {len(trials)}"
        elif name in TOLD and not values.empty:
            most = values.astype(str).value_counts()
            row[name] = most.index[0]
            if len(most) > 1:
                row[name] += f" ({most.iloc[0]} of {len(trials)})"
        elif not pd.api.types.is_numeric_dtype(values) or values.empty:
            continue
        else:
            row[f"median {name}"] = values.median()
            if name.endswith("seconds"):
                row[f"longest {name}"] = values.max()
            elif "mse" in name or "error" in name:
                row[f"worst {name}"] = values.max()
    return row


def as_text(table: pd.DataFrame) -> str:
    """A table for the screen; squared errors that rounding decides by their bound."""
    return _bounded(table).to_string(index=False, na_rep="", float_format="{:.3g}".format) + "\n"


def _bounded(table: pd.DataFrame) -> pd.DataFrame:
    errors = [c for c in table.columns if "mse" in c and pd.api.types.is_float_dtype(table[c])]
    below = {c: table[c].astype(object).mask(table[c] < ROUNDING, f"<{ROUNDING:g}") for c in errors}
    return table.assign(**below)


def _as_latex(table: pd.DataFrame) -> str:
    """A tabular for the booktabs package."""
    return _bounded(table).to_latex(
        index=False, escape=True, na_rep="", float_format="{:.3g}".format
    )


WRITERS: dict[str, Callable[[pd.DataFrame], str]] = {
    "text": as_text,
    "csv": to_csv,  # in which no text is a formula
    "latex": _as_latex,
}
