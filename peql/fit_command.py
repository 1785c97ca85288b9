"""``peql fit`` and ``peql predict``: from a table in a file to an equation, and back to numbers."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._suggest import unknown_name

MODELS = {"eql": "EQL", "seql": "SEQL", "heql": "HEQL"}
SHOWN = 5  # rows with missing values that an error names

_FIT = """\
examples:
  peql fit drag.csv --target force --varying temperature
  peql fit drag.csv --target force --varying temperature --model heql --features speed --out drag

The folder then holds report.html (all of it on one page), equation.txt, equation.tex and
equation.srepr (read it with sympy.sympify), coefficients.csv with standard errors, the figures, and
model.npz for peql predict.

exit codes: 0 an equation was found, 1 nothing trustworthy was found (the report says why), 2 the
input cannot be used, 130 interrupted. The folder appears whole or not at all.
"""
_PREDICT = """\
examples:
  peql predict drag/model.npz new.csv --out predicted.csv

The table needs the columns that the model was fitted to; the prediction is one more column.
"""


def add_parser(subparsers: Any) -> None:
    """Register ``fit`` and ``predict``."""
    raw = argparse.RawDescriptionHelpFormatter
    fit = subparsers.add_parser(
        "fit",
        help="find the equation behind a table",
        description="Find the equation behind a table: one form, coefficients that vary.",
        epilog=_FIT,
        formatter_class=raw,
    )
    fit.add_argument("data", type=Path, help="a CSV or Parquet file with a header")
    fit.add_argument("--target", required=True, help="the column to explain")
    fit.add_argument("--varying", required=True, help="the column along which coefficients vary")
    fit.add_argument("--features", nargs="+", help="the columns to explain it by; default: others")
    fit.add_argument("--model", choices=MODELS, default="seql", help="default: seql")
    fit.add_argument("--primitives", nargs="+", default=["default"], help="a set, or names")
    fit.add_argument("--trials", type=int, default=1, help="random restarts; default: 1")
    fit.add_argument("--seed", type=int, default=0, help="default: 0")
    fit.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    fit.add_argument("--out", type=Path, help="a folder to make; default: named after the data")
    fit.set_defaults(run=run_fit)
    predict = subparsers.add_parser(
        "predict",
        help="apply a model that fit wrote",
        description="Apply a model that peql fit wrote to the rows of a table.",
        epilog=_PREDICT,
        formatter_class=raw,
    )
    predict.add_argument("model", type=Path, help="model.npz")
    predict.add_argument("data", type=Path, help="a CSV or Parquet file with a header")
    predict.add_argument("--out", type=Path, help="a CSV file to write; default: print")
    predict.set_defaults(run=run_predict)


# --- reading ---------------------------------------------------------------------------------


def read_table(path: Path) -> pd.DataFrame:
    """The table in a CSV (``.csv``, ``.tsv``, ``.txt``) or Parquet file; what is wrong is said."""
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": pd.read_csv,
        ".txt": pd.read_csv,
        ".tsv": lambda p: pd.read_csv(p, sep="\t"),
        ".parquet": pd.read_parquet,
        ".pq": pd.read_parquet,
    }
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    if path.suffix.lower() not in readers:
        known = ", ".join(readers)
        raise ValueError(f"{path}: files that end in {path.suffix!r} are not read, only {known}")
    try:
        table = readers[path.suffix.lower()](path)
    except (ValueError, OSError) as error:  # of pandas and pyarrow, in many kinds
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    if table.empty:
        raise ValueError(f"{path} has no rows: expected a header and at least two rows")
    if len(table.columns) == 1 and (";" in table.columns[0] or "\t" in table.columns[0]):
        raise ValueError(f"{path} has one column, {table.columns[0]!r}: separate columns by commas")
    return table


def select(
    table: pd.DataFrame,
    target: str,
    varying: str,
    features: list[str] | None = None,
    *,
    drop_missing: bool = False,
) -> tuple[pd.DataFrame, pd.Series]:
    """The features with the varying column, and the target, as numbers without gaps.

    >>> table = pd.DataFrame({"x": [1, 2], "t": [0, 0], "y": [3.0, 4.0], "note": ["p", "q"]})
    >>> X, y = select(table, "y", "t", ["x"])
    >>> list(X.columns), y.name
    (['x', 't'], 'y')
    """
    known = [str(c) for c in table.columns]
    table = table.set_axis(known, axis=1)
    if features is None:
        features = [c for c in known if c not in (target, varying)]
    for kind, name in [
        ("target", target),
        ("varying", varying),
        *(("feature", f) for f in features),
    ]:
        if name not in known:
            raise unknown_name(f"{kind} column", name, known)
    columns = [*features, varying, target]
    twice = sorted({c for c in columns if columns.count(c) > 1})
    if twice:
        raise ValueError(
            f"columns {twice} are asked for twice: target, varying and features must differ"
        )
    if not features:
        raise ValueError(
            f"the table has no column besides {target!r} and {varying!r}: the equation needs a "
            "feature"
        )
    chosen = table[columns]
    other = [c for c in columns if not pd.api.types.is_numeric_dtype(chosen[c].dtype)]
    if other:
        example = {c: str(chosen[c].iloc[0]) for c in other}
        raise ValueError(
            f"columns that hold no numbers: {example}. Name the numeric columns with --features, "
            "or correct these"
        )
    chosen = chosen.astype(float)
    bad = ~np.isfinite(chosen.to_numpy())
    if bad.any() and not drop_missing:
        counts = ", ".join(
            f"{c!r} has {n}" for c, n in zip(columns, bad.sum(axis=0), strict=True) if n
        )
        rows = np.flatnonzero(bad.any(axis=1))
        shown = ", ".join(str(r + 1) for r in rows[:SHOWN]) + (" …" if len(rows) > SHOWN else "")
        raise ValueError(
            f"values are missing or infinite: {counts} (data rows {shown}). Fill them, or leave "
            "the rows out with --drop-missing"
        )
    chosen = chosen[~bad.any(axis=1)].reset_index(drop=True)
    if len(chosen) < 2:
        raise ValueError(f"{len(chosen)} complete rows are left: at least two are needed")
    return chosen[[*features, varying]], chosen[target]


# --- the two commands ------------------------------------------------------------------------


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit and write the folder; 0 if the result is trustworthy, 1 if not."""
    out = arguments.out or Path(f"{arguments.data.stem}-peql")
    if out.exists():
        raise FileExistsError(f"{out} exists: name another folder with --out, or remove it")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"{out}: there is no folder {out.absolute().parent}; make it first")
    X, y = select(
        read_table(arguments.data),
        arguments.target,
        arguments.varying,
        arguments.features,
        drop_missing=arguments.drop_missing,
    )
    import torch

    import peql

    from .primitives import SETS
    from .verdict import trade_off, verdict

    chosen = arguments.primitives
    if len(chosen) == 1 and chosen[0] in SETS:
        chosen = chosen[0]
    torch.set_num_threads(1)  # the same seed gives the same equation on any machine
    model = getattr(peql, MODELS[arguments.model])(
        varying=arguments.varying,
        primitives=chosen,
        n_trials=arguments.trials,
        random_state=arguments.seed,
    )
    model.fit(X, y)
    judged = verdict(model, X, y)
    table = trade_off(model, X, y)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.absolute().parent))
    try:
        write(part, model, X, y, judged, table)
        part.chmod(0o755)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print(f"{y.name} = {model.equation_}")
    print(judged)
    print(f"written to {out}/, see report.html")
    return 0 if judged.trustworthy else 1


