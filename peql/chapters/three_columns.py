"""Figures that set the paper, its protocol run here, and refinement side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from ..analysis.truth import curve, on_grid, rows_at, true_equation
from ..equation import tex
from ..style import FOUND, legend, styled
from . import paper
from .analytic import Cases, best_printed
from .figures import shade, x_grid

LEAST = 1e-16  # errors below this are drawn here
SOURCES: dict[str, dict[str, Any]] = {  # colour, dash and marker of the three columns
    "paper": {"color": "black", "linestyle": (0, (1, 1))},
    "its protocol, here": {"color": "#D55E00", "linestyle": "-"},
    "with refinement": {"color": "#0072B2", "linestyle": (0, (4, 1.5))},
}


@styled
def residuals(
    cases: Cases, functions: Sequence[str], model: str, t: Sequence[float], protocol: pd.DataFrame
) -> Figure:
    """How far each equation is from the truth over x, on a logarithmic scale."""
    size = (2.05 * len(t) + 0.4, 1.9 * len(functions) + 0.6)
    figure, axes = plt.subplots(
        len(functions), len(t), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for row, function in zip(axes, functions, strict=True):
        data, models = cases[function]
        again = best_printed(protocol, function, model)
        x = x_grid(data, 241)
        for k, (ax, value) in enumerate(zip(row, t, strict=True)):
            shade(ax, data)
            true = curve(true_equation(data, value), data, x)
            printed = paper.equation("analytic_equations", function, model, index=k)
            found = {"paper": curve(printed, data, x)}
            if again:
                found["its protocol, here"] = curve(sympy.parse_expr(again[k]), data, x)
            found["with refinement"] = models[model].predict(rows_at(data, value, x))
            for name, y in found.items():
                error = np.abs(y - true).clip(LEAST)
                ax.plot(x, error, label=name, linewidth=1.4, **SOURCES[name])
            ax.set(yscale="log", ylim=(LEAST / 2, 10))
            ax.set_title(f"${tex.name(function)}$,  $t = {on_grid(data, value):.3f}$")
        row[0].set_ylabel("distance from the truth")
    for ax in axes[-1]:
        ax.set_xlabel("$x$")
    legend(figure, shaded=True)
    return figure


@styled
def all_trials(protocol: pd.DataFrame, refined: pd.DataFrame) -> Figure:
    """Every trial's test error as a mark: the paper's protocol, refined, and the paper's levels."""
    functions = list(paper.table("analytic_mse", "best"))
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True)
    for ax, model in zip(axes, ("SEQL", "HEQL"), strict=True):
        for place, function in enumerate(functions):
            for table, side, marker, name in (
                (protocol, -0.2, "D", "its protocol, here"),
                (refined, 0.2, "o", "with refinement"),
            ):
                runs = table[(table["function"] == function) & (table["model"] == model)]
                error = np.sort(runs["test_mse_scaled"].clip(lower=1e-33))
                beside = place + side + np.linspace(-0.15, 0.15, len(error))
                look = {"color": SOURCES[name]["color"], "edgecolor": "black"}
                look |= {"linewidth": 0.3, "marker": marker}
                ax.scatter(beside, error, s=12, label=name, **look)
            for kind, style in (("best", "-"), ("mean", (0, (1.5, 1)))):
                level = paper.table("analytic_mse", kind, function, model)
                ends = (place - 0.42, place + 0.42)
                label = f"paper, {kind}"
                ax.hlines(level, *ends, color="black", linestyle=style, label=label)
        ax.set_yscale("log")
        ax.set_xticks(range(len(functions)), [f"${tex.name(f)}$" for f in functions])
        ax.grid(axis="x", visible=False)
        ax.set_title(model, color=FOUND[model]["color"])
    axes[0].set_ylabel("test MSE, scaled units")
    legend(figure)
    return figure
