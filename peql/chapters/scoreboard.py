"""Every number of the paper's tables beside ours, from the tables in ``results/``.

A *cell* is one number of a table of the paper and its counterparts here: ``again``, the paper's own
protocol, and ``ours``, with refinement. Less is better in all of them. Cells whose sweep has left
no table yet have no number here, and say how to get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from .. import datasets, results
from ..datasets import analytic, pde
from ..equation.tex import inline
from ..equation.writing import ROUNDING, scientific, text
from ..style import styled
from . import paper, pdes
from .analytic import best_printed, bounded, in_terms

SWEEPS = ("analytic", "pde", "spring")
PDES = ("advection_diffusion", "burgers")
MODELS = ("SINDy", "SEQL", "HEQL")
AHEAD, TIE, BEHIND, APART = "ahead", "tie", "behind", "not compared"
MEANINGS = {
    AHEAD: "the smaller error is ours",
    TIE: "equal within the digits that the paper prints",
    BEHIND: "the smaller error is the paper's",
    APART: "the two numbers do not measure the same",
}


DIGITS = 0.005  # relative; errors are printed with three digits


class Cell(NamedTuple):
    """One number of the paper, and ours; ``where`` is its row, ``what`` the kind of number.

    Where the paper prints an equation, the number is its error, and both equations are here.
    """

    table: str
    where: str
    what: str
    model: str
    paper: float
    ours: float
    printed: str = ""
    true: str = ""
    again: float = np.nan
    rounding: float = 0.0
    apart: str = ""

    @property
    def outcome(self) -> str:
        """``AHEAD``, ``TIE``, ``BEHIND`` or ``APART``, as ours compares."""
        return self.judge(self.ours)

    @property
    def outcome_again(self) -> str:
        """The same for the paper's protocol run here."""
        return self.judge(self.again)

    def judge(self, ours: float) -> str:
        """The outcome for a number of ours.

        Numbers that do not measure the same (``apart`` says why) are not compared. A tie is what
        the paper's digits cannot tell apart: ``rounding`` is the error that rounding alone makes.
        """
        if self.apart or np.isnan(ours):
            return APART
        if max(ours, self.paper) <= self.rounding or abs(ours / self.paper - 1) < DIGITS:
            return TIE
        return AHEAD if ours < self.paper else BEHIND

    def columns(self) -> dict[str, tuple[float, str]]:
        """Our numbers with their outcomes by column; without the protocol where it was not run."""
        again = (self.again, self.outcome_again)
        protocol = {} if np.isnan(self.again) else {"its protocol, here": again}
        return {**protocol, "with refinement": (self.ours, self.outcome)}

    def compared(self, floor: float = ROUNDING) -> dict[str, str]:
        """The columns as text: behind each number that can be compared, its outcome."""
        return {
            head: _number(ours, floor) + ("" if outcome == APART else f", {outcome}")
            for head, (ours, outcome) in self.columns().items()
        }


def stored(name: str, folder: Path | None = None) -> pd.DataFrame | None:
    """The table of a sweep, or None if it has not been run."""
    path = (folder or results.folder()) / f"{name}.csv"
    return pd.read_csv(path) if path.exists() else None


def cells(folder: Path | None = None) -> list[Cell]:
    """All cells; ``folder`` holds the sweeps' tables.

    >>> sorted({cell.table for cell in cells()})
    ['analytic_equations', 'analytic_mse', 'pde_equations', 'pde_mse', 'speed', 'spring_equations']
    """
    return [
        *_analytic(stored("analytic", folder), stored("paper_protocol", folder)),
        *_pde(stored("pde", folder)),
        *_spring(stored("spring", folder)),
    ]


# --- the numbers in an equation -------------------------------------------------------------


def numbers(equation: sympy.Expr) -> dict[str, float]:
    """The numbers of an equation, named by the term that they stand in.

    >>> numbers(sympy.parse_expr("0.999*sin(1.191*x) - 0.5*x"))
    {'sin(x)': 0.999, 'sin(x), inside': 1.191, 'x': -0.5}
    """
    found: dict[str, float] = {}
    for term in sympy.Add.make_args(equation):
        factor, rest = term.as_coeff_Mul()
        inside = sorted(rest.atoms(sympy.Float))
        name = str(rest.xreplace(dict.fromkeys(inside, sympy.Integer(1))))
        found[name] = float(factor)
        found.update({f"{name}, inside": float(number) for number in inside})
    return {name: found[name] for name in sorted(found)}


def number_errors(printed: sympy.Expr, true: sympy.Expr) -> np.ndarray:
    """The errors of the numbers; a term that only one of the two has counts with 0 in the other.

    >>> number_errors(*map(sympy.parse_expr, ("1.5*x + 0.5", "1.0*x"))).tolist()
    [0.5, 0.5]
    """
    left, right = numbers(printed), numbers(true)
    return np.array([left.get(k, 0.0) - right.get(k, 0.0) for k in sorted({*left, *right})])


