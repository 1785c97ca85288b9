"""The figures that compare what was found with the truth, and with the paper.

What is true is a thick grey line, what is found is dashed and coloured, and the part of x that no
training row came from is shaded. A *case* is a dataset with the models fitted to it, by name:
``(data, {"SEQL": model})``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..analysis.comparison import match_coefficients, scaled_mse
from ..analysis.truth import curve, feature, rows_at, true_equation
from ..baselines import by_term
from ..datasets import Dataset
from ..equation.writing import plain, symbol, text
from ..style import (
    BAR,
    PLAIN_LAYOUT,
    SHADE,
    TRUE,
    TRUE_LINE,
    Frame,
    Slider,
    legend,
    look,
    slider_steps,
    styled,
)
from .pdes import title

Case = tuple[Dataset, Mapping[str, Any]]


# --- what the figures are made of ----------------------------------------------------------


def _span(column: pd.Series) -> tuple[float, float]:
    return round(float(column.min()), 2), round(float(column.max()), 2)


def x_grid(data: Dataset, points: int) -> np.ndarray:
    """Evenly over the test x."""
    return np.linspace(*_span(data.X_test[feature(data)]), points)


def _outside(data: Dataset) -> list[tuple[float, float]]:
    """The ranges of the test x from which no training row came."""
    low, high = _span(data.X_train[feature(data)])
    left, right = _span(data.X_test[feature(data)])
    return [(start, end) for start, end in ((left, low), (high, right)) if start < end]


def shade(ax: Axes, data: Dataset) -> None:
    """Where no training row came from."""
    for start, end in _outside(data):
        ax.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)


# --- figures --------------------------------------------------------------------------------


@styled
def predictions(cases: Sequence[Case], t: Sequence[float]) -> Figure:
    """The true and the found curves at several ``t``; a row for each case."""
    size = (2.05 * len(t) + 0.4, 1.75 * len(cases) + 0.6)
    figure, axes = plt.subplots(len(cases), len(t), figsize=size, sharex="row", squeeze=False)
    for row, (data, models) in zip(axes, cases, strict=True):
        x = x_grid(data, 241)
        for ax, value in zip(row, t, strict=True):
            shade(ax, data)
            ax.plot(x, curve(true_equation(data, value), data, x), **TRUE)
            for name, model in models.items():
                ax.plot(x, model.predict(rows_at(data, value, x)), **look(name))
            ax.set_title(f"${symbol(data.name)}$,  ${data.varying} = {value:g}$")
        row[0].set_ylabel(f"${data.y_train.name}$")
        for ax in row:
            ax.set_xlabel(f"${feature(data)}$")
    legend(figure, shaded=True)
    return figure


@styled
def coefficients(cases: Sequence[Case]) -> Figure:
    """The coefficient functions, true and found, and below each the difference."""
    panels = [(*case, name) for case in cases for name in case[0].coefficients]
    figure, axes = with_residuals(len(panels), 2.7)
    for (ax, below), (data, models, name) in zip(axes.T, panels, strict=True):
        true = data.coefficients[name]
        ax.plot(true, **TRUE)
        below.axhline(0, **{**TRUE, "label": "true"})
        for label, model in models.items():
            names = match_coefficients(model.equation_, data)
            found = model.coefficients_.rename(columns=names)
            if name in found:
                ax.plot(found[name], **look(label))
                nearest = true.index.get_indexer(found.index, method="nearest")
                below.plot(found[name] - true.to_numpy()[nearest], **look(label))
        ax.set_title(f"${symbol(data.name)}$:  ${name}({data.varying})$")
        below.set_xlabel(f"${data.varying}$")
    axes[1, 0].set_ylabel("found − true")
    legend(figure)
    return figure


def with_residuals(n: int, width: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure of ``n`` panels with a lower one under each, and its axes (2, n)."""
    size = (width * n, 3.6)
    return plt.subplots(
        2, n, figsize=size, sharex="col", squeeze=False, height_ratios=[2, 1], **options
    )


