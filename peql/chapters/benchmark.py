"""The tables, figures and live run of the chapter on Φ-SO's eight laws."""

from __future__ import annotations

import re
import warnings
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from .. import results as stored
from ..baselines import PlainSINDy
from ..datasets import Dataset
from ..datasets.classbench import LAWS, make_classbench
from ..equation.tex import inline
from ..equation.writing import error, percent
from ..estimators.tabular import SEQL
from ..style import styled

# Recovery over all laws that Φ-SO's authors publish (arXiv 2312.01816), by noise.
PUBLISHED = {0.0: 0.82, 0.1: 0.62}
PREFIX = "classbench_"


def rate(rows: pd.DataFrame, column: str = "right_form") -> str:
    """How many of the rows are right."""
    return f"{int(rows[column].sum())} of {len(rows)}" if len(rows) else "not run"


def progress(rows: pd.DataFrame, name: str) -> str:
    """How many runs of a list of tasks the stored table has.

    >>> progress(pd.DataFrame({"seed": [0, 0, 1]}), "classbench")
    '3 of the 320 runs of the list, from 2 seeds'
    """
    n_seeds, n_tasks = rows["seed"].nunique(), len(stored.tasks(name))
    runs = "all" if len(rows) == n_tasks else f"{len(rows)} of the"
    return f"{runs} {n_tasks} runs of the list, from {n_seeds} seed{'s' * (n_seeds != 1)}"


def law_name(name: str) -> str:
    """The name of a law in prose.

    >>> law_name("classbench_free_fall")
    'free fall'
    """
    return name.removeprefix(PREFIX).replace("_", " ")


def by_law(rows: pd.DataFrame) -> pd.DataFrame:
    """The right forms and the median of seconds, law by law and noise by noise."""
    noises = sorted({*rows["noise"], *PUBLISHED})
    table = {}
    for law in LAWS:
        of_law = rows[rows["law"] == law]
        table[law_name(law)] = {
            percent(z, "g"): _cell(of_law[of_law["noise"] == z]) for z in noises
        }
    table["all laws"] = {percent(z, "g"): _cell(rows[rows["noise"] == z]) for z in noises}
    table["Φ-SO, published, all laws"] = {
        percent(z, "g"): percent(PUBLISHED[z]) if z in PUBLISHED else "" for z in noises
    }
    return pd.DataFrame.from_dict(table, orient="index")


def _cell(rows: pd.DataFrame) -> str:
    seconds = f", {rows['cpu_seconds'].median():.0f} s" if len(rows) else ""
    return rate(rows) + seconds


