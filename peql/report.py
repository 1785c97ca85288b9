"""The result of a fit to a reader's own data as figures and as one HTML page.

What was measured is grey, what was found is coloured. The chapter on the reader's own data and
``peql fit`` show the same.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .formatting import plain, text
from .plots import _BAR, _PLAIN_LAYOUT, FOUND, Slider, _legend, _styled
from .verdict import Verdict

DATA: dict[str, Any] = {"color": "#9a9a9a", "markersize": 2.5, "linestyle": "", "marker": "o"}


def _look(model: Any) -> dict[str, Any]:
    return {**FOUND[type(model).__name__], "linestyle": "-"}


def equation_tex(model: Any, y: pd.Series, digits: int = 3) -> str:
    """The equation in TeX, with names of several letters upright."""
    symbols = {sympy.Symbol(name) for name in (str(y.name), *model._columns)}
    upright = {s: rf"\mathrm{{{s.name}}}".replace("_", r"\_") for s in symbols if len(s.name) > 1}
    right = sympy.latex(rounded(model.equation_, digits), symbol_names=upright)
    return f"{sympy.latex(sympy.Symbol(str(y.name)), symbol_names=upright)} = {right}"


def summary(model: Any, X: pd.DataFrame, y: pd.Series) -> pd.DataFrame:
    """What the table holds: smallest, median and largest value of each column, distinct values."""
    table = X.assign(**{str(y.name): y})
    roles = {model.varying_name_: "varying", str(y.name): "target"}
    return pd.DataFrame(
        {
            "role": [roles.get(c, "feature") for c in table],
            "rows": len(table),
            "distinct values": table.nunique(),
            "smallest": table.min().map("{:.4g}".format),
            "median": table.median().map("{:.4g}".format),
            "largest": table.max().map("{:.4g}".format),
        },
        index=list(table),
    )


def rounded(expression: sympy.Expr, digits: int = 3) -> sympy.Expr:
    """With numbers of a few digits, to read."""
    return expression.xreplace({n: sympy.Float(n, digits) for n in expression.atoms(sympy.Float)})


def jumps_table(breaks: pd.DataFrame) -> pd.DataFrame:
    """Of ``model.jumps``, with numbers of three digits."""
    numbers = ["t", "low", "high", "size"]
    return breaks.assign(**{c: breaks[c].map("{:.3g}".format) for c in numbers})


def explanations_table(explained: pd.DataFrame) -> pd.DataFrame:
    """Of ``model.explain``, with numbers of three digits."""
    written = ["" if e is None else text(e, "#.3g") for e in explained["expression"]]
    return explained.assign(
        low=explained["low"].map("{:.3g}".format),
        high=explained["high"].map("{:.3g}".format),
        expression=written,
        error=explained["error"].map("{:.1%}".format),
    )


def checks(judged: Verdict) -> pd.DataFrame:
    """What was checked, with numbers of three digits."""
    table = judged.checks[["value", "must be", "passed"]].rename_axis(None)
    return table.assign(value=table["value"].map(_short))


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e3 else f"over {10 ** int(np.log10(abs(value))):.0e}"


def steps_to_show(model: Any, n: int = 4) -> list[float]:
    """At most ``n`` of the model's t, evenly spread and with the ends left out."""
    t = model.t_[:, 0]
    places = np.linspace(0, len(t) - 1, n + 2)[1:-1].round().astype(int)
    return [float(value) for value in t[np.unique(places)]]


def _near(X: pd.DataFrame, model: Any, t: float) -> np.ndarray:
    """The rows whose nearest step is ``t``."""
    known = model.t_[:, 0]
    own = X[model.varying_name_].to_numpy(dtype=float)
    nearest = known[np.abs(own[:, None] - known[None]).argmin(axis=1)]
    return nearest == t


@_styled
def fits(model: Any, X: pd.DataFrame, y: pd.Series, t: Sequence[float] | None = None) -> Figure:
    """Measured and found at several ``t``: over the feature, or, of several features, against
    each other.
    """
    shown = steps_to_show(model) if t is None else list(t)
    figure, axes = plt.subplots(
        1, len(shown), figsize=(2.3 * len(shown) + 0.4, 2.7), sharey=True, squeeze=False
    )
    features = [c for c in X.columns if c != model.varying_name_]
    for ax, value in zip(axes[0], shown, strict=True):
        rows = _near(X, model, value)
        measured = np.asarray(y)[rows]
        if len(features) == 1:
            x = X.loc[rows, features[0]].to_numpy(dtype=float)
            line = np.linspace(x.min(), x.max(), 101)
            grid = pd.DataFrame({features[0]: line, model.varying_name_: value})[list(X.columns)]
            ax.plot(x, measured, label="measured", **DATA)
            ax.plot(
                line, model.predict(grid), label=f"found by {type(model).__name__}", **_look(model)
            )
            ax.set_xlabel(features[0])
        else:
            predicted = model.predict(X[rows])
            ends = [measured.min(), measured.max()]
            ax.plot(ends, ends, color="black", linewidth=0.8, label="found = measured")
            ax.plot(predicted, measured, label="a row", **DATA)
            ax.set_xlabel(f"{y.name}, found")
        ax.set_title(f"{model.varying_name_} = {value:.4g}")
    axes[0, 0].set_ylabel(str(y.name) if len(features) == 1 else f"{y.name}, measured")
    _legend(figure)
    return figure


