"""Every figure. What is true is a thick grey line, what is found is dashed and coloured, and the
part of x that no training row came from is shaded.

A *case* is a dataset with the models fitted to it, by name: ``(data, {"SEQL": model})``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from . import paper
from .baselines import by_term
from .datasets import Dataset
from .evaluation import match_coefficients, scaled_mse
from .formatting import plain, symbol, text
from .truth import curve, feature, rows_at, true_equation

Case = tuple[Dataset, Mapping[str, Any]]
Frame = tuple[list[float], list[float], str]  # true curve, found curve, title

STYLE = Path(__file__).with_name("peql.mplstyle")
TRUE = {"color": "#bdbdbd", "linewidth": 5.0, "solid_capstyle": "round", "label": "true"}
FOUND: dict[str, dict[str, Any]] = {
    "EQL": {"color": "#D55E00", "linestyle": (0, (4, 1.5))},
    "SEQL": {"color": "#0072B2", "linestyle": (0, (4, 2))},
    "HEQL": {"color": "#E69F00", "linestyle": (0, (1, 1.5))},
}
OTHER = {"color": "#009E73", "linestyle": (0, (5, 1.5, 1, 1.5))}
SHADE = "#f3ede0"


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw with the book's style sheet and leave the reader's own settings alone."""

    @wraps(draw)
    def styled(*args: Any, **kwargs: Any) -> Figure:
        with plt.style.context(STYLE):
            return draw(*args, **kwargs)

    return styled


# --- what the figures are made of ----------------------------------------------------------


def _span(column: pd.Series) -> tuple[float, float]:
    return round(float(column.min()), 2), round(float(column.max()), 2)


def _test_x(data: Dataset, points: int) -> np.ndarray:
    return np.linspace(*_span(data.X_test[feature(data)]), points)


def _outside(data: Dataset) -> list[tuple[float, float]]:
    """The ranges of the test x from which no training row came."""
    low, high = _span(data.X_train[feature(data)])
    left, right = _span(data.X_test[feature(data)])
    return [(start, end) for start, end in ((left, low), (high, right)) if start < end]


def _shade(ax: Axes, data: Dataset) -> None:
    for start, end in _outside(data):
        ax.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)


def _look(name: str) -> dict[str, Any]:
    return {**FOUND.get(name, OTHER), "label": name}


def _legend(figure: Figure, *, shaded: bool = False) -> None:
    """One legend for all panels, above them."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if shaded:
        entries["extrapolated"] = Patch(facecolor=SHADE, edgecolor="#d8cfba")
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries))


# --- figures --------------------------------------------------------------------------------


@_styled
def predictions(cases: Sequence[Case], t: Sequence[float]) -> Figure:
    """The true and the found curves at several ``t``; a row for each case."""
    size = (2.05 * len(t) + 0.4, 1.75 * len(cases) + 0.6)
    figure, axes = plt.subplots(len(cases), len(t), figsize=size, sharex="row", squeeze=False)
    for row, (data, models) in zip(axes, cases, strict=True):
        x = _test_x(data, 241)
        for ax, value in zip(row, t, strict=True):
            _shade(ax, data)
            ax.plot(x, curve(true_equation(data, value), data, x), **TRUE)
            for name, model in models.items():
                ax.plot(x, model.predict(rows_at(data, value, x)), **_look(name))
            ax.set_title(f"${symbol(data.name)}$,  ${data.varying} = {value:g}$")
        row[0].set_ylabel(f"${data.y_train.name}$")
        for ax in row:
            ax.set_xlabel(f"${feature(data)}$")
    _legend(figure, shaded=True)
    return figure


@_styled
def coefficients(cases: Sequence[Case]) -> Figure:
    """The coefficient functions, true and found; a panel for each."""
    panels = [(*case, name) for case in cases for name in case[0].coefficients]
    figure, axes = plt.subplots(1, len(panels), figsize=(2.7 * len(panels), 2.9), squeeze=False)
    for ax, (data, models, name) in zip(axes[0], panels, strict=True):
        ax.plot(data.coefficients[name], **TRUE)
        for label, model in models.items():
            names = match_coefficients(model.equation_, data)
            found = model.coefficients_.rename(columns=names)
            if name in found:
                ax.plot(found[name], **_look(label))
        ax.set_title(f"${symbol(data.name)}$:  ${name}({data.varying})$")
        ax.set_xlabel(f"${data.varying}$")
    _legend(figure)
    return figure


@_styled
def slopes(cases: Sequence[Case]) -> Figure:
    """The slope in x at x = 0 over t, of the truth and of equations found in x and t."""
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 2.9), squeeze=False)
    for ax, (data, models) in zip(axes[0], cases, strict=True):
        t = data.coefficients.index.to_numpy(dtype=float)
        x, varying = sympy.symbols([feature(data), data.varying])
        ax.plot(t, [sympy.diff(true_equation(data, v), x).subs(x, 0) for v in t], **TRUE)
        for name, model in models.items():
            slope = sympy.lambdify(varying, sympy.diff(model.equation_, x).subs(x, 0), "numpy")(t)
            ax.plot(t, np.broadcast_to(slope, t.shape), **_look(name))
        ax.set_title(f"${symbol(data.name)}$")
        ax.set_xlabel(f"${data.varying}$")
    axes[0, 0].set_ylabel(r"$\partial y/\partial x$ at $x = 0$")
    _legend(figure)
    return figure


@_styled
def error_over_x(cases: Sequence[Case], bins: int = 40) -> Figure:
    """The test error in the paper's units over x, root of the mean square over t."""
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 2.9), squeeze=False)
    for ax, (data, models) in zip(axes[0], cases, strict=True):
        _shade(ax, data)
        column = data.X_test[feature(data)]
        edges = np.linspace(*_span(column), bins + 1)
        groups = np.digitize(column, edges[1:-1])
        for name, model in models.items():
            error = model.predict(data.X_test) - data.y_test
            inside = [groups == k for k in range(bins)]
            mse = [scaled_mse(data, data.X_test[rows], error[rows]) for rows in inside]
            ax.plot((edges[1:] + edges[:-1]) / 2, np.sqrt(mse), **{**_look(name), "linestyle": "-"})
        ax.set_title(f"${symbol(data.name)}$")
        ax.set_xlabel(f"${feature(data)}$")
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("rms error / range of y")
    _legend(figure, shaded=True)
    return figure


