"""Every number of the paper's tables beside ours, from what the sweeps left in ``results/``.

A *cell* is one number of a table of the paper and its counterpart here; less is better in all of
them. Cells whose sweep has left no table yet have no ``ours``, and say how to get it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sympy

from .. import paper, results
from ..datasets import analytic, pde
from ..formatting import scientific, symbol, tex, text
from ..table_command import STORED

SWEEPS = {name: STORED[name].maker for name in ("analytic", "pde", "spring")}
PDES = {"advection_diffusion": "advection–diffusion", "burgers": "Burgers'"}
MODELS = ("SINDy", "SEQL", "HEQL")


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

    @property
    def ratio(self) -> float:
        """Ours / paper; NaN where ours is not measured."""
        return self.ours / self.paper


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
        *_analytic(stored("analytic", folder)),
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
    """The point of the grid that the paper printed with few digits."""
    return float(grid[np.abs(grid - value).argmin()])


# --- cells of each sweep --------------------------------------------------------------------


def _trials(table: pd.DataFrame | None, **chosen: Any) -> pd.DataFrame | None:
    if table is None:
        return None
    kept = table[np.logical_and.reduce([table[k] == v for k, v in chosen.items()])]
    return kept if len(kept) else None


def _analytic(table: pd.DataFrame | None) -> Iterator[Cell]:
    statistics = {"best": "min", "mean": "mean", "std": "std"}
    t = paper.table("analytic_equations", "t")
    for function, benchmark in analytic.BENCHMARKS.items():
        for model in ("SEQL", "HEQL"):
            trials = _trials(table, function=function, model=model)
            for kind, statistic in statistics.items():
                printed = paper.table("analytic_mse", kind, function, model)
                ours = np.nan if trials is None else trials["test_mse_scaled"].agg(statistic)
                yield Cell("analytic_mse", function, kind, model, printed, ours)
            worst = np.nan if trials is None else trials["coefficient_error"].max()
            for k, value in enumerate(t):
                point = _nearest(analytic.paper_grid(), value)
                true = _true_equation(analytic, benchmark.equation, function, point)
                printed = paper.equation("analytic_equations", function, model, index=k)
                error = np.abs(number_errors(printed, true)).max()
                what = f"t = {value}"
                written = _written("analytic_equations", function, model, k), text(true)
                yield Cell("analytic_equations", function, what, model, error, worst, *written)
    for model, seconds in paper.table("speed", "seconds").items():
        trials = _trials(table, model=model)
        ours = np.nan if trials is None else trials["cpu_seconds"].median()
        yield Cell("speed", "f1 to f5", "seconds a trial", model, seconds, ours)


def _pde(table: pd.DataFrame | None) -> Iterator[Cell]:
    for name, title in PDES.items():
        for cross in (True, False):
            case = f"{name}_cross" if cross else name
            where = f"{title}, {'with' if cross else 'no'} cross terms"
            for model in MODELS:
                trials = _trials(table, equation=name, cross_terms=cross, model=model)
                best = (
                    None if trials is None else trials.iloc[trials["u_t_mse"].to_numpy().argmin()]
                )
                for what in ("u_t", "coefficient"):
                    printed = paper.table("pde_mse", what, case, model)
                    ours = np.nan if best is None else best[f"{what}_mse"]
                    yield Cell("pde_mse", where, f"{what} MSE", model, printed, ours)
        problem, rows = pde.PROBLEMS[name], paper.table("pde_equations", name)
        grids = {
            "x": np.linspace(-problem.half_width, problem.half_width, problem.n_x, endpoint=False),
            "t": np.linspace(0, problem.t_end, problem.n_t),
        }
        for model in ("SEQL", "HEQL"):
            trials = _trials(table, equation=name, cross_terms=False, model=model)
            worst = np.nan if trials is None else np.sqrt(trials["coefficient_mse"].max())
            for k, value in enumerate(rows[problem.varying]):
                point = _nearest(grids[problem.varying], value)
                true = _true_equation(pde, pde.equation(name), name, point)
                printed = paper.equation("pde_equations", name, model, index=k)
                error = np.sqrt(np.mean(number_errors(printed, true) ** 2))
                what = f"{problem.varying} = {value}"
                written = _written("pde_equations", name, model, k), text(true, ".2f")
                yield Cell("pde_equations", title, what, model, error, worst, *written)


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
            yield Cell("spring_equations", target, f"t = {value}", model, error, worst, *written)


def _written(table: str, *keys: Any) -> str:
    *names, index = keys
    return paper.table(table, *names)[index]


# --- what the page shows --------------------------------------------------------------------


def shown(cells: Iterable[Cell], name: str) -> pd.DataFrame:
    """The cells of one table of the paper: a row for each place in it, ours beside the paper's."""
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for cell in cells:
        if cell.table == name:
            row = rows.setdefault((_name(cell.where), cell.what), {})
            row[cell.model, "paper"] = scientific(cell.paper, 3)
            row[cell.model, "here"] = _number(cell.ours)
            row[cell.model, "ratio"] = _number(cell.ratio, "–")
    models = [m for m in MODELS if any((m, "paper") in row for row in rows.values())]
    columns = pd.MultiIndex.from_product([models, ["paper", "here", "ratio"]])
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns).fillna("–")


