"""A form solved on everything: which constants differ between steps, which are shared or fixed.

The columns' coefficients and the weights inside them are tried one by one as shared by all steps,
as whole numbers, as equal or opposite to one another; a change stays where the criterion falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ..engine.criterion import DOUBT, MOST_CONSTANTS, information
from ..primitives import FREQUENCY
from .dimensions import alike, is_number, of_weight
from .expressions import (
    Apply,
    Evaluation,
    Expression,
    Mix,
    One,
    Plus,
    Power,
    Rows,
    Scale,
    Shift,
    Times,
    factors,
    nodes,
    simplify,
    substituted,
)
from .varpro import _dot, descend, project

FULL_TURN = 0.5  # the argument of sin after which it repeats: 2π/FREQUENCY
EXPONENTS = sorted({k / 2 for k in range(-24, 25)} | {k / 3 for k in range(-12, 13)})
SMALL_ARGUMENT = 1.0  # of sin or tanh: a straight line may be as good
SPARE = 2  # constants over the limit that reduction may yet find to be shared or none
GIVEN = (1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -1.5)  # of a weight that determines a coefficient
PROMISING = 25.0  # a change predicted to cost more than this is not tried
# Where a coefficient is determined by a weight, the error rises by chance alone; more than so many
# standard deviations of that and it is not: the criterion would trade an error that shows in
# every experiment for a constant of each, and write an approximation down.
BY_CHANCE = 4.0

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
        errors = m.sse / count, count
        score = information(*errors, m.n_free, m.n_shared, m.size, self.floor, SPARE)
        return score + DOUBT * self.doubts(m)

    def doubts(self, m: Model) -> int:
        """Reasons to doubt a form that fits: a pole near the rows, waves that never turn."""
        return (not _defined(m, self.beyond)) + _barely_waves(m, self.rows)

    def interpolates(self, m: Model) -> bool:
        """Whether too many constants are left for the rows of a step."""
        return m.n_free > MOST_CONSTANTS * np.median(self.rows.count)

    def refutes(self, new: Model, m: Model) -> bool:
        """Whether ``new`` has a larger error than having fewer constants than ``m`` explains."""
        floor = (self.floor * self.rows.count).sum()
        rise = self.rows.count.sum() * np.log((new.sse.sum() + floor) / (m.sse.sum() + floor))
        fewer = (m.n_free - new.n_free) * len(m.sse) + m.n_shared - new.n_shared
        return bool(rise > fewer + BY_CHANCE * np.sqrt(2 * fewer))

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


def _barely_waves(m: Model, rows: Rows) -> int:
    """Sines of which most steps see less than half a turn: they stand for some other curve."""
    waves = {
        n for c in m.columns for n in nodes(c) if isinstance(n, Apply) and n.name in ("sin", "cos")
    }
    evaluation = Evaluation(rows, m.w[None], slopes=False)
    with np.errstate(all="ignore"):
        seen = [np.median(np.ptp(evaluation.of(n.g)[0], axis=-1)) for n in waves]
    return sum(bool(turn < FULL_TURN / 2) for turn in seen)


def _state(m: Model, rows: Rows, w: np.ndarray, c: np.ndarray, slopes: bool = True):
    """The residual with free coefficients projected out; c completed; slopes (step, k, point)."""
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
    sse = _dot(residual, residual)
    sse = np.where(evaluation.bad[0] | ~np.isfinite(sse), np.inf, sse)
    if not slopes:
        return sse, c, residual, None, None
    n = w.shape[-1]
    jacobian = np.zeros((len(w), n, rows.y.shape[-1]))
    for k, (_, d) in enumerate(pairs):
        for j, slope in d.items():
            slope = np.broadcast_to(np.asarray(slope), (1, *rows.y.shape))[0]
            jacobian[:, j] += c[:, k, None] * slope
    jacobian *= rows.mask[:, None]
    columns = np.stack(values, axis=1)
    return sse, c, residual, (jacobian, columns), projection


def solve(m: Model, rows: Rows, iterations: int = 12, floor: np.ndarray | float = 0.0) -> Model:
    """Levenberg–Marquardt over all steps at once; shared constants have one value."""
    w, c = m.w.copy(), m.c.copy()
    for j, shared in enumerate(m.shared):
        if shared:
            w[:, j] = np.median(w[:, j])
    shared_c = [k for k, kind in enumerate(m.kinds) if kind == "shared"]
    for k, kind in enumerate(m.kinds):
        if kind == "shared":
            c[:, k] = np.median(c[:, k])
    local = [j for j, shared in enumerate(m.shared) if not shared]
    common = [j for j, shared in enumerate(m.shared) if shared]
    goal = (floor * rows.count).sum()
    with np.errstate(all="ignore"):
        sse, c, residual, slopes, projection = _state(m, rows, w, c)
        if not common and not shared_c:  # each step by itself, at its own pace
            if local:
                w = descend(m.columns, rows, w[None], iterations, floor * rows.count)[0][0]
                sse, c, *_ = _state(m, rows, w, c, slopes=False)
            return replace(m, w=w, c=c, sse=sse)
        damping, idle = 1e-4, 0
        for _ in range(iterations):
            total = sse.sum()
            if idle >= 2 or total <= 1e-6 * goal or not np.isfinite(total):
                break
            inner, columns = slopes
            own, glob = inner[:, local], np.concatenate([inner[:, common], columns[:, shared_c]], 1)
            if projection is not None:
                for q in projection.basis:
                    own = own - (own @ q[..., None]) * q[:, None]
                    glob = glob - (glob @ q[..., None]) * q[:, None]
            own_step, glob_step = _arrow(own, glob, residual, damping)
            new_w, new_c = w.copy(), c.copy()
            new_w[:, local] += own_step
            new_w[:, common] += glob_step[: len(common)]
            new_c[:, shared_c] += glob_step[len(common) :]
            trial = _state(m, rows, new_w, new_c)
            if trial[0].sum() < total:
                gain = 1 - trial[0].sum() / total
                idle = 0 if gain > 1e-4 else idle + 1
                w = new_w
                sse, c, residual, slopes, projection = trial
                damping = max(damping * 0.1, 1e-12)
            else:
                damping *= 10
                idle += damping > 1e3
    return replace(m, w=w, c=c, sse=sse)


def _arrow(own, glob, residual, damping):
    """A damped Gauss–Newton step where some unknowns belong to a step and some to all."""
    own_size = np.sqrt(_dot(own, own)) + 1e-150  # (step, local)
    glob_size = np.sqrt(_dot(glob, glob).sum(0)) + 1e-150
    own, glob = own / own_size[..., None], glob / glob_size[:, None]
    a = own @ own.swapaxes(1, 2) + (damping + 1e-14) * np.eye(own.shape[1])
    b = own @ glob.swapaxes(1, 2)
    d = (glob @ glob.swapaxes(1, 2)).sum(0) + (damping + 1e-14) * np.eye(glob.shape[1])
    f = (own @ residual[..., None])[..., 0]
    g = (glob @ residual[..., None])[..., 0].sum(0)
    if not all(np.isfinite(v).all() for v in (a, b, d, f, g)):
        return np.zeros_like(own_size), np.zeros_like(glob_size)
    solved = np.linalg.solve(a, np.concatenate([b, f[..., None]], axis=-1))
    ab, af = solved[..., :-1], solved[..., -1]
    schur = d - (b.swapaxes(1, 2) @ ab).sum(0)
    rest = g - (b.swapaxes(1, 2) @ af[..., None])[..., 0].sum(0)
    glob_step = np.linalg.lstsq(schur, rest, rcond=1e-14)[0] if len(d) else rest
    own_step = af - ab @ glob_step
    return own_step / own_size, glob_step / glob_size


# --- as people write it --------------------------------------------------------------------


def with_phases(columns: Sequence[Expression], w: np.ndarray, c: np.ndarray):
    """c₁·sin(v) + c₂·cos(v) becomes c·sin(v + phase), one column with one weight more."""
    columns, w, c = list(columns), w.copy(), c.copy()
    k = 0
    while k + 1 < len(columns):
        waves = [n for n in nodes(columns[k]) if isinstance(n, Apply) and n.name == "sin"]
        if waves and isinstance(waves[0].g, Scale):
            wave = waves[0]
            twin = simplify(substituted(columns[k], wave, Apply("cos", wave.g)))
            if columns[k + 1] == twin:
                phase = np.arctan2(c[:, k + 1], c[:, k]) * FULL_TURN / (2 * np.pi)
                amplitude = np.hypot(c[:, k], c[:, k + 1])
                # One branch for all steps: the phases as near to each other as can be.
                flip = _apart(phase, FULL_TURN) > _apart(phase, FULL_TURN / 2) + 1e-9
                if flip:
                    middle = _circular_mean(phase, FULL_TURN / 2)
                    half = np.round((phase - middle) / (FULL_TURN / 2))
                    phase = phase - half * FULL_TURN / 2
                    amplitude = amplitude * np.where(half % 2 == 0, 1.0, -1.0)
                else:
                    middle = _circular_mean(phase, FULL_TURN)
                    phase = phase - np.round((phase - middle) / FULL_TURN) * FULL_TURN
                n = w.shape[1]
                moved = Apply("sin", Shift(wave.g, n))
                columns[k] = substituted(columns[k], wave, moved)
                w = np.concatenate([w, phase[:, None]], axis=1)
                c[:, k] = amplitude
                c = np.delete(c, k + 1, axis=1)
                del columns[k + 1]
        k += 1
    return tuple(columns), w, c


def _circular_mean(v: np.ndarray, period: float) -> float:
    turn = np.exp(2j * np.pi * v / period).mean()
    return float(np.angle(turn) * period / (2 * np.pi))


def _apart(v: np.ndarray, period: float) -> float:
    middle = _circular_mean(v, period)
    rest = v - middle
    return float(np.abs(rest - np.round(rest / period) * period).max())


def as_written(columns: Sequence[Expression], w: np.ndarray, c: np.ndarray):
    """1/(exp(w x) + b) as 1/(1 + exp(w x + p)), 1/(x**-p + b) as x**p/(x**p + 1/b)."""
    columns, w, c = list(columns), w.copy(), c.copy()
    for k, column in enumerate(columns):
        for n in list(nodes(column)):
            if not (isinstance(n, Power) and n.w == -1.0 and isinstance(n.g, Shift)):
                continue
            shift, inner = n.g, n.g.g
            if not isinstance(shift.w, int) or not inner.weights():
                continue
            rate = _rate(inner)
            # The factor 1/b leaves the column only where the column is a product with it.
            if rate is None or n not in factors(column) or (w[:, shift.w] == 0).any():
                continue
            ones = [i for i, other in enumerate(columns) if isinstance(other, One)]
            if n == column and ones and len(set(np.sign(w[:, rate]))) > 1:
                _mirror(w, c, rate, shift.w, k, ones[0])
            b = w[:, shift.w]
            if len(set(np.sign(b))) > 1:
                continue
            if isinstance(inner, Apply):
                sign = float(np.sign(b[0]))
                new = Power(Shift(Apply("exp", Shift(inner.g, shift.w)), sign), -1.0)
                columns[k] = substituted(column, n, new)
                c[:, k] /= np.abs(b)
                w[:, shift.w] = -np.log(np.abs(b))
            elif (w[:, rate] < 0).all():
                hill = Times(inner, Power(Shift(inner, shift.w), -1.0))
                columns[k] = simplify(substituted(column, n, hill))
                w[:, rate] *= -1
                c[:, k] /= b
                w[:, shift.w] = 1 / b
            break
    return tuple(columns), w, c


def _rate(g: Expression) -> int | None:
    """The weight of exp(w x) or x**w: with its sign changed, the function is its reciprocal."""
    if isinstance(g, Apply) and g.name == "exp" and isinstance(g.g, Scale):
        return g.g.w if isinstance(g.g.w, int) and not g.g.g.weights() else None
    if isinstance(g, Power) and isinstance(g.w, int) and not g.g.weights():
        return g.w
    return None


def _mirror(w: np.ndarray, c: np.ndarray, rate: int, shift: int, k: int, one: int) -> None:
    """The steps with a negative rate written with a positive one.

    c/(1/u + b) is c/b less (c/b²)/(u + 1/b).
    """
    steps = w[:, rate] < 0
    b = w[steps, shift]
    c[steps, one] += c[steps, k] / b
    c[steps, k] /= -(b**2)
    w[steps, shift] = 1 / b
    w[steps, rate] *= -1


def in_order(columns: Sequence[Expression], w: np.ndarray, c: np.ndarray):
    """Terms of the same form in the order of their first weight, the same at every step."""
    w, c = w.copy(), c.copy()
    own = [sorted(set(column.weights())) for column in columns]
    forms = [
        column.changed(lambda v, own=own[k]: own.index(v) if isinstance(v, int) else v)
        for k, column in enumerate(columns)
    ]
    for i, j in combinations(range(len(columns)), 2):
        if forms[i] == forms[j] and own[i] and not set(own[i]) & set(own[j]):
            for step in np.flatnonzero(w[:, own[i][0]] > w[:, own[j][0]]):
                w[step, own[i] + own[j]] = w[step, own[j] + own[i]]
                c[step, [i, j]] = c[step, [j, i]]
    return w, c


def rewritten(m: Model) -> Iterator[Model]:
    """Other ways to write the same: a constant and 1/(g + b) as g/(g + b).

    V·x/(K + x) is V - V·K/(K + x): the second way has a coefficient that follows from the first.
    """
    constant = [k for k, c in enumerate(m.columns) if isinstance(c, One)]
    if not constant:
        return
    for k, column in enumerate(m.columns):
        if isinstance(column, Power) and column.w == -1.0 and isinstance(column.g, Shift):
            inner = column.g.g
            if isinstance(inner, Apply) and isinstance(column.g.w, float):
                # 1/(exp(v) ± 1) is ±1 less 1/(exp(-v) ± 1): other signs of the weights.
                if inner.name == "exp" and sum(c.weights() != () for c in m.columns) == 1:
                    mirrored = m.w.copy()
                    mirrored[:, list(set(inner.weights()))] *= -1
                    yield replace(m, w=mirrored)
                continue
            new = simplify(Times(inner, column))
            yield replace(m, columns=(*m.columns[:k], new, *m.columns[k + 1 :]))


# --- reductions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A smaller model to try, and what it is predicted to cost."""

    model: Model
    cost: float
    certain: bool = False  # to be made only if the rows do not speak against it