@_styled
def errors_over_trials(
    results: pd.DataFrame, column: str = "test_mse_scaled", table: str = "analytic_mse"
) -> Figure:
    """Each trial's error as a dot, the paper's best and mean beside them."""
    functions, models = list(results["function"].unique()), list(results["model"].unique())
    size = (4 * len(models), 3.6)
    figure, axes = plt.subplots(1, len(models), figsize=size, sharey=True, squeeze=False)
    for ax, model in zip(axes[0], models, strict=True):
        for place, function in enumerate(functions):
            chosen = results[(results["model"] == model) & (results["function"] == function)]
            error = np.sort(chosen[column].clip(lower=1e-33))
            beside = place + np.linspace(-0.3, 0.3, len(error))
            look = {"color": FOUND[model]["color"], "edgecolor": "black", "linewidth": 0.3}
            ax.scatter(beside, error, s=13, label="a trial, sorted", **look)
            for kind, style in (("best", "-"), ("mean", (0, (1.5, 1)))):
                level = paper.table(table, kind, function, model)
                ends = (place - 0.38, place + 0.38)
                label = f"paper, {kind} of 40"
                ax.hlines(level, *ends, color="black", linestyle=style, linewidth=1.6, label=label)
        ax.set_yscale("log")
        ax.set_xticks(range(len(functions)), [f"${symbol(f)}$" for f in functions])
        ax.grid(axis="x", visible=False)
        ax.set_title(model)
    axes[0, 0].set_ylabel("test MSE, scaled units")
    _legend(figure)
    return figure


@_styled
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
        row[0].set_ylabel(f"{data.name.replace('_', '–')}\n$x$ →")
    return figure


@_styled
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
                ax.plot(model.coefficients_.index, found, **_look(name))
        ax.set_title(f"factor of ${sympy.latex(term)}$")
        ax.set_xlabel(f"${data.varying}$")
        if np.ptp(true) == 0:  # a constant: do not blow its rounding errors up
            ax.set_ylim(0.5 * true[0], 1.5 * true[0])
    _legend(figure)
    return figure


@_styled
def noise_study(results: pd.DataFrame) -> Figure:
    """Share of runs with the true terms, and the coefficient error, over the noise in u."""
    equations = list(results["equation"].unique())
    size = (3.6 * len(equations), 5.0)
    figure, axes = plt.subplots(2, len(equations), figsize=size, squeeze=False, sharex=True)
    levels = sorted(results["noise"].unique())
    for column, equation in enumerate(equations):
        for name, runs in results[results["equation"] == equation].groupby("model", sort=False):
            groups = runs.groupby("noise")
            look = {**_look(str(name)), "marker": "o"}
            axes[0, column].plot(range(len(levels)), groups["true_terms"].mean(), **look)
            axes[1, column].plot(range(len(levels)), groups["coefficient_mse"].median(), **look)
        axes[0, column].set_title(equation.replace("_", "–"))
        axes[1, column].set_yscale("log")
        axes[1, column].set_xticks(range(len(levels)), [f"{100 * v:g} %" for v in levels])
        axes[1, column].set_xlabel("noise in u")
    axes[0, 0].set_ylabel("share with the true terms")
    axes[1, 0].set_ylabel("coefficient MSE, median")
    _legend(figure)
    return figure


