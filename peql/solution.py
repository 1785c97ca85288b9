"""The one object in the middle: a formula, solved at every step of t.

Everything that follows a fit works on a solution and on nothing else: predicting, the equation,
its coefficients and their errors, jumps, the verdict, the report, the file.

What a model is once it is solved: EQL has one row of weights; SEQL one for each known t; HEQL the
same rows joined by straight lines (with several varying columns, by planes blended between the
nearest ones). That is what HEQL's meta-weight unit, a ReLU network of t, computes once it holds the
solution (``Solution.network``); the unit as it was trained is not kept, since the solved weights
are closer to the data at every t than any that gradients reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch
from scipy.spatial import cKDTree

from ._suggest import unknown_name
from .engine.formula import Formula
from .engine.rows import Scales
from .engine.solver import Fit, Points, covariance
from .engine.training import PAPER_THRESHOLD
from .equation import reading
from .nn.network import SymbolicNetwork
from .nn.weights import MetaWeights

BLOCK = 2**17  # rows that are predicted at once
NEAR = 0.01  # a t this close to a known one, in units of the spacing, is that one printed shorter
OPEN, CLOSED = 100.0, -100.0  # log α of a gate that is 1 or 0 for certain


@dataclass(frozen=True, eq=False)
class Solution:
    """A formula with its weights at each step.

    Attributes:
        formula, weights: the graph and its weights (step, weight), in scaled units.
        constant: which weights are equal at all steps.
        t: (step, varying), raw, ascending; with ``labels`` their positions.
        scales: between raw and scaled units.
        features, varying, target: names.
        source: "single" (EQL), "stacked" (SEQL) or "meta" (HEQL): what happens between known t.
        slopes: (step, weight, varying) over scaled t, where steps are ranges of t.
        covariance: (step, weight, weight), or None where nothing was solved for.
        labels: names of the steps, where the varying column has no order.
        box: (2, feature), the least and the largest value of each feature, raw.

    >>> import peql
    >>> data = peql.datasets.load("f3", n_t=8, n_train=64)
    >>> solution = peql.SEQL(varying="t").fit(data.X_train, data.y_train).solution_
    >>> solution.equation, solution.used_features
    (x*a(t), ('x',))
    >>> solution.predict(np.array([[2.0]]), np.array([[3.0]])).round(9)
    array([6.])
    """

    formula: Formula
    weights: np.ndarray
    constant: tuple[bool, ...]
    t: np.ndarray
    scales: Scales
    features: tuple[str, ...]
    varying: tuple[str, ...]
    target: str
    source: str
    slopes: np.ndarray | None = None
    covariance: np.ndarray | None = None
    labels: tuple[str, ...] | None = None
    box: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        fit: Fit,
        points: Points,
        *,
        t: np.ndarray,
        scales: Scales,
        solved: bool = True,
        **names: Any,
    ) -> Solution:
        """From a fit to ``points``; if nothing was solved for there are no errors."""
        there = points.mask > 0
        x = scales.x_shift + scales.x * points.x[there].numpy()
        return cls(
            fit.formula,
            fit.weights[..., 0].numpy(),
            fit.constant,
            t,
            scales,
            slopes=fit.weights[..., 1:].numpy() if fit.weights.shape[-1] > 1 else None,
            covariance=covariance(fit, points).numpy() if solved else None,
            box=np.stack([x.min(axis=0), x.max(axis=0)]),
            **names,
        )

    # --- weights at any t --------------------------------------------------------------------

    def weights_at(self, t: np.ndarray) -> np.ndarray:
        """The weights (row, weight) at raw ``t`` (row, varying)."""
        if self.source == "single":
            return np.broadcast_to(self.weights, (len(t), self.weights.shape[1]))
        if self.source == "stacked":
            return self.weights[self._positions(t[:, 0])]
        return self._blended(t) if t.shape[1] > 1 else self._broken_line(t[:, 0])

    def _positions(self, t: np.ndarray) -> np.ndarray:
        """Where values are among the known ones; the nearest one if it is that, rounded."""
        known = self.t[:, 0]
        spacing = np.diff(known).min(initial=np.inf)
        right = np.searchsorted(known, t).clip(0, len(known) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(np.abs(t - known[left]) <= np.abs(t - known[right]), left, right)
        far = np.abs(t - known[nearest]) > NEAR * min(spacing, max(np.ptp(known), 1e-300))
        if far.any():
            raise ValueError(
                f"{self.varying[0]} = {t[far][0]:g} was not in the training data: SEQL knows "
                f"{len(known)} values from {known[0]:g} to {known[-1]:g}. Use HEQL to predict "
                "between or beyond them."
            )
        return nearest

    def _broken_line(self, t: np.ndarray) -> np.ndarray:
        """Through the solved weights, flat outside; where steps are ranges of t, to their ends."""
        known, values = self._knots()
        place = self.scales.t(t[:, None])[:, 0]
        return (
            np.stack([np.interp(place, known, column) for column in values.T], axis=1)
            if (values.shape[1])
            else np.empty((len(t), 0))
        )

    def _knots(self) -> tuple[np.ndarray, np.ndarray]:
        """Scaled t (knot,) and weights (knot, weight) of the broken line."""
        known, values = self.scales.t(self.t)[:, 0], self.weights
        if self.slopes is None:
            return known, values
        ends = np.array([-1.0, 1.0])
        outer = values[[0, -1]] + self.slopes[[0, -1], :, 0] * (ends - known[[0, -1]])[:, None]
        known, kept = np.unique(np.concatenate([known, ends]).round(12), return_index=True)
        return known, np.concatenate([values, outer])[kept]

    def _blended(self, t: np.ndarray) -> np.ndarray:
        """Planes through the solved weights, blended by distance between the nearest ones."""
        tree, slopes, n_near = self._planes
        place = self.scales.t(t)
        distance, near = tree.query(place, k=n_near)
        distance, near = distance.reshape(len(t), -1), near.reshape(len(t), -1)
        reach = distance[:, -1:] * (1 + 1e-9) + 1e-300
        share = ((1 - distance / reach) / (distance + 1e-12 * reach)) ** 2
        share /= share.sum(axis=1, keepdims=True)
        away = place[:, None] - tree.data[near]  # (row, near, varying)
        planes = self.weights[near] + np.einsum("rnwv,rnv->rnw", slopes[near], away)
        return np.einsum("rn,rnw->rw", share, planes)

    @cached_property
    def _planes(self) -> tuple[cKDTree, np.ndarray, int]:
        """Known t, the slope of each weight there, and how many of them are blended."""
        known = self.scales.t(self.t)
        n_near = min(len(known), 2 * known.shape[1] + 2)
        tree = cKDTree(known)
        if self.slopes is not None:
            return tree, self.slopes, n_near
        _, near = tree.query(known, k=n_near)
        near = np.reshape(near, (len(known), -1))
        away = known[near] - known[:, None]
        rise = self.weights[near] - self.weights[:, None]
        slopes = np.stack(
            [np.linalg.lstsq(a, r, rcond=1e-9)[0].T for a, r in zip(away, rise, strict=True)]
        )
        return tree, slopes, n_near

    # --- predicting --------------------------------------------------------------------------

    def predict(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """y (row,) for raw features ``x`` (row, feature) and ``t`` (row, varying)."""
        y = np.empty(len(x))
        for rows in _blocks(len(x)):
            weights = torch.from_numpy(np.array(self.weights_at(t[rows])))
            scaled = torch.from_numpy(self.scales.features(x[rows]))[:, None]
            value = self.formula([w[:, None] for w in weights.unbind(-1)], scaled)
            y[rows] = self.scales.y * value[:, 0].numpy()
        return y

    # --- reading -----------------------------------------------------------------------------

    @cached_property
    def parametric(self) -> reading.ParametricEquation:
        """The equation as it was read, with how its coefficients follow from the weights."""
        return reading.read(
            self.formula,
            self.weights,
            self.features,
            self.varying,
            self.scales.x.tolist(),
            self.scales.x_shift.tolist(),
            self.scales.y,
            taken=(self.target,),
            box=self.box,
        )

    @property
    def equation(self) -> sympy.Expr:
        """SymPy, with functions of the varying columns as coefficients."""
        return self.parametric.expression

    @property
    def refined(self) -> bool:
        """Whether the weights were solved for; if not, small terms are not printed."""
        return self.covariance is not None

    def at(self, point: np.ndarray) -> sympy.Expr:
        """The equation with numbers at ``point`` (varying,), raw."""
        values = self.parametric.evaluate(self.weights_at(point[None]))[0]
        return self.parametric.at(values, 0.0 if self.refined else PAPER_THRESHOLD)

    @cached_property
    def index(self) -> pd.Index:
        """The known t as the index of a table."""
        if self.labels is not None:
            return pd.Index(self.labels, name=self.varying[0])
        if len(self.varying) == 1:
            return pd.Index(self.t[:, 0], name=self.varying[0])
        return pd.MultiIndex.from_arrays(list(self.t.T), names=list(self.varying))

    @cached_property
    def coefficients(self) -> pd.DataFrame:
        """The coefficient functions over the known t, one column each."""
        values = self.parametric.evaluate(self.weights)
        return pd.DataFrame(values, index=self.index, columns=list(self.parametric.names))

    @cached_property
    def coefficient_errors(self) -> pd.DataFrame:
        """Their standard errors; NaN where nothing was solved for."""
        errors: Any = np.nan
        if self.covariance is not None:
            parts = self.parametric.coefficients
            errors = self.parametric.errors(parts, self.weights, self.covariance)
        return pd.DataFrame(errors, index=self.index, columns=list(self.parametric.names))

    @cached_property
    def constants(self) -> pd.DataFrame:
        """The numbers that do not vary, by what each stands before, with its value and error."""
        places = [place for place, _ in self.parametric.constants]
        parts = [part for _, part in self.parametric.constants]
        one = replace(self.parametric, coefficients=tuple(parts))
        values = np.median(one.evaluate(self.weights), axis=0)
        errors = np.full(len(parts), np.nan)
        if self.covariance is not None:
            errors = np.median(self.parametric.errors(parts, self.weights, self.covariance), axis=0)
        table = {"before": places, "value": values, "standard_error": errors}
        return pd.DataFrame(table)

    def n_numbers(self) -> int:
        """How many numbers were fitted: one for a constant weight, one at each t for another."""
        n_constant = sum(self.constant)
        degrees = 1 if self.slopes is None else 1 + self.slopes.shape[-1]
        return n_constant + (len(self.constant) - n_constant) * degrees * len(self.weights)

    @cached_property
    def used_features(self) -> tuple[str, ...]:
        """The features that the equation uses."""
        used = {str(symbol) for symbol in self.equation.free_symbols}
        return tuple(name for name in self.features if name in used)

    def position(self, label: Any) -> int:
        """Where a label is among the known ones."""
        known = self.labels or ()
        if str(label) not in known:
            raise unknown_name(self.varying[0], str(label), known)
        return known.index(str(label))

    # --- the network that holds it -----------------------------------------------------------

    @torch.no_grad()
    def network(self) -> SymbolicNetwork:
        """A symbolic network (float64, scaled units) whose open gates are this formula."""
        place = self.formula.placed()
        single = len(self.varying) == 1
        t, values = self._knots() if self.source == "meta" and single else (None, self.weights)
        network = SymbolicNetwork(
            self.formula.n_features,
            weights=self.source,
            n_steps=len(values),
            n_varying=len(self.varying),
            primitives=place.primitives,
            n_layers=place.n_layers,
            n_kinks=len(values) if single else 4 * len(values),
        ).double()
        network.gates.log_alpha.fill_(CLOSED)
        network.gates.log_alpha[0, [*place.weights, *place.numbers]] = OPEN
        full = place.full(torch.from_numpy(np.array(values)), network.n_weights)
        if self.source == "meta":
            known = self.scales.t(self.t) if t is None else t[:, None]
            assert isinstance(network.weights, MetaWeights)
            network.weights.interpolate(torch.from_numpy(known), full)
        else:
            assert not isinstance(network.weights, MetaWeights)
            network.weights.value.copy_(full[None])
        return network.eval()


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK):
        yield slice(start, start + BLOCK)
