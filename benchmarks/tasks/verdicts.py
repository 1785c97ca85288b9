"""The verdict under test: tables whose law is known, fitted and judged as a reader's own would be.

Each row is one small table, a few groups with coefficients of their own. A condition says what is
wrong with it: noise, few rows, x far from zero, a column that does not belong there, a shuffled
target, or a law that the primitives cannot write. The laws take turns: eight seeds would show
each condition each law once; where a condition suits only some laws, those do. What every check
measured is kept, so that other limits can be tried on the same tables.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sympy
from scipy import special

import peql
from peql.analysis.comparison import form
from peql.analysis.verdict import verdict
from peql.columns import select

MEASURES = ("right_form", "trustworthy", "nothing_found", "cpu_seconds")
SECONDS = 8
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields
N_GROUPS = 5
N_SEEDS = 5  # of the eleven that would show one wrong law in a hundred beyond doubt
PRIMITIVES = ("one", "identity", "square", "sin", "exp", "reciprocal", "product")
POLYNOMIAL = ("one", "identity", "square", "product")
FAR = {"x in [1000, 1010]": (1000.0, 1010.0), "x in [280, 320]": (280.0, 320.0)}
TOO_FEW = "law beyond the primitives"  # a law of the list, primitives that cannot write it
NO_FORMULA = "law that is no formula"  # one that no primitives here can write
# What is wrong with the table, rows of a group, noise in units of y's standard deviation.
CONDITIONS = [
    *(("noise", rows, noise) for rows in (8, 20, 80) for noise in (0.0, 0.01, 0.05, 0.2)),
    *((far, 60, noise) for far in FAR for noise in (0.0, 0.05)),
    *(("irrelevant column", rows, noise) for rows, noise in ((60, 0.0), (60, 0.05), (20, 0.1))),
    *((column, 60, 0.05) for column in ("constant column", "index column", "duplicated column")),
    ("column measured twice", 60, 0.05),
    *(("shuffled target", rows, 0.0) for rows in (8, 60)),
    *((TOO_FEW, 60, noise) for noise in (0.0, 0.05)),
    *((NO_FORMULA, 60, noise) for noise in (0.0, 0.05)),
]
# What is kept of the checks, by a short name.
CHECKS = {
    "explained": "share of y's variance explained",
    "chance": "chance of so large an error",
    "rows_per_number": "rows for each number",
    "certainty": "size of",
    "pattern": "share of the residuals' variance",
    "order": "chance of residuals so much in order",
    "margin": "how much better than any other form",
    "beyond_plain": "how much better than lines",
    "found_again": "parts of the range",
    "beyond": "chance of its error beyond",
    "swings": "half waves from a row to the next",
}


@dataclass(frozen=True)
class Law:
    """y of u (and z) with coefficients, from where to where u and each coefficient go.

    ``forms`` are ways to write it, none if no formula is the law; a shift of u must lead to one of
    them if it ``shifts``.
    """

    y: Callable[..., np.ndarray]
    u: tuple[float, float]
    coefficients: tuple[tuple[float, float], ...]
    forms: tuple[str, ...]
    shifts: bool = False
    z: tuple[float, float] | None = None


def _decay(u: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * np.exp(-b * u)


def _logistic(u: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a / (1 + np.exp(c - b * u))


LAWS = {
    "line": Law(lambda u, a, b: a * u + b, (0, 5), ((1, 3), (2, 6)), ("a*x + b",), True),
    "parabola": Law(
        lambda u, a, b, c: a * u**2 + b * u + c,
        (-2, 3),
        ((1, 3), (-2, 2), (1, 3)),
        ("a*x**2 + b*x + c",),
        True,
    ),
    "decay": Law(
        _decay, (0, 5), ((1, 3), (0.3, 1)), ("a*exp(b*x)", "exp(b*x + a)", "a*exp(b*x + 1)"), True
    ),
    "sine": Law(
        lambda u, a, b, c: a * np.sin(b * u + c),
        (0, 6),
        ((1, 3), (1, 2), (-1, 1)),
        ("a*sin(b*x + c)", "a*sin(b*x) + c*cos(b*x)"),
        True,
    ),
    "saturation": Law(
        lambda u, a, b: a * u / (b + u),
        (0.1, 10),
        ((1, 3), (0.5, 2)),
        ("a*x/(b + x)", "a/(b/x + c)", "x/(b*x + c)"),
    ),
    "logistic": Law(
        _logistic,
        (-5, 5),
        ((1, 3), (1, 2), (-1, 1)),
        ("a/(b*exp(c*x) + d)", "a/(exp(c*x + b) + d)", "a*exp(c*x)/(b*exp(c*x) + d)"),
    ),
    "power": Law(lambda u, a, b: a * u**b, (0.5, 5), ((1, 3), (1.2, 2.5)), ("a*x**p",)),
    "ratio": Law(
        lambda u, z, a, b: a * u / z + b, (0, 5), ((1, 3), (-2, 2)), ("a*x/z + b",), z=(1, 4)
    ),
    "hinge": Law(lambda u, a, b: a * np.maximum(u - b, 0), (0, 6), ((1, 3), (2, 4)), ()),
    "step": Law(lambda u, a, b: a * (u > b), (0, 6), ((1, 3), (2, 4)), ()),
    "Bessel": Law(lambda u, a, b: a * special.j0(b * u), (0, 8), ((1, 3), (1, 2)), ()),
    "saw": Law(lambda u, a, b: a * (u / b - np.floor(u / b)), (0, 6), ((1, 3), (2, 3)), ()),
}


def TASKS() -> Iterator[dict[str, Any]]:
    """Each condition with each seed; what is done of it at any time is fair to all conditions."""
    for seed in range(N_SEEDS):
        for condition, rows, noise in CONDITIONS:
            yield {"condition": condition, "rows": rows, "noise": noise, "seed": seed}


def PARAMETERS() -> dict[str, Any]:
    """What the model is set to."""
    return {"SEQL": {**model(PRIMITIVES, 0).get_params()}, "groups": N_GROUPS}


def model(primitives: tuple[str, ...], seed: int) -> peql.SEQL:
    """The estimator of every table: the search, which takes seconds."""
    return peql.SEQL(
        varying="group",
        primitives=list(primitives),
        method="search",
        random_state=seed,
        verbose=False,
    )


def choose(condition: str, rows: int, noise: float, seed: int) -> str:
    """The law whose turn it is."""
    names = [
        name
        for name, law in LAWS.items()
        if (law.shifts or condition not in FAR)
        and bool(law.forms) == (condition != NO_FORMULA)
        and (condition != TOO_FEW or not _polynomial(law))
    ]
    return names[(seed + CONDITIONS.index((condition, rows, noise))) % len(names)]


def _polynomial(law: Law) -> bool:
    return sympy.parse_expr(law.forms[0]).is_polynomial(*sympy.symbols("x z"))


def make_table(condition: str, rows: int, noise: float, seed: int) -> pd.DataFrame:
    """The table as a reader would have it, with what should not be there."""
    law = LAWS[choose(condition, rows, noise, seed)]
    random = np.random.default_rng([seed, CONDITIONS.index((condition, rows, noise))])
    group = np.repeat(np.arange(1.0, N_GROUPS + 1), rows)
    own = [np.repeat(random.uniform(*each, N_GROUPS), rows) for each in law.coefficients]
    u = random.uniform(*law.u, len(group))
    columns = {"x": u}
    if condition in FAR:  # in other units and from another zero, the same law
        low, high = FAR[condition]
        columns["x"] = low + (high - low) * (u - law.u[0]) / (law.u[1] - law.u[0])
    if law.z:
        columns["z"] = random.uniform(*law.z, len(group))
    y = law.y(u, *([columns["z"]] if law.z else []), *own)
    y = y + noise * y.std() * random.standard_normal(len(y))
    if condition == "shuffled target":
        y = random.permutation(y)
    if condition == "irrelevant column":
        columns["w"] = random.uniform(0, 1, len(group))
    if condition == "constant column":
        columns["g"] = np.full(len(group), 9.81)
    if condition == "index column":
        columns = {"Unnamed: 0": np.arange(len(group)), **columns}
    if condition == "duplicated column":
        columns["x_again"] = 1000 * u
    if condition == "column measured twice":
        columns["w"] = u + 0.001 * np.ptp(u) * random.standard_normal(len(u))
    return pd.DataFrame({**columns, "group": group, "y": y})


def is_right(equation: sympy.Expr, law: str) -> bool:
    """Whether it is the law up to constants, in any way of writing it."""
    true = [form(sympy.parse_expr(way), "xzw") for way in LAWS[law].forms]
    return form(equation, "xzw") in true


def run(condition: str, rows: int, noise: float, seed: int) -> dict[str, Any]:
    """Fit one table and judge the equation; then see whether it is the law."""
    law = choose(condition, rows, noise, seed)
    started = time.process_time()
    X, y = select(make_table(condition, rows, noise, seed), "y", "group")
    primitives = POLYNOMIAL if condition == TOO_FEW else PRIMITIVES
    with warnings.catch_warnings(action="ignore"):
        fitted = model(primitives, seed).fit(X, y)
    judged = verdict(fitted, X, y, repeats=0)
    if judged.trustworthy:  # parts of the range are fitted where they decide
        judged = verdict(fitted, X, y)
    failed = judged.checks.index[~judged.checks["passed"]]
    equation = fitted.equation_
    lawful = condition != "shuffled target"  # no equation explains that
    n_functions = len(equation.atoms(sympy.core.function.AppliedUndef))
    return {
        "law": law,
        "right_form": lawful and is_right(equation, law),
        "right_named": lawful and any(is_right(s.equation, law) for s in fitted.solutions_),
        "all_vary": n_functions >= len(LAWS[law].coefficients),
        "nothing_found": judged.nothing_found,
        "trustworthy": judged.trustworthy,
        "failed": "; ".join(failed),
        "equation": str(equation),
        **_measured(judged.checks),
        "cpu_seconds": round(time.process_time() - started, 2),
    }


def _measured(checks: pd.DataFrame) -> dict[str, float]:
    """What each check saw, NaN if it was not made; of several coefficients the least certain."""
    return {
        short: float(f"{checks.loc[checks.index.str.startswith(name), 'value'].min():.4g}")
        for short, name in CHECKS.items()
    }