def _true_equation(kind: Any, equation: sympy.Expr, name: str, value: float) -> sympy.Expr:
    """``equation`` with the true coefficients of ``name`` at ``value``; ``kind`` knows them."""
    row = kind.truth(name, np.array([value])).iloc[0]
    letters = {function: function.func.__name__ for function in equation.atoms(sympy.Function)}
    known = {f: sympy.Float(row[letter]) for f, letter in letters.items() if letter in row}
    return equation.subs(known)


def _nearest(grid: np.ndarray, value: float) -> float:
    """The point of the grid nearest to what the paper prints with few digits."""
    return float(grid[np.abs(grid - value).argmin()])


# --- cells of each sweep --------------------------------------------------------------------


def _trials(table: pd.DataFrame | None, **chosen: Any) -> pd.DataFrame | None:
    if table is None:
        return None
    kept = table[np.logical_and.reduce([table[k] == v for k, v in chosen.items()])]
    return kept if len(kept) else None


def _analytic(table: pd.DataFrame | None, protocol: pd.DataFrame | None) -> Iterator[Cell]:
    statistics = {"best": "min", "mean": "mean", "std": "std"}
    t = paper.table("analytic_equations", "t")
    for function, benchmark in analytic.BENCHMARKS.items():
        for model in ("SEQL", "HEQL"):
            trials = _trials(table, function=function, model=model)
            rerun = _trials(protocol, function=function, model=model)
            for kind, statistic in statistics.items():
                printed = paper.table("analytic_mse", kind, function, model)
                ours, again = (
                    np.nan if runs is None else float(runs["test_mse_scaled"].agg(statistic))
                    for runs in (trials, rerun)
                )
                apart = "a spread is no error" if kind == "std" else ""
                where = ("analytic_mse", function, kind, model)
                yield Cell(*where, printed, ours, again=again, apart=apart)
            worst = np.nan if trials is None else trials["coefficient_error"].max()
            found = None if rerun is None else rerun[rerun["true_terms"]]
            best = [] if found is None else best_printed(found, function, model)
            for k, value in enumerate(t):
                point = _nearest(analytic.paper_grid(), value)
                true = _true_equation(analytic, benchmark.equation, function, point)
                printed = paper.equation("analytic_equations", function, model, index=k)
                error = np.abs(number_errors(printed, true)).max()
                again = np.nan
                if best:
                    again = np.abs(number_errors(sympy.parse_expr(best[k]), true)).max()
                what = f"t = {value}"
                written = _written("analytic_equations", function, model, k), text(true)
                rounding = 0.0005 if function in ("f1", "f2") else 0.005
                where = ("analytic_equations", function, what, model)
                rounding *= ROUNDED
                yield Cell(*where, error, worst, *written, again=again, rounding=rounding)
    for model, seconds in paper.table("speed", "seconds").items():
        trials, rerun = _trials(table, model=model), _trials(protocol, model=model)
        ours = np.nan if trials is None else trials["cpu_seconds"].median()
        again = np.nan if rerun is None else rerun["cpu_seconds"].median()
        where = ("speed", "all functions", "seconds a trial", model)
        yield Cell(*where, seconds, ours, again=again, apart="a GPU there, one CPU core here")


EXACT = 1e-10  # the error of a number below which it is rounding
ROUNDED = 1.001  # a printed number is off by half a unit at most, give or take binary digits


def _pde(table: pd.DataFrame | None) -> Iterator[Cell]:
    for name in PDES:
        for cross in (True, False):
            case = f"{name}_cross" if cross else name
            where = pdes.case_title(name, cross)
            for model in MODELS:
                trials = _trials(table, equation=name, cross_terms=cross, model=model)
                best = (
                    None if trials is None else trials.iloc[trials["u_t_mse"].to_numpy().argmin()]
                )
                for what in ("u_t", "coefficient"):
                    printed = paper.table("pde_mse", what, case, model)
                    ours, apart = np.nan if best is None else best[f"{what}_mse"], ""
                    if model == "SINDy" and best is not None:
                        ours = dict(zip(("u_t", "coefficient"), sindy(name, cross), strict=True))[
                            what
                        ]
                        apart = "counted in another way" * (what == "coefficient")
                    place = ("pde_mse", where, f"{what} MSE", model)
                    yield Cell(*place, printed, ours, apart=apart)
        problem, rows = pde.PROBLEMS[name], paper.table("pde_equations", name)
        grids = {
            "x": np.linspace(-problem.half_width, problem.half_width, problem.n_x, endpoint=False),
            "t": np.linspace(0, problem.t_end, problem.n_t),
        }
        for model in ("SEQL", "HEQL"):
            trials = _trials(table, equation=name, cross_terms=False, model=model)
            worst = np.nan if trials is None else np.sqrt(trials["coefficient_mse"].max())
            for k, value in enumerate(rows[str(problem.varying)]):
                point = _nearest(grids[str(problem.varying)], value)
                true = _true_equation(pde, pde.equation(name), name, point)
                printed = paper.equation("pde_equations", name, model, index=k)
                error = np.sqrt(np.mean(number_errors(printed, true) ** 2))
                what = f"{problem.varying} = {value}"
                written = _written("pde_equations", name, model, k), text(true, ".2f")
                place = ("pde_equations", pdes.title(name), what, model)
                yield Cell(*place, error, worst, *written, rounding=ROUNDED * 0.005)


