"""What follows training: keep only open weights, solve for them in float64, remove what is spare.

Everything here works on a ``Formula``: the few weights of a trained network that matter. At each
step of t a weight is a number, or, where a step pools a range of t, a line over that range:
weights are (step, weight, degree) with one or two degrees, and a point's weight is their product
with its ``basis``, (1,) or (1, t - centre).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from .formula import Formula
from .primitives import Layout

PRECISION = 1e-22  # mean squared error, relative to y's, below which a fit counts as exact
FAR = 30.0  # a step whose error is this many times the expected one is stuck
REACH = 4  # steps between a stuck step and a neighbour whose solution it tries
EVIDENCE = 8  # independent rows that a step counts for when a removal is judged
COARSE = 1e-4  # share of y's power; while more is unexplained, closed weights are tried
ADDITIONS_TRIED = 4  # closed weights, most promising first, that are tried before giving up
SAMPLE = 16  # steps on which a removal is tried first
DECISION_POINTS = 96  # rows per step on which removals are tried; the last fit uses all rows,
DECISION_ROWS = 4096  # or this many rows in all, where steps are few


@dataclass(frozen=True)
class Points:
    """Rows to fit, by step; short steps are padded, the mask tells.

    x (step, point, feature), y (step, point), mask (step, point) of 1 and 0,
    basis (step, point, degree).
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    basis: Tensor
    count: Tensor = field(init=False)  # (step,)
    floor: Tensor = field(init=False)  # (step,) mean squared error that counts as exact

    def __post_init__(self) -> None:
        count = self.mask.sum(-1).clamp(min=1)
        power = (self.y.square() * self.mask).sum(-1) / count
        overall = power.mean()
        overall = torch.where(overall > 0, overall, 1.0)  # y is 0 everywhere: its unit is 1
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "floor", PRECISION * torch.maximum(power, 1e-6 * overall))

    def at(self, steps: Tensor) -> Points:
        return Points(self.x[steps], self.y[steps], self.mask[steps], self.basis[steps])

    def thinned(self, n: int) -> Points:
        """The first ``n`` rows of each step (rows are in random order)."""
        return Points(self.x[:, :n], self.y[:, :n], self.mask[:, :n], self.basis[:, :n])

    def spread(self, weights: Float[Tensor, "step weight degree"]) -> list[Tensor]:
        """Each weight at every point: a list of (step, point)."""
        if weights.shape[-1] == 1:
            return [w.expand(self.y.shape) for w in weights.unbind(1)]
        return [torch.einsum("sd,spd->sp", w, self.basis) for w in weights.unbind(1)]


@dataclass(frozen=True)
class Fit:
    """A formula with its weights at every step; ``constant`` ones are equal at all steps."""

    formula: Formula
    weights: Tensor  # (step, weight, degree)
    constant: tuple[bool, ...]
    error: Tensor  # (step,) mean squared error

    def explains(self, share: float, points: Points) -> bool:
        """Whether all but ``share`` of y's power is explained."""
        power = (points.y.square() * points.mask).sum()
        return bool((self.error * points.count).sum() <= share * power)

    def information(self, points: Points, evidence: float = torch.inf) -> float:
        """Schwarz's criterion, with errors below the floor taken as equal.

        A step's rows count for at most ``evidence`` independent ones.
        """
        n_steps, n_weights, n_degrees = self.weights.shape
        n_constant = sum(self.constant)
        n_free = (n_weights - n_constant) * n_steps * n_degrees + n_constant
        n_rows = points.count.clamp(max=evidence).sum()
        share = points.count / points.count.sum()
        misfit = torch.log((share * (self.error + points.floor)).sum())
        return float(n_rows * misfit + n_free * torch.log(n_rows))


def mean_squared_error(formula: Formula, weights: Tensor, points: Points) -> Tensor:
    """Of each step, (step,)."""
    residual = (formula(points.spread(weights), points.x) - points.y) * points.mask
    return torch.nan_to_num(residual.square().sum(-1) / points.count, nan=torch.inf)


