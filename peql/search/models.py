"""Models: a form with its constants, solved on all steps at once, and the judge who scores them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..engine.criterion import DOUBT, MOST_CONSTANTS, information
from .evaluation import Evaluation, Rows
from .expressions import FULL_TURN, Apply, Expression, nodes, simplify
from .varpro import Projection, descend, dot, project

SPARE = 2  # constants over the limit that reduction may yet find to be shared or none

Kind = str  # of a coefficient: "free" or "shared"


@dataclass(frozen=True)
class Model:
    """Columns with coefficients c (step, column) and inner weights w (step, weight)."""

    columns: tuple[Expression, ...]
    w: np.ndarray
    c: np.ndarray
    shared: tuple[bool, ...]  # of each inner weight
    kinds: tuple[Kind, ...]  # of each coefficient
    sse: np.ndarray  # (step,)
    score: float = np.inf

    @property
    def n_free(self) -> int:
        return self.kinds.count("free") + self.shared.count(False)

    @property
    def n_shared(self) -> int:
        return self.kinds.count("shared") + self.shared.count(True)

    @property
    def size(self) -> int:
        return len(self.columns) - 1 + sum(c.size() for c in self.columns)


class Judge:
    """Scores models on ``rows``; ``between`` them a form must be defined, ``beyond`` it should."""

    def __init__(self, rows: Rows, between: Rows, beyond: Rows, floor: np.ndarray):
        self.rows, self.between, self.beyond, self.floor = rows, between, beyond, floor

    def score(self, m: Model) -> float:
        if not np.isfinite(m.sse).all() or not _defined(m, self.between):
            return np.inf
        count = self.rows.count
        # A wave that swings faster than the rows can show goes through any of them, and a peak that
        # one row sees through that one: only where nothing is left can it be the law.
        if any(n > np.median(count) for n in _half_waves(m, self.rows)):
            return np.inf
        if not self.is_exact(m) and _rows_that_see(m, self.rows) < 2:
            return np.inf
        errors = m.sse / count, count
        score = information(*errors, m.n_free, m.n_shared, m.size, self.floor, SPARE)
        return score + DOUBT * self.doubts(m)

    def doubts(self, m: Model) -> int:
        """Reasons to doubt a form that fits: a pole near the rows, waves that never turn."""
        barely_waves = sum(n < 1 for n in _half_waves(m, self.rows))
        return (not _defined(m, self.beyond)) + barely_waves

    def interpolates(self, m: Model) -> bool:
        """Whether too many constants are left for the rows of a step."""
        return m.n_free > MOST_CONSTANTS * np.median(self.rows.count)

    def is_exact(self, m: Model) -> bool:
        """Whether every step fits to rounding error."""
        return bool((m.sse <= 10 * self.floor * self.rows.count).all())

    def solved(self, m: Model, iterations: int = 12) -> Model:
        m = solve(m, self.rows, iterations, self.floor)
        return replace(m, score=self.score(m))


def _defined(m: Model, rows: Rows) -> bool:
    """No denominator, logarithm or root passes zero."""
    with np.errstate(all="ignore"):
        evaluation = Evaluation(rows, m.w[None], slopes=False)
        values = [evaluation.of(c)[0] for c in m.columns]
    finite = all(np.isfinite(v).all() for v in values)
    return finite and not evaluation.bad.any()


def _rows_that_see(m: Model, rows: Rows) -> float:
    """How many rows of a typical step see the narrowest column: a tenth of its height at least."""
    evaluation = Evaluation(rows, m.w[None], slopes=False)
    with np.errstate(all="ignore"):
        heights = (np.abs(evaluation.of(c)[0] * rows.mask) for c in m.columns)
        seen = [np.median((h >= 0.1 * h.max(-1, keepdims=True)).sum(-1)) for h in heights]
    return float(min(seen, default=2.0))


def _half_waves(m: Model, rows: Rows) -> list[float]:
    """How many half waves of each sine a typical step sees."""
    waves = {
        n for c in m.columns for n in nodes(c) if isinstance(n, Apply) and n.name in ("sin", "cos")
    }
    evaluation = Evaluation(rows, m.w[None], slopes=False)
    with np.errstate(all="ignore"):
        seen = [np.median(np.ptp(evaluation.of(n.g)[0], axis=-1)) for n in waves]
    return [float(turn / (FULL_TURN / 2)) for turn in seen]


class Linear(NamedTuple):
    """A model at some weights: what it leaves of y, and how that changes with its numbers."""

    sse: np.ndarray  # (step,)
    c: np.ndarray  # (step, column), the free ones at their best
    residual: np.ndarray  # (step, point)
    by_weight: np.ndarray  # slopes (step, weight, point)
    by_coefficient: np.ndarray  # (step, column, point)
    projection: Projection | None  # on the columns whose coefficients are free


def linearised(m: Model, rows: Rows, w: np.ndarray, c: np.ndarray, slopes: bool = True) -> Linear:
    """``m`` with the weights ``w`` and, where they are shared, the coefficients ``c``."""
    evaluation = Evaluation(rows, w[None], slopes)
    pairs = [evaluation.of(column) for column in m.columns]
    values = [np.broadcast_to(np.asarray(v), (1, *rows.y.shape))[0] * rows.mask for v, _ in pairs]
    target = rows.y * rows.mask
    free = [k for k, kind in enumerate(m.kinds) if kind == "free"]
    for k, v in enumerate(values):
        if k not in free:
            target = target - c[:, k, None] * v
    c = c.copy()
    projection = None
    residual = target
    if free:
        projection = project([values[k] for k in free], target)
        c[:, free] = projection.coefficients()
        residual = projection.residual
    sse = dot(residual, residual)
    sse = np.where(evaluation.bad[0] | ~np.isfinite(sse), np.inf, sse)
    jacobian = np.zeros((len(w), w.shape[-1], rows.y.shape[-1]))
    for k, (_, d) in enumerate(pairs if slopes else ()):
        for j, slope in d.items():
            slope = np.broadcast_to(np.asarray(slope), (1, *rows.y.shape))[0]
            jacobian[:, j] += c[:, k, None] * slope
    jacobian *= rows.mask[:, None]
    return Linear(sse, c, residual, jacobian, np.stack(values, axis=1), projection)


def solve(m: Model, rows: Rows, iterations: int = 12, floor: np.ndarray | float = 0.0) -> Model:
    """Levenberg–Marquardt over all steps at once; shared constants have one value."""
    shared_w = [j for j, shared in enumerate(m.shared) if shared]
    shared_c = [k for k, kind in enumerate(m.kinds) if kind == "shared"]
    own_w = [j for j, shared in enumerate(m.shared) if not shared]
    w, c = m.w.copy(), m.c.copy()
    w[:, shared_w], c[:, shared_c] = np.median(w[:, shared_w], 0), np.median(c[:, shared_c], 0)
    goal = (floor * rows.count).sum()
    with np.errstate(all="ignore"):
        here = linearised(m, rows, w, c)
        if not shared_w and not shared_c:  # each step by itself, at its own pace
            if own_w:
                w = descend(m.columns, rows, w[None], iterations, floor * rows.count)[0][0]
                here = linearised(m, rows, w, c, slopes=False)
            return replace(m, w=w, c=here.c, sse=here.sse)
        damping, idle = 1e-4, 0
        for _ in range(iterations):
            total = here.sse.sum()
            if idle >= 2 or total <= 1e-6 * goal or not np.isfinite(total):
                break
            own = here.by_weight[:, own_w]
            common = (here.by_weight[:, shared_w], here.by_coefficient[:, shared_c])
            own_step, common_step = _arrow(here, own, np.concatenate(common, 1), damping)
            new_w, new_c = w.copy(), here.c.copy()
            new_w[:, own_w] += own_step
            new_w[:, shared_w] += common_step[: len(shared_w)]
            new_c[:, shared_c] += common_step[len(shared_w) :]
            trial = linearised(m, rows, new_w, new_c)
            if trial.sse.sum() < total:
                idle = 0 if 1 - trial.sse.sum() / total > 1e-4 else idle + 1
                w, here = new_w, trial
                damping = max(damping * 0.1, 1e-12)
            else:
                damping *= 10
                idle += damping > 1e3
    return replace(m, w=w, c=here.c, sse=here.sse)


def _arrow(here: Linear, own: np.ndarray, glob: np.ndarray, damping: float):
    """A damped Gauss–Newton step where some unknowns belong to a step and some to all."""
    for q in here.projection.basis if here.projection is not None else ():
        own = own - (own @ q[..., None]) * q[:, None]
        glob = glob - (glob @ q[..., None]) * q[:, None]
    own_size = np.sqrt(dot(own, own)) + 1e-150  # (step, local)
    glob_size = np.sqrt(dot(glob, glob).sum(0)) + 1e-150
    own, glob = own / own_size[..., None], glob / glob_size[:, None]
    a = own @ own.swapaxes(1, 2) + (damping + 1e-14) * np.eye(own.shape[1])
    b = own @ glob.swapaxes(1, 2)
    d = (glob @ glob.swapaxes(1, 2)).sum(0) + (damping + 1e-14) * np.eye(glob.shape[1])
    f = (own @ here.residual[..., None])[..., 0]
    g = (glob @ here.residual[..., None])[..., 0].sum(0)
    if not all(np.isfinite(v).all() for v in (a, b, d, f, g)):
        return np.zeros_like(own_size), np.zeros_like(glob_size)
    solved = np.linalg.solve(a, np.concatenate([b, f[..., None]], axis=-1))
    ab, af = solved[..., :-1], solved[..., -1]
    schur = d - (b.swapaxes(1, 2) @ ab).sum(0)
    rest = g - (b.swapaxes(1, 2) @ af[..., None])[..., 0].sum(0)
    glob_step = np.linalg.lstsq(schur, rest, rcond=1e-14)[0] if len(d) else rest
    own_step = af - ab @ glob_step
    return own_step / own_size, glob_step / glob_size


def compact(m: Model) -> Model:
    """The columns simplified, and of the weights those in use, numbered from 0."""
    columns = [simplify(c) for c in m.columns]
    used = sorted({w for c in columns for w in c.weights()})
    place = {w: k for k, w in enumerate(used)}
    columns = [c.changed(lambda w: place[w] if isinstance(w, int) else w) for c in columns]
    return replace(
        m,
        columns=tuple(columns),
        w=m.w[:, used],
        shared=tuple(m.shared[w] for w in used),
    )