@cache
def sindy(name: str, cross: bool) -> tuple[float, float]:
    """SINDy's two errors as the paper measured them: on 256 × 256 points.

    Without cross terms Burgers' candidates are u and its derivatives; advection–diffusion needs
    no products.
    """
    options: dict[str, Any] = {"cross_terms": True} if cross else {"order": 4}
    data = datasets.load(name, n_x=256, n_t=256, **options)
    model = pdes.sindy(data)
    return pdes.u_t_mse(model, data), pdes.coefficient_mse(
        model.equation_, model.coefficients_, data
    )


def _spring(table: pd.DataFrame | None) -> Iterator[Cell]:
    """The relative error of k(t), carried over to positions."""
    for target, power in (("force", 1), ("energy", 2)):
        model = paper.table("spring_equations", target, "model")
        trials = _trials(table, target=f"spring_{target}", model=model)
        worst = np.nan if trials is None else trials["k_error"].max()
        for k, value in enumerate(paper.table("spring_equations", "t")):
            t = _nearest(analytic.paper_grid(), value)
            size = (5 - t) / 2 / power
            psi1, psi2 = sympy.symbols("psi1 psi2")
            law = sympy.expand(sympy.Float(size) * (psi1 - psi2) ** power)
            printed = paper.equation("spring_equations", target, "transformed", index=k)
            error = np.abs(number_errors(printed, law)).max() / size
            written = _written("spring_equations", target, "transformed", k), text(law, ".2f")
            where = ("spring_equations", target, f"t = {value}", model)
            yield Cell(*where, error, worst, *written, rounding=ROUNDED * 0.005 * power / size)


def _written(table: str, *keys: Any) -> str:
    *names, index = keys
    return paper.table(table, *names)[index]


# --- what the page shows --------------------------------------------------------------------


def shown(cells: Iterable[Cell], name: str) -> pd.DataFrame:
    """The cells of one table of the paper: a row each, the three columns, the outcome."""
    chosen = [cell for cell in cells if cell.table == name]
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for cell in sorted(chosen, key=lambda cell: MODELS.index(cell.model)):
        what = cell.what.replace("u_t", pdes.U_T)
        row = rows[cell.model, _name(cell.where), what] = {"paper": _paper(cell.paper)}
        row |= cell.compared()
        if any(other.apart for other in chosen):
            row["not compared because"] = cell.apart
    return pd.DataFrame.from_dict(rows, orient="index").fillna("not measured")


def _paper(value: float) -> str:
    """A number of the paper as it prints it."""
    return scientific(value, 3) if value < 1 else f"{value:.0f}"


def equations(cells: Iterable[Cell], name: str, model: str) -> pd.DataFrame:
    """The equations that one table of the paper prints for ``model``, with errors."""
    rows = {}
    for cell in cells:
        if (cell.table, cell.model) != (name, model):
            continue
        rows[_name(cell.where), rf"\({cell.what}\)"] = {
            "true": in_terms(cell.true),
            "paper": in_terms(cell.printed, cell.true),
            "error, paper": scientific(cell.paper, 1),
            **cell.compared(EXACT),
        }
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–")


def tally(cells: Iterable[Cell]) -> pd.DataFrame:
    """How many cells of each table have which outcome, for both columns of ours."""
    counted = [
        (TITLES[cell.table], head, outcome)
        for cell in cells
        for head, (_, outcome) in cell.columns().items()
    ]
    table = pd.DataFrame(counted, columns=["table", "column", "outcome"])
    counts = table.value_counts().unstack("outcome", fill_value=0)
    counts = counts.reindex(columns=list(MEANINGS), fill_value=0).sort_index()
    counts.index.names = [None, None]
    return counts.rename_axis(columns=None)


