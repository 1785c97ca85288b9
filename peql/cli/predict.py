"""``peql predict``: a model that ``peql fit`` wrote, applied to the rows of a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..columns import as_fitted
from ..results import write_whole
from . import subcommand
from .files import read_table, to_csv
from .working import check_writable, noted, told

EXAMPLES = """\
examples:
  peql predict drag/model.npz new.csv --out predicted.csv

The table needs the columns that the equation uses; the prediction is one more column, "predicted".
A text that a spreadsheet would run as a formula gets an apostrophe before it.
"""


def add_parser(subparsers: Any) -> None:
    """Register ``peql predict``."""
    does = "apply a model that peql fit wrote to the rows of a table"
    parser = subcommand(subparsers, "predict", does, command, epilog=EXAMPLES)
    parser.add_argument("model", type=Path, help="model.npz")
    parser.add_argument("data", type=Path, help="a CSV, Parquet or Excel file with a header")
    parser.add_argument("--out", type=Path, help="a CSV file to make; default: print")


def command(arguments: argparse.Namespace) -> int:
    """Apply a stored model to a table."""
    from ..estimators.loading import load

    if arguments.out is not None:
        check_writable(arguments.out)
    model = load(arguments.model)
    notes: list[str] = []
    with told(notes):
        table = read_table(arguments.data, notes)
    if "predicted" in table:
        raise ValueError(f"{arguments.data} has a column 'predicted' already: rename it")
    with noted(notes):
        predicted = table.assign(predicted=model.predict(rows_for(model, table, arguments.data)))
    content = to_csv(predicted)
    if arguments.out is None:
        print(content, end="")
    else:
        write_whole(arguments.out, content)
    return 0


def rows_for(model: Any, table: pd.DataFrame, name: object = "the table") -> pd.DataFrame:
    """Rows for ``model.predict`` from a table that may lack what the equation does not use."""
    columns: Sequence[str] = [str(c) for c in model._columns]
    varying = [str(v) for v in model.varying_names_]
    used = {s.name for s in model.equation_.free_symbols} if model.refine else set(columns)
    missing = [c for c in columns if c in used and c not in table.columns]
    if missing:
        raise ValueError(
            f"{name} has no columns {missing}, which the equation uses; it has "
            f"{[str(c) for c in table.columns]}"
        )
    needed = [c for c in columns if c in used and c not in varying]
    needed += [c for c in varying if c in used]
    rows = as_fitted(
        table, needed, labels=model.solution_.labels is not None and varying[0] in used
    )
    bad = [c for c in needed if rows[c].isna().any()]
    if bad:
        raise ValueError(f"{name}: values are missing in {bad}: fill them or remove the rows")
    known = model.coefficients_.index[0]
    first = dict(zip(varying, known if isinstance(known, tuple) else (known,), strict=True))
    unused = {c: first.get(c, 1.0) for c in columns if c not in used}
    return rows.assign(**unused)[list(columns)]
