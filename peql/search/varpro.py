"""Variable projection: solve for the coefficients of columns, move only the weights inside them.

y ≈ Σ c_k u_k(x; w): for given w the c are a linear least-squares problem, solved by orthogonal
projection. Levenberg–Marquardt moves w on what the projection leaves, with the slopes projected
too (Kaufman 1975). All starts and steps are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .evaluation import Evaluation, Rows
from .expressions import Expression

DEPENDENT = 1e-10  # a column with less of its norm beyond the others adds nothing
CANCELLED = 1e-2  # a column with less of its norm left has lost digits: it is projected once more
SMALL_GAIN = 1e-4  # relative; two such steps in a row end a descent


@dataclass
class Projection:
    """What the columns (k, start, step, point) explain of y."""

    basis: list[np.ndarray]  # orthonormal, (start, step, point) each
    triangle: np.ndarray  # (start, step, k, k)
    share: np.ndarray  # (start, step, k), y along the basis
    residual: np.ndarray  # (start, step, point)

    @property
    def sse(self) -> np.ndarray:
        return dot(self.residual, self.residual)

    def coefficients(self) -> np.ndarray:
        """(start, step, k)."""
        k = self.share.shape[-1]
        c = np.zeros_like(self.share)
        for i in range(k - 1, -1, -1):
            rest = (self.triangle[..., i, i + 1 :] * c[..., i + 1 :]).sum(-1)
            c[..., i] = (self.share[..., i] - rest) / self.triangle[..., i, i]
        return c

    def beyond(self, v: np.ndarray) -> np.ndarray:
        """The part of ``v`` orthogonal to the columns."""
        for q in self.basis:
            v = v - dot(q, v)[..., None] * q
        return v


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products along the last dimension, points, summed."""
    return np.einsum("...r,...r->...", a, b)


def project(columns: Sequence[np.ndarray], y: np.ndarray) -> Projection:
    """Gram–Schmidt, twice where digits are lost: as good as Householder's QR, and one batch."""
    shape = np.broadcast_shapes(*(c.shape for c in columns), y.shape)
    k = len(columns)
    basis: list[np.ndarray] = []
    triangle = np.zeros((*shape[:-1], k, k))
    for j, column in enumerate(columns):
        norm = left = np.sqrt(dot(column, column))
        v = column
        for again in range(2 if basis else 0):
            if again and not (left < CANCELLED * norm).any():
                break
            for i, q in enumerate(basis):
                h = dot(q, v)
                triangle[..., i, j] += h
                v = v - h[..., None] * q
            left = np.sqrt(dot(v, v))
        good = left > DEPENDENT * norm
        triangle[..., j, j] = np.where(good, left, np.inf)
        basis.append(v * np.where(good, 1 / np.where(good, left, 1.0), 0.0)[..., None])
    share = np.zeros((*shape[:-1], k))
    residual = np.broadcast_to(y, shape)
    for _ in range(2):
        for i, q in enumerate(basis):
            h = dot(q, residual)
            share[..., i] += h
            residual = residual - h[..., None] * q
    return Projection(basis, triangle, share, residual)


def evaluated(columns: Sequence[Expression], rows: Rows, w: np.ndarray, slopes: bool):
    """Values, slopes by weight, and whether out of the domain, of every column."""
    evaluation = Evaluation(rows, w, slopes)
    pairs = [evaluation.of(column) for column in columns]
    values = [np.asarray(v) * rows.mask for v, _ in pairs]
    return values, [d for _, d in pairs], evaluation.bad


def errors(columns: Sequence[Expression], rows: Rows, w: np.ndarray) -> np.ndarray:
    """Sum of squares (start, step) with the best coefficients; inf out of the domain."""
    with np.errstate(all="ignore"):
        values, _, bad = evaluated(columns, rows, w, slopes=False)
        sse = np.broadcast_to(project(values, rows.y).sse, w.shape[:2])
        return np.where(bad | ~np.isfinite(sse), np.inf, sse)


def coefficients(columns: Sequence[Expression], rows: Rows, w: np.ndarray) -> np.ndarray:
    """The best coefficients (start, step, column)."""
    with np.errstate(all="ignore"):
        values, _, _ = evaluated(columns, rows, w, slopes=False)
        c = project(values, rows.y).coefficients()
        return np.broadcast_to(c, (*w.shape[:2], len(columns)))


