"""The paper's own protocol: its networks trained as it says, nothing refined, and watched."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch

from ..analysis.comparison import scaled_mse
from ..analysis.truth import feature, on_grid, true_equation
from ..datasets import Dataset, analytic
from ..engine.formula import Formula
from ..engine.rows import Arranged, Scales, arrange
from ..engine.training import PAPER, PAPER_THRESHOLD, Schedule, Table, train
from ..equation import reading
from ..nn.network import SymbolicNetwork, apply_layers
from ..nn.weights import MetaWeights
from . import paper

SOURCES = {"SEQL": "stacked", "HEQL": "meta"}
CURVES = "curves/paper_protocol.csv"  # the courses of training, in results/
WATCHED = 100  # points of a training curve
READABLE = 60  # more open gates are not written out: nobody would read it
KINDS = ("true", "true and a constant", "several sines", "a slow sine besides", "other")
LARGE, NEAR = 0.1, 0.2  # amplitude of a sine that counts; frequencies that are nearly one
ROWS = 16  # held-out rows of each t on which the curve is measured

Note = Callable[[SymbolicNetwork, torch.Tensor, Scales], None]


@dataclass(frozen=True)
class Trained:
    """A network as training left it, and the course of its training.

    ``weights`` (step, weight) are gated and in scaled units; ``curve`` holds a row for each point
    in time: the step, the error on held-out rows without gate noise, and the open gates.
    ``seconds`` is the CPU time of the training, shared evenly by ``n_together`` trials trained as
    one batch: less than a trial would take alone.
    """

    data: Dataset
    arranged: Arranged
    network: SymbolicNetwork
    weights: torch.Tensor
    curve: pd.DataFrame
    seconds: float
    n_together: int

    @cached_property
    def formula(self) -> tuple[Formula, list[int]]:
        """What the open gates make up, and where its weights lie in the network."""
        opened = torch.nonzero(self.network.gates.expected()[0]).flatten().tolist()
        return Formula.of_network(self.network.layout, self.network.shapes, opened)


def fit(
    model: str,
    data: Dataset,
    seed: int,
    *,
    n_watched: int = WATCHED,
    prepare: Callable[[SymbolicNetwork], None] | None = None,
    note: Note | None = None,
    **changes: Any,
) -> Trained:
    """Train one trial as the paper says; ``changes`` replace entries of its schedule.

    ``prepare`` is called with the network before it is trained, inside the same random numbers;
    ``note`` at every point of the curve, with the network, its gated weights and the scales.
    """
    options: dict[str, Any] = {"n_watched": n_watched, "prepare": prepare, "note": note}
    [fitted] = fit_together(model, [data], [seed], **options, **changes)
    return fitted


def fit_together(
    model: str,
    data: Sequence[Dataset],
    seeds: Sequence[int],
    *,
    n_watched: int = WATCHED,
    prepare: Callable[[SymbolicNetwork], None] | None = None,
    note: Note | None = None,
    **changes: Any,
) -> list[Trained]:
    """Train a trial for each seed as one batch, which is cheaper than one after another.

    Each trial has its own data and starts from the weights that it would start from alone; the
    rows and the gate noise that it draws are its own, but not those that it would draw alone.
    Which t are in a step of HEQL is drawn once for all trials, so those are not quite independent.
    ``note`` gets the network of all trials, and the scales of the first.
    """
    source = SOURCES[model]
    schedule = replace(PAPER[source], **changes)
    tables = [arranged(each, seed) for each, seed in zip(data, seeds, strict=True)]
    networks = []
    for each, table, seed in zip(data, tables, seeds, strict=True):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            n_inputs = each.X_train.shape[1] - 1
            network = SymbolicNetwork(n_inputs, weights=source, n_steps=table.table.n_steps)
            if prepare:
                prepare(network)
        networks.append(network)
    whole, rows = joined(networks), stacked([each.table for each in tables])
    watch = Watch(tables, schedule, n_watched, note)
    started = time.process_time()
    train(whole, rows, schedule, torch.Generator().manual_seed(seeds[0] + 1), watch=watch)
    seconds = (time.process_time() - started) / len(seeds)
    part(whole, networks)
    with torch.no_grad():
        weights = watch.weights(whole).double()
    curves = [pd.DataFrame(points) for points in watch.rows]
    trials = zip(data, tables, networks, weights, curves, strict=True)
    return [Trained(*trial, seconds, len(seeds)) for trial in trials]


def joined(networks: Sequence[SymbolicNetwork]) -> SymbolicNetwork:
    """One network whose trials are the given networks of one trial."""
    whole = copy.deepcopy(networks[0])
    for parameter, *parts in zip(
        whole.parameters(), *(each.parameters() for each in networks), strict=True
    ):
        parameter.data = torch.cat([each.data for each in parts])
    return whole


def part(whole: SymbolicNetwork, networks: Sequence[SymbolicNetwork]) -> None:
    """Give each network of one trial the weights and gates of its trial of ``whole``."""
    for k, network in enumerate(networks):
        network.train(whole.training)
        for parameter, all_trials in zip(network.parameters(), whole.parameters(), strict=True):
            parameter.data = all_trials.data[k : k + 1].clone()


class OwnRows(torch.Tensor):
    """Rows (step, row, trial, column) of a ``Table`` of which each trial finds its own.

    They are indexed as the rows of one table for all trials are: by steps (1, step, 1) and the
    rows (trial, step, point) that each trial draws.

    >>> own = torch.arange(12.0).reshape(3, 2, 2, 1).as_subclass(OwnRows)
    >>> own[torch.tensor([[[2]]]), torch.tensor([[[0]], [[1]]])].flatten()
    tensor([ 8., 11.])
    """

    def __getitem__(self, index: Any) -> torch.Tensor:
        steps, rows = index
        trial = torch.arange(self.shape[2], device=self.device)[:, None, None]
        return self.as_subclass(torch.Tensor)[steps, rows, trial]


def stacked(tables: Sequence[Table]) -> Table:
    """One table for trials that have each their own; t and the rows at each t must be as many."""
    first = tables[0]
    for other in tables[1:]:
        if not (torch.equal(other.t, first.t) and torch.equal(other.count, first.count)):
            raise ValueError(
                "trials trained together differ in t or in their number of rows at some t: "
                "expected data sets of one function and size; train the others apart, with fit"
            )
    x = torch.stack([each.x for each in tables], dim=2).as_subclass(OwnRows)
    y = torch.stack([each.y for each in tables], dim=2).as_subclass(OwnRows)
    return Table(x, y, first.t, first.count)


def arranged(data: Dataset, seed: int) -> Arranged:
    """The training rows by step of t in scaled units, a tenth of them held out."""
    t, x = data.X_train[[data.varying]], data.X_train.drop(columns=data.varying)
    return arrange(
        x.to_numpy(),
        t.to_numpy(),
        data.y_train.to_numpy(),
        validation_fraction=0.1,
        pool_below=0,
        random=np.random.default_rng(seed),
    )


class Watch:
    """Notes each trial's error without gate noise and its open gates at evenly spaced steps."""

    def __init__(
        self,
        arranged: Sequence[Arranged],
        schedule: Schedule,
        n_points: int,
        note: Note | None = None,
    ):
        self.note, self.scales = note, arranged[0].scales
        held = [each.held_out for each in arranged]
        self.t = arranged[0].table.t
        self.x = torch.stack([each.x[:, :ROWS] for each in held]).float()
        self.y = torch.stack([each.y[:, :ROWS] for each in held]).float()
        self.mask = torch.stack([each.mask[:, :ROWS] for each in held]).float()
        self.at = {round(k * schedule.n_steps / n_points) for k in range(n_points + 1)}
        self.rows: list[list[dict[str, float]]] = [[] for _ in arranged]

    def weights(self, network: SymbolicNetwork) -> torch.Tensor:
        """The weights (trial, step, weight) without gate noise at all steps."""
        meta = isinstance(network.weights, MetaWeights)
        weights = network.weights(self.t) if meta else network.weights()
        return weights * network.gates.expected()[:, None]

    @torch.no_grad()
    def __call__(self, step: int, network: SymbolicNetwork) -> None:
        if step not in self.at:
            return
        weights = self.weights(network)
        out = apply_layers(network.layout, network.shapes, weights, self.x)[..., 0]
        squares = (out - self.y).square() * self.mask
        error = squares.sum(dim=(1, 2)) / self.mask.sum(dim=(1, 2))
        gates = (network.gates.expected() > 0).sum(dim=1)
        for rows, e, n in zip(self.rows, error.tolist(), gates.tolist(), strict=True):
            rows.append({"step": step, "error": e, "gates": n})
        if self.note:
            self.note(network, weights, self.scales)


