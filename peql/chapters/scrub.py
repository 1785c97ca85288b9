"""Scrub through training: runs recorded step by step, and the page element that plays them.

The element is plain HTML and SVG with a script of its own and no library. Without scripts it shows
how the first run ended.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from itertools import product
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import datasets, results
from ..engine.formula import Formula
from ..engine.training import PAPER
from ..equation.reading import read
from ..equation.writing import plain, scientific, text
from ..nn.network import SymbolicNetwork
from . import protocol

FUNCTIONS, MODELS = ("f1", "f5"), ("SEQL", "HEQL")
PRICES = (3e-4, 1e-3, 3e-3, 1e-2, 1e-1)  # of an open gate
STEPS, FRAMES = 4000, 40
READABLE = 20  # weights in use beyond which no formula is written down
LONGEST = 110  # characters of a formula that are shown
STORED = "training_runs.json"
SCRIPT = Path(__file__).with_name("scrub.js")
WIDTH, HEIGHT, MARGIN = 420, 250, 42  # of the plot, in units of the drawing
CELL = 13  # side of a gate's square


# --- recording ------------------------------------------------------------------------------


def record(seed: int = 0) -> dict[str, Any]:
    """Train every combination of function, model and price, and record each training.

    As in ``peql``, HEQL's gates have a rate of their own; as in the paper, nothing is refined.
    """
    runs = {
        f"{function} {model} {price:g}": _run(function, model, price, seed)
        for function, model, price in product(FUNCTIONS, MODELS, PRICES)
    }
    every = STEPS // FRAMES
    truth = {f: plain(text(datasets.load(f, n_t=4, n_train=8).equation)) for f in FUNCTIONS}
    return {"steps": list(range(0, STEPS + 1, every)), "truth": truth, "runs": runs}


def _run(function: str, model: str, price: float, seed: int) -> dict[str, Any]:
    """The gates as digits (9 is wide open), the formula and the error at every frame."""
    data = datasets.load(function, random_state=seed)
    noted: dict[str, list[Any]] = {"gates": [], "formula": []}
    written: dict[tuple[int, ...], str] = {}

    def note(network: SymbolicNetwork, weights: torch.Tensor, scales: Any) -> None:
        gates = network.gates.expected()[0]
        noted["gates"].append("".join(str(int(np.ceil(9 * g))) for g in gates.tolist()))
        opened = torch.nonzero(gates).flatten().tolist()
        formula, flats = Formula.of_network(network.layout, network.shapes, opened)
        if tuple(flats) not in written:
            written[tuple(flats)] = _written(formula, weights[0].double()[:, flats], scales)
        noted["formula"].append(written[tuple(flats)])

    changes: dict[str, Any] = {"points": 32} if model == "HEQL" else {}
    fitted = protocol.fit(
        model,
        data,
        seed,
        n_watched=FRAMES,
        note=note,
        n_steps=STEPS,
        l0_weight=price,
        gate_learning_rate=PAPER["stacked"].gate_learning_rate,
        **changes,
    )
    errors = [float(f"{e:.2e}") for e in fitted.curve["error"]]
    return {**noted, "error": errors}


def _written(formula: Formula, weights: torch.Tensor, scales: Any) -> str:
    """The formula as plain text, or the number of its weights if they are many."""
    if not formula.n_weights:
        return "0"
    if formula.n_weights > READABLE:
        return f"{formula.n_weights} weights in use, too many to write down"
    units = scales.x.tolist(), scales.x_shift.tolist(), scales.y
    found = read(formula, weights.numpy(), ["x"], ["t"], *units).expression
    shown = plain(text(found, ".2g"))
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST].rsplit(' ', 1)[0]} …"


def store() -> None:
    """Record, and leave the runs in ``results/``."""
    content = json.dumps(record(), ensure_ascii=False, separators=(",", ":"))
    results.write_whole(results.folder() / STORED, content + "\n")


def stored() -> dict[str, Any]:
    """The runs that ``store`` left."""
    return json.loads((results.folder() / STORED).read_text(encoding="utf-8"))


# --- showing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scrubber:
    """The page element that plays recorded ``runs``; starts at the end of the first."""

    runs: dict[str, Any]

    def __repr__(self) -> str:
        return f"Scrubber({len(self.runs['runs'])} runs)"

    def _repr_html_(self) -> str:
        function, model, price = FUNCTIONS[0], MODELS[0], PRICES[2]
        run = self.runs["runs"][f"{function} {model} {price:g}"]
        data = json.dumps(self.runs, ensure_ascii=False, separators=(",", ":"))
        return f"""<div class="peql-scrub" id="scrub">
<form class="scrub-controls" hidden>
{_choice("function", FUNCTIONS)}{_choice("model", MODELS)}
<label>price of an open gate <output name="priced">{price:g}</output>
<input type="range" name="price" min="0" max="{len(PRICES) - 1}" value="{PRICES.index(price)}"
 data-values="{" ".join(f"{p:g}" for p in PRICES)}"></label>
<label class="scrub-step">step <output name="stepped">{self.runs["steps"][-1]}</output>
<input type="range" name="step" min="0" max="{len(self.runs["steps"]) - 1}"
 value="{len(self.runs["steps"]) - 1}"></label>
