"""From a trained network to the smallest formula that fits: remove, add, exchange, hold constant.

Every move is judged by Schwarz's criterion, ``Fit.information``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .. import primitives as P
from ..primitives import Layout, Primitive
from .formula import Formula, Unit
from .signs import settle_signs
from .solver import (
    FEW,
    PRECISION,
    SAMPLE,
    Fit,
    Points,
    hopeless,
    importance,
    independent_share,
    jacobian,
    mean_squared_error,
    refit,
    settle_constants,
)

# Rows that a step counts for when a weight is judged. What a formula leaves of real data (the error
# of a numerical derivative, say) is a smooth function of the inputs, and spare terms fit it well:
# with all rows counted as independent, every one of them would stay.
ROWS = 8.0
COARSE = 1e-4  # share of y's variance; while more is unexplained, additions are tried
PATIENCE = 4  # additions in a row that may fail to improve a formula
ARGUMENT = 0.25  # the weight of a feature in a unit that is added
TRIED = 4  # weights, least important first, of which the one that is missed least is taken out
DECISION_POINTS = 96  # rows per step on which removals are tried; the last fit uses all rows,
DECISION_ROWS = 4096  # or this many rows in all, where steps are few


def refine(
    start: Fit, points: Points, kinds: Sequence[Primitive], trace: list[Fit] | None = None
) -> Fit:
    """From a formula, a trained network's say, to the smallest that fits, solved exactly.

    Units of the primitives ``kinds`` may be added. What is tried on the way goes to ``trace``.
    """
    trace = [] if trace is None else trace
    fit = _fewer_than_rows(start, points)
    few = points.thinned(max(DECISION_POINTS, DECISION_ROWS // len(points.x)))
    fit = refit(fit.formula, fit.weights, (False,) * len(fit.constant), few)
    fit = reduce(add_missing(fit, few, kinds), few, trace)
    fit = exchange(fit, few, kinds, trace)
    take_out(fit, few, trace)
    return polish(freeze_doubtful(fit, few), points)


def reduced(fit: Fit, points: Points) -> Fit:
    """Without the weights that only fit what is smooth in the errors of numerical derivatives."""
    few = points.thinned(max(DECISION_POINTS, DECISION_ROWS // len(points.x)))
    fit = reduce(refit(fit.formula, fit.weights, fit.constant, few), few, [])
    return freeze_doubtful(fit, few)


def as_found(
    formula: Formula, weights: np.ndarray, constant: tuple[bool, ...], points: Points
) -> Fit:
    """What a search found, ``weights`` (step, weight), with nothing changed."""
    start = points.x.new_zeros(*weights.shape, points.basis.shape[-1])
    start[..., 0] = torch.from_numpy(weights)
    return Fit(formula, start, constant, mean_squared_error(formula, start, points))


def polish(fit: Fit, points: Points) -> Fit:
    """Solve on all rows; constants where the pooled error is least; one sign throughout."""
    fit = refit(fit.formula, fit.weights, fit.constant, points)
    return settle_signs(settle_constants(fit, points))


def as_trained(
    layout: Layout,
    shapes: Sequence[tuple[int, int]],
    weights: Float[Tensor, "step weight"],
    points: Points,
    offset: float = 0.0,
) -> Fit:
    """The formula of a network's open weights, and the offset that y had, with nothing changed."""
    formula, flat = Formula.of_network(
        layout, shapes, torch.nonzero((weights != 0).any(0)).squeeze(-1).tolist()
    )
    values = weights[:, flat]
    if offset:
        formula = formula.extended(unit=Unit(P.get("one"), ()))
        values = torch.cat([values, torch.full_like(weights[:, :1], offset)], dim=1)
    start = weights.new_zeros(*values.shape, points.basis.shape[-1])
    start[..., 0] = values
    error = mean_squared_error(formula, start, points)
    return Fit(formula, start, (False,) * values.shape[1], error)


