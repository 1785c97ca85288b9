"""Reductions: which constants differ between steps, which are shared, fixed or follow from others.

The columns' coefficients and the weights inside them are tried one by one as shared by all steps,
as whole numbers, as equal or opposite to one another; a change stays where the criterion falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..engine.criterion import information
from ..primitives import FREQUENCY
from .dimensions import alike, is_number, of_weight
from .evaluation import Evaluation, Rows
from .expressions import (
    FULL_TURN,
    Apply,
    Expression,
    Mix,
    One,
    Plus,
    Power,
    Scale,
    Shift,
    Times,
    Weight,
    nodes,
    simplify,
    substituted,
)
from .models import SPARE, Judge, Model, compact, linearised
from .varpro import dot

EXPONENTS = sorted({k / 2 for k in range(-24, 25)} | {k / 3 for k in range(-12, 13)})
SMALL_ARGUMENT = 1.0  # of sin or tanh: a straight line may be as good
GIVEN = (1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -1.5)  # of a weight that determines a coefficient
PROMISING = 25.0  # a change predicted to cost more than this is not tried


@dataclass(frozen=True)
class Change:
    """A smaller model to try, and what it is predicted to cost."""

    model: Model
    cost: float
    anyway: bool = False  # to be tried whatever it is predicted to cost


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
    prediction = Prediction(m, judge)
    if not prediction.finite:
        return []
    predicted = (*_of_coefficients(m, prediction), *_of_weights(m, prediction))
    found = [one for one in predicted if one.anyway or one.cost < m.score + PROMISING]
    found += [Change(new, m.score) for new in _straightened(m, judge.rows)]
    return sorted(found, key=lambda change: change.cost)


class Prediction:
    """What a constraint on the numbers of ``m`` costs, from the slopes at its solution.

    The numbers, θ, are the weights and after them the coefficients of each step.
    """

    def __init__(self, m: Model, judge: Judge):
        self.m, self.judge = m, judge
        with np.errstate(all="ignore"):
            here = linearised(m, judge.rows, m.w, m.c)
        self.c = here.c
        self.theta = np.concatenate([m.w, here.c], axis=1)
        # A step that is all noise has nothing to lose, whatever its slopes say.
        self.explained = np.maximum(dot(judge.rows.y, judge.rows.y) - m.sse, 0.0)
        jacobian = np.concatenate([here.by_weight, here.by_coefficient], axis=1)
        size = np.sqrt(dot(jacobian, jacobian)) + 1e-150
        scaled = jacobian / size[..., None]
        normal = scaled @ scaled.swapaxes(1, 2)
        self.finite = bool(np.isfinite(normal).all())
        if self.finite:
            covariance = np.linalg.pinv(normal, rcond=1e-15, hermitian=True)
            self.covariance = covariance / size[..., None] / size[:, None]

    def weight(self, j: int) -> np.ndarray:
        """The contrast that is weight j."""
        return np.eye(self.theta.shape[1])[j]

    def coefficient(self, i: int) -> np.ndarray:
        """The contrast that is the coefficient of column i."""
        return self.weight(self.m.w.shape[1] + i)

    def change(self, new: Model, contrast: np.ndarray, number: float | None) -> Change:
        """To ``new``, where contrast·θ is ``number``, or where it is None the same everywhere."""
        slope = np.broadcast_to(contrast, self.theta.shape)
        return self.curved(new, self.theta @ contrast, slope, number)

    def curved(
        self,
        new: Model,
        v: np.ndarray,
        slope: np.ndarray,
        number: float | None,
    ) -> Change:
        """The same for any function of θ: its values ``v`` (step,) and ``slope`` (step, θ)."""
        variance = np.einsum("si,sij,sj->s", slope, self.covariance, slope)
        variance = np.maximum(variance, 1e-300)
        # Steps that are nearly all noise may be sure of a wrong number: then the median is nearer.
        mean = float((v / variance).sum() / (1 / variance).sum())
        numbers = (mean, float(np.median(v))) if number is None else (number,)
        rises = (np.nan_to_num((v - one) ** 2 / variance, nan=np.inf) for one in numbers)
        rise = min((np.minimum(one, self.explained) for one in rises), key=np.sum)
        count, floor = self.judge.rows.count, self.judge.floor
        error = (self.m.sse + rise) / count
        cost = information(error, count, new.n_free, new.n_shared, new.size, floor, SPARE)
        return Change(new, cost)


def _of_coefficients(m: Model, prediction: Prediction) -> Iterator[Change]:
    """A column left out; its coefficient shared, given by a weight, or tied to another's."""
    for i in range(len(m.columns)):
        own = prediction.coefficient(i)
        if len(m.columns) > 1:
            smaller = prediction.change(_without(m, i), own, 0.0)
            # Of an exact fit only the last digits are left, and they predict nothing.
            yield replace(smaller, anyway=prediction.judge.is_exact(m))
        if m.kinds[i] == "shared":
            continue
        kinds = (*m.kinds[:i], "shared", *m.kinds[i + 1 :])
        yield prediction.change(replace(m, kinds=kinds), own, None)
        several = len(m.c) > 1  # steps
        if several:
            yield from _given_by_a_weight(m, i, prediction)
        for j in range(i + 1, len(m.columns)):
            if m.kinds[j] == "shared":
                continue
            if alike(m.columns[i], m.columns[j]):
                for sign in (1.0, -1.0):
                    equal = Plus(m.columns[i], m.columns[j], sign)
                    contrast = prediction.coefficient(j) - sign * own
                    yield prediction.change(_joined(m, i, j, equal), contrast, 0.0)
            if several:
                yield from _in_a_ratio(m, i, j, prediction)


