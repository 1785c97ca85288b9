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
    nodes,
    simplify,
    substituted,
)
from .models import FULL_TURN, SPARE, Judge, Model, compact, linearised
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
    certain: bool = False  # to be made only if the rows do not speak against it


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
        _, c, _, slopes, _ = linearised(m, rows, m.w, m.c)
    inner, columns = slopes
    p, k = inner.shape[1], columns.shape[1]
    jacobian = np.concatenate([inner, columns], axis=1)
    size = np.sqrt(dot(jacobian, jacobian)) + 1e-150
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