def compact(m: Model) -> Model:
    """Weights in use only, numbered from 0; equal columns once; the constant last."""
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


def _without(m: Model, k: int) -> Model:
    rest = [i for i in range(len(m.columns)) if i != k]
    return compact(
        replace(
            m,
            columns=tuple(m.columns[i] for i in rest),
            c=m.c[:, rest],
            kinds=tuple(m.kinds[i] for i in rest),
        )
    )


def _joined(m: Model, i: int, j: int, both: Expression) -> Model:
    """Columns ``i`` and ``j`` as one."""
    rest = [q for q in range(len(m.columns)) if q != j]
    return replace(
        m,
        columns=tuple(both if q == i else m.columns[q] for q in rest),
        c=m.c[:, rest],
        kinds=tuple(m.kinds[q] for q in rest),
    )


def _nice(m: Model, j: int) -> Iterator[float]:
    """Numbers that a weight may be exactly, near where it is."""
    middle = float(np.median(m.w[:, j]))
    for column in m.columns:
        for n in nodes(column):
            for inner in n.parts():
                phase = isinstance(n, Apply) and n.name in ("sin", "cos")
                if phase and isinstance(inner, Shift) and _holds(inner, j):
                    yield from (0.0, FULL_TURN / 4, -FULL_TURN / 4)
            if not _holds(n, j):
                continue
            if isinstance(n, Power):
                yield from sorted(EXPONENTS, key=lambda v: abs(v - middle))[:2]
            elif isinstance(n, (Mix, Scale, Shift)):
                yield 0.0
                if alike(n.g, n.h) if isinstance(n, Mix) else is_number(n.g):
                    yield from (1.0, -1.0)