# --- the slider -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Slider:
    """A plotly ``figure`` that shows itself as HTML without carrying plotly's 4 MB in the page.

    In the book, plotly's script is one file for all pages, at the address ``script`` relative to
    the page. Elsewhere call ``figure.show()``.
    """

    figure: Any
    name: str
    script: str = "../_static/plotly.min.js"

    def _repr_html_(self) -> str:
        body = self.figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            div_id=self.name,
            auto_play=False,
            config={"displayModeBar": False, "responsive": True},
        )
        note = "This figure moves in the built book; in a notebook, call .figure.show()."
        missing = f"document.getElementById({json.dumps(self.name)}).textContent={json.dumps(note)}"
        return (
            f"<div style='overflow:hidden'><script src='{self.script}'></script>{body}"
            f"<script>if (!window.Plotly) {missing}</script></div>"
        )

    def __repr__(self) -> str:
        return f"Slider({self.name!r})"


def plotly_script() -> Path:
    """Plotly's script in the installed package, for the book to copy beside its pages."""
    import plotly

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def slider(model: Any, data: Dataset, *, steps: int = 64, points: int = 101) -> Slider:
    """The true and the found curve with a slider over t; the title gives both equations at t."""
    values = _known_values(data, steps)
    x = _test_x(data, points).round(4)
    frames = [_frame(model, data, t, x) for t in values]
    made = _slider(model, data, values, frames, x, feature(data))
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
    values = _known_values(data, steps)
    frames = []
    for t in values:
        row = int(np.abs(known - t).argmin())
        equations = [true_equation(data, t), model.equation(t=t)]
        title = "true: u_t = {}<br>found: u_t = {}".format(*(plain(text(e)) for e in equations))
        frames.append((true[row].tolist(), predicted[row].tolist(), title))
    return _slider(model, data, values, frames, across[thin].round(4), label)


def _known_values(data: Dataset, steps: int) -> np.ndarray:
    """At most ``steps`` of the values of the varying column, evenly spread."""
    known = data.coefficients.index.to_numpy(dtype=float)
    return known[np.unique(np.linspace(0, len(known) - 1, steps).round().astype(int))]


def _slider(
    model: Any, data: Dataset, values: np.ndarray, frames: list[Frame], x: np.ndarray, label: str
) -> Slider:
    import plotly.graph_objects as go

    start = int(np.abs(values - 1).argmin())
    true, found, title = frames[start]
    name = type(model).__name__
    dashed = {"color": FOUND[name]["color"], "width": 2.5, "dash": "dash"}
    figure = go.Figure(
        [
            go.Scatter(x=x.tolist(), y=true, name="true", line=_TRUE_LINE),
            go.Scatter(x=x.tolist(), y=found, name=f"found by {name}", line=dashed),
        ],
        _PLAIN_LAYOUT,
    )
    top = 1.08 * max(np.abs(frame[0]).max() for frame in frames)
    figure.update_layout(
        sliders=[{**_BAR, "active": start, "steps": _slider_steps(values, frames)}],
        title={"text": title, "x": 0.5, "font": {"size": 15}},
        xaxis={"title": {"text": label}, "range": [float(x.min()), float(x.max())]},
        yaxis={"title": {"text": str(data.y_train.name)}, "range": [-top, top]},
    )
    figure.layout.sliders[0].currentvalue.prefix = f"{data.varying} = "
    return Slider(figure, f"slider-{data.name}-{name}")


_TRUE_LINE = {"color": TRUE["color"], "width": 8}
_PLAIN_LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "height": 480,
    "margin": {"l": 60, "r": 20, "t": 100, "b": 20},
    "legend": {"orientation": "h", "x": 0.5, "xanchor": "center", "y": 1.1},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}
_BAR: dict[str, Any] = {"pad": {"t": 45}, "ticklen": 0, "minorticklen": 0}


def _slider_steps(values: np.ndarray, frames: list[Frame]) -> list[dict[str, Any]]:
    """A step puts the curves at its t and their title into the figure."""
    return [
        {
            "label": f"{t:.3f}".replace("-", "−"),
            "method": "update",
            "args": [{"y": [true, found]}, {"title.text": title}],
        }
        for t, (true, found, title) in zip(values, frames, strict=True)
    ]


def _frame(model: Any, data: Dataset, t: float, x: np.ndarray) -> Frame:
    """The two curves at ``t``, rounded (and without -0), and the title."""
    truth = true_equation(data, t)
    true = curve(truth, data, x).round(4) + 0.0
    found = model.predict(rows_at(data, t, x)).round(4) + 0.0
    equations = [plain(text(equation)) for equation in (truth, model.equation(t=t))]
    title = "true: y = {}<br>found: y = {}".format(*equations)
    return true.tolist(), found.tolist(), title
