"""The look of all figures: colours, dashes, legend, and sliders for the page.

What is true is a thick grey line, what is found is dashed and coloured; colours differ in lightness
and dash, so that a grey print shows the same. Nothing here knows of models or data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

STYLE = Path(__file__).with_name("peql.mplstyle")
TRUE: dict[str, Any] = {
    "color": "#bdbdbd",
    "linewidth": 5.0,
    "solid_capstyle": "round",
    "label": "true",
}
FOUND: dict[str, dict[str, Any]] = {
    "EQL": {"color": "#D55E00", "linestyle": (0, (4, 1.5))},
    "SEQL": {"color": "#0072B2", "linestyle": (0, (4, 2))},
    "HEQL": {"color": "#E69F00", "linestyle": (0, (1, 1.5))},
}
OTHER = {"color": "#009E73", "linestyle": (0, (5, 1.5, 1, 1.5))}
SHADE = "#f3ede0"  # where no training row came from
LONGEST = 40  # characters of a name in a figure
SHARP = 240  # dots an inch of a picture in a file: twice those of a screen

# Of plotly's figures.
TRUE_LINE = {"color": TRUE["color"], "width": 8}
PLAIN_LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "height": 480,
    "margin": {"l": 60, "r": 20, "t": 100, "b": 20},
    "legend": {"orientation": "h", "x": 0.5, "xanchor": "center", "y": 1.1},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}
BAR: dict[str, Any] = {"pad": {"t": 45}, "ticklen": 0, "minorticklen": 0}


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw with the book's style sheet and leave the reader's own settings alone."""

    @wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Figure:
        with plt.style.context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def look(name: str) -> dict[str, Any]:
    """Colour, dash and label of what the model ``name`` found."""
    return {**FOUND.get(name, OTHER), "label": name}


def label(name: object) -> str:
    r"""A column's name for a figure: short, printable, and no ``$`` begins a formula.

    >>> label("$x$")
    '\\$x\\$'
    """
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name))
    return (text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…").replace("$", r"\$")


def legend(figure: Figure, *, shaded: bool = False) -> None:
    """One legend for all panels, above them."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, entry in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(entry, handle)
    if shaded:
        entries["extrapolated"] = Patch(facecolor=SHADE, edgecolor="#d8cfba")
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries))


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


class Frame(NamedTuple):
    """One position of a slider: its label, the title, and "x" or "y" of each curve."""

    label: str
    title: str
    curves: dict[str, list[list[float]]]


def slider(
    name: str,
    curves: Sequence[dict[str, Any]],
    frames: Sequence[Frame],
    *,
    bar: str,
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    start: int = 0,
) -> Slider:
    """Curves that move with a slider over ``bar``; ``x`` and ``y`` are labels and ranges of axes.

    A step puts the curves of its frame and their title into the figure.
    """
    import plotly.graph_objects as go

    steps = [
        {
            "label": frame.label.replace("-", "−"),
            "method": "update",
            "args": [frame.curves, {"title.text": frame.title}],
        }
        for frame in frames
    ]
    first = frames[start]
    shown = [{axis: values[k] for axis, values in first.curves.items()} for k in range(len(curves))]
    traces = [go.Scatter(**{**curve, **own}) for curve, own in zip(curves, shown, strict=True)]
    figure = go.Figure(traces, PLAIN_LAYOUT)
    figure.update_layout(
        sliders=[{**BAR, "active": start, "steps": steps}],
        title={"text": first.title, "x": 0.5, "font": {"size": 15}},
        xaxis={"title": {"text": x[0]}, "range": list(map(float, x[1]))},
        yaxis={"title": {"text": y[0]}, "range": list(map(float, y[1]))},
    )
    figure.layout.sliders[0].currentvalue.prefix = f"{bar} = "
    return Slider(figure, f"slider-{name}")
