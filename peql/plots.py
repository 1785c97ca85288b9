"""The figures of a result in a reader's own data: what was measured is grey, what was found is
coloured. They take a fitted model by its public attributes and load no part of the engine.

Where the varying column holds labels, there are points with error bars instead of lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas.api.types import is_numeric_dtype

from .equation.writing import plain, text
from .style import FOUND, Frame, Slider, label, legend, slider, styled

DATA: dict[str, Any] = {"color": "#9a9a9a", "markersize": 2.5, "linestyle": "", "marker": "o"}
FEW = 8  # rows at one t that are enough to show; of fewer, the neighbours' are shown as well
NEIGHBOURS = 24
MOST_ROWS = 20_000  # points in a panel, evenly chosen from more
MOST_LABELS = 40  # that are written along an axis


def has_labels(model: Any) -> bool:
    """Whether the varying column holds labels, not numbers."""
    return not is_numeric_dtype(model.coefficients_.index.dtype)


def _look(model: Any) -> dict[str, Any]:
    kind = type(model).__name__
    return {**FOUND[kind], "linestyle": "-", "label": f"found by {kind}"}


def _varying(model: Any) -> str:
    return str(model.varying_names_[0])


def _thin(rows: np.ndarray) -> np.ndarray:
    """Positions of at most ``MOST_ROWS`` of the rows."""
    return rows[:: max(1, -(-len(rows) // MOST_ROWS))]


def steps_to_show(values: pd.Series, n: int = 4) -> list[Any]:
    """At most ``n`` of the values of the varying column, evenly spread, the ends left out."""
    t = np.unique(values.to_numpy())
    places = np.linspace(0, len(t) - 1, n + 2)[1:-1].round().astype(int)
    return [value.item() if isinstance(value, np.generic) else value for value in t[places]]


def _near(values: pd.Series, t: Any) -> np.ndarray:
    """The positions of the rows at ``t``; if they are few, those of its neighbours as well."""
    own = values.to_numpy()
    exact = np.flatnonzero(own == t)
    if len(exact) >= FEW or not is_numeric_dtype(values.dtype):
        return exact
    return np.sort(np.abs(own.astype(float) - t).argsort(kind="stable")[:NEIGHBOURS])


def _written(t: Any) -> str:
    return f"{t:.4g}" if isinstance(t, (int, float)) else label(t)


@styled
def fits(model: Any, X: pd.DataFrame, y: pd.Series, t: Sequence[Any] | None = None) -> Figure:
    """Measured and found at several ``t``: over the feature, or, of several features, against
    each other.
    """
    name = _varying(model)
    shown = list(dict.fromkeys(steps_to_show(X[name]) if t is None else t))
    figure, axes = plt.subplots(
        1, len(shown), figsize=(2.3 * len(shown) + 0.4, 2.7), sharey=True, squeeze=False
    )
    features = [c for c in X.columns if c != name]
    for ax, value in zip(axes[0], shown, strict=True):
        rows = _thin(_near(X[name], value))
        measured = np.asarray(y)[rows]
        if len(features) == 1:
            x = X[features[0]].to_numpy(dtype=float)[rows]
            line = np.linspace(x.min(), x.max(), 101)
            grid = pd.DataFrame({features[0]: line, name: value})[list(X.columns)]
            ax.plot(x, measured, label="measured", **DATA)
            ax.plot(line, model.predict(grid), **_look(model))
            ax.set_xlabel(label(features[0]))
        else:
            ends = [measured.min(), measured.max()]
            ax.plot(ends, ends, color="black", linewidth=0.8, label="found = measured")
            ax.plot(model.predict(X.iloc[rows]), measured, label="a row", **DATA)
            ax.set_xlabel(f"{label(y.name)}, found")
        ax.set_title(f"{label(name)} = {_written(value)}")
    axes[0, 0].set_ylabel(label(y.name) + ("" if len(features) == 1 else ", measured"))
    legend(figure)
    return figure


@styled
def coefficient_functions(model: Any, breaks: pd.DataFrame | None = None) -> Figure:
    """Each coefficient function with a band of two standard errors; ``breaks`` of ``model.jumps``
    are marked. Of labels, a point each with a bar.
    """
    names = list(model.coefficients_)
    figure, axes = plt.subplots(
        1, max(len(names), 1), figsize=(3.4 * max(len(names), 1), 2.9), squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=False):
        value = model.coefficients_[name].to_numpy(dtype=float)
        error = 2 * model.coefficient_errors_[name].to_numpy(dtype=float)
        if has_labels(model):
            _points(ax, model, value, error)
        else:
            own = [] if breaks is None else breaks[breaks["coefficient"] == name]["t"].tolist()
            _lines(ax, model, value, error, own)
        ax.set_title(f"{label(name)}({label(_varying(model))})")
        ax.set_xlabel(label(_varying(model)))
    if names:
        legend(figure)
    else:
        axes[0, 0].text(0.5, 0.5, "no coefficient varies", ha="center")
        axes[0, 0].set_axis_off()
    return figure


def _lines(ax: Axes, model: Any, value: np.ndarray, error: np.ndarray, breaks: list[float]) -> None:
    t = model.coefficients_.index.to_numpy(dtype=float)
    band = {"color": _look(model)["color"], "alpha": 0.3, "linewidth": 0}
    for piece in np.split(np.arange(len(t)), np.searchsorted(t, breaks)):
        low, high = value[piece] - error[piece], value[piece] + error[piece]
        ax.fill_between(t[piece], low, high, label="± 2 standard errors", **band)
        ax.plot(t[piece], value[piece], **_look(model))
    for place in breaks:
        ax.axvline(place, color="black", linestyle=":", linewidth=1, label="jump or corner")


def _points(ax: Axes, model: Any, value: np.ndarray, error: np.ndarray) -> None:
    places = np.arange(len(value))
    look = {**_look(model), "linestyle": "", "marker": "o"}
    look["label"] += ", ± 2 standard errors"
    ax.errorbar(places, value, np.nan_to_num(error), capsize=2, **look)
    _label_axis(ax, model.coefficients_.index)


def _label_axis(ax: Axes, index: pd.Index) -> None:
    """The labels below their points, if they are few enough to be read."""
    if len(index) <= MOST_LABELS:
        short = [label(str(v) if len(str(v)) <= 12 else f"{str(v)[:11]}…") for v in index]
        many = len(index) > 4
        ax.set_xticks(
            range(len(index)), short, rotation=90 if many else 0, fontsize=7 if many else 9
        )
    ax.grid(axis="x", visible=False)


@styled
def residuals(model: Any, X: pd.DataFrame, y: pd.Series) -> Figure:
    """The residuals over the prediction, and their root mean square at each t."""
    predicted = model.predict(X)
    residual = np.asarray(y, dtype=float) - predicted
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9))
    shown = _thin(np.arange(len(residual)))
    left.plot(predicted[shown], residual[shown], **DATA)
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel=f"{label(y.name)}, found", ylabel="measured − found")
    own = X[_varying(model)]
    rms = pd.Series(residual**2).groupby(own.to_numpy()).mean() ** 0.5
    if is_numeric_dtype(own.dtype):
        right.plot(rms.index, rms, **_look(model))
    else:
        right.plot(range(len(rms)), rms, **{**_look(model), "linestyle": "", "marker": "o"})
        _label_axis(right, rms.index)
    right.set(xlabel=label(_varying(model)), ylabel="rms of measured − found")
    right.set_ylim(0, 1.2 * float(rms.max()) or None)
    return figure


@styled
def trade_off(table: pd.DataFrame) -> Figure:
    """Error against the number of weights; what is best for its size is joined."""
    figure, ax = plt.subplots(figsize=(5.2, 3.2))
    shown = table.assign(unexplained=table["unexplained"].clip(lower=1e-30))
    ax.plot(shown["weights"], shown["unexplained"], "o", color="#0072B2", label="an equation")
    front = shown[shown["front"]]
    ax.plot(front["weights"], front["unexplained"], "k-", linewidth=1, label="best of its size")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(yscale="log", xlabel="weights in the formula", ylabel="unexplained share of variance")
    legend(figure)
    return figure


def fit_slider(model: Any, X: pd.DataFrame, y: pd.Series, *, steps: int = 48) -> Slider:
    """Measured points and the found curve with a slider over t; for one feature."""
    name = _varying(model)
    features = [c for c in X.columns if c != name]
    if len(features) != 1:
        raise ValueError(f"a curve needs exactly one feature; there are {features}")
    t = np.unique(X[name].to_numpy())
    own = X[features[0]].to_numpy(dtype=float)
    line = np.linspace(own.min(), own.max(), 61)
    frames = []
    for value in t[np.unique(np.linspace(0, len(t) - 1, steps).round().astype(int))]:
        rows = _near(X[name], value)
        grid = pd.DataFrame({features[0]: line, name: value})[list(X.columns)]
        measured, found = np.asarray(y)[rows].round(4), model.predict(grid).round(4) + 0.0
        places = [own[rows].round(4).tolist(), line.round(4).tolist()]
        shown = value.item() if isinstance(value, np.generic) else value
        title = f"{y.name} = {plain(text(model.equation(t=value)))}"
        curves = {"x": places, "y": [measured.tolist(), found.tolist()]}
        frames.append(Frame(_written(shown), title, curves))
    look = _look(model)
    return slider(
        f"own-{type(model).__name__}",
        [
            {"name": "measured", "mode": "markers", "marker": {"color": DATA["color"]}},
            {"name": look["label"], "line": {"color": look["color"], "width": 2.5}},
        ],
        frames,
        bar=name,
        x=(features[0], (own.min(), own.max())),
        y=(str(y.name), (y.min(), y.max())),
    )
