"""Sums of products of columns: the forms of a field's equation, u_t = Σ c_k(t)·u^p·u_x…

Such an equation is linear in its coefficients, so nothing is searched for but which terms it has:
every product is a column, and a sum of a few of them is solved for on all rows of all steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
import torch

from .. import primitives as P
from .criterion import CONSISTENT, MOST_CONSTANTS, NODE
from .formula import Edge, Formula, Unit
from .solver import Fit, Points, mean_squared_error

BEAM = 8  # sums of each length that are grown by another term
LONGEST = 6  # terms up to which all of the beam is grown; the best alone may grow further
DEGREE = 3  # factors of a product, at most
# Rows of a step that are independent, at least: each term has to pay for a number at every step.
# With one row, three terms that leave a millionth of y's variance lose to none; spare terms of
# clean fields, which fit what a coarse grid made, mostly gain less than two rows charge for.
FEWEST = 2.0
SPARE = 1e-10  # share of a column beyond the others below which it is a sum of them

Product = tuple[int, ...]  # features, ascending; () is the constant 1
Sum = tuple[int, ...]  # places in a list of products, ascending


def by_step(
    error: np.ndarray,
    count: np.ndarray,
    rows: np.ndarray,
    n_free: int,
    n_shared: int,
    size: float,
    floor: np.ndarray,
) -> float:
    """Schwarz's criterion where each step has noise of its own; smaller is better.

    error, count, rows, floor (step,): mean squared error, rows that were fitted, how many of them
    are independent, and the error that counts as exact. A field is steep at some t and smooth at
    others, and so are the errors of its derivatives: pooled, the worst t would decide alone.

    >>> error, rows = np.array([1e-2, 1.0]), np.array([50.0, 50.0])
    >>> score = [by_step(e, rows, rows, 1, 0, 1, 0 * rows) for e in (error, error / [2, 1])]
    >>> bool(score[1] < score[0] - 30)
    True
    """
    if n_free > MOST_CONSTANTS * np.median(count):
        return np.inf
    bias = count / np.maximum(count - n_free - n_shared / len(count), 0.5)
    misfit = float((rows * np.log(bias * (error + floor))).sum())
    return misfit + (n_free * len(rows) + n_shared) * np.log(rows.sum()) + NODE * size


def products(n_features: int, degree: int = DEGREE) -> list[Product]:
    """The constant, the features, and what they give multiplied with each other.

    >>> products(2, 2)
    [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    """
    return [
        chosen
        for factors in range(degree + 1)
        for chosen in combinations_with_replacement(range(n_features), factors)
    ]


def written(terms: Iterable[Product], n_features: int) -> Formula:
    """The sum of ``terms``, each with one weight, in their order.

    >>> written([(0,), (0, 1)], 2).n_weights
    2
    """
    units: list[Unit] = []
    nodes: dict[Product, int] = {(k,): k for k in range(n_features)}

    def node(term: Product) -> int:
        if term not in nodes:
            if not term:
                unit = Unit(P.get("one"), ())
            elif len(term) == 2 and term[0] == term[1]:
                unit = Unit(P.get("square"), (((None, term[0]),),))
            else:
                parts: list[Edge] = [(None, node(term[:-1])), (None, term[-1])]
                unit = Unit(P.get("product"), tuple((part,) for part in parts))
            units.append(unit)
            nodes[term] = n_features + len(units) - 1
        return nodes[term]

    output = tuple((k, node(term)) for k, term in enumerate(terms))
    return Formula(n_features, tuple(units), output)


@dataclass
class Library:
    """All products on all rows, reduced to what least squares needs.

    ``columns`` (step, row, product, degree) and ``y`` (step, row) have as many rows as there are
    columns, if there were more: rotated, they give the same errors.
    """

    points: Points
    terms: list[Product]
    share: float  # of a step's rows that are independent
    exact: float  # mean squared error that counts as none
    columns: np.ndarray = field(init=False)
    y: np.ndarray = field(init=False)
    unit: np.ndarray = field(init=False)  # (product,) in which columns are measured

    def __post_init__(self) -> None:
        x, y, mask, basis = (
            np.asarray(a)
            for a in (self.points.x, self.points.y, self.points.mask, self.points.basis)
        )
        self.count, self.floor = (
            self.points.count.numpy(),
            np.maximum(self.points.floor.numpy(), self.exact),
        )
        self.rows = np.maximum(self.share * self.count, FEWEST)
        values = np.stack([np.prod(x[..., list(t)], axis=-1) for t in self.terms], axis=-1)
        values = values * mask[..., None]
        self.unit = np.sqrt((values**2).sum((0, 1)) / mask.sum())
        self.unit[self.unit == 0] = 1.0
        wide = ((values / self.unit)[..., None] * basis[..., None, :]).reshape(*y.shape, -1)
        both = np.concatenate([wide, (y * mask)[..., None]], axis=-1)
        if both.shape[1] > both.shape[2]:
            both = np.linalg.qr(both).R
        self.columns = both[..., :-1].reshape(*both.shape[:2], len(self.terms), -1)
        self.y = both[..., -1]
        self.size = np.array([written([t], x.shape[-1]).size for t in self.terms])

    def score(self, error: np.ndarray, chosen: Sum) -> float:
        """Of coefficients that are each step's own."""
        n_free, size = len(chosen) * self.columns.shape[-1], float(self.size[list(chosen)].sum())
        return by_step(error, self.count, self.rows, n_free, 0, size, self.floor)

    def shared_score(self, error: np.ndarray, chosen: Sum, shared: Iterable[bool]) -> float:
        """Of coefficients some of which are ``shared`` by all steps."""
        n_shared = sum(shared)
        n_free = (len(chosen) - n_shared) * self.columns.shape[-1]
        size = float(self.size[list(chosen)].sum())
        return by_step(error, self.count, self.count, n_free, n_shared, size, self.floor)

    def _left(self, chosen: Sum) -> tuple[np.ndarray, np.ndarray]:
        """What ``chosen`` leaves of y (step, row), and an orthonormal basis of what it does not."""
        flat = self.columns[:, :, list(chosen)].reshape(*self.y.shape, -1)
        basis = np.linalg.qr(flat).Q
        return self.y - _apply(basis, self.y), basis

    def error(self, chosen: Sum) -> np.ndarray:
        """Mean squared error at each step."""
        left, _ = self._left(chosen)
        return (left**2).sum(-1) / self.count

    def grown(self, chosen: Sum) -> dict[Sum, float]:
        """``chosen`` with each other term, and what that scores."""
        left, basis = self._left(chosen)
        wide = self.columns.reshape(*self.y.shape, -1)
        size = np.sqrt((wide**2).sum(1, keepdims=True))
        wide = wide / np.where(size > 0, size, 1.0)
        wide = wide - basis @ (basis.swapaxes(1, 2) @ wide)
        new = wide.reshape(self.columns.shape)
        power = np.einsum("spkc,spkd->skcd", new, new)
        values, vectors = np.linalg.eigh(power)
        along = np.einsum("skcd,skc->skd", vectors, np.einsum("spkc,sp->skc", new, left))
        gain = np.where(values > SPARE, along**2 / np.maximum(values, SPARE), 0.0).sum(-1)
        rest = np.maximum((left**2).sum(-1)[:, None] - gain, 0.0) / self.count[:, None]
        return {
            (more := tuple(sorted((*chosen, k)))): self.score(rest[:, k], more)
            for k in range(len(self.terms))
            if k not in chosen
        }

    def sums(self) -> dict[Sum, float]:
        """Sums of terms and their scores: grown term by term, then terms exchanged in the best."""
        seen: dict[Sum, float] = {(): self.score(self.error(()), ())}
        beam: list[Sum] = [()]
        for _ in range(LONGEST):
            found: dict[Sum, float] = {}
            for chosen in beam:
                found |= self.grown(chosen)
            beam = sorted(found, key=lambda s: found[s])[:BEAM]
            seen |= {chosen: self.score(self.error(chosen), chosen) for chosen in beam}
        while True:
            best = min(seen, key=lambda s: seen[s])
            near = self.grown(best)
            for k in best:
                less = tuple(j for j in best if j != k)
                near |= {less: self.score(self.error(less), less)} | self.grown(less)
            near = {s: near[s] for s in sorted(near, key=lambda s: near[s])[:BEAM] if s not in seen}
            seen |= {chosen: self.score(self.error(chosen), chosen) for chosen in near}
            if min(seen, key=lambda s: seen[s]) == best:
                return seen

    def solved(self, chosen: Sum, shared: tuple[bool, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (step, term, degree) and errors (step,); shared ones are equal at all steps.

        Each step tells of a shared one as much as its own noise allows.
        """
        own = tuple(k for k, s in zip(chosen, shared, strict=True) if not s)
        held = [k for k, s in zip(chosen, shared, strict=True) if s]
        found = np.zeros((len(self.y), len(chosen), self.columns.shape[-1]))
        y = self.y
        if held:
            free = self.error(chosen) + self.floor
            _, basis = self._left(own)
            both = np.concatenate([self.columns[:, :, held, 0], y[..., None]], axis=-1)
            both = both - basis @ (basis.swapaxes(1, 2) @ both)
            both = (both / np.sqrt(free)[:, None, None]).reshape(-1, len(held) + 1)
            constant = np.linalg.lstsq(both[:, :-1], both[:, -1], rcond=None)[0]
            found[:, list(shared), 0] = constant
            y = y - self.columns[:, :, held, 0] @ constant
        if own:
            flat = self.columns[:, :, list(own)].reshape(*self.y.shape, -1)
            q, r = np.linalg.qr(flat)
            weights = np.linalg.pinv(r) @ (q.swapaxes(1, 2) @ y[..., None])
            y = y - (flat @ weights)[..., 0]
            free_ones = [not s for s in shared]
            found[:, free_ones] = weights[..., 0].reshape(len(y), len(own), -1)
        return found, (y**2).sum(-1) / self.count

    def settled(self, chosen: Sum) -> tuple[tuple[bool, ...], np.ndarray]:
        """Which coefficients are one number at all steps, and all of them.

        Every row counts here: a coefficient is a mean over rows, from which their errors, short
        waves mostly, are nearly gone; what they have in common tempts other terms, not this one.
        """
        shared = (False,) * len(chosen)
        weights, error = self.solved(chosen, shared)
        best = self.shared_score(error, chosen, shared)
        for k in range(len(chosen)):
            tried = tuple(s or j == k for j, s in enumerate(shared))
            held, error = self.solved(chosen, tried)
            score = self.shared_score(error, chosen, tried)
            if score < best:
                best, shared, weights = score, tried, held
        return shared, weights


def _apply(basis: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (basis @ (basis.swapaxes(1, 2) @ y[..., None]))[..., 0]


def sums_of_products(
    points: Points, share: float = 1.0, exact: float = 0.0, degree: int = DEGREE
) -> list[Fit]:
    """The best sum of products for ``points``, and others as consistent with them, best first.

    ``share`` of a step's rows are independent, and a mean squared error below ``exact`` is none.
    Terms are chosen with coefficients of each step's
    own, and only then it is asked which are constants: steps share what smoothing did to the field,
    and a spare term with one number for all of them would fit that.

    >>> x = torch.rand(3, 40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> y = torch.tensor([[1.0], [2.0], [3.0]]) * x[..., 0] * x[..., 1] + 0.5 * x[..., 1]
    >>> fit = sums_of_products(Points(x, y, 1 + 0 * y, 1 + 0 * y[..., None]))[0]
    >>> fit.constant, fit.weights[:, 1, 0].round(decimals=6).tolist()
    ((True, False), [1.0, 2.0, 3.0])
    """
    library = Library(points, products(points.x.shape[-1], degree), share, exact)
    seen = library.sums()
    least = min(seen.values())
    fits = []
    for chosen in sorted(seen, key=lambda s: seen[s]):
        if seen[chosen] > least + CONSISTENT:
            break
        shared, weights = library.settled(chosen)
        formula = written([library.terms[k] for k in chosen], points.x.shape[-1])
        raw = torch.from_numpy(weights / library.unit[list(chosen)][:, None])
        fits.append(Fit(formula, raw, shared, mean_squared_error(formula, raw, points)))
    return fits