<button type="button" name="play">play</button>
</form>
<p class="scrub-formula"><span>y =</span> <output aria-live="polite" class="found">\
{html.escape(run["formula"][-1])}</output><br>
<small>true: y = <span class="true">{self.runs["truth"][function]}</span></small></p>
<p class="scrub-numbers"><span class="open">{_opened(run["gates"][-1])}</span> of \
{len(run["gates"][-1])} gates open, error <span class="error">\
{scientific(run["error"][-1])}</span> at step <span class="at">{self.runs["steps"][-1]}</span></p>
<div class="scrub-pictures">
{_gates(run["gates"][-1])}
{_plot(run, self.runs["steps"])}
</div>
<script type="application/json">{data.replace("<", "&lt;")}</script>
<script>{SCRIPT.read_text(encoding="utf-8")}</script>
</div>"""


def show() -> Scrubber:
    """The recorded runs, to be played."""
    return Scrubber(stored())


def _choice(name: str, values: tuple[str, ...]) -> str:
    options = "".join(
        f'<label><input type="radio" name="{name}" value="{v}"{" checked" * (k == 0)}> {v}</label>'
        for k, v in enumerate(values)
    )
    return f"<fieldset><legend>{name}</legend>{options}</fieldset>\n"


def _opened(gates: str) -> int:
    return sum(digit != "0" for digit in gates)


def _gates(digits: str) -> str:
    """The three matrices of gates, a square each; darker is more open."""
    layout, shapes = _layout()
    rows = [p.name for p, n in layout.kinds for _ in range(p.arity * n)]
    columns = [p.name for p, n in layout.kinds for _ in range(n)]
    names = {"identity": "g", "square": "g²", "product": "g·g", "one": "1", "sin": "sin"}
    squares, labels, flat = [], [], iter(digits)
    corners = {0: (44, 40), 1: (92, 40), 2: (44, 262)}
    for layer, (n_in, n_out) in enumerate(shapes):
        left, top = corners[layer]
        for row, column in product(range(n_out), range(n_in)):
            place = f'x="{left + CELL * column}" y="{top + CELL * row}"'
            squares.append(f'<rect {place} style="fill-opacity:{_opacity(next(flat))}"/>')
        title = f"W{layer + 1}"
        labels.append(f'<text x="{left}" y="{top - 26}" class="title">{title}</text>')
    for row, name in enumerate(rows):
        y = corners[0][1] + CELL * row + 10
        labels.append(f'<text x="38" y="{y}" text-anchor="end">{names[name]}</text>')
    for layer, entries in ((1, [*columns, "x"]), (2, [*columns, *columns, "x"])):
        left, top = corners[layer]
        for k, name in enumerate(entries):
            x = left + CELL * k + 9
            turned = f'transform="translate({x} {top - 4}) rotate(-60)"'
            labels.append(f"<text {turned}>{names.get(name, name)}</text>")
    said = "Gates of the three weight matrices; a dark square is an open gate."
    width, height = 44 + CELL * shapes[2][0] + 12, 262 + CELL + 6
    return (
        f'<svg class="scrub-gates" viewBox="0 0 {width} {height}" role="img" aria-label="{said}">'
        f"{''.join(labels)}<g>{''.join(squares)}</g></svg>"
    )


def _opacity(digit: str) -> str:
    return f"{int(digit) / 9:.2f}".rstrip("0").rstrip(".") or "0"


def _layout() -> tuple[Any, list[tuple[int, int]]]:
    network = SymbolicNetwork(1)
    return network.layout, network.shapes


def _plot(run: dict[str, Any], steps: list[int]) -> str:
    """The error, on a logarithmic scale, and the open gates over the steps."""
    gates = [_opened(digits) for digits in run["gates"]]
    error, opened = error_path(run["error"]), gates_path(gates)
    ticks = "".join(
        f'<text x="{MARGIN - 6}" y="{_y_error(10.0**p) + 4:.0f}" text-anchor="end">'
        f"{scientific(10.0**p, 1).removeprefix('1×')}</text>"
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{_y_error(10.0**p):.0f}" '
        f'y2="{_y_error(10.0**p):.0f}" class="grid"/>'
        for p in range(LOWEST, 2, 2)
    )
    right = "".join(
        f'<text x="{WIDTH - MARGIN + 6}" y="{_y_gates(n) + 4:.0f}">{n}</text>'
        for n in (0, 100, 200)
    )
    said = "Error and number of open gates over the steps of training."
    x_end, bottom = WIDTH - MARGIN, HEIGHT - MARGIN
    return f"""<svg class="scrub-plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"
 aria-label="{said}">
{ticks}{right}
<text x="{MARGIN}" y="16" class="title error-title">error (log scale)</text>
<text x="{x_end}" y="16" text-anchor="end" class="title gates-title">open gates</text>
<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">step, 0 to {steps[-1]}</text>
<path class="gates-line" d="{opened}"/><path class="error-line" d="{error}"/>
<line class="cursor" x1="{x_end}" x2="{x_end}" y1="24" y2="{bottom}"/>
</svg>"""


LOWEST = -8  # power of ten at the bottom of the plot


def _x(k: int) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * k / FRAMES


def _y_error(error: float) -> float:
    share = (1 - log10(max(error, 10.0**LOWEST))) / (1 - LOWEST)
    return 24 + (HEIGHT - MARGIN - 24) * min(max(share, 0), 1)


def _y_gates(n: float) -> float:
    return HEIGHT - MARGIN - (HEIGHT - MARGIN - 24) * n / 253


def error_path(errors: list[float]) -> str:
    """The path of the error's line."""
    return _path(_y_error(e) for e in errors)


def gates_path(gates: list[int]) -> str:
    """The path of the line that counts open gates."""
    return _path(_y_gates(n) for n in gates)


def _path(heights: Any) -> str:
    return "M" + "L".join(f"{_x(k):.1f} {y:.1f}" for k, y in enumerate(heights))
