"""Recovery and errors against noise, of the chapter on PDEs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from .. import datasets, results
from ..analysis.comparison import has_true_terms
from ..baselines import least_squares_limit
from ..datasets.pde import PROBLEMS, solve
from ..equation.tex import inline
from ..equation.writing import error, percent
from ..style import legend, look, styled
from .analytic import bounded, fit_one
from .pdes import ROUNDING, U_T, sindy, title

KEYS = ["equation", "noise", "seed", "method", "derivatives"]
MEASURED = ["true_terms", "found", "coefficient_mse", "limit_coefficient_mse", "cpu_seconds"]
PAPER = ["advection_diffusion", "burgers"]
LEAST = 5e-4  # where "no noise" stands on a logarithmic axis


def study() -> pd.DataFrame:
    """The rows of the study; before it was run, an empty table."""
    try:
        rows = results.load("fields")
    except FileNotFoundError:
        return pd.DataFrame(columns=[*KEYS, *MEASURED])
    rows = rows[rows["true_terms"].notna()]
    return rows.assign(true_terms=rows["true_terms"].astype(bool))


def _method(method: str, derivatives: str) -> str:
    return method if derivatives == "series" else f"{method}, integrals"


def _methods(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Methods and their rows: those from derivatives, then those from integrals."""
    groups = rows.groupby(["derivatives", "method"], sort=False)
    named = [(_method(str(key[1]), str(key[0])), part) for key, part in groups]
    order = ["SEQL", "HEQL", "SINDy", "SEQL, integrals", "SINDy, integrals"]
    return sorted(named, key=lambda pair: order.index(pair[0]))


def recovery(rows: pd.DataFrame, equations: Sequence[str]) -> pd.DataFrame:
    """How many of the seeds found exactly the true terms, by noise."""
    table: dict[tuple[str, str], dict[str, str]] = {}
    levels = sorted(rows.loc[rows["equation"].isin(equations), "noise"].unique())
    for name in equations:
        for method, part in _methods(rows[rows["equation"] == name]):
            right = part.groupby("noise")["true_terms"]
            told = right.agg(lambda runs: f"{runs.sum()} of {len(runs)}")
            table[title(name), method] = {percent(v, "g"): told.get(v, "") for v in levels}
    return pd.DataFrame.from_dict(table, orient="index")


def errors(rows: pd.DataFrame, equations: Sequence[str]) -> pd.DataFrame:
    """Median coefficient MSE of the runs with the true terms, and the mean ratio to the limit."""
    table: dict[tuple[str, str], dict[str, str]] = {}
    right = rows[rows["true_terms"].astype(bool) & rows["equation"].isin(equations)]
    # Two levels that lie between others are left out: the table has to fit the page.
    levels = sorted(set(right["noise"]) - {0.001, 0.02})
    for name in equations:
        for method, part in _methods(right[right["equation"] == name]):
            row = table[title(name), method] = {}
            for v in levels:
                at = part[part["noise"] == v]
                ratio = (at["coefficient_mse"] / at["limit_coefficient_mse"]).mean()
                usual = float(at["coefficient_mse"].median()) if len(at) else np.nan
                told = "" if np.isnan(ratio) or usual < ROUNDING else f" ({ratio:.2f})"
                row[percent(v, "g")] = bounded(usual, ROUNDING) + told if len(at) else ""
    return pd.DataFrame.from_dict(table, orient="index")


def summary(rows: pd.DataFrame) -> str:
    """The results for the paper's two equations in a few sentences."""
    part = rows[rows["equation"].isin(PAPER) & (rows["derivatives"] == "series")]
    if not len(part):
        return "The study has not been run: make results TABLES=fields."
    lines = []
    for method in ("SEQL", "HEQL", "SINDy"):
        own = part[part["method"] == method]
        few, much = own[own["noise"] <= 0.05], own[own["noise"] > 0.05]
        lines.append(
            f"{method}: the true terms in {few['true_terms'].sum()} of {len(few)} runs with up to "
            f"5 % noise, in {much['true_terms'].sum()} of {len(much)} with more"
        )
    own = part[part["true_terms"] & part["method"].isin(["SEQL", "HEQL"])]
    own = own[own["coefficient_mse"] > ROUNDING]
    ratio = own["coefficient_mse"] / own["limit_coefficient_mse"]
    lines.append(
        f"coefficient MSE of SEQL and HEQL with the true terms, relative to least squares that was "
        f"told them: {ratio.mean():.2f} on average, {ratio.max():.2f} at worst"
    )
    seconds = part.loc[part["method"].isin(["SEQL", "HEQL"]), "cpu_seconds"]
    lines.append(f"seconds a fit: {seconds.median():.1f}, at most {seconds.max():.0f}")
    return "\n".join(lines)


