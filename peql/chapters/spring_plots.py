"""The figures of the chapter on springs.

As in ``figures``: true is thick and grey, found is coloured, and what lies farther apart than any
training pair is shaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import sympy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..analysis.truth import on_grid, true_equation
from ..datasets.spring import (
    HALF_WIDTH,
    LONGEST,
    PIXELS,
    REACH,
    TARGETS,
    SpringDataset,
    draw_images,
    stiffness,
)
from ..equation.tex import tex
from ..equation.writing import plain, scientific, text
from ..style import SHADE, TRUE, Slider, legend, look, styled
from .figures import Moment, two_curves, with_residuals
from .springs import POSITIONS, line, stiffness_found, symbolic

Case = tuple[SpringDataset, Mapping[str, Any]]
# Rings around crosses: all three are seen where they agree.
MARKERS: dict[str, dict[str, Any]] = {
    "SEQL": {"marker": "o", "markersize": 4, "zorder": 4},
    "HEQL": {"marker": "+", "markersize": 5, "zorder": 5},
    "ReLU": {"marker": "x", "markersize": 5, "markeredgewidth": 1.3, "zorder": 3},
}
PAIRS_SHOWN = 100


def _values(data: SpringDataset, t: float, stretch: np.ndarray) -> np.ndarray:
    return TARGETS[data.name].value(stiffness(np.array(t)), stretch)


def _shade(ax: Axes) -> None:
    for side in (-1, 1):
        ax.axvspan(side * LONGEST, side * 2 * REACH, color=SHADE, linewidth=0, zorder=0)


@styled
def images(data: SpringDataset, rows: int = 5) -> Figure:
    """The first pairs of training images at one t, and what is to be predicted from them."""
    size = (8, 0.55 * rows + 0.6)
    figure, axes = plt.subplots(rows, 2, figsize=size, sharex=True, squeeze=False)
    edges = (-HALF_WIDTH, HALF_WIDTH, 0, 1)
    first = int(np.abs(data.X_train["t"] - 1).argmin())
    for row, pair in zip(axes, range(first, first + rows), strict=True):
        for ax, image in zip(row, data.images_train[pair], strict=True):
            ax.imshow(image[None], aspect="auto", cmap="gray", extent=edges, vmin=0, vmax=1)
            ax.set(yticks=[])
            ax.grid(visible=False)
        y, t = data.y_train[pair], data.X_train["t"][pair]
        row[1].set_title(f"${data.y_train.name} = {y:.2f}$ at $t = {t:.2f}$", loc="right", pad=2)
    axes[0, 0].set_title("first image")
    axes[0, 1].set_title("second image", loc="left")
    for ax in axes[-1]:
        ax.set_xlabel(rf"$\psi$, {PIXELS} pixels")
    return figure


@styled
def predictions(cases: Sequence[Case], t: Sequence[float]) -> Figure:
    """Predictions for the test pairs at several ``t``, over the distance, with the error below."""
    size = (2.1 * len(t) + 0.4, 3.4 * len(cases) + 0.6)
    heights = [1.5, 1] * len(cases)
    figure, axes = plt.subplots(
        2 * len(cases),
        len(t),
        figsize=size,
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=heights,
    )
    stretch = np.linspace(-2 * REACH, 2 * REACH, 121)
    for above, below, (data, models) in zip(axes[::2], axes[1::2], cases, strict=True):
        for ax, error, value in zip(above, below, t, strict=True):
            point = on_grid(data, value)
            for panel in (ax, error):
                _shade(panel)
            ax.plot(stretch, _values(data, point, stretch), **TRUE)
            error.axhline(0, color=TRUE["color"], linewidth=TRUE["linewidth"])
            rows = np.flatnonzero(data.X_test["t"] == point)[:PAIRS_SHOWN]
            apart = (data.X_test["psi2"] - data.X_test["psi1"])[rows]
            for name, model in models.items():
                found = model.predict(data.images_test[rows], data.X_test["t"][rows])
                marks = {"markeredgecolor": look(name)["color"], "label": name, **MARKERS[name]}
                marks |= {"linestyle": "none", "markerfacecolor": "none"}
                ax.plot(apart, found, **marks)
                error.plot(apart, found - data.y_test.to_numpy()[rows], **marks)
            ax.set_title(f"$t = {value:g}$")
        above[0].set_ylabel(f"${data.y_train.name}$")
        below[0].set_ylabel("error")
    for ax in axes[-1]:
        ax.set_xlabel(r"$\psi_2 - \psi_1$")
    legend(figure, shaded=True)
    return figure


@styled
def coefficients(case: Case) -> Figure:
    """k(t) as each term found gives it, carried over to the positions, and its error below."""
    data, models = case
    found = {name: stiffness_found(model, data) for name, model in symbolic(models).items()}
    terms = list(next(iter(found.values())))
    figure, axes = with_residuals(len(terms), 2.8, sharey="row")
    true = data.coefficients["k"]
    for (ax, below), term in zip(axes.T, terms, strict=True):
        ax.plot(true, **TRUE)
        below.axhline(0, **{**TRUE, "label": "true"})
        for name, table in found.items():
            ax.plot(table[term], **look(name))
            below.plot(100 * (table[term] / true - 1), **look(name))
        ax.set_title(rf"$k(t)$ from the term in ${tex(sympy.sympify(term))}$")
        below.set_xlabel("$t$")
    axes[0, 0].set_ylim(bottom=0)
    axes[1, 0].set_ylabel("error, %")
    legend(figure)
    return figure


@styled
def encodings(cases: Sequence[Case]) -> Figure:
    """The latent variable over the true position, with the line through it, and below it the
    distance from that line; a pair of rows a target.
    """
    n_models = max(len(models) for _, models in cases)
    figure, axes = plt.subplots(
        2 * len(cases),
        n_models,
        figsize=(2.9 * n_models, 3.2 * len(cases) + 0.5),
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=[2, 1] * len(cases),
    )
    position = np.linspace(-REACH, REACH, 121)
    both = draw_images(np.stack([position, position], axis=1))
    for row, below, (data, models) in zip(axes[::2], axes[1::2], cases, strict=True):
        for ax, rest, (name, model) in zip(row, below, models.items(), strict=False):
            straight, found = line(model, data), model.latent(both)[:, 0]
            fitted = straight.slope * position + straight.offset
            ax.plot(position, fitted, **{**TRUE, "label": "straight line"})
            ax.plot(position, found, **{**look(name), "linestyle": "-"})
            rest.axhline(0, color=TRUE["color"], linewidth=TRUE["linewidth"])
            rest.plot(position, found - fitted, **{**look(name), "linestyle": "-"})
            bend = scientific(1 - abs(straight.r), 1)
            ax.set_title(f"{name}, {data.name.removeprefix('spring_')}: 1 − |r| = {bend}")
        row[0].set_ylabel("latent $z$")
        below[0].set_ylabel("$z$ − line")
    for ax in axes[-1]:
        ax.set_xlabel(r"true position $\psi$")
    legend(figure)
    return figure


def slider(name: str, case: Case, *, steps: int = 64, points: int = 61) -> Slider:
    """The truth and what model ``name`` predicts over the distance, with a slider over t.

    The particles stand symmetrically about 0. The title gives both equations at t.
    """
    data, model = case[0], case[1][name]
    stretch = np.linspace(-2 * REACH, 2 * REACH, points).round(4)
    pairs = draw_images(np.stack([-stretch / 2, stretch / 2], axis=1))
    straight = line(model, data)

    def at(t: float) -> Moment:
        found = straight.carry(model.equation(t=t), POSITIONS)
        equations = (_greek(text(e, ".2f")) for e in (true_equation(data, t), found))
        curves = _values(data, t, stretch), model.predict(pairs, np.full(points, t))
        return Moment(*curves, *equations)

    options: dict[str, Any] = {"steps": steps, "about_zero": False, "digits": 3}
    outside = [(side * LONGEST, side * 2 * REACH) for side in (-1, 1)]
    return two_curves(name, data, at, stretch, "ψ₂ − ψ₁", outside=outside, **options)


def _greek(equation: str) -> str:
    """Plain text with ψ₁ for psi1.

    >>> _greek("3.05*psi1**2")
    '3.05 ψ₁²'
    """
    return plain(equation).replace("psi1", "ψ₁").replace("psi2", "ψ₂")