@_styled
def coefficients(model: Any, breaks: pd.DataFrame | None = None) -> Figure:
    """Each coefficient function with a band of two standard errors; ``breaks`` of ``model.jumps``
    are marked.
    """
    names = list(model.coefficients_)
    t = model.t_[:, 0]
    figure, axes = plt.subplots(
        1, max(len(names), 1), figsize=(3.4 * max(len(names), 1), 2.9), squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=False):
        value = model.coefficients_[name].to_numpy()
        error = 2 * model.coefficient_errors_[name].to_numpy()
        own = [] if breaks is None else breaks[breaks["coefficient"] == name]["t"].tolist()
        edges = np.searchsorted(t, own)
        for piece in np.split(np.arange(len(t)), edges):
            band = {"color": FOUND[type(model).__name__]["color"], "alpha": 0.3, "linewidth": 0}
            ax.fill_between(
                t[piece],
                value[piece] - error[piece],
                value[piece] + error[piece],
                label="± 2 standard errors",
                **band,
            )
            ax.plot(
                t[piece], value[piece], label=f"found by {type(model).__name__}", **_look(model)
            )
        for place in own:
            ax.axvline(place, color="black", linestyle=":", linewidth=1, label="jump or corner")
        ax.set_title(f"{name}({model.varying_name_})")
        ax.set_xlabel(model.varying_name_)
    if names:
        _legend(figure)
    else:
        axes[0, 0].text(0.5, 0.5, "no coefficient varies", ha="center")
        axes[0, 0].set_axis_off()
    return figure


@_styled
def residuals(model: Any, X: pd.DataFrame, y: pd.Series) -> Figure:
    """What is not explained: against what is found, and its root mean square at each t."""
    residual = np.asarray(y, dtype=float) - model.predict(X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9))
    left.plot(model.predict(X), residual, **DATA)
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel=f"{y.name}, found", ylabel="measured − found")
    groups = pd.Series(residual).groupby(X[model.varying_name_].to_numpy())
    rms = groups.apply(lambda part: np.sqrt(np.mean(part**2)))
    right.plot(rms.index, rms, **_look(model))
    right.set(xlabel=model.varying_name_, ylabel="rms of measured − found")
    right.set_ylim(0, 1.2 * float(rms.max()) or None)
    return figure


@_styled
def trade_off(table: pd.DataFrame) -> Figure:
    """Error against the number of weights, with the front of what is best for its size."""
    figure, ax = plt.subplots(figsize=(5.2, 3.2))
    shown = table.assign(unexplained=table["unexplained"].clip(lower=1e-30))
    taken = shown["origin"].str.startswith("taken out")
    for rows, marker, label in ((~taken, "o", "on the way of a trial"), (taken, "s", "taken out")):
        part = shown[rows]
        ax.plot(part["weights"], part["unexplained"], marker, color="#0072B2", label=label)
    front = shown[shown["front"]]
    ax.step(front["weights"], front["unexplained"], "k-", where="post", linewidth=1, label="front")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(yscale="log", xlabel="weights in the formula", ylabel="unexplained share of variance")
    _legend(figure)
    return figure


