"""``peql fit`` and ``peql predict``: from a table in a file to an equation, and back to numbers."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from .. import __version__
from .._suggest import unknown_name
from ..columns import as_fitted
from ..columns import select as select
from . import subcommand
from .files import read_table as read_table
from .files import to_csv

MODELS = {"eql": "EQL", "seql": "SEQL", "heql": "HEQL"}
METHODS = ("auto", "network", "search")
PULSE = 15  # seconds after which a step that still runs says so again

_FIT = """\
examples:
  peql fit drag.csv --target force --varying temperature
  peql fit drag.csv --target force --varying temperature --model heql --features speed --out drag
  peql fit decay.csv --target n --varying sample --primitives growth --trials 4

tables:
  CSV with any separator, decimal point or comma, UTF-8 or Latin-1, comment lines (# or %), lines
  of text above the header or of units below it; Parquet (peql[parquet]); the first sheet of Excel's
  .xlsx (peql[excel]). Dates become days since 2000-01-01, times (10:30) hours; a varying column of
  text is a label each. A few words among numbers ("n.d.") are gaps, and rows with gaps are refused
  unless --drop-missing is given. Columns that can be no term (constant, empty, repeated, numbering
  the rows, constant at each value of the varying column) are left out with a note.

primitives, each a set or names of your own choice:
{sets}

The folder then holds report.html (all of it on one page), equation.txt, equation.tex and
equation.srepr (read it with sympy.sympify), coefficients.csv with standard errors, the figures, and
model.npz for peql predict. In CSV files a text that a spreadsheet would run as a formula has an
apostrophe before it; peql reads it without.

exit codes: 0 an equation was found, 1 nothing trustworthy was found (the report says why), 2 the
input cannot be used, 130 interrupted. The folder appears whole or not at all.
"""
_PREDICT = """\
examples:
  peql predict drag/model.npz new.csv --out predicted.csv

The table needs the columns that the equation uses; the prediction is one more column, "predicted".
A text that a spreadsheet would run as a formula gets an apostrophe before it.
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help that lists the sets of primitives; torch is loaded only when it is asked for."""

    def format_help(self) -> str:
        written = super().format_help()
        if "{sets}" not in written:  # the usage alone
            return written
        from ..primitives import SETS, resolve

        sets = (f"  {name}: {', '.join(p.name for p, _ in resolve(name))}" for name in SETS)
        return written.replace("{sets}", "\n".join(sets))


def add_parser(subparsers: Any) -> None:
    """Register ``fit`` and ``predict``."""
    does = "find the equation behind a table: one form, coefficients that vary"
    fit = subcommand(subparsers, "fit", does, run_fit, epilog=_FIT, formatter=_Help)
    fit.add_argument("data", type=Path, help="a CSV, Parquet or Excel file with a header")
    fit.add_argument("--target", required=True, help="the column to explain")
    fit.add_argument("--varying", required=True, help="the column along which coefficients vary")
    fit.add_argument("--features", nargs="+", help="the columns to explain it by; default: others")
    fit.add_argument("--model", choices=MODELS, default="seql", help="default: seql")
    does = "search over forms, train a network, or both and keep the better (auto, the default)"
    fit.add_argument("--method", choices=METHODS, default="auto", help=does)
    fit.add_argument(
        "--primitives", nargs="+", default=["default"], help="a set, or names; see below"
    )
    fit.add_argument("--trials", type=_whole(1), default=1, help="random restarts; default: 1")
    fit.add_argument("--seed", type=_whole(0), default=0, help="default: 0")
    fit.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    fit.add_argument("--out", type=Path, help="a folder to make; default: named after the data")
    does = "apply a model that peql fit wrote to the rows of a table"
    predict = subcommand(subparsers, "predict", does, run_predict, epilog=_PREDICT)
    predict.add_argument("model", type=Path, help="model.npz")
    predict.add_argument("data", type=Path, help="a CSV, Parquet or Excel file with a header")
    predict.add_argument("--out", type=Path, help="a CSV file to make; default: print")


def _whole(least: int) -> Callable[[str], int]:
    """The type of an option: a whole number of at least ``least``."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"{text!r}: expected a whole number of at least {least}")
        return int(text)

    return whole


# --- where to write, and what is going on ----------------------------------------------------


def check_writable(out: Path) -> None:
    """Raise unless ``out`` is new and can be made: before the work, not after it."""
    if out.exists() or out.is_symlink():
        raise FileExistsError(f"{out} exists: name another with --out, or remove it")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{out}: there is no folder {folder}; make it first")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{out.name}.", suffix=".part"):
            pass
    except OSError as error:
        raise OSError(f"{out}: cannot write into {folder} ({error.strerror})") from None