def _holds(n: Expression, j: int) -> bool:
    """Whether weight j stands in ``n``; by itself, as a factor, it says nothing of its unit."""
    w = getattr(n, "w", None)
    return isinstance(w, int) and w == j and not isinstance(n.parts()[0], One)


def changes(m: Model, judge: Judge) -> list[Change]:
    """Every smaller model one constraint away, the cheapest by linear prediction first."""
    rows = judge.rows
    with np.errstate(all="ignore"):
        _, c, _, slopes, _ = _state(m, rows, m.w, m.c)
    inner, columns = slopes
    p, k = inner.shape[1], columns.shape[1]
    jacobian = np.concatenate([inner, columns], axis=1)
    size = np.sqrt(_dot(jacobian, jacobian)) + 1e-150
    scaled = jacobian / size[..., None]
    normal = scaled @ scaled.swapaxes(1, 2)
    if not np.isfinite(normal).all():
        return []
    covariance = np.linalg.pinv(normal, rcond=1e-15, hermitian=True)
    covariance = covariance / size[..., None] / size[:, None]
    theta = np.concatenate([m.w, c], axis=1)
    found: list[Change] = []

    def rise(contrast: np.ndarray, number: float | None) -> np.ndarray:
        """What each step's sse rises by if contrast·θ is ``number``, or the same everywhere."""
        return excess(theta @ contrast, np.broadcast_to(contrast, theta.shape), number)

    def excess(v: np.ndarray, slope: np.ndarray, number: float | None) -> np.ndarray:
        """The same of any function ``v`` (step,) of θ with its ``slope`` (step, θ)."""
        variance = np.maximum(np.einsum("si,sij,sj->s", slope, covariance, slope), 1e-300)
        if number is None:
            number = float((v / variance).sum() / (1 / variance).sum())
        return (v - number) ** 2 / variance

    def propose(new: Model, contrast: np.ndarray, number: float | None) -> None:
        predict(new, rise(contrast, number))

    def predict(new: Model, more: np.ndarray, certain: bool = False) -> None:
        guess = replace(new, sse=m.sse + np.nan_to_num(more, nan=np.inf))
        count = rows.count
        score = information(
            guess.sse / count, count, guess.n_free, guess.n_shared, guess.size, judge.floor, SPARE
        )
        if score < m.score + PROMISING:
            found.append(Change(new, score, certain))

    def unit(i: int) -> np.ndarray:
        return np.eye(p + k)[i]

    for i in range(k):
        if k > 1:
            propose(_without(m, i), unit(p + i), 0.0)
        if m.kinds[i] == "shared":
            continue
        kinds = (*m.kinds[:i], "shared", *m.kinds[i + 1 :])
        propose(replace(m, kinds=kinds), unit(p + i), None)
        if len(c) > 1:
            for j, exponent in _given_by(m, i):
                # r·w**q in the place of a coefficient: b·x/(x + b), sqrt(b)·x/sqrt(x**2 + b).
                factor = np.abs(m.w[:, j]) ** exponent
                v = c[:, i] / factor
                slope = np.zeros_like(theta)
                slope[:, p + i] = 1 / factor
                slope[:, j] = -exponent * v / m.w[:, j]
                predict(_given(m, i, j, exponent, v), excess(v, slope, None), certain=True)
        for j in range(i + 1, k):
            if m.kinds[j] == "shared":
                continue
            if alike(m.columns[i], m.columns[j]):
                for sign in (1.0, -1.0):
                    equal = Plus(m.columns[i], m.columns[j], sign)
                    propose(_joined(m, i, j, equal), unit(p + j) - sign * unit(p + i), 0.0)
            elif len(c) > 1:
                # Of other units: their ratio is a constant of its own, shared by all steps.
                a, b = sorted((i, j), key=lambda q: (m.columns[q].size(), repr(m.columns[q])))
                ratio = float(np.median(c[:, b] / c[:, a]))
                if np.isfinite(ratio) and ratio:
                    both = Mix(m.columns[a], m.columns[b], p)
                    new = replace(_joined(m, a, b, both), shared=(*m.shared, True))
                    new = replace(new, w=np.concatenate([m.w, np.full((len(c), 1), ratio)], 1))
                    propose(new, unit(p + b) - ratio * unit(p + a), 0.0)
    places = [
        [of_weight(n) for column in m.columns for n in nodes(column) if _holds(n, j)][:1]
        for j in range(p)
    ]
    for j in range(p):
        for number in dict.fromkeys(_nice(m, j)):
            fixed = tuple(
                column.changed(
                    lambda w, j=j, number=number: number if w == j and isinstance(w, int) else w
                )
                for column in m.columns
            )
            propose(compact(replace(m, columns=fixed)), unit(j), number)
        if not m.shared[j]:
            shared = (*m.shared[:j], True, *m.shared[j + 1 :])
            propose(replace(m, shared=shared), unit(j), None)
        for i in range(p):
            if i == j or m.shared[i] != m.shared[j] or places[i] != places[j]:
                continue
            for ratio in (1.0, -1.0, 2.0, -2.0):
                if abs(ratio) == 1 and i > j:
                    continue
                tied = _tied(m, i, j, ratio)
                if tied is not None:
                    propose(tied, unit(j) - ratio * unit(i), 0.0)
    found += [Change(new, m.score) for new in _straightened(m, judge.rows)]
    return sorted(found, key=lambda change: change.cost)