@torch.no_grad()
def predict(fitted: Trained, X: pd.DataFrame) -> np.ndarray:
    """y in raw units for rows of ``X``; SEQL takes the nearest t that it knows."""
    scales, varying = fitted.arranged.scales, fitted.data.varying
    formula, flats = fitted.formula
    x, t = X.drop(columns=varying).to_numpy(), X[[varying]].to_numpy()
    distinct, step = np.unique(t, axis=0, return_inverse=True)
    if isinstance(fitted.network.weights, MetaWeights):
        scaled_t = torch.from_numpy(scales.t(distinct)).float()
        weights = (fitted.network.weights(scaled_t) * fitted.network.gates.expected()[:, None])[0]
    else:
        known = fitted.arranged.t[:, 0]
        weights = fitted.weights[np.abs(distinct - known[None]).argmin(axis=1)]
    rows = weights.double()[torch.from_numpy(step.reshape(-1))][:, flats]
    scaled = torch.from_numpy(scales.features(x))[:, None]
    y = formula([w[:, None] for w in rows.unbind(-1)], scaled)
    return (scales.y * y[:, 0]).numpy()


def read(fitted: Trained) -> tuple[reading.ParametricEquation, np.ndarray]:
    """The equation of the open gates and its coefficients (step, coefficient), raw units."""
    (formula, flats), scales = fitted.formula, fitted.arranged.scales
    weights = fitted.weights[:, flats].numpy()
    data = fitted.data
    features = [c for c in data.X_train.columns if c != data.varying]
    units = scales.x.tolist(), scales.x_shift.tolist(), scales.y
    equation = reading.read(formula, weights, features, [data.varying], *units)
    return equation, equation.evaluate(weights)