def _given_by_a_weight(m: Model, i: int, prediction: Prediction) -> Iterator[Change]:
    """r·w**q in the place of a coefficient: b·x/(x + b), sqrt(b)·x/sqrt(x**2 + b)."""
    for j, exponent in _given_by(m, i):
        factor = np.abs(m.w[:, j]) ** exponent
        v = prediction.c[:, i] / factor
        slope = np.zeros_like(prediction.theta)
        slope[:, m.w.shape[1] + i] = 1 / factor
        slope[:, j] = -exponent * v / m.w[:, j]
        yield prediction.curved(_given(m, i, j, exponent, v), v, slope, None)


def _in_a_ratio(m: Model, i: int, j: int, prediction: Prediction) -> Iterator[Change]:
    """Columns whose ratio is a constant of its own, shared by all steps."""
    a, b = sorted((i, j), key=lambda q: (m.columns[q].size(), repr(m.columns[q])))
    n_weights = m.w.shape[1]
    ratio = float(
        np.median(prediction.theta[:, n_weights + b] / prediction.theta[:, n_weights + a])
    )
    if np.isfinite(ratio) and ratio:
        both = Mix(m.columns[a], m.columns[b], m.w.shape[1])
        w = np.concatenate([m.w, np.full((len(m.w), 1), ratio)], axis=1)
        new = replace(_joined(m, a, b, both), w=w, shared=(*m.shared, True))
        contrast = prediction.coefficient(b) - ratio * prediction.coefficient(a)
        yield prediction.change(new, contrast, 0.0)


def _of_weights(m: Model, prediction: Prediction) -> Iterator[Change]:
    """A weight that is a plain number, shared, or tied to another."""
    n = m.w.shape[1]
    units = [
        [of_weight(node) for column in m.columns for node in nodes(column) if _holds(node, j)][:1]
        for j in range(n)
    ]
    for j in range(n):
        own = prediction.weight(j)
        for number in dict.fromkeys(_nice(m, j)):
            yield prediction.change(_fixed(m, j, number), own, number)
        if not m.shared[j]:
            shared = (*m.shared[:j], True, *m.shared[j + 1 :])
            yield prediction.change(replace(m, shared=shared), own, None)
        for i in range(n):
            if i == j or m.shared[i] != m.shared[j] or units[i] != units[j]:
                continue
            for ratio in (1.0, -1.0, 2.0, -2.0):
                if abs(ratio) == 1 and i > j:
                    continue
                tied = _tied(m, i, j, ratio)
                if tied is not None:
                    yield prediction.change(tied, own - ratio * prediction.weight(i), 0.0)


def _fixed(m: Model, j: int, number: float) -> Model:
    """Weight j as a number of the form."""

    def fix(w: Weight) -> Weight:
        return number if isinstance(w, int) and w == j else w

    return compact(replace(m, columns=tuple(column.changed(fix) for column in m.columns)))


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
            if new.score < m.score:
                m = new
                break
            if out_of_time():
                return m
        else:
            return m
        if out_of_time():
            return m