def _fewer_than_rows(fit: Fit, points: Points) -> Fit:
    """Without the least important weights, where a step has too few rows to solve for all."""
    most = max(int(points.count.median()) // points.basis.shape[-1] - 1, 1)
    spare = len(fit.constant) - most
    if spare <= 0:
        return fit
    formula, weights, constant = without(fit, importance(fit, points).argsort()[:spare].tolist())
    return Fit(formula, weights, constant, mean_squared_error(formula, weights, points))


def without(fit: Fit, columns: Sequence[int]) -> tuple[Formula, Tensor, tuple[bool, ...]]:
    """A formula without some of its weights; the others begin where they are."""
    formula, kept = fit.formula.without(columns)
    return formula, fit.weights[:, kept], tuple(fit.constant[k] for k in kept)


# --- removing ---------------------------------------------------------------------------------


def reduce(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Remove weights and hold others constant until no more can go."""
    n_weights = len(fit.constant) + 1
    # With shared scales settled all steps are alike, and weights that hid behind them can go.
    while len(fit.constant) < n_weights:
        n_weights = len(fit.constant)
        fit = replace(fit, constant=(False,) * n_weights)
        fit = freeze_constant(settle_signs(remove_spare(fit, points, trace)), points)
    return fit


def remove_spare(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Remove weights, least important first, while Schwarz's criterion falls.

    While there are many, groups of them go first, if the error rises by no more than it may for
    one; of a few weights, the one that is missed least goes. What was tried is added to ``trace``.
    """
    best = fit.information(points, ROWS)
    n_steps, _, n_degrees = fit.weights.shape
    worth = (ROWS * n_steps) ** (n_degrees / ROWS)  # what a weight must divide the error by
    tried: set[Formula] = set()
    smaller: Fit | None = fit
    while smaller:
        fit, smaller = smaller, None
        expected = worth * torch.maximum(fit.error, points.floor)
        for group in _groups(importance(fit, points).argsort().tolist()):
            start = without(fit, group)
            if start[0] in tried:
                continue
            tried.add(start[0])
            if hopeless(*start, points, expected):
                continue
            candidate = refit(*start, points, expected)
            trace.append(candidate)
            score = candidate.information(points, ROWS)
            close = (candidate.error * points.count).sum() <= (expected * points.count).sum()
            if score < best and (close or len(group) == 1):
                smaller, best = candidate, score
                if len(fit.constant) > FEW:
                    break
    return fit


def _groups(order: list[int]) -> Iterator[list[int]]:
    """Weights to remove together: of many the first half, quarter, ...; then each one."""
    n = len(order) // 2
    while len(order) > FEW and n > 1:
        yield order[:n]
        n //= 2
    for k in order:
        yield [k]


def take_out(fit: Fit, points: Points, trace: list[Fit]) -> None:
    """Remove weights beyond what the criterion allows, to show what each is worth.

    They go one at a time, each time the one of the least important that is missed least.
    """
    while len(fit.constant):
        smaller = []
        for k in importance(fit, points).argsort()[:TRIED].tolist():
            formula, weights, constant = without(fit, [k])
            smaller.append(refit(formula, weights, (False,) * len(constant), points))
        fit = min(smaller, key=lambda one: one.pooled_error(points))
        trace.append(fit)


def fewer_terms(fit: Fit, points: Points) -> list[Fit]:
    """What is left as whole terms are taken out, each time the one that is missed least.

    A form that was searched for is nothing without its inner weights: 1/(w x + b).
    """
    trace: list[Fit] = []
    few = points.thinned(DECISION_POINTS)
    while outer := [k for k, _ in fit.formula.output if isinstance(k, int)]:
        smaller = [without(fit, [k]) for k in outer]
        fits = [refit(f, weights, (False,) * len(flags), few) for f, weights, flags in smaller]
        fit = min(fits, key=lambda one: one.pooled_error(few))
        trace.append(fit)
    return trace


# --- adding -----------------------------------------------------------------------------------


def add_missing(fit: Fit, points: Points, kinds: Sequence[Primitive]) -> Fit:
    """Extend a formula while it explains too little and Schwarz's criterion falls.

    Training may close a gate too soon when two inputs resemble each other, or never form a
    product.
    """
    best, score, failures = fit, fit.information(points, ROWS), 0
    while failures < PATIENCE and not fit.explains(COARSE, points):
        fit = extend(fit, points, kinds)
        new_score = fit.information(points, ROWS)
        if new_score < score:
            best, score, failures = fit, new_score, 0
        else:
            failures += 1
    return best


def exchange(fit: Fit, points: Points, kinds: Sequence[Primitive], trace: list[Fit]) -> Fit:
    """Extend a reduced formula and reduce it again, as long as that makes it better.

    A term removed early may have been replaced by a poor copy, and a term added to a large formula
    that lacks something is soon outweighed by the others.
    """
    while not fit.explains(PRECISION, points):
        wider = add_missing(fit, points, kinds)
        other = reduce(extend(fit, points, kinds) if wider is fit else wider, points, trace)
        worse = other.information(points, ROWS) >= fit.information(points, ROWS)
        if worse or other.formula == fit.formula:
            break
        fit = other
    return fit


def extend(fit: Fit, points: Points, kinds: Sequence[Primitive]) -> Fit:
    """Add the edge or unit that would lower the error most if the output were linear in it."""
    steps = torch.arange(0, len(fit.weights), max(1, len(fit.weights) // SAMPLE))
    here = points.at(steps)
    edges, units = list(fit.formula.closed_edges()), list(fit.formula.possible_units(kinds))
    wide = fit.formula.extended(edges)
    known = list(range(len(fit.constant)))
    y, slopes = jacobian(wide, _widened(fit.weights, len(edges))[steps], here)
    columns = [slopes[:, :, len(known) :]]
    for unit in units:
        chosen = [here.x[..., argument[0][1]] for argument in unit.arguments]
        value = unit.primitive.torch(*(ARGUMENT * x for x in chosen)) + torch.zeros_like(here.y)
        columns.append(value[..., None, None] * here.basis[..., None, :])
    gains = _linear_gain(
        slopes[:, :, known] * here.mask[..., None, None],
        torch.cat(columns, dim=2) * here.mask[..., None, None],
        (here.y - y) * here.mask,
    )
    if not len(gains):
        return fit
    chosen_one = int(gains.argmax())
    if chosen_one < len(edges):
        formula, n_new = fit.formula.extended([edges[chosen_one]]), 1
        start = _widened(fit.weights, n_new)
    else:
        unit = units[chosen_one - len(edges)]
        formula, n_new = fit.formula.extended(unit=unit), len(unit.arguments) + 1
        start = _widened(fit.weights, n_new)
        start[:, len(known) : -1, 0] = ARGUMENT
    return refit(formula, start, (False,) * start.shape[1], points)


def _widened(weights: Tensor, n_new: int) -> Tensor:
    """Weights (step, weight, degree) with more of them, which are 0."""
    n_steps, _, degrees = weights.shape
    return torch.cat([weights, weights.new_zeros(n_steps, n_new, degrees)], dim=1)


def _linear_gain(
    old: Float[Tensor, "step point known degree"],
    new: Float[Tensor, "step point other degree"],
    residual: Float[Tensor, "step point"],
) -> Float[Tensor, " other"]:
    """How much of the squared residual each new column could explain beyond the old ones."""
    basis = torch.linalg.qr(old.flatten(2)).Q
    n_new, n_degrees = new.shape[2:]
    new = new.flatten(2)
    new = new - basis @ (basis.mT @ new)
    rest = residual[..., None] - basis @ (basis.mT @ residual[..., None])
    power = new.square().sum(1)
    size = power.amax(dim=0, keepdim=True).clamp(min=1e-300)
    gain = torch.where(
        power > 1e-12 * size, (new * rest).sum(1).square() / power.clamp(min=1e-300), 0.0
    )
    gain = gain.nan_to_num(nan=0.0, posinf=0.0)  # a primitive may not be defined everywhere
    return gain.sum(0).unflatten(0, (n_new, n_degrees)).sum(-1)


# --- constants ----------------------------------------------------------------------


def freeze_constant(fit: Fit, points: Points, most_rows: float = torch.inf) -> Fit:
    """Hold weights equal at all steps, inner layers first, where the fit does not suffer.

    This recognises coefficients that do not vary and settles scales that two weights share.
    """
    best = fit.information(points, most_rows)
    for k in range(len(fit.constant)):
        if fit.constant[k]:
            continue
        constant = tuple(c or i == k for i, c in enumerate(fit.constant))
        expected = torch.maximum(fit.error, points.floor)
        weights = fit.weights.clone()
        weights[:, k] = 0
        weights[:, k, 0] = fit.weights[:, k, 0].median()
        if hopeless(fit.formula, weights, constant, points, expected):
            continue
        candidate = refit(fit.formula, weights, constant, points, expected)
        candidate = settle_constants(candidate, points)
        score = candidate.information(points, most_rows)
        if score < best:
            fit, best = candidate, score
    return fit


def freeze_doubtful(fit: Fit, points: Points) -> Fit:
    """Hold constant what varies no more than the errors of the finished formula can explain.

    Rows count for as many independent ones as their residuals are worth: the smooth error of
    numerical derivatives looks like a coefficient that varies, more or less with the rows that
    were drawn. On the way residuals are smooth because something is missing, and tell nothing.
    """
    share = independent_share(fit, points)
    return freeze_constant(fit, points, max(ROWS, share * float(points.count.mean())))