TITLES = {
    "analytic_mse": "analytic functions, errors",
    "analytic_equations": "analytic functions, equations",
    "pde_mse": "PDEs, errors",
    "pde_equations": "PDEs, equations",
    "spring_equations": "springs, equations",
    "speed": "speed",
}
LEAST = 1e-7  # ratios below this are drawn here
COLOURS = {AHEAD: "#0072B2", TIE: "#999999", BEHIND: "#D55E00"}


@styled
def picture(cells: Iterable[Cell]) -> Figure:
    """Ours / paper of every cell that can be compared, on a logarithmic scale, by table.

    Above the line of a table the paper's protocol run here, below it the refined results.
    """
    chosen = [cell for cell in cells if not cell.apart]
    tables = [name for name in TITLES if any(cell.table == name for cell in chosen)]
    figure, ax = plt.subplots(figsize=(5.6, 0.75 * len(tables) + 1.2))
    for place, name in enumerate(tables):
        for side, marker, column in ((-0.2, "o", "ours"), (0.2, "D", "again")):
            label = {"ours": "with refinement", "again": "the paper's protocol, here"}[column]
            found = [
                (cell.judge(getattr(cell, column)), getattr(cell, column) / cell.paper)
                for cell in chosen
                if cell.table == name and not np.isnan(getattr(cell, column))
            ]
            found.sort(key=lambda pair: list(COLOURS).index(pair[0]))
            heights = place + side + np.linspace(-0.17, 0.17, len(found))
            for outcome, colour in COLOURS.items():
                here = [k for k, (judged, _) in enumerate(found) if judged == outcome]
                ax.scatter(
                    [max(found[k][1], LEAST) for k in here],
                    heights[here],
                    marker=marker,
                    s=16,
                    edgecolor=colour,
                    facecolor=colour if column == "ours" else "none",
                    linewidth=0.9,
                    label=f"{outcome}, {label}",
                )
    ax.axvline(1, color="black", linewidth=1)
    least = f"$10^{{{np.log10(LEAST):.0f}}}$"
    ax.set(xscale="log", xlabel=f"ours / paper (ratios below {least} are drawn there)")
    ax.set_yticks(range(len(tables)), [TITLES[name].replace(", ", ",\n") for name in tables])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    handles, labels = ax.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=2, fontsize=8)
    return figure


def worse(cells: Iterable[Cell], column: str = "ours") -> pd.DataFrame:
    """The cells where the paper's number is the smaller one.

    ``column`` is "ours", with refinement, or "again", the paper's protocol.
    """
    behind = [cell for cell in cells if cell.judge(getattr(cell, column)) == BEHIND]
    rows = [
        {
            "table": TITLES[cell.table],
            "where": f"{_name(cell.where)}, {cell.what}".replace("-", "−"),
            "model": cell.model,
            "paper": scientific(cell.paper, 3),
            "here": scientific(getattr(cell, column), 1),
            "ratio": _number(getattr(cell, column) / cell.paper),
        }
        for cell in sorted(behind, key=lambda cell: -getattr(cell, column) / cell.paper)
    ]
    return pd.DataFrame(rows, columns=["table", "where", "model", "paper", "here", "ratio"])


def recovered(folder: Path | None = None) -> pd.DataFrame:
    """Of each sweep: trials with exactly the true terms, and CPU seconds a trial."""
    keys = {"analytic": ["function"], "pde": ["equation", "cross_terms"], "spring": ["target"]}
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for name, columns in keys.items():
        table = stored(name, folder)
        if table is None:
            rows[name, "all", ""] = {"true terms": "not measured"}
            continue
        for key, trials in table.groupby([*columns, "model"], sort=True):
            *case, model = map(str, key)
            where = _name(case[0])
            if name == "pde":
                where = pdes.case_title(case[0], case[1] == "True")
            judged = trials["true_terms"].dropna()  # a ReLU network has no terms
            right = f"{int(judged.astype(bool).sum())} of {len(trials)}" if len(judged) else "–"
            rows[name, where, model] = {
                "true terms": right,
                "seconds, median": f"{trials['cpu_seconds'].median():.1f}",
                "seconds, slowest": f"{trials['cpu_seconds'].max():.1f}",
            }
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–")


def not_measured(name: str) -> str:
    """A line of Markdown for a table that is missing.

    >>> not_measured("spring")
    'results/spring.csv is not measured; run `python benchmarks/run.py spring`.'
    """
    return f"results/{name}.csv is not measured; run `{results.maker(name)}`."


def _name(where: str) -> str:
    if where in analytic.BENCHMARKS:
        return inline(where)
    return pdes.title(where).replace("_", " ")


def _number(value: float, floor: float = ROUNDING) -> str:
    if np.isnan(value):
        return "not measured"
    if value < floor:
        return bounded(value, floor)
    if 0.01 <= value < 1000:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    return scientific(value, 1)