def printed(fitted: Trained, t: list[float]) -> list[sympy.Expr]:
    """The equations at some t as the paper prints them: terms below its threshold left out."""
    equation, values = read(fitted)
    known = fitted.arranged.t[:, 0]
    at = [int(np.argmin(np.abs(known - on_grid(fitted.data, value)))) for value in t]
    return [equation.at(values[k].tolist(), PAPER_THRESHOLD) for k in at]


def kind(found: sympy.Expr, true: sympy.Expr, data: Dataset) -> str:
    """What a printed equation is beside the true one at the same t, one of ``KINDS``.

    The paper calls a(t)x² + b(t)x + ε(t) found, and names two failures: a slow sine that stands
    for part of the straight line, and several sines of nearly one frequency.

    >>> x = sympy.Symbol("x")
    >>> data = analytic.make_analytic("f5", n_t=4, n_train=8)
    >>> kind(0.4 * sympy.sin(1.9 * x) + 0.6 * sympy.sin(2.1 * x), sympy.sin(2.0 * x), data)
    'several sines'
    """
    x = sympy.Symbol(feature(data))
    parts = [a for a in sympy.Add.make_args(found) if a.has(x)]
    bare = sympy.Add(*parts)
    same = reading.structure(bare, [str(x)]) == reading.structure(true, [str(x)])
    if same and len(parts) == len(sympy.Add.make_args(true)):
        return KINDS[0] if len(parts) == len(sympy.Add.make_args(found)) else KINDS[1]
    sines = [a for a in parts if a.has(sympy.sin)]
    rest = sympy.Add(*(a for a in parts if a not in sines))
    if true.has(sympy.sin):
        frequency = float(next(iter(true.atoms(sympy.sin))).args[0].coeff(x))
        large = [a for a in sines if abs(a.as_coeff_Mul()[0]) >= LARGE]
        near = [abs(abs(_frequency(a, x)) / frequency - 1) < NEAR for a in large]
        return KINDS[2] if near and all(near) else KINDS[4]
    if sines and reading.structure(rest, [str(x)]) == reading.structure(true, [str(x)]):
        return KINDS[3]
    return KINDS[4]


