"""What trials come to, and which of them is the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2
from torch import Tensor

from ..engine.criterion import information
from ..engine.products import DEGREE, by_step
from ..engine.rows import Arranged
from ..engine.solver import Fit, Points, mean_squared_error
from ..solution import Solution

SPARE = 0.05  # chance that noise gives additional numbers more to do, at which they are not spare


@dataclass(frozen=True)
class Outcome:
    """What a trial came to."""

    fit: Fit
    arranged: Arranged
    method: str
    seconds: float
    held_out_error: float  # mean squared, scaled units
    restarts: int = 0
    trace: Sequence[Fit] = ()
    last: bool = False  # nothing is to be tried after it


@dataclass(frozen=True)
class FieldRows:
    """What rows of a field say of themselves in ``X.attrs``; see ``peql.datasets.from_field``."""

    independent: float  # share of a step's rows
    exact: float  # mean squared error of y that is none
    degree: int  # factors of a product that may be formed

    @classmethod
    def of(cls, attrs: Mapping[str, Any], target: str) -> FieldRows | None:
        if "independent" not in attrs:
            return None
        errors = attrs["error"]
        error = float(errors.get(target, min(errors.values())))
        return cls(attrs["independent"], error**2, 1 if attrs["products"] else DEGREE)


def raw(scaled: float, solution: Solution) -> float:
    """A squared error in raw units."""
    return solution.scales.y * (solution.scales.y * scaled)  # y**2 may be out of range


def pooled(fit: Fit, points: Points) -> float:
    """Mean squared error over all rows of all steps, scaled units."""
    rows = points.mask.sum()
    if rows == 0:
        return float("nan")
    per_step = mean_squared_error(fit.formula, fit.weights, points)
    return float((per_step * points.count * (points.mask.sum(-1) > 0)).sum() / rows)


def same_function(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes predict the same, up to a hundredth of what they leave unexplained.

    Numbers that the other has in addition may fit as much of the noise as such numbers do: it is
    then the one with spare numbers, a straight line as a·exp(b·x) + c with a small b.
    """
    points = one.arranged.points

    def predicted(outcome: Outcome) -> Tensor:
        rows, fit = outcome.arranged.points, outcome.fit
        return fit.formula(rows.spread(fit.weights), rows.x) * rows.mask

    n_rows = float(points.count.sum())
    apart = float((predicted(one) - predicted(other)).square().sum()) / n_rows
    spare = _n_numbers(other.fit) - _n_numbers(one.fit)
    noise = one.fit.pooled_error(points) / max(n_rows - _n_numbers(one.fit), 1.0)
    idle = float(chi2.isf(SPARE, spare)) * noise if spare > 0 else 0.0
    same = max(1e-4 * one.fit.pooled_error(points), idle)
    return apart <= same + 1e-15 * float(points.variance)


def _n_numbers(fit: Fit) -> int:
    """How many numbers were fitted: one for a constant weight, one at each t for another."""
    n_constant = sum(fit.constant)
    return n_constant + (len(fit.constant) - n_constant) * len(fit.weights) * fit.weights.shape[-1]


def criterion(outcome: Outcome, field: FieldRows | None) -> float:
    """What decides between the search and a network, and which other forms are mentioned.

    Of the rows of a field a share is independent, and each step has noise of its own.
    """
    fit, points = outcome.fit, outcome.arranged.points
    n_shared = sum(fit.constant)
    n_free = (len(fit.constant) - n_shared) * fit.weights.shape[-1]
    error, rows, floor = fit.error.numpy(), points.count.numpy(), points.floor.numpy()
    counted = n_free, n_shared, fit.formula.size
    if field is None:
        return information(error, rows, *counted, floor)
    floor = np.maximum(floor, field.exact / outcome.arranged.scales.y**2)
    return by_step(error, rows, np.maximum(field.independent * rows, 1), *counted, floor)


def choose(trials: pd.DataFrame, exact: float) -> int:
    """The best by the criterion of what the search found and the best network.

    Among networks that is the simplest whose validation error is about the smallest.
    """
    chosen = trials[trials["method"] == "search"]
    networks = trials[trials["method"] == "network"]
    if len(networks):
        error = networks["validation_error"].fillna(networks["train_error"])
        good = networks[error <= 2 * error.min() + exact].assign(error=error)
        best = good.sort_values(["complexity", "error"]).index[0]
        chosen = pd.concat([chosen, networks.loc[[best]]])
    order = chosen.assign(place=chosen.index).sort_values("criterion", na_position="last")
    return int(order["place"].to_numpy()[0])
