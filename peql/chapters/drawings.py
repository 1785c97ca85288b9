"""Drawings of the three architectures, and the figure that opens the book.

A matrix of weights is a small grid: a filled square is an open gate, an empty one a closed gate.
The primitives and the widths of the meta-weight unit are read from the code that uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import sympy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import nn

from .._suggest import unknown_name
from ..analysis.truth import feature, true_equation
from ..datasets import Dataset
from ..datasets.spring import PIXELS
from ..equation.tex import tex
from ..nn.encoder import ImageEncoder, Latent
from ..nn.weights import HIDDEN
from ..primitives import DEFAULT, get
from ..style import SHADE, TRUE, legend, look, styled
from .figures import draw_curves

INK, FAINT, OPEN = "#333333", "#9a9a9a", "#0072B2"
CELL = 1.7  # side of a weight's square; the drawing is 100 wide
MIDDLE = 9.0  # height of the row of layers
OPEN_GATES = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]])


@styled
def architecture(model: str) -> Figure:
    """The network of ``model``, "EQL", "SEQL" or "HEQL": data flow to the right, weights above.

    >>> figure = architecture("HEQL")
    >>> any("64" in text.get_text() for text in figure.axes[0].texts)
    True
    """
    sources: dict[str, tuple[Callable[[Axes, float], None], float]] = {
        "EQL": (_one_matrix, 18.5),
        "SEQL": (_stack, 21.5),
        "HEQL": (_meta_weights, 33.0),
    }
    if model not in sources:
        raise unknown_name("model", model, sources)
    source, height = sources[model]
    figure, ax = plt.subplots(figsize=(7.8, 0.078 * (height + 2)))
    ax.set(xlim=(0, 100), ylim=(-2, height), aspect="equal")
    ax.axis("off")
    _layers(ax, "$x, t$" if model == "EQL" else "$x$", source)
    return figure


@styled
def encoder() -> Figure:
    """The encoder before SEQL or HEQL: two images, one set of layers, two latent variables."""
    module = Latent(ImageEncoder(), n_latent=1)
    layers = [name for name in map(_layer, module.modules()) if name]
    figure, ax = plt.subplots(figsize=(7.8, 2.5))
    ax.set(xlim=(0, 100), ylim=(0, 32), aspect="equal")
    ax.axis("off")
    random = np.linspace(-4, 4, PIXELS)
    for row, (y, position) in enumerate(((25, -1.2), (5, 1.6)), start=1):
        image = np.exp(-((random - position) ** 2) / (2 * 0.1**2))[None]
        ax.imshow(image, extent=(1, 15, y - 1, y + 1), cmap="gray", aspect="auto", zorder=2)
        ax.text(8, y + 2.6, f"image {row}", ha="center", fontsize=9)
        _arrow(ax, (15.5, y), (21, y))
        left = 21.5
        for name in layers:
            width = 3.2
            box = Rectangle((left, y - 4.7), width, 9.4, facecolor=SHADE, edgecolor="#c9bfa8")
            ax.add_patch(box)
            ax.text(left + width / 2, y, name, rotation=90, ha="center", va="center", fontsize=6)
            left += width + 0.9
        _arrow(ax, (left - 0.4, y), (left + 3.4, y))
        ax.add_patch(Circle((left + 5.6, y), 2, facecolor="white", edgecolor=INK, zorder=3))
        ax.text(left + 5.6, y, f"$z_{row}$", ha="center", va="center", fontsize=10, zorder=4)
        _arrow(ax, (left + 7.8, y), (left + 13, 15 + (1.5 if row == 1 else -1.5)))
    ax.plot([21.5, left - 0.9], [15, 15], color=FAINT, linewidth=1, linestyle=(0, (3, 2)))
    ax.text((20.6 + left) / 2, 15.6, "the same weights", ha="center", fontsize=8, color=INK)
    head = FancyBboxPatch((left + 13.6, 10), 11, 10, boxstyle="round,pad=0.5", facecolor="white")
    head.set_edgecolor(OPEN)
    ax.add_patch(head)
    ax.text(left + 19.1, 15, "SEQL or\nHEQL", ha="center", va="center", fontsize=10)
    _arrow(ax, (left + 25.2, 15), (left + 29, 15))
    ax.text(left + 30, 15, "$F$ or $E$", ha="left", va="center", fontsize=10)
    return figure


def _layer(module: nn.Module) -> str:
    """The label of a layer of the encoder; "" for a module without weights."""
    if isinstance(module, nn.Conv1d):
        return f"convolution, {module.out_channels}"
    if isinstance(module, nn.Linear):
        return f"dense, {module.out_features}"
    return "batch norm" if isinstance(module, nn.BatchNorm1d) else ""


# --- parts of a drawing ---------------------------------------------------------------------


def _layers(ax: Axes, inputs: str, source: Callable[[Axes, float], None]) -> None:
    """Input, two hidden layers, output; ``source`` draws the weights of a layer."""
    _node(ax, 4, inputs)
    start = 4.0
    for layer, (matrix, units, end) in enumerate([(15, 30, 42), (53, 68, 80)], start=1):
        _arrow(ax, (start + 2, MIDDLE), (matrix - 4.6, MIDDLE))
        source(ax, matrix)
        _arrow(ax, (matrix + 4.6, MIDDLE), (units - 5.6, MIDDLE))
        _primitives(ax, units)
        _arrow(ax, (units + 5.6, MIDDLE), (end - 2, MIDDLE))
        _skip(ax, start, end)
        _node(ax, end, f"$h_{layer}$")
        start = end
    _arrow(ax, (start + 2, MIDDLE), (84.4, MIDDLE))
    source(ax, 89)
    _arrow(ax, (93.6, MIDDLE), (95.4, MIDDLE))
    _node(ax, 97.4, "$y$")


def _node(ax: Axes, x: float, label: str) -> None:
    ax.add_patch(Circle((x, MIDDLE), 2, facecolor="white", edgecolor=INK, zorder=3))
    ax.text(x, MIDDLE, label, ha="center", va="center", fontsize=10, zorder=4)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(start, end, color=INK, linewidth=1, **style))


def _skip(ax: Axes, start: float, end: float) -> None:
    """The skip connection from a layer's input to its output."""
    leave, arrive = start + 0.8, end - 0.8
    path = ([leave, leave, arrive], [MIDDLE - 1.8, 0, 0])
    ax.plot(*path, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    _arrow(ax, (arrive, 0), (arrive, MIDDLE - 1.8))
    ax.text((start + end) / 2, 0.3, "skip", ha="center", va="bottom", fontsize=8, color=INK)


def _primitives(ax: Axes, x: float) -> None:
    """The activations of a layer, as the default primitives print themselves."""
    box = FancyBboxPatch((x - 5, 2.4), 10, 13.2, boxstyle="round,pad=0.5", facecolor=SHADE)
    box.set_edgecolor("#c9bfa8")
    ax.add_patch(box)
    for place, (name, copies) in enumerate(DEFAULT.items()):
        primitive = get(name)
        names = ["g"] if primitive.arity == 1 else [f"g_{k + 1}" for k in range(primitive.arity)]
        formula = tex(primitive.sympy(*sympy.symbols(names)))
        formula = formula.replace(r"\left(", "(").replace(r"\right)", ")")
        ax.text(
            x, 14.3 - 2.65 * place, f"${formula}$  ×{copies}", fontsize=8, ha="center", va="center"
        )


def _matrix(ax: Axes, x: float, y: float, zorder: float = 2) -> None:
    rows, columns = OPEN_GATES.shape
    for (row, column), is_open in np.ndenumerate(OPEN_GATES):
        corner = (x + (column - columns / 2) * CELL, y + (rows / 2 - 1 - row) * CELL)
        face = OPEN if is_open else "white"
        square = Rectangle(corner, CELL, CELL, facecolor=face, edgecolor=FAINT, linewidth=0.6)
        square.set_zorder(zorder)
        ax.add_patch(square)


def _one_matrix(ax: Axes, x: float) -> None:
    _matrix(ax, x, MIDDLE)
    ax.text(x, MIDDLE + 6, r"$\tilde W \odot z$", ha="center", fontsize=9)


def _stack(ax: Axes, x: float) -> None:
    """A matrix for each t, the same gates in all."""
    for depth in (3, 2, 1, 0):
        _matrix(ax, x + 0.8 * depth - 0.8, MIDDLE + 0.9 * depth, 2 - 0.1 * depth)
    label = r"$\tilde W(t_1), \tilde W(t_2), …$" + "\n" + r"$\odot\ z$, one for all $t$"
    ax.text(x + 0.4, MIDDLE + 8.2, label, ha="center", fontsize=8.5, linespacing=1.5)


def _meta_weights(ax: Axes, x: float) -> None:
    """A small network of t above the matrix that it makes."""
    _matrix(ax, x, MIDDLE)
    ax.text(x + 1, MIDDLE + 6.2, r"$\tilde W(t) \odot z$", ha="left", fontsize=9)
    _arrow(ax, (x, 18.8), (x, MIDDLE + 4.6))
    levels = [(29.0, 1), *zip((26.2, 23.4, 20.6), (3, 3, 5), strict=True)]
    places = [[(x + 2.2 * (k - (n - 1) / 2), y) for k in range(n)] for y, n in levels]
    for above, below in pairwise(places):
        for a in above:
            for b in below:
                ax.plot(*zip(a, b, strict=True), color=FAINT, linewidth=0.5, zorder=1)
    for level in places:
        for place in level:
            ax.add_patch(
                Circle(place, 0.65, facecolor="white", edgecolor=INK, linewidth=0.8, zorder=2)
            )
    ax.text(x, 30.4, "$t$", ha="center", fontsize=10)
    for (y, _), width in zip(levels[1:], HIDDEN, strict=True):
        ax.text(x + 5.8, y, str(width), va="center", fontsize=8, color=INK)


# --- the figure that opens the book ---------------------------------------------------------


@styled
def overview(data: Dataset, models: Mapping[str, Any], t: tuple[float, float]) -> Figure:
    """Curves at two ``t``, and the slope in x at x = 0 over all t: the coefficient that jumps."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.1))
    for ax, value in zip(axes[:2], t, strict=True):
        draw_curves(ax, data, models, value)
        ax.set_title(f"curve at ${data.varying} = {value:g}$")
    grid = data.coefficients.index.to_numpy(dtype=float)
    x = sympy.Symbol(feature(data))
    axes[2].plot(grid, [_slope(true_equation(data, v), x) for v in grid], **TRUE)
    for name, model in models.items():
        values = [_slope(model.equation(t=v), x) for v in grid]
        axes[2].plot(grid, values, **look(name))
    axes[2].set_title(f"slope at ${x} = 0$")
    axes[2].set_xlabel(f"${data.varying}$")
    legend(figure, shaded=True)
    return figure


def _slope(equation: sympy.Expr, x: sympy.Symbol) -> float:
    return float(sympy.diff(equation, x).subs(x, 0))