def jacobian(
    formula: Formula, weights: Float[Tensor, "step weight degree"], points: Points
) -> tuple[Float[Tensor, "step point"], Float[Tensor, "step point weight degree"]]:
    """The output at ``points`` and its derivative by each weight of the point's step."""
    leaves = [w.clone().requires_grad_() for w in points.spread(weights)]
    y = formula(leaves, points.x)
    if not leaves:
        return y, points.x.new_zeros(*y.shape, 0, points.basis.shape[-1])
    gradients = torch.autograd.grad(y.sum(), leaves, allow_unused=True)
    columns = [torch.zeros_like(y) if g is None else g for g in gradients]
    derivative = torch.stack(columns, dim=-1)[..., None]
    if points.basis.shape[-1] > 1:
        derivative = derivative * points.basis[..., None, :]
    return y.detach(), derivative


def solve(
    formula: Formula,
    weights: Tensor,
    constant: Sequence[bool],
    points: Points,
    max_iterations: int = 60,
) -> Fit:
    """Levenberg–Marquardt at every step at once, over the weights that are not constant."""
    free = [k for k, c in enumerate(constant) if not c]
    weights = weights.clone()
    error = mean_squared_error(formula, weights, points)
    damping = torch.full_like(error, 1e-3)
    idle = torch.zeros_like(error)
    active = torch.arange(len(error)) if free else torch.arange(0)
    for _ in range(max_iterations):
        active = active[(idle[active] < 3) & (error[active] > 1e-9 * points.floor[active])]
        if not len(active):
            break
        here = points.at(active)
        w = weights[active]
        y, slopes = jacobian(formula, w, here)
        slopes = slopes[:, :, free].flatten(2) * here.mask[..., None]
        residual = (here.y - y) * here.mask
        normal = slopes.mT @ slopes
        gradient = slopes.mT @ residual[..., None]
        diagonal = normal.diagonal(dim1=-2, dim2=-1)
        ridge = damping[active, None] * diagonal + 1e-30 * diagonal.amax(-1, keepdim=True) + 1e-60
        change, _ = torch.linalg.solve_ex(normal + torch.diag_embed(ridge), gradient)
        change = torch.nan_to_num(change.squeeze(-1), nan=0.0, posinf=0.0, neginf=0.0)
        trial = w.clone()
        trial[:, free] += change.unflatten(-1, (len(free), weights.shape[-1]))
        new_error = mean_squared_error(formula, trial, here)
        better = new_error < error[active]
        gain = torch.where(better, 1 - new_error / error[active], 0.0)
        weights[active[better]] = trial[better]
        waits = ~better & (damping[active] < 1e4)  # a shorter step may still help
        idle[active] = torch.where(
            waits, idle[active], torch.where(gain > 1e-3, 0.0, idle[active] + 1)
        )
        error[active] = torch.where(better, new_error, error[active])
        damping[active] = (damping[active] * torch.where(better, 0.1, 10.0)).clamp(1e-15, 1e6)
    return Fit(formula, weights, tuple(constant), error)


def rescue(fit: Fit, points: Points, expected: Float[Tensor, " step"]) -> Fit:
    """Steps that fit far worse than ``expected`` start again from a neighbour's solution."""
    weights, error = fit.weights.clone(), fit.error.clone()
    tried: set[tuple[int, int]] = set()
    while True:
        stuck = error > FAR * expected
        good = torch.nonzero(~stuck).squeeze(-1)
        if not len(good):
            break
        bad = torch.nonzero(stuck).squeeze(-1)
        right = torch.searchsorted(good, bad)
        pairs = [
            (int(step), int(good[side]))
            for step, place in zip(bad, right.tolist(), strict=True)
            for side in (place - 1, place)
            if 0 <= side < len(good) and abs(int(good[side]) - int(step)) <= REACH
        ]
        pairs = [pair for pair in pairs if pair not in tried]
        if not pairs:
            break
        tried.update(pairs)
        receivers, donors = (torch.tensor(column) for column in zip(*pairs, strict=True))
        again = solve(fit.formula, weights[donors], fit.constant, points.at(receivers))
        for i, step in enumerate(receivers.tolist()):
            if again.error[i] < error[step]:
                weights[step], error[step] = again.weights[i], again.error[i]
    return replace(fit, weights=weights, error=error)


