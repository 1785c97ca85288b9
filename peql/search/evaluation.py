"""Values and slopes of expressions at the rows, for many starts and steps at once.

Values are (start, step, point), inner weights (start, step, weight).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import sympy

from ..primitives import Primitive, get
from .expressions import Apply, Expression, Mix, One, Plus, Power, Scale, Shift, Times, Weight, X

PER_CALL = 4000  # numbers that could be computed while a call to NumPy begins, roughly
FAR_FROM_ZERO = 5.0  # ranges away from 0; from there on exp and sin take centred arguments


@cache
def _numpy_forms(primitive: Primitive):
    """Value and slope as NumPy functions, from the SymPy form."""
    g = sympy.Symbol("g", real=True)
    form = primitive.sympy(g)
    value = sympy.lambdify(g, form, "numpy")
    if primitive.slope is not None:
        return value, primitive.slope
    slope = sympy.lambdify(g, sympy.diff(form, g), "numpy")
    return value, lambda g, v: slope(g)


@dataclass
class Work:
    """Numbers computed so far, and how many may be: the same on every machine, unlike seconds."""

    limit: float = math.inf
    done: float = 0.0

    @property
    def out(self) -> bool:
        return self.done > self.limit


@dataclass
class Rows:
    """Rows by step for evaluation: x (step, point, feature), y and mask (step, point)."""

    x: np.ndarray
    y: np.ndarray
    mask: np.ndarray
    cache: dict = field(default_factory=dict, repr=False)
    centres: dict = field(default_factory=dict, repr=False)
    work: Work = field(default_factory=Work, repr=False)

    def __post_init__(self) -> None:
        self.count = self.mask.sum(-1)
        self.total = self.count.sum()

    def centre(self, g: Expression) -> float:
        """What exp and sin subtract from ``g``: 0 unless g is far from zero."""
        if g not in self.centres:
            v = value(g, self)
            low, high = float(v.min()), float(v.max())
            middle = (low + high) / 2
            self.centres[g] = middle if abs(middle) > FAR_FROM_ZERO * (high - low) else 0.0
        return self.centres[g]


def value(g: Expression, rows: Rows) -> np.ndarray:
    """An expression without weights, (step, point)."""
    if g not in rows.cache:
        rows.cache[g] = Evaluation(rows, np.zeros((1, len(rows.x), 0)), slopes=False).of(g)[0]
        if rows.cache[g].ndim == 3:
            rows.cache[g] = rows.cache[g][0]
    return rows.cache[g]


class Evaluation:
    """Values and slopes of expressions at ``rows`` for weights (start, step, weight)."""

    def __init__(self, rows: Rows, w: np.ndarray, slopes: bool = True):
        self.rows, self.w, self.slopes = rows, w, slopes
        self.bad = np.zeros(w.shape[:2], dtype=bool)  # out of domain
        self.met: dict[Expression, tuple] = {}

    def _weight(self, w: Weight):
        return self.w[:, :, w, None] if isinstance(w, int) else w

    def of(self, g: Expression) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """The value and, by the weight's position, the slopes."""
        if g in self.met:
            return self.met[g]
        if g in self.rows.cache:
            return self.rows.cache[g], {}
        result = self._compute(g)
        self.rows.work.done += PER_CALL + result[0].size * (1 + len(result[1]))
        if not result[1] and not g.weights():
            self.rows.cache[g] = result[0]
        else:
            self.met[g] = result
        return result

    def _same_sign(self, v: np.ndarray) -> None:
        good = (v.min(-1) > 0) | (v.max(-1) < 0)
        self.bad |= ~good

    def _compute(self, g: Expression):
        if isinstance(g, X):
            return self.rows.x[..., g.i], {}
        if isinstance(g, One):
            return np.ones(self.rows.y.shape), {}
        if isinstance(g, Apply):
            return self._apply(g)
        if isinstance(g, Power):
            return self._power(g)
        v, dv = self.of(g.parts()[0])
        w = self._weight(getattr(g, "w", 0.0))
        if isinstance(g, Scale):
            slopes = {k: w * d for k, d in dv.items()}
            if isinstance(g.w, int):
                slopes[g.w] = slopes[g.w] + v if g.w in slopes else v
            return w * v, slopes
        if isinstance(g, Shift):
            slopes = dict(dv)
            if isinstance(g.w, int):
                slopes[g.w] = slopes[g.w] + 1.0 if g.w in slopes else np.ones_like(v[..., :1])
            return v + w, slopes
        u, du = self.of(g.parts()[1])
        if isinstance(g, Mix):
            slopes = _sum(dv, {k: w * d for k, d in du.items()})
            if isinstance(g.w, int):
                slopes = _sum(slopes, {g.w: u})
            return v + w * u, slopes
        if isinstance(g, Times):
            return v * u, _sum({k: d * u for k, d in dv.items()}, {k: v * d for k, d in du.items()})
        if isinstance(g, Plus):
            return v + g.sign * u, _sum(dv, {k: g.sign * d for k, d in du.items()})
        raise TypeError(g)

    def _apply(self, g: Apply):
        primitive = get(g.name)
        inner = g.g
        v, dv = self.of(inner)
        core = inner.g if isinstance(inner, Shift) else inner
        if primitive.redundant_shift and isinstance(core, Scale) and not core.g.weights():
            centre = self.rows.centre(core.g)
            if centre:
                v = v - self._weight(core.w) * centre
                dv = {k: d - centre if k == core.w else d for k, d in dv.items()}
        if primitive.domain != "real":
            self._same_sign(v)
        form, slope = _numpy_forms(primitive)
        result = form(v)
        if not self.slopes or not dv:
            return result, {}
        s = slope(v, result)
        return result, {k: s * d for k, d in dv.items()}

    def _power(self, g: Power):
        v, dv = self.of(g.g)
        w = self._weight(g.w)
        if isinstance(g.w, float):
            if g.w < 0 or g.w != int(g.w):
                self._same_sign(v)
            base = np.abs(v) if g.w != int(g.w) else v
            result = base * base if g.w == 2 else 1.0 / base if g.w == -1 else base**g.w
            if not self.slopes or not dv:
                return result, {}
            s = g.w * result / v
            return result, {k: s * d for k, d in dv.items()}
        self._same_sign(v)
        if dv:
            log = np.log(np.abs(v))
        else:
            key = Apply("log", g.g)
            if key not in self.rows.cache:
                self.rows.cache[key] = np.log(np.abs(v))
            log = self.rows.cache[key]
        centre = self.rows.centre(Apply("log", g.g)) if not dv else 0.0
        if centre:
            log = log - centre
        result = np.exp(w * log)
        if not self.slopes:
            return result, {}
        slopes = {k: result * w / v * d for k, d in dv.items()}
        return result, _sum(slopes, {g.w: result * log})


def _sum(a: dict, b: dict) -> dict:
    out = dict(a)
    for k, v in b.items():
        out[k] = out[k] + v if k in out else v
    return out
