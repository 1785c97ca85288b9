"""Models as people write them: one phase instead of two columns, 1/(1 + exp(v)), x/(K + x)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from .expressions import (
    FULL_TURN,
    Apply,
    Expression,
    One,
    Power,
    Scale,
    Shift,
    Times,
    factors,
    nodes,
    simplify,
    substituted,
)
from .models import Model


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
                amplitude, phase = _on_one_branch(c[:, k], c[:, k + 1])
                moved = Apply("sin", Shift(wave.g, w.shape[1]))
                columns[k] = substituted(columns[k], wave, moved)
                w = np.concatenate([w, phase[:, None]], axis=1)
                c[:, k] = amplitude
                c = np.delete(c, k + 1, axis=1)
                del columns[k + 1]
        k += 1
    return tuple(columns), w, c


def _on_one_branch(sine: np.ndarray, cosine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Amplitude and phase at each step, the phases as near to each other as can be."""
    phase = np.arctan2(cosine, sine) * FULL_TURN / (2 * np.pi)
    amplitude = np.hypot(sine, cosine)
    if _apart(phase, FULL_TURN) > _apart(phase, FULL_TURN / 2) + 1e-9:  # with either sign
        middle = _circular_mean(phase, FULL_TURN / 2)
        half = np.round((phase - middle) / (FULL_TURN / 2))
        return amplitude * np.where(half % 2 == 0, 1.0, -1.0), phase - half * FULL_TURN / 2
    middle = _circular_mean(phase, FULL_TURN)
    return amplitude, phase - np.round((phase - middle) / FULL_TURN) * FULL_TURN


def _circular_mean(v: np.ndarray, period: float) -> float:
    """The middle of what repeats itself."""
    turn = np.exp(2j * np.pi * v / period).mean()
    return float(np.angle(turn) * period / (2 * np.pi))


def _apart(v: np.ndarray, period: float) -> float:
    """The farthest from that."""
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