def slider(model: Any, X: pd.DataFrame, y: pd.Series, *, steps: int = 48) -> Slider:
    """Measured points and the found curve with a slider over t; for one feature."""
    import plotly.graph_objects as go

    features = [c for c in X.columns if c != model.varying_name_]
    if len(features) != 1:
        raise ValueError(f"a curve needs exactly one feature; there are {features}")
    t = model.t_[:, 0]
    values = t[np.unique(np.linspace(0, len(t) - 1, steps).round().astype(int))]
    low, high = float(X[features[0]].min()), float(X[features[0]].max())
    line = np.linspace(low, high, 61)
    frames = []
    for value in values:
        rows = _near(X, model, value)
        grid = pd.DataFrame({features[0]: line, model.varying_name_: value})[list(X.columns)]
        found = model.predict(grid).round(4) + 0.0
        points = X.loc[rows, features[0]].to_numpy(dtype=float).round(4)
        title = f"{y.name} = {plain(text(model.equation(t=value)))}"
        frames.append(
            (points.tolist(), np.asarray(y)[rows].round(4).tolist(), found.tolist(), title)
        )
    x, measured, found, title = frames[0]
    name = type(model).__name__
    figure = go.Figure(
        [
            go.Scatter(
                x=x, y=measured, name="measured", mode="markers", marker={"color": "#9a9a9a"}
            ),
            go.Scatter(
                x=line.round(4).tolist(),
                y=found,
                name=f"found by {name}",
                line={"color": FOUND[name]["color"], "width": 2.5},
            ),
        ],
        _PLAIN_LAYOUT,
    )
    bar = [
        {
            "label": f"{value:.4g}".replace("-", "−"),
            "method": "update",
            "args": [{"x": [x, line.round(4).tolist()], "y": [m, f]}, {"title.text": title}],
        }
        for value, (x, m, f, title) in zip(values, frames, strict=True)
    ]
    figure.update_layout(
        sliders=[{**_BAR, "active": 0, "steps": bar}],
        title={"text": title, "x": 0.5, "font": {"size": 15}},
        xaxis={"title": {"text": features[0]}, "range": [low, high]},
        yaxis={"title": {"text": str(y.name)}, "range": [float(y.min()), float(y.max())]},
    )
    figure.layout.sliders[0].currentvalue.prefix = f"{model.varying_name_} = "
    return Slider(figure, f"slider-own-{name}")


# --- one page --------------------------------------------------------------------------------


def figures(
    model: Any, X: pd.DataFrame, y: pd.Series, breaks: pd.DataFrame, table: pd.DataFrame
) -> dict[str, tuple[str, Figure]]:
    """All figures by name, each with its caption."""
    return {
        "fits": ("Measured rows and the equation found, at several values.", fits(model, X, y)),
        "coefficients": (
            "The coefficient functions, with a band of two standard errors.",
            coefficients(model, breaks),
        ),
        "residuals": ("What the equation does not explain.", residuals(model, X, y)),
        "trade_off": ("Error against the number of weights.", trade_off(table)),
    }


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
math {{ font-size: 1.5rem; }}
.verdict {{ border-left: 0.4rem solid {colour}; padding: 0.5rem 1rem; background: #f6f6f6; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; }}
</style></head><body>
<h1>{title}</h1>
<p><math display="block">{equation}</math></p>
<p class="verdict">{verdict}</p>
{figures}
<h2>What was checked</h2>
{checks}
<h2>Jumps and corners</h2>
{jumps}
<h2>Error against complexity</h2>
{trade_off}
<h2>Coefficients and their standard errors</h2>
{coefficients}
</body></html>
"""


def page(
    model: Any,
    y: pd.Series,
    judged: Verdict,
    breaks: pd.DataFrame,
    table: pd.DataFrame,
    drawn: dict[str, tuple[str, Figure]],
) -> str:
    """The report as HTML that needs no other file and no network; the equation is MathML."""
    pictures = [
        f"<figure><img alt='{html.escape(caption)}' src='data:image/png;base64,{_png(figure)}'>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, figure in drawn.values()
    ]
    left = sympy.Symbol(str(y.name))
    equation = sympy.Eq(left, rounded(model.equation_, 4), evaluate=False)
    return _PAGE.format(
        title=html.escape(f"{y.name}: an equation by {type(model).__name__}"),
        colour="#009E73" if judged.trustworthy else "#D55E00",
        equation=sympy.printing.mathml(equation, printer="presentation"),
        verdict=html.escape(str(judged)),
        figures="\n".join(pictures),
        checks=checks(judged).to_html(),
        jumps=jumps_table(breaks).to_html(index=False) if len(breaks) else "<p>None.</p>",
        trade_off=table.to_html(index=False, float_format="{:.3g}".format),
        coefficients=coefficients_with_errors(model).to_html(float_format="{:.5g}".format),
    )


def coefficients_with_errors(model: Any) -> pd.DataFrame:
    """The coefficient functions over t, each followed by its standard error."""
    both = {}
    for name in model.coefficients_:
        both[name] = model.coefficients_[name]
        both[f"{name}_standard_error"] = model.coefficient_errors_[name]
    return pd.DataFrame(both, index=model.coefficients_.index)


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return base64.b64encode(buffer.getvalue()).decode()