def missed(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs of SEQL and HEQL without exactly the true terms, and what the last one found."""
    part = rows[rows["method"].isin(["SEQL", "HEQL"]) & ~rows["true_terms"].astype(bool)]
    table = {}
    key: Any
    for key, runs in part.groupby(["equation", "noise", "method", "derivatives"], sort=False):
        name, noise, method, derivatives = key
        table[title(name), percent(noise, "g"), _method(method, derivatives)] = {
            "seeds": ", ".join(map(str, runs["seed"])),
            "found, in the last": inline(sympy.parse_expr(runs["found"].iloc[-1]), ".1g"),
        }
    return pd.DataFrame.from_dict(table, orient="index")


@styled
def figure(rows: pd.DataFrame, equations: Sequence[str]) -> Figure:
    """Share of runs with the true terms, and coefficient error of those, against noise."""
    size = (3.2 * len(equations), 4.6)
    drawn, axes = plt.subplots(2, len(equations), figsize=size, sharex=True, squeeze=False)
    for (top, bottom), name in zip(axes.T, equations, strict=True):
        for method, part in _methods(rows[rows["equation"] == name]):
            style: dict[str, Any] = {**look(method.split(",")[0]), "label": method, "marker": "o"}
            if "," in method:
                style |= {"marker": "^", "alpha": 0.6}
            share = part.groupby("noise")["true_terms"].mean()
            top.plot(np.maximum(share.index, LEAST), share, **style)
            right = part[part["true_terms"] & (part["noise"] > 0)]
            error = right.groupby("noise")["coefficient_mse"].median()
            bottom.plot(error.index, error, **style)
        top.set(title=title(name), ylim=(-0.05, 1.05))
        bottom.set(xscale="log", xlim=(0.8 * LEAST, 0.25), xlabel="noise / deviation of u")
        if any(len(line.get_ydata()) for line in bottom.lines):
            bottom.set_yscale("log")
        ticks = [LEAST, 0.001, 0.01, 0.1]
        bottom.set_xticks(ticks, ["0", *(f"{100 * v:g} %" for v in ticks[1:])])
        bottom.minorticks_off()
    axes[0, 0].set_ylabel("share with the true terms")
    axes[1, 0].set_ylabel("coefficient MSE")
    if len(rows):
        legend(drawn)
    return drawn


def live(equations: Sequence[str], levels: Sequence[float], seed: int = 0) -> pd.DataFrame:
    """What SEQL and SINDy find in noisy fields, fitted now."""
    rows = {}
    for name in equations:
        for level in levels:
            given: Any = {"noise": level, "derivatives": "series", "random_state": seed, "order": 4}
            data = datasets.load(name, **given)
            options: Any = {"random_state": seed, "method": "search", "verbose": False}
            found = fit_one("SEQL", data, **options).equation_
            offered = datasets.load(name, cross_terms=True, rows="all", **given)
            told = data.X_train.attrs
            per_step = len(data.X_train) / data.X_train[data.varying].nunique()
            rows[title(name), percent(level, "g")] = {
                "noise, estimated": percent(float(told["noise"] / solve(name).u.std()), ".2g"),
                "rows": len(data.X_train),
                "at each x or t": f"{per_step:.0f}",
                "of them independent": f"{told['independent'] * per_step:.0f}",
                "SEQL": inline(found, ".1g"),
                "SEQL right": "yes" if has_true_terms(found, data) else "no",
                "SINDy right": "yes" if has_true_terms(sindy(offered).equation_, offered) else "no",
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def chaos_limits() -> pd.DataFrame:
    """Kuramoto–Sivashinsky's coefficient MSE with the true terms known, by how u is differentiated.

    Differences in t on twice the values of t, and the paper's derivatives with u_t alone taken
    accurately, tell whose error it is.
    """
    name = "kuramoto_sivashinsky"
    paper = datasets.load(name)
    accurate = datasets.load(name, derivatives="accurate")
    mixed = replace(paper, y_train=accurate.y_train, y_test=accurate.y_test)
    finer = datasets.load(name, n_t=2 * PROBLEMS[name].n_t)
    cases = {
        "the paper's derivatives": paper,
        "the same, on twice as many values of t": finer,
        f"the same, but {U_T} by splines of degree 7": mixed,
        "all accurate": accurate,
    }
    limits = {label: least_squares_limit(data).coefficient_mse for label, data in cases.items()}
    return pd.Series(limits).map(lambda mse: error(mse, 1, 1e-12)).to_frame("coefficient MSE")