def descend(
    columns: Sequence[Expression],
    rows: Rows,
    w: np.ndarray,
    iterations: int = 20,
    floor: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg–Marquardt from every start at every step; the weights and their sums of squares.

    w (start, step, weight) -> the same, sse (start, step). ``floor`` (step,) is the sum of squares
    that counts as exact.
    """
    n = w.shape[-1]
    if not n:
        return w, errors(columns, rows, w)
    with np.errstate(all="ignore"):
        sse, jacobian, residual = _slopes(columns, rows, w)
        damping = np.full(sse.shape, 1e-2)
        idle = np.where(np.isfinite(sse), 0, 99)
        for k in range(iterations):
            if ((idle >= 2) | (sse <= floor)).all():
                break
            step = _newton(jacobian, residual, damping)
            trial = w + step
            new, new_jacobian, new_residual = _slopes(columns, rows, trial, k + 1 < iterations)
            better = new < sse
            gain = np.where(better, 1 - new / sse, 0.0)
            w = np.where(better[..., None], trial, w)
            if k + 1 < iterations:
                jacobian = np.where(better[..., None, None], new_jacobian, jacobian)
                residual = np.where(better[..., None], new_residual, residual)
            waits = ~better & (damping < 1e3)  # a shorter step may still help
            idle = np.where(gain > SMALL_GAIN, np.minimum(idle, idle // 50 * 50), idle + ~waits)
            sse = np.where(better, new, sse)
            damping = np.clip(damping * np.where(better, 0.1, 8.0), 1e-12, 1e8)
    return w, sse


def _slopes(columns: Sequence[Expression], rows: Rows, w: np.ndarray, slopes: bool = True):
    """Sum of squares (start, step), Kaufman's Jacobian (start, step, weight, point), residual."""
    values, derivatives, bad = evaluated(columns, rows, w, slopes)
    projection = project(values, rows.y)
    residual = projection.residual
    sse = dot(residual, residual)
    sse = np.where(bad | ~np.isfinite(sse), np.inf, sse)
    if not slopes:
        return sse, None, None
    c = projection.coefficients()
    jacobian = np.zeros((*w.shape, rows.y.shape[-1]))
    for k, d in enumerate(derivatives):
        for j, slope in d.items():
            jacobian[:, :, j] += c[..., k, None] * slope
    jacobian *= rows.mask[:, None]
    for q in projection.basis:
        q = np.broadcast_to(q, residual.shape)
        jacobian -= (jacobian @ q[..., None]) * q[..., None, :]
    return sse, jacobian, residual


def _newton(jacobian: np.ndarray, residual: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """A damped Gauss–Newton step (start, step, weight)."""
    n = jacobian.shape[-2]
    size = np.sqrt(np.einsum("...nr,...nr->...n", jacobian, jacobian)) + 1e-150
    normal = jacobian @ jacobian.swapaxes(-1, -2)
    gradient = (jacobian @ residual[..., None])[..., 0] / size
    normal = normal / size[..., None] / size[..., None, :]
    normal[..., range(n), range(n)] += damping[..., None] + 1e-14
    fine = np.isfinite(normal).all((-1, -2)) & np.isfinite(gradient).all(-1)
    normal = np.where(fine[..., None, None], normal, np.eye(n))
    gradient = np.where(fine[..., None], gradient, 0.0)
    return np.linalg.solve(normal, gradient[..., None])[..., 0] / size


def exchange(
    columns: Sequence[Expression],
    rows: Rows,
    w: np.ndarray,
    sse: np.ndarray,
    iterations: int = 20,
    floor: np.ndarray | float = 0.0,
    donors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Every step starts again from what the others found; w (step, weight), sse (step,)."""
    if not w.shape[-1] or len(w) < 2:
        return w, sse
    donors = w if donors is None else donors
    starts = np.repeat(donors[:, None], len(w), axis=1)  # (donor, step, weight)
    if len(starts) > 3:
        found = errors(columns, rows, starts)
        best = np.argsort(found, axis=0)[:3]
        starts = np.take_along_axis(starts, best[..., None], axis=0)
    new_w, new = descend(columns, rows, starts, iterations, floor)
    new_w = np.concatenate([new_w, w[None]])
    new = np.concatenate([new, sse[None]])
    best = new.argmin(0)
    steps = np.arange(len(w))
    return new_w[best, steps], new[best, steps]