def _given_by(m: Model, i: int) -> Iterator[tuple[int, float]]:
    """Weights inside column ``i``, with exponents, that may determine its coefficient."""
    exponents = {n.w for n in nodes(m.columns[i]) if isinstance(n, Power)}
    for j in sorted(set(m.columns[i].weights()) - exponents):
        if not m.shared[j] and len(set(np.sign(m.w[:, j]))) == 1 and m.w[0, j]:
            for exponent in GIVEN:
                yield j, exponent


def _given(m: Model, i: int, j: int, exponent: float, ratio: np.ndarray) -> Model:
    """The coefficient of column ``i`` as a number shared by all steps times a power of weight j."""
    weight: Expression = Scale(One(), j)
    if exponent != int(exponent) and m.w[0, j] < 0:
        weight = Scale(weight, -1.0)
    column = Times(Power(weight, exponent), m.columns[i])
    c = m.c.copy()
    c[:, i] = ratio
    return replace(
        m,
        columns=(*m.columns[:i], simplify(column), *m.columns[i + 1 :]),
        c=c,
        kinds=(*m.kinds[:i], "shared", *m.kinds[i + 1 :]),
    )


def _straightened(m: Model, rows: Rows) -> Iterator[Model]:
    """sin(w g) and tanh(w g) of a small argument may stand for g."""
    for k, column in enumerate(m.columns):
        for n in nodes(column):
            if not (isinstance(n, Apply) and n.name in ("sin", "tanh") and isinstance(n.g, Scale)):
                continue
            with np.errstate(all="ignore"):
                argument = Evaluation(rows, m.w[None], slopes=False).of(n.g)[0]
            if np.abs(argument).max() * (FREQUENCY if n.name == "sin" else 1) < SMALL_ARGUMENT:
                straight = simplify(substituted(column, n, n.g.g))
                yield compact(replace(m, columns=(*m.columns[:k], straight, *m.columns[k + 1 :])))