@styled
def slopes(cases: Sequence[Case]) -> Figure:
    """The slope in x at x = 0 over t, of the truth and of equations found in x and t."""
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 2.9), squeeze=False)
    for ax, (data, models) in zip(axes[0], cases, strict=True):
        t = data.coefficients.index.to_numpy(dtype=float)
        x, varying = sympy.symbols([feature(data), data.varying])
        ax.plot(t, [sympy.diff(true_equation(data, v), x).subs(x, 0) for v in t], **TRUE)
        for name, model in models.items():
            slope = sympy.lambdify(varying, sympy.diff(model.equation_, x).subs(x, 0), "numpy")(t)
            ax.plot(t, np.broadcast_to(slope, t.shape), **look(name))
        ax.set_title(f"${symbol(data.name)}$")
        ax.set_xlabel(f"${data.varying}$")
    axes[0, 0].set_ylabel(r"$\partial y/\partial x$ at $x = 0$")
    legend(figure)
    return figure


@styled
def error_over_x(cases: Sequence[Case], bins: int = 40) -> Figure:
    """The test error in the paper's units over x, root of the mean square over t."""
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 2.9), squeeze=False)
    for ax, (data, models) in zip(axes[0], cases, strict=True):
        shade(ax, data)
        column = data.X_test[feature(data)]
        edges = np.linspace(*_span(column), bins + 1)
        groups = np.digitize(column, edges[1:-1])
        for name, model in models.items():
            error = model.predict(data.X_test) - data.y_test
            inside = [groups == k for k in range(bins)]
            mse = [scaled_mse(data, data.X_test[rows], error[rows]) for rows in inside]
            ax.plot((edges[1:] + edges[:-1]) / 2, np.sqrt(mse), **{**look(name), "linestyle": "-"})
        ax.set_title(f"${symbol(data.name)}$")
        ax.set_xlabel(f"${feature(data)}$")
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("rms error / range of y")
    legend(figure, shaded=True)
    return figure


@styled
def fields(cases: Sequence[Case], model: str) -> Figure:
    """u_t over x and t, true, predicted and their difference; a row for each PDE."""
    size = (9.0, 2.7 * len(cases) + 0.3)
    figure, axes = plt.subplots(len(cases), 3, figsize=size, squeeze=False)
    for row, (data, models) in zip(axes, cases, strict=True):
        along = data.coefficients.index
        shape = (len(along), -1)
        true = data.y_test.to_numpy().reshape(shape)
        predicted = models[model].predict(data.X_test).reshape(shape)
        top = float(np.abs(true).max())
        error = predicted - true
        panels = (
            (true, top, "true $u_t$"),
            (predicted, top, f"$u_t$ by {model}"),
            (error, float(np.abs(error).max()), "difference"),
        )
        for ax, (values, limit, label) in zip(row, panels, strict=True):
            picture = values if data.varying == "x" else values.T
            image = ax.imshow(
                picture, aspect="auto", origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit
            )
            figure.colorbar(image, ax=ax, format="%.1g")
            ax.set(xticks=[], yticks=[], xlabel="$t$ →", title=label)
            ax.grid(visible=False)
        row[0].set_ylabel(f"{title(data.name)}\n$x$ →")
    return figure


@styled
def term_coefficients(cases: Sequence[Case]) -> Figure:
    """The factor in front of each true term, true and found; a panel for each."""
    panels = [
        (data, models, term)
        for data, models in cases
        for term in by_term(data.equation, data.coefficients)
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(2.3 * len(panels), 2.7), squeeze=False)
    for ax, (data, models, term) in zip(axes[0], panels, strict=True):
        true = by_term(data.equation, data.coefficients)[term]
        ax.plot(data.coefficients.index, true, **TRUE)
        for name, model in models.items():
            found = by_term(model.equation_, model.coefficients_).get(term)
            if found is not None:
                ax.plot(model.coefficients_.index, found, **look(name))
        ax.set_title(f"factor of ${sympy.latex(term)}$")
        ax.set_xlabel(f"${data.varying}$")
        if np.ptp(true) == 0:  # a constant: do not blow its rounding errors up
            ax.set_ylim(0.5 * true[0], 1.5 * true[0])
    legend(figure)
    return figure