def _printable(text: str) -> str:
    """Replace control characters: names and notes come from the reader's file."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _say(line: str) -> None:
    tqdm.write(_printable(line), file=sys.stderr)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Say what is going on, and again every ``PULSE`` seconds while it is."""
    _say(f"{name} …")
    started, done = time.perf_counter(), threading.Event()

    def pulse() -> None:
        while not done.wait(PULSE):
            _say(f"  still {name}, {time.perf_counter() - started:.0f} s")

    thread = threading.Thread(target=pulse, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def told(notes: list[str]) -> Iterator[None]:
    """Say the ``notes`` that were taken, also if they ended in an error, which they may explain."""
    try:
        yield
    finally:
        for note in notes:
            _say(f"note: {note}")


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Print each warning once, without the line of code, and add it to ``notes``."""
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as warned:
        yield
    for warning in dict.fromkeys(str(each.message) for each in warned):
        notes.append(warning)
        _say(f"note: {warning}")


# --- fit -------------------------------------------------------------------------------------


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit and write the folder; 0 if the result is trustworthy, 1 if not."""
    started = time.perf_counter()
    out = arguments.out or Path(f"{arguments.data.stem}-peql")
    check_writable(out)
    notes: list[str] = []
    model = make_model(arguments)
    with stage(f"reading {arguments.data.name}"), told(notes):
        table = read_table(arguments.data, notes)
        X, y = select(
            table,
            arguments.target,
            arguments.varying,
            arguments.features,
            drop_missing=arguments.drop_missing,
            grouped=arguments.model != "eql",
            notes=notes,
        )
    steps = X[arguments.varying].nunique()
    with (
        noted(notes),
        stage(f"fitting {len(X):,} rows at {steps:,} values of {arguments.varying}"),
    ):
        model.fit(X, y)
    from ..analysis.verdict import trade_off, verdict
    from ..equation.writing import written
    from . import report

    with stage("judging the equation"):
        judged = verdict(model, X, y)
        simpler = trade_off(model, y)
    with stage("explaining the coefficients"):
        breaks, explained = model.jumps(), _explained(model, notes)
    run = report.Run(
        file=str(arguments.data),
        command=arguments.command_line,
        seed=arguments.seed,
        version=__version__,
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        rows=len(X),
        dropped=len(table) - len(X),
        seconds=time.perf_counter() - started,
        notes=notes,
    )
    with stage("writing the report"), made_whole(out) as part:
        write(part, model, X, y, judged, simpler, breaks, explained, run)
    print(_printable(f"{y.name} = {written(model.equation_)}"))
    print(_printable(str(judged)))
    if not judged.trustworthy:
        labels = model.solution_.labels is not None
        n_features, rivals = len(model.feature_names_), bool(judged.alternatives)
        print(advice(arguments, labels=labels, n_features=n_features, rivals=rivals))
    print(f"report: {out / 'report.html'}")
    return 0 if judged.trustworthy else 1


def make_model(arguments: argparse.Namespace) -> Any:
    """The estimator that the arguments ask for."""
    import peql

    from ..primitives import SETS, names

    chosen: Any = arguments.primitives
    for name in chosen:  # a mistyped one is told now
        if name not in (known := [*(SETS if len(chosen) == 1 else ()), *names()]):
            raise unknown_name("primitive or set", name, known)
    if len(chosen) == 1 and chosen[0] in SETS:
        chosen = chosen[0]
    kind = getattr(peql, MODELS[arguments.model])
    return kind(
        varying=arguments.varying,
        primitives=chosen,
        n_trials=arguments.trials,
        random_state=arguments.seed,
        method=arguments.method,
    )


def advice(
    arguments: argparse.Namespace, labels: bool = False, n_features: int = 2, rivals: bool = False
) -> str:
    """What to try when nothing trustworthy was found; ``rivals``: several forms were."""
    from ..primitives import SETS

    tried = arguments.primitives[0] if len(arguments.primitives) == 1 else None
    # The search has tried all functions if none were asked for, and it has no restarts.
    sets = [name for name in SETS if name != tried]
    if tried != "default" or arguments.method == "network":
        ideas = [f"other functions (--primitives {' or '.join(sets)})"]
    else:
        ideas = []
    if arguments.method == "search":
        ideas.append("networks, too (--method auto)")
    else:
        ideas.append(f"more restarts (--trials {max(4, 2 * arguments.trials)})")
    if arguments.method == "network":
        ideas.append("the search (--method search)")
    if arguments.model == "seql" and not labels:  # between labels HEQL has nothing to learn
        ideas.append("--model heql if there are few rows at each value")
    if n_features > 1:
        ideas.append("fewer columns (--features)")
    if rivals:
        ideas.insert(0, "rows over a wider range, or more exact ones, which would tell them apart")
    return f"To try: {', or '.join(ideas)}."


def _explained(model: Any, notes: list[str]) -> pd.DataFrame | None:
    """The explanations of the coefficients; None, with a note, if that fails."""
    try:
        return model.explain()
    except (ValueError, RuntimeError, ArithmeticError) as error:
        notes.append(f"the coefficients could not be explained: {error}")
        return None


@contextmanager
def made_whole(out: Path) -> Iterator[Path]:
    """A folder to fill that becomes ``out`` in the end, or nothing if the work fails."""
    folder = out.absolute().parent
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=folder))
    try:
        yield part
        part.chmod(0o755)
        try:
            part.rename(out)
        except OSError as error:  # someone else made it meanwhile: the work is not to be lost
            other = Path(tempfile.mkdtemp(prefix=f"{out.name}-", dir=folder))
            part.rename(other)
            raise FileExistsError(f"{out} appeared meanwhile; the result is in {other}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write(
    folder: Path,
    model: Any,
    X: pd.DataFrame,
    y: pd.Series,
    judged: Any,
    simpler: pd.DataFrame,
    breaks: pd.DataFrame,
    explained: pd.DataFrame | None,
    run: Any,
) -> None:
    """All files of the report into an existing ``folder``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import sympy

    from ..equation.writing import written
    from ..style import SHARP
    from . import report

    typeset = report.equation_tex(model, y)
    texts = {
        "equation.txt": f"{y.name} = {written(model.equation_)}\n{judged}\n",
        "equation.tex": f"% needs amsmath\n\\begin{{equation}}\n  {typeset}\n\\end{{equation}}\n",
        "equation.srepr": sympy.srepr(model.equation_) + "\n",
        "coefficients.csv": to_csv(report.coefficients_with_errors(model), index=True),
    }
    for name, content in texts.items():
        (folder / name).write_text(content, encoding="utf-8")
    model.save(folder / "model.npz")
    drawn = report.figures(model, X, y, breaks, simpler)
    page = report.page(model, y, judged, breaks, simpler, drawn, explained=explained, run=run)
    (folder / "report.html").write_text(page, encoding="utf-8")
    for name, (_, figure) in drawn.items():
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=SHARP)
            plt.close(figure)


# --- predict ---------------------------------------------------------------------------------


def run_predict(arguments: argparse.Namespace) -> int:
    """Apply a stored model to a table."""
    from ..estimators.loading import load
    from ..results import write_whole

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
    from ..plots import has_labels

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
    rows = as_fitted(table, needed, labels=has_labels(model) and varying[0] in used)
    bad = [c for c in needed if rows[c].isna().any()]
    if bad:
        raise ValueError(f"{name}: values are missing in {bad}: fill them or remove the rows")
    known = model.coefficients_.index[0]
    first = dict(zip(varying, known if isinstance(known, tuple) else (known,), strict=True))
    unused = {c: first.get(c, 1.0) for c in columns if c not in used}
    return rows.assign(**unused)[list(columns)]