def equations(cells: Iterable[Cell], name: str, model: str) -> pd.DataFrame:
    """The equations that one table of the paper prints for ``model``, with errors."""
    rows = {
        (_name(cell.where), tex(cell.what)): {
            "true": _tex(cell.true),
            "paper": _tex(cell.printed),
            "error, paper": scientific(cell.paper, 1),
            "error, here": _number(cell.ours),
            "ratio": _number(cell.ratio, "–"),
        }
        for cell in cells
        if (cell.table, cell.model) == (name, model)
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def worse(cells: Iterable[Cell]) -> pd.DataFrame:
    """The cells where the paper's number is the smaller one; none leaves the table empty."""
    rows = [
        {
            "table": cell.table.replace("_", " "),
            "where": f"{_name(cell.where)}, {cell.what}",
            "model": cell.model,
            "paper": scientific(cell.paper, 3),
            "here": _number(cell.ours),
            "ratio": _number(cell.ratio),
        }
        for cell in sorted(cells, key=lambda cell: cell.ratio, reverse=True)
        if cell.ratio > 1
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
                where += f", {'with' if case[1] == 'True' else 'no'} cross terms"
            judged = trials["true_terms"].dropna()  # a ReLU network has no terms
            right = f"{int(judged.astype(bool).sum())} of {len(trials)}" if len(judged) else "–"
            rows[name, where, model] = {
                "true terms": right,
                "seconds, median": f"{trials['cpu_seconds'].median():.1f}",
                "seconds, slowest": f"{trials['cpu_seconds'].max():.1f}",
            }
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–")


def not_measured(name: str) -> str:
    """What to say where a sweep has left no table, in Markdown.

    >>> not_measured("spring")
    'results/spring.csv is not measured; run `python benchmarks/sweep_spring.py`.'
    """
    return f"results/{name}.csv is not measured; run `{SWEEPS[name]}`."


def _name(where: str) -> str:
    if where in analytic.BENCHMARKS:
        return tex(symbol(where))
    return PDES.get(where, where.replace("_", " "))


def _tex(equation: str) -> str:
    """TeX of a sum, each term a formula of its own: a narrow cell breaks between them."""
    terms = re.split(r" (?=[+-] )", equation.replace("psi", "psi_"))
    return " ".join(tex(term).replace("psi_", r"\psi_") for term in terms)


def _number(value: float, missing: str = "not measured") -> str:
    if np.isnan(value):
        return missing
    return f"{value:.2g}" if 0.01 <= value < 1000 else scientific(value, 1)
