"""``peql fit``: from a table in a file to an equation, and a folder that tells of it."""

from __future__ import annotations

import argparse
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from .. import __version__
from .._suggest import unknown_name
from ..columns import select
from . import subcommand
from .files import read_table, to_csv
from .working import check_writable, made_whole, noted, printable, stage, told

MODELS = {"eql": "EQL", "seql": "SEQL", "heql": "HEQL"}
METHODS = ("auto", "network", "search")

EXAMPLES = """\
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
    """Register ``peql fit``."""
    does = "find the equation behind a table: one form, coefficients that vary"
    fit = subcommand(subparsers, "fit", does, command, epilog=EXAMPLES, formatter=_Help)
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


def _whole(least: int) -> Callable[[str], int]:
    """The type of an option: a whole number of at least ``least``."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"{text!r}: expected a whole number of at least {least}")
        return int(text)

    return whole


def command(arguments: argparse.Namespace) -> int:
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
    print(printable(f"{y.name} = {written(model.equation_)}"))
    print(printable(str(judged)))
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