def write(
    folder: Path, model: Any, X: pd.DataFrame, y: pd.Series, judged: Any, table: pd.DataFrame
) -> None:
    """All files of the report into an existing ``folder``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import sympy

    from . import report

    breaks = model.jumps()
    texts = {
        "equation.txt": f"{y.name} = {model.equation_}\n{judged}",
        "equation.tex": model.latex(),
        "equation.srepr": sympy.srepr(model.equation_),
    }
    for name, content in texts.items():
        (folder / name).write_text(content + "\n", encoding="utf-8")
    report.coefficients_with_errors(model).to_csv(folder / "coefficients.csv")
    model.save(folder / "model.npz")
    drawn = report.figures(model, X, y, breaks, table)
    page = report.page(model, y, judged, breaks, table, drawn)
    (folder / "report.html").write_text(page, encoding="utf-8")
    for name, (_, figure) in drawn.items():
        figure.savefig(folder / f"{name}.png")
        plt.close(figure)


def run_predict(arguments: argparse.Namespace) -> int:
    """Apply a stored model to a table."""
    from .checkpoint import load
    from .results import write_table

    model = load(arguments.model)
    table = read_table(arguments.data)
    missing = [c for c in model._columns if c not in table.columns]
    if missing:
        raise ValueError(
            f"{arguments.data} has no columns {missing}, which the model was fitted to; it has "
            f"{[str(c) for c in table.columns]}"
        )
    predicted = table.assign(predicted=model.predict(table[model._columns]))
    if arguments.out is None:
        print(predicted.to_csv(index=False), end="")
        return 0
    write_table(predicted, arguments.out)
    return 0
