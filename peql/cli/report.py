"""The result of a fit to a reader's own data as tables and as one HTML page.

Everything that comes from the reader's file, names above all, is text in the page: it is escaped,
and a Content-Security-Policy lets the page run no script and load nothing from anywhere.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from ..equation.tex import mathml, tex
from ..equation.writing import plain, written
from ..plots import coefficient_functions as coefficients
from ..plots import fit_slider as slider
from ..plots import fits, has_labels, residuals, trade_off
from ..style import SHARP

if TYPE_CHECKING:
    from ..analysis.verdict import Verdict

__all__ = ["coefficients", "fits", "residuals", "slider", "trade_off"]  # figures, and what is below

MOST_ROWS = 200  # of a table in the page; the CSV file has them all
IN_WORDS = {
    "agrees_with_the_rows": "agrees with the rows",
    "train_error": "mean squared error",
    "unexplained": "unexplained share",
    "worse_by": "worse by",
    "before": "stands before",
    "standard_error": "standard error",
}


@dataclass(frozen=True)
class Run:
    """What was done, for the page to tell: with what, on which rows, and when."""

    file: str
    command: str
    seed: int
    version: str
    date: str
    rows: int
    dropped: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """A row for each thing."""
        told = {
            "file": self.file,
            "rows used": f"{self.rows:,}",
            "rows left out": f"{self.dropped:,}",
            "command": self.command,
            "seed": self.seed,
            "peql": self.version,
            "date": self.date,
            "seconds": f"{self.seconds:.0f}",
        }
        return pd.DataFrame({"": list(told), " ": [str(value) for value in told.values()]})


# --- tables ----------------------------------------------------------------------------------


def equation_tex(model: Any, y: pd.Series) -> str:
    """The equation in TeX, with names of several letters upright."""
    return tex(model.equation_, "#.3g", left=str(y.name))


def summary(model: Any, X: pd.DataFrame, y: pd.Series) -> pd.DataFrame:
    """What the table holds: smallest, median and largest value of each column, distinct values."""
    table = X.assign(**{str(y.name): y})
    roles = {model.varying_names_[0]: "varying", str(y.name): "target"}

    def of_numbers(statistic: str) -> list[str]:
        numeric = table.select_dtypes("number")
        values = getattr(numeric, statistic)().map("{:.4g}".format)
        return [values.get(c, "") for c in table]

    return pd.DataFrame(
        {
            "role": [roles.get(c, "feature") for c in table],
            "rows": len(table),
            "distinct values": table.nunique(),
            "smallest": of_numbers("min"),
            "median": of_numbers("median"),
            "largest": of_numbers("max"),
        },
        index=list(table),
    )


def rounded(expression: sympy.Expr, digits: int = 3) -> sympy.Expr:
    """The expression with its numbers rounded to so many digits."""
    return expression.xreplace({n: sympy.Float(n, digits) for n in expression.atoms(sympy.Float)})


def jumps_table(breaks: pd.DataFrame) -> pd.DataFrame:
    """The table of ``model.jumps`` with numbers of three digits."""
    numbers = ["t", "low", "high", "size"]
    shown = {c: breaks[c].map(_readable) for c in numbers}
    return breaks.assign(**shown, error=breaks["error"].map("{:.1g}".format))


def _readable(value: float) -> str:
    """Three digits, or all digits before the point, which dates need.

    >>> _readable(0.12345), _readable(8766.4)
    ('0.123', '8766')
    """
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def explanations_table(explained: pd.DataFrame) -> pd.DataFrame:
    """The table of ``model.explain`` with numbers of three digits."""
    expressions = explained["expression"]
    told: Any = [None if e is None else plain(written(e, 3)) for e in expressions]
    return explained.assign(
        low=explained["low"].map(_readable),
        high=explained["high"].map(_readable),
        expression=told,
        error=["" if np.isnan(error) else f"{error:.1%}" for error in explained["error"]],
    )


def checks(judged: Verdict) -> pd.DataFrame:
    """The checks of a verdict, with numbers of three digits."""
    table = judged.checks[["value", "must be", "passed"]].rename_axis(None)
    return table.assign(value=table["value"].map(_short))


def _short(value: float) -> str:
    if not np.isfinite(value):
        return "no rival" if value > 0 else "–"
    return f"{value:.3g}" if abs(value) < 1e3 else f"over {10 ** int(np.log10(abs(value))):.0e}"


def coefficients_with_errors(model: Any) -> pd.DataFrame:
    """The coefficient functions over t, each followed by its standard error."""
    both = {}
    for name in model.coefficients_:
        both[name] = model.coefficients_[name]
        both[f"{name}_standard_error"] = model.coefficient_errors_[name]
    return pd.DataFrame(both, index=model.coefficients_.index)


def equations(table: pd.DataFrame) -> pd.DataFrame:
    """Of ``model.alternatives_`` or ``trade_off``: as text, each once, and last in its row."""
    if "equation" not in table:
        return table
    others = [c for c in table if c != "equation"]
    told = [plain(written(e, 3)) for e in table["equation"]]
    return table.assign(equation=told)[[*others, "equation"]].drop_duplicates("equation")


def runners_up(model: Any) -> pd.DataFrame:
    """The other equations found: how much worse by the criterion, and whether they fit the rows."""
    criterion = model.trials_["criterion"] - model.trials_["criterion"][model.best_trial_]
    others = model.trials_.assign(worse_by=criterion).drop(index=model.best_trial_)
    others = others[others["equation"] != str(model.equation_)].sort_values("worse_by")
    agree = others["equation"].isin(model.alternatives_["equation"])
    columns = ["worse_by", "agrees_with_the_rows", "train_error", "method", "equation"]
    told = others.assign(agrees_with_the_rows=np.where(agree, "yes", "no"))[columns]
    return told.drop_duplicates("equation").reset_index(drop=True)


# --- one page --------------------------------------------------------------------------------


def figures(
    model: Any, X: pd.DataFrame, y: pd.Series, breaks: pd.DataFrame, table: pd.DataFrame
) -> dict[str, tuple[str, Figure | None]]:
    """All figures by name, each with its caption; one that fails is a caption that says so.

    A fit may have taken hours: its result is not lost for a picture.
    """
    along = "with bars" if has_labels(model) else "with a band"
    drawn: dict[str, tuple[str, Callable[[], Figure]]] = {
        "fits": (
            "Measured rows and the equation found, at several values.",
            lambda: fits(model, X, y),
        ),
        "coefficients": (
            f"The coefficient functions, {along} of two standard errors.",
            lambda: coefficients(model, breaks),
        ),
        "residuals": ("What the equation does not explain.", lambda: residuals(model, X, y)),
        "trade_off": ("Error against the number of weights.", lambda: trade_off(table)),
    }
    made: dict[str, tuple[str, Figure | None]] = {}
    for name, (caption, draw) in drawn.items():
        try:
            figure = draw()
            figure.canvas.draw()
            made[name] = caption, figure
        except Exception as error:
            made[name] = f"{caption} It could not be drawn ({type(error).__name__}: {error}).", None
    return made


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src \
'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
math {{ font-size: 1.5rem; }}
.verdict {{ border-left: 0.4rem solid {colour}; padding: 0.5rem 1rem; background: #f6f6f6; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; }}
td:last-child {{ text-align: left; }}
</style></head><body>
<h1>{title}</h1>
<p><math display="block">{equation}</math></p>
<p class="verdict">{verdict}</p>
{body}
</body></html>
"""