# --- the slider -----------------------------------------------------------------------------


def slider(model: Any, data: Dataset, *, steps: int = 64, points: int = 101) -> Slider:
    """The true and the found curve with a slider over t; the title gives both equations at t."""
    values = known_values(data, steps)
    x = x_grid(data, points).round(4)
    frames = [_frame(model, data, t, x) for t in values]
    made = two_curves(type(model).__name__, data, values, frames, x, feature(data))
    for low, high in _outside(data):
        made.figure.add_vrect(x0=low, x1=high, fillcolor=SHADE, line_width=0, layer="below")
    return made


def field_slider(
    model: Any, data: Dataset, across: np.ndarray, label: str, *, steps: int = 64
) -> Slider:
    """u_t along the coordinate ``across`` (named ``label``), with a slider over the varying one.

    Rows of the data are ordered by the varying coordinate, then along ``across``.
    """
    known = data.coefficients.index.to_numpy(dtype=float)
    thin = slice(None, None, max(1, len(across) // 128))
    predicted = model.predict(data.X_test).reshape(len(known), -1)[:, thin].round(4) + 0.0
    true = data.y_test.to_numpy().reshape(len(known), -1)[:, thin].round(4) + 0.0
    values = known_values(data, steps)
    frames = []
    for t in values:
        row = int(np.abs(known - t).argmin())
        equations = [true_equation(data, t), model.equation(t=t)]
        title = "true: u_t = {}<br>found: u_t = {}".format(*(plain(text(e)) for e in equations))
        frames.append((true[row].tolist(), predicted[row].tolist(), title))
    name = type(model).__name__
    return two_curves(name, data, values, frames, across[thin].round(4), label)


def known_values(data: Dataset, steps: int) -> np.ndarray:
    """At most ``steps`` of the values of the varying column, evenly spread."""
    known = data.coefficients.index.to_numpy(dtype=float)
    return known[np.unique(np.linspace(0, len(known) - 1, steps).round().astype(int))]


def two_curves(
    name: str,
    data: Dataset,
    values: np.ndarray,
    frames: list[Frame],
    x: np.ndarray,
    label: str,
    ends: tuple[float, float] | None = None,
) -> Slider:
    """The true curve and what model ``name`` found over ``x``, with a slider over ``values``.

    ``ends`` of the y axis: by default as far below zero as above it.
    """
    import plotly.graph_objects as go

    start = int(np.abs(values - 1).argmin())
    true, found, title = frames[start]
    dashed = {"color": look(name)["color"], "width": 2.5, "dash": "dash"}
    figure = go.Figure(
        [
            go.Scatter(x=x.tolist(), y=true, name="true", line=TRUE_LINE),
            go.Scatter(x=x.tolist(), y=found, name=f"found by {name}", line=dashed),
        ],
        PLAIN_LAYOUT,
    )
    top = 1.08 * max(np.abs(frame[0]).max() for frame in frames)
    figure.update_layout(
        sliders=[{**BAR, "active": start, "steps": slider_steps(values, frames)}],
        title={"text": title, "x": 0.5, "font": {"size": 15}},
        xaxis={"title": {"text": label}, "range": [float(x.min()), float(x.max())]},
        yaxis={"title": {"text": str(data.y_train.name)}, "range": list(ends or (-top, top))},
    )
    figure.layout.sliders[0].currentvalue.prefix = f"{data.varying} = "
    return Slider(figure, f"slider-{data.name}-{name}")


def _frame(model: Any, data: Dataset, t: float, x: np.ndarray) -> Frame:
    """The two curves at ``t``, rounded (and without -0), and the title."""
    truth = true_equation(data, t)
    true = curve(truth, data, x).round(4) + 0.0
    found = model.predict(rows_at(data, t, x)).round(4) + 0.0
    equations = [plain(text(equation)) for equation in (truth, model.equation(t=t))]
    title = "true: y = {}<br>found: y = {}".format(*equations)
    return true.tolist(), found.tolist(), title