def _tied(m: Model, i: int, j: int, ratio: float) -> Model | None:
    """Weight j as ``ratio`` times weight i, both the factors of arguments or both shifts."""

    def tie(g: Expression) -> Expression:
        if isinstance(g, Scale) and g.w == j and isinstance(g.w, int):
            return Scale(tie(g.g) if ratio == 1 else Scale(tie(g.g), ratio), i)
        changes = {name: tie(v) for name, v in vars(g).items() if isinstance(v, Expression)}
        if getattr(g, "w", None) == j and isinstance(getattr(g, "w", None), int):
            if ratio != 1.0:
                raise ValueError
            changes["w"] = i  # type: ignore[assignment]
        return replace(g, **changes) if changes else g  # type: ignore[type-var]

    try:
        columns = tuple(tie(c) for c in m.columns)
    except ValueError:
        return None
    return compact(replace(m, columns=columns))


def reduced(m: Model, judge: Judge, out_of_time=lambda: False) -> Model:
    """Constraint after constraint while the criterion falls."""
    tried: set = set()
    while True:
        for change in changes(m, judge):
            new = change.model
            key = (new.columns, new.shared, new.kinds)
            if key in tried:
                continue
            tried.add(key)
            new = judge.solved(new)
            if new.score < m.score and not (change.certain and judge.refutes(new, m)):
                m = new
                break
            if out_of_time():
                return m
        else:
            return m
        if out_of_time():
            return m
