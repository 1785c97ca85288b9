"""The figures that compare what was found with the truth, and with the paper.

What is true is a thick grey line, what is found is dashed and coloured, and the part of x that no
training row came from is shaded. A *case* is a dataset with the models fitted to it, by name:
``(data, {"SEQL": model})``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..analysis.comparison import match_coefficients, scaled_mse
from ..analysis.truth import curve, feature, rows_at, true_equation
from ..baselines import by_term
from ..datasets import Dataset
from ..equation import tex
from ..equation.writing import plain, text
from ..style import SHADE, TRUE, TRUE_LINE, Frame, Slider, legend, look, styled
from .pdes import title

Case = tuple[Dataset, Mapping[str, Any]]


# --- what the figures are made of ----------------------------------------------------------


def _span(column: pd.Series) -> tuple[float, float]:
    return round(float(column.min()), 2), round(float(column.max()), 2)


def x_grid(data: Dataset, points: int) -> np.ndarray:
    """Evenly spaced points over the range of the test x."""
    return np.linspace(*_span(data.X_test[feature(data)]), points)


def _outside(data: Dataset) -> list[tuple[float, float]]:
    """The ranges of the test x from which no training row came."""
    low, high = _span(data.X_train[feature(data)])
    left, right = _span(data.X_test[feature(data)])
    return [(start, end) for start, end in ((left, low), (high, right)) if start < end]


def shade(ax: Axes, data: Dataset) -> None:
    """Shade the part of x without training rows."""
    for start, end in _outside(data):
        ax.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)


def draw_curves(ax: Axes, data: Dataset, models: Mapping[str, Any], t: float) -> None:
    """The true curve at ``t`` and those that the models found."""
    shade(ax, data)
    x = x_grid(data, 241)
    ax.plot(x, curve(true_equation(data, t), data, x), **TRUE)
    for name, model in models.items():
        ax.plot(x, model.predict(rows_at(data, t, x)), **look(name))
    ax.set_xlabel(f"${feature(data)}$")


# --- figures --------------------------------------------------------------------------------


@styled
def predictions(cases: Sequence[Case], t: Sequence[float]) -> Figure:
    """The true and the found curves at several ``t``; a row for each case."""
    size = (2.05 * len(t) + 0.4, 1.75 * len(cases) + 0.6)
    figure, axes = plt.subplots(len(cases), len(t), figsize=size, sharex="row", squeeze=False)
    for row, (data, models) in zip(axes, cases, strict=True):
        for ax, value in zip(row, t, strict=True):
            draw_curves(ax, data, models, value)
            ax.set_title(f"${tex.name(data.name)}$,  ${data.varying} = {value:g}$")
        row[0].set_ylabel(f"${data.y_train.name}$")
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
        ax.set_title(f"${tex.name(data.name)}$:  ${name}({data.varying})$")
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
        ax.set_title(f"${tex.name(data.name)}$")
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
        ax.set_title(f"${tex.name(data.name)}$")
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
    rows = -(-len(panels) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(7.6, 2.2 * rows + 0.5), squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    for ax, (data, models, term) in zip(axes.flat, panels, strict=False):
        true = by_term(data.equation, data.coefficients)[term]
        ax.plot(data.coefficients.index, true, **TRUE)
        for name, model in models.items():
            found = by_term(model.equation_, model.coefficients_).get(term)
            if found is not None:
                ax.plot(model.coefficients_.index, found, **look(name))
        ax.set_title(f"factor of ${tex.tex(term)}$")
        ax.set_xlabel(f"${data.varying}$")
        if np.ptp(true) == 0:  # a constant: do not blow its rounding errors up
            ax.set_ylim(0.5 * true[0], 1.5 * true[0])
    legend(figure)
    return figure


# --- the slider -----------------------------------------------------------------------------


class Moment(NamedTuple):
    """The true and the found curve at one t, and their equations as plain text."""

    true: np.ndarray
    found: np.ndarray
    true_equation: str
    found_equation: str


def slider(model: Any, data: Dataset, *, steps: int = 64, points: int = 101) -> Slider:
    """The true and the found curve with a slider over t; the title gives both equations at t."""
    x = x_grid(data, points).round(4)

    def at(t: float) -> Moment:
        true, found = true_equation(data, t), model.equation(t=t)
        curves = curve(true, data, x), model.predict(rows_at(data, t, x))
        return Moment(*curves, plain(text(true)), plain(text(found)))

    name, outside = type(model).__name__, _outside(data)
    return two_curves(name, data, at, x, feature(data), steps=steps, outside=outside)


def field_slider(
    model: Any, data: Dataset, across: np.ndarray, label: str, *, steps: int = 64
) -> Slider:
    """u_t along the coordinate ``across`` (named ``label``), with a slider over the varying one.

    Rows of the data are ordered by the varying coordinate, then along ``across``.
    """
    known = data.coefficients.index.to_numpy(dtype=float)
    thin = slice(None, None, max(1, len(across) // 128))
    found, true = (
        np.reshape(rows, (len(known), -1))[:, thin]
        for rows in (model.predict(data.X_test), data.y_test.to_numpy())
    )

    def at(t: float) -> Moment:
        row = int(np.abs(known - t).argmin())
        equations = (plain(text(e)) for e in (true_equation(data, t), model.equation(t=t)))
        return Moment(true[row], found[row], *equations)

    return two_curves(type(model).__name__, data, at, across[thin].round(4), label, steps=steps)


def two_curves(
    name: str,
    data: Dataset,
    at: Callable[[float], Moment],
    x: np.ndarray,
    label: str,
    *,
    steps: int,
    outside: Sequence[tuple[float, float]] = (),
    about_zero: bool = True,
    digits: int = 4,
) -> Slider:
    """The truth and what model ``name`` found over ``x``, with a slider over at most ``steps`` t.

    What is ``outside`` is shaded; the y axis reaches as far below zero as above it, or only as far
    as the curve does.
    """
    known = data.coefficients.index.to_numpy(dtype=float)
    values = known[np.unique(np.linspace(0, len(known) - 1, steps).round().astype(int))]
    target = str(data.y_train.name)
    frames, ends = [], []
    for t in values:
        now = at(t)
        curves = [y.round(digits) + 0.0 for y in (now.true, now.found)]  # + 0.0: no -0
        title = f"true: {target} = {now.true_equation}<br>found: {target} = {now.found_equation}"
        frames.append(Frame(f"{t:.3f}", title, {"y": [y.tolist() for y in curves]}))
        ends += [curves[0].min(), curves[0].max()]
    margin = 0.05 * (max(ends) - min(ends))
    top = 1.08 * max(map(abs, ends))
    found_line = {"color": look(name)["color"], "width": 2.5, "dash": "dash"}
    looks = [("true", TRUE_LINE), (f"found by {name}", found_line)]
    made = style.slider(
        f"{data.name}-{name}",
        [{"x": x.tolist(), "name": told, "line": line} for told, line in looks],
        frames,
        bar=data.varying,
        x=(label, (x.min(), x.max())),
        y=(target, (-top, top) if about_zero else (min(ends) - margin, max(ends) + margin)),
        start=int(np.abs(values - 1).argmin()),
    )
    for low, high in outside:
        made.figure.add_vrect(x0=low, x1=high, fillcolor=SHADE, line_width=0, layer="below")
    return made