def page(
    model: Any,
    y: pd.Series,
    judged: Verdict,
    breaks: pd.DataFrame,
    table: pd.DataFrame,
    drawn: dict[str, tuple[str, Figure | None]],
    *,
    explained: pd.DataFrame | None = None,
    run: Run | None = None,
) -> str:
    """The report as HTML that needs no other file and no network; the equation is MathML."""
    pictures = "\n".join(_figure(caption, figure) for caption, figure in drawn.values())
    none = "<p>None.</p>"
    labels = has_labels(model)  # between labels there is nothing to explain, and no jump
    sections = {
        "": pictures,
        "Numbers that do not vary": _table(model.constants_),
        "What the coefficients are": (
            "" if explained is None or labels else _table(explanations_table(explained)) or none
        ),
        "What was checked": _table(checks(judged), index=True),
        "Jumps and corners": "" if labels else _table(jumps_table(breaks)) or none,
        "Runners-up": _table(runners_up(model)) or none,
        "Error against complexity": _table(equations(table)),
        "Coefficients and their standard errors": _table(
            coefficients_with_errors(model), index=True, file="coefficients.csv", digits=5
        ),
    }
    if run is not None:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in run.notes)
        sections["What was done"] = _table(run.table(), header=False) + f"<ul>{notes}</ul>"
    body = [
        (f"<h2>{html.escape(heading)}</h2>\n" if heading else "") + content
        for heading, content in sections.items()
        if content
    ]
    return _PAGE.format(
        title=html.escape(f"{y.name}: an equation by {type(model).__name__}"),
        colour="#009E73" if judged.trustworthy else "#D55E00",
        equation=mathml(rounded(model.equation_, 4), left=str(y.name)),
        verdict=html.escape(str(judged)),
        body="\n".join(body),
    )


def _table(
    table: pd.DataFrame,
    *,
    index: bool = False,
    header: bool = True,
    file: str | None = None,
    digits: int = 3,
) -> str:
    """HTML of its first rows, every cell escaped; "" if there are none."""
    if not len(table) or not len(table.columns):
        return ""
    page = _to_read(table.head(MOST_ROWS)).to_html(
        index=index,
        header=header,
        escape=True,
        border=0,
        float_format=f"{{:.{digits}g}}".format,
        na_rep="",
    )
    if len(table) > MOST_ROWS:
        rest = f"The first {MOST_ROWS} of {len(table):,} rows."
        link = f" <a href='{html.escape(file)}'>{html.escape(file)}</a> has all." if file else ""
        page += f"<p>{rest}{link}</p>"
    return page


def _to_read(table: pd.DataFrame) -> pd.DataFrame:
    """A table with yes and no for truth values, blanks for gaps, and headings in words.

    >>> table = pd.DataFrame({"a": [1.5], "a_standard_error": [None]}, pd.Index([8473.0], name="t"))
    >>> print(_to_read(table))
    t       a standard error of a
    8473  1.5
    """
    read = table.copy()
    for name, column in table.items():
        if column.dtype == bool:
            read[name] = column.map({True: "yes", False: "no"})
        elif column.dtype == object:
            read[name] = column.where(column.notna(), "")
    name = str(table.index.name or "")
    if read.index.dtype.kind == "f":
        read.index = read.index.map("{:.10g}".format)
    return read.rename(columns=_in_words).rename_axis(index=None).rename_axis(columns=name)


def _in_words(column: str) -> str:
    coefficient, error, _ = column.partition("_standard_error")
    return f"standard error of {coefficient}" if error else IN_WORDS.get(column, column)


def _figure(caption: str, figure: Figure | None) -> str:
    told = html.escape(caption)
    if figure is None:
        return f"<p>{told}</p>"
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=SHARP)
    source = f"src='data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}'"
    width = round(figure.get_figwidth() * SHARP / 2)  # of whose pixels the picture has two for one
    image = f"<img alt='{told}' width='{width}' {source}>"
    return f"<figure>{image}<figcaption>{told}</figcaption></figure>"