def _frequency(term: sympy.Expr, x: sympy.Symbol) -> float:
    """The factor of x inside the sine of a term; NaN where there is none."""
    inside = sympy.expand(next(iter(term.atoms(sympy.sin))).args[0]).coeff(x)
    return float(inside) if inside.is_number else float("nan")


def midpoints(data: Dataset) -> pd.DataFrame:
    """The test x at t midway between the grid points."""
    t = data.coefficients.index.to_numpy()
    middle = np.repeat((t[1:] + t[:-1]) / 2, 256)
    return pd.DataFrame({"x": data.X_test["x"].to_numpy()[: len(middle)], "t": middle})


def trials(model: str, function: str, seeds: Sequence[int], **changes: Any) -> list[dict[str, Any]]:
    """Trials of the paper's protocol on an analytic benchmark, measured against the truth."""
    data = [analytic.make_analytic(function, random_state=seed) for seed in seeds]
    return [measure(fitted) for fitted in fit_together(model, data, seeds, **changes)]


def measure(fitted: Trained) -> dict[str, Any]:
    """All that is recorded of a trial on an analytic benchmark; of one that blew up, errors of NaN.

    "cpu_seconds" is a share of the batch of "trained_together" trials, as in ``Trained``.
    """
    data, X = fitted.data, fitted.data.X_test
    error = predict(fitted, X) - data.y_test.to_numpy()
    inside = X["x"].between(data.X_train["x"].min(), data.X_train["x"].max()).to_numpy()
    between = np.nan
    if isinstance(fitted.network.weights, MetaWeights):
        middle = midpoints(data)
        missed = predict(fitted, middle) - analytic.evaluate(data.name, middle)
        between = scaled_mse(data, middle, missed)
    shown, whole, worst = [], "", KINDS[-1]
    if len(fitted.formula[1]) <= READABLE and fitted.weights.isfinite().all():
        whole = str(read(fitted)[0].expression)
        t = paper.table("analytic_equations", "t")
        shown, true = printed(fitted, t), [true_equation(data, value) for value in t]
        worst = max((kind(*pair, data) for pair in zip(shown, true, strict=True)), key=KINDS.index)
    return {
        "true_terms": worst in KINDS[:2],  # as the paper counts
        "terms": worst,
        "equation": whole,
        "printed": " | ".join(str(rounded(equation)) for equation in shown),
        "gates": len(fitted.formula[1]),
        "test_mse_scaled": scaled_mse(data, X, error),
        "test_mse_raw": float(np.mean(error**2)),
        "inside_mse_scaled": scaled_mse(data, X[inside], error[inside]),
        "outside_mse_scaled": scaled_mse(data, X[~inside], error[~inside]),
        "midpoint_mse_scaled": between,
        "jump": jump(fitted) if data.name == "f1" else np.nan,
        "validation_error": float(fitted.curve["error"].iloc[-1]),
        "cpu_seconds": round(fitted.seconds, 2),
        "trained_together": fitted.n_together,
        "curve_error": " ".join(f"{v:.2e}" for v in fitted.curve["error"]),
        "curve_gates": " ".join(str(v) for v in fitted.curve["gates"]),
    }


def jump(fitted: Trained) -> float:
    """How much of the jump of f1's b(t) at t = 0 lies between its neighbours; 1 is all of it."""
    known = fitted.arranged.t[:, 0]
    around = np.array([known[known < 0].max(), known[known > 0].min()])
    right, left = (predict(fitted, pd.DataFrame({"x": x, "t": around})) for x in (1.0, -1.0))
    b = (right - left) / 2
    return float((b[1] - b[0]) / 6)


def rounded(expression: sympy.Expr, digits: int = 3) -> sympy.Expr:
    """The expression with its numbers rounded to ``digits`` decimals, as the paper prints them."""
    numbers = {n: sympy.Float(round(float(n), digits)) for n in expression.atoms(sympy.Float)}
    return expression.xreplace(numbers)