def refit(
    formula: Formula,
    weights: Tensor,
    constant: Sequence[bool],
    points: Points,
    expected: Float[Tensor, " step"] | None = None,
) -> Fit:
    """Solve at every step; steps worse than ``expected``, or than most, try their neighbours'."""
    fit = solve(formula, weights, constant, points)
    if expected is None:
        usual = (fit.error / points.floor).quantile(0.25).clamp(min=1)
        expected = usual * points.floor
    return rescue(fit, points, expected)


def hopeless(
    formula: Formula, weights: Tensor, constant: Sequence[bool], points: Points, expected: Tensor
) -> bool:
    """Whether no step of a sample comes near ``expected``: a cheap look before a full solve."""
    steps = torch.arange(0, len(weights), max(1, len(weights) // SAMPLE))
    sample = solve(formula, weights[steps], constant, points.at(steps))
    return bool((sample.error > FAR * expected[steps]).all())


def _restrict(fit: Fit, open: Sequence[int]) -> tuple[Formula, Tensor, tuple[bool, ...]]:
    formula = Formula(fit.formula.layout, fit.formula.shapes, open)
    columns = [fit.formula.open.index(flat) for flat in formula.open]
    return formula, fit.weights[:, columns], tuple(fit.constant[k] for k in columns)


def importance(fit: Fit, points: Points) -> Tensor:
    """How much each weight moves the output: root mean square of weight × derivative."""
    _, slopes = jacobian(fit.formula, fit.weights, points)
    effect = (slopes * fit.weights[:, None]).sum(-1) * points.mask[..., None]
    return effect.square().mean(dim=(0, 1)).sqrt()


def remove_spare(fit: Fit, points: Points, trace: list[Fit] | None = None) -> Fit:
    """Remove weights one at a time, least important first, while Schwarz's criterion falls.
    What is kept of the way goes to ``trace``.

    Errors of real data (of a numerical derivative, say) are smooth functions of the inputs, which
    spare terms fit: a weight stays only if it divides the error by about two or more.
    """
    best = fit.information(points, EVIDENCE)
    tried: set[tuple[int, ...]] = set()
    progress = True
    while progress:
        progress = False
        expected = torch.maximum(fit.error, points.floor)
        for k in importance(fit, points).argsort().tolist():
            rest = [flat for i, flat in enumerate(fit.formula.open) if i != k]
            start = _restrict(fit, rest)
            if start[0].open in tried:
                continue
            tried.add(start[0].open)
            if hopeless(*start, points, expected):
                continue
            candidate = refit(*start, points, expected)
            score = candidate.information(points, EVIDENCE)
            if score < best:
                fit, best, progress = candidate, score, True
                if trace is not None:
                    trace.append(fit)
                break
    return fit


def add_missing(fit: Fit, points: Points) -> Fit:
    """Open closed weights between parts in use, one at a time, while Schwarz's criterion falls.

    Training may close a gate too soon when two inputs resemble each other. The candidate is the
    weight that would lower the error most if the output were linear in it.
    """
    best = fit.information(points, EVIDENCE)
    tried: set[tuple[int, ...]] = set()
    while not fit.explains(COARSE, points):
        wider = Formula(fit.formula.layout, fit.formula.shapes, fit.formula.reachable())
        weights, _ = _widen(fit, wider)
        y, slopes = jacobian(wider, weights, points)
        residual = (points.y - y) * points.mask
        slopes = slopes * points.mask[..., None, None]
        known = [wider.open.index(flat) for flat in fit.formula.open]
        others = [k for k in range(len(wider.open)) if k not in known]
        if not others:
            break
        gains = _linear_gain(slopes, residual, known, others)
        accepted = False
        for i in gains.argsort(descending=True)[:ADDITIONS_TRIED].tolist():
            formula = Formula(
                fit.formula.layout, fit.formula.shapes, [*fit.formula.open, wider.open[others[i]]]
            )
            if formula.open in tried or formula.open == fit.formula.open:
                continue
            tried.add(formula.open)
            candidate = refit(formula, *_widen(fit, formula), points)
            score = candidate.information(points, EVIDENCE)
            if score < best:
                fit, best, accepted = candidate, score, True
                break
        if not accepted:
            break
    return fit


def _widen(fit: Fit, formula: Formula) -> tuple[Tensor, tuple[bool, ...]]:
    """The weights for a formula with more open weights; the new ones are 0."""
    steps, _, degrees = fit.weights.shape
    weights = fit.weights.new_zeros(steps, len(formula.open), degrees)
    weights[:, [formula.open.index(flat) for flat in fit.formula.open]] = fit.weights
    return weights, (False,) * len(formula.open)


def _linear_gain(
    slopes: Float[Tensor, "step point weight degree"],
    residual: Float[Tensor, "step point"],
    known: list[int],
    others: list[int],
) -> Float[Tensor, " other"]:
    """How much of the squared residual each other weight could explain beyond the known ones."""
    old = slopes[:, :, known].flatten(2)
    new = slopes[:, :, others].flatten(2)
    basis = torch.linalg.qr(old).Q
    new = new - basis @ (basis.mT @ new)
    rest = residual[..., None] - basis @ (basis.mT @ residual[..., None])
    power = new.square().sum(1)
    size = power.amax(dim=0, keepdim=True).clamp(min=1e-300)
    gain = torch.where(
        power > 1e-12 * size, (new * rest).sum(1).square() / power.clamp(min=1e-300), 0.0
    )
    return gain.sum(0).unflatten(0, (len(others), slopes.shape[-1])).sum(-1)


def freeze_constant(fit: Fit, points: Points) -> Fit:
    """Hold weights equal at all steps, inner layers first, where the fit does not suffer.

    This recognises coefficients that do not vary and settles scales that two weights share.
    """
    best = fit.information(points)
    for k in range(len(fit.constant)):
        weights = fit.weights.clone()
        weights[:, k] = 0
        weights[:, k, 0] = fit.weights[:, k, 0].median()
        constant = tuple(c or i == k for i, c in enumerate(fit.constant))
        expected = torch.maximum(fit.error, points.floor)
        if hopeless(fit.formula, weights, constant, points, expected):
            continue
        candidate = refit(fit.formula, weights, constant, points, expected)
        score = candidate.information(points)
        if score < best:
            fit, best = candidate, score
    return fit


def refine(
    layout: Layout,
    shapes: Sequence[tuple[int, int]],
    weights: Float[Tensor, "step weight"],
    points: Points,
    trace: list[Fit] | None = None,
) -> Fit:
    """From a trained network's gated weights to the smallest formula that fits, solved exactly.

    The formulas on the way are appended to ``trace``.
    """
    fit = as_trained(layout, shapes, weights, points)
    few = points.thinned(max(DECISION_POINTS, DECISION_ROWS // len(points.x)))
    fit = refit(fit.formula, fit.weights, fit.constant, few)
    if not fit.explains(COARSE, few):
        fit = add_missing(fit, few)
    if trace is not None:
        trace.append(fit)
    n_weights = len(fit.constant) + 1
    # With shared scales settled all steps are alike, and weights that hid behind them can go.
    while len(fit.constant) < n_weights:
        n_weights = len(fit.constant)
        fit = replace(fit, constant=(False,) * n_weights)
        fit = freeze_constant(remove_spare(fit, few, trace), few)
    return refit(fit.formula, fit.weights, fit.constant, points)


def as_trained(
    layout: Layout,
    shapes: Sequence[tuple[int, int]],
    weights: Float[Tensor, "step weight"],
    points: Points,
) -> Fit:
    """The formula of a network's open weights, with nothing changed."""
    formula = Formula(layout, shapes, torch.nonzero((weights != 0).any(0)).squeeze(-1).tolist())
    start = weights.new_zeros(len(weights), len(formula.open), points.basis.shape[-1])
    start[..., 0] = weights[:, list(formula.open)]
    error = mean_squared_error(formula, start, points)
    return Fit(formula, start, (False,) * len(formula.open), error)