def misses(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs without the right form, each with what it found instead."""
    missed = rows[~rows["right_form"].astype(bool)]
    found = [inline(parsed(e), "#.2g") for e in missed["equation"]]
    table = pd.DataFrame(
        {
            "law": missed["law"].map(law_name),
            "noise": missed["noise"].map(lambda z: percent(z, "g")),
            "seed": missed["seed"],
            "found instead": found,
        }
    )
    return table.set_index("law")


def unseen(rows: pd.DataFrame) -> pd.DataFrame:
    """Each law of the lists written down beforehand, the last list first; was its form found?"""
    table = {}
    key: Any
    for key, own in rows.groupby(["list", "law", "true_law"]):
        listed, name, law = key
        found = own["right_form"].map({True: "found", False: "missed"})
        seen = {f"{percent(z)} noise": told for z, told in zip(own["noise"], found, strict=True)}
        table[name] = {"its form": inline(parsed(str(law))), **seen, "list": listed}
    shown = pd.DataFrame.from_dict(table, orient="index")
    return shown.sort_values("list", ascending=False, kind="stable")


def parsed(equation: str) -> sympy.Expr:
    """An equation whose names are all symbols, also those that SymPy defines otherwise.

    >>> sorted(map(str, parsed("I*exp(-E*x)").free_symbols))
    ['E', 'I', 'x']
    """
    names = set(re.findall(r"[A-Za-z]\w*(?![\w(])", equation)) - {"pi"}
    return sympy.parse_expr(equation, local_dict={name: sympy.Symbol(name) for name in names})


def rivals(rows: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Squared error on unseen rows over y's mean square, no noise: PySINDy's, and ours as stored.

    PySINDy's thresholded least squares is fitted to each experiment on its own, with powers,
    exponentials, sines and products of two features to choose from; of four thresholds the one
    that is best on the unseen rows counts, in its favour.
    """
    table = {}
    for law in LAWS:
        data = make_classbench(law, random_state=seed)
        squares = sum(_sindy_error(data, experiment) for experiment in data.coefficients.index)
        size = float(np.mean(np.square(data.y_test)))
        own = rows[(rows["law"] == law) & (rows["noise"] == 0) & (rows["seed"] == seed)]["test_mse"]
        table[law_name(law)] = {
            "PySINDy": error(squares / len(data.y_test) / size, 1),
            "SEQL": error(own.iloc[0] / size, 1) if len(own) else "not run",
        }
    return pd.DataFrame.from_dict(table, orient="index")


def _sindy_error(data: Dataset, experiment: float) -> float:
    """The sum of squares that PySINDy leaves of one experiment's unseen rows."""
    train, test = (X[X[data.varying] == experiment] for X in (data.X_train, data.X_test))
    features = [column for column in train if column != data.varying]
    unit = train[features].abs().max()
    known, unseen = (_library(part[features] / unit).assign(t=0.0) for part in (train, test))
    squares = []
    for threshold in (1e-3, 1e-2, 5e-2, 2e-1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that columns of the library are nearly dependent
            sindy = PlainSINDy(varying="t", threshold=threshold)
            sindy.fit(known, data.y_train[train.index])
        squares.append(float(np.sum((sindy.predict(unseen) - data.y_test[test.index]) ** 2)))
    return min(squares)


def _library(z: pd.DataFrame) -> pd.DataFrame:
    """Powers, exponentials and sines of each feature, and products of those of two features."""
    single: dict[str, dict[str, pd.Series]] = {}
    for name, v in ((str(column), z[column]) for column in z):
        single[name] = {f"{name}^{p}": v**p for p in (1, 2, 3)}
        single[name] |= {f"exp {name}": np.exp(-v), f"sin {name}": np.sin(2 * np.pi * v)}
        single[name] |= {f"cos {name}": np.cos(2 * np.pi * v)}
        if (v > 0.05).all():
            single[name] |= {f"1/{name}": 1 / v, f"sqrt {name}": np.sqrt(v)}
    columns = {key: v for own in single.values() for key, v in own.items()}
    for one, other in combinations(single.values(), 2):
        columns |= {f"{a}, {b}": one[a] * other[b] for a in one for b in other}
    return pd.DataFrame(columns)


def fit_live(law: str, *, seed: int) -> tuple[Dataset, Any]:
    """The data of a law, and SEQL with its default settings fitted to them."""
    data = make_classbench(law if law in LAWS else PREFIX + law, random_state=seed)
    model = SEQL(varying=data.varying, random_state=seed, verbose=False)
    return data, model.fit(data.X_train, data.y_train)


@styled
def figure(data: Dataset, model: Any) -> Figure:
    """The points of each experiment and the curve found for it, over the first feature."""
    feature, *others = [column for column in data.X_train if column != data.varying]
    groups = list(data.X_train.groupby(data.varying))
    drawn, axes = plt.subplots(2, (len(groups) + 1) // 2, figsize=(9, 3.8), sharex=True)
    for ax, (group, rows) in zip(axes.flat, groups, strict=False):
        y = data.y_train[rows.index]
        ax.plot(rows[feature], y, "o", color="0.6", markersize=2.5)
        if others:  # no one curve: the other features differ from row to row
            ax.plot(rows[feature], model.predict(rows), "x", color="C0", markersize=3)
        else:
            grid = np.linspace(rows[feature].min(), rows[feature].max(), 200)
            line = pd.DataFrame({feature: grid, data.varying: group})
            ax.plot(grid, model.predict(line[list(data.X_train)]), color="C0")
        ax.set_title(f"{data.varying} {group:g}", fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel(str(feature))
    for ax in axes[:, 0]:
        ax.set_ylabel(str(data.y_train.name))
    return drawn
