"""Expressions of a few inner weights, their values and slopes for many starts and steps at once.

An expression is a small tree. ``w`` in it is the position of an inner weight, or a number that is
part of the form. Values are (start, step, point), inner weights (start, step, weight).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cache

import numpy as np
import sympy

from ..primitives import FREQUENCY, Primitive, get

Weight = int | float  # int: the position of an inner weight; float: a number of the form

QUARTER_TURN = math.pi / 2 / FREQUENCY  # of the argument of sin
PER_CALL = 4000  # numbers that could be computed while a call to NumPy begins, roughly
FAR_FROM_ZERO = 5.0  # ranges away from 0; from there on exp and sin take centred arguments


PLAIN_EXPONENTS = (3.0, 4.0, -2.0, -0.5, 1.5)


class Expression:
    """A node; the classes below are all there are."""

    def parts(self) -> tuple[Expression, ...]:
        return tuple(v for v in vars(self).values() if isinstance(v, Expression))

    def weights(self) -> tuple[int, ...]:
        """Positions of the inner weights, outermost last."""
        known = self.__dict__.get("_weights")
        if known is None:
            w = getattr(self, "w", None)
            own = (w,) if isinstance(w, int) else ()
            known = (*(w for part in self.parts() for w in part.weights()), *own)
            object.__setattr__(self, "_weights", known)
        return known

    def size(self) -> int:
        """Nodes of the tree, as people write it: features, operations and numbers."""
        w = getattr(self, "w", None)
        return 1 + (w is not None) + sum(part.size() for part in self.parts())

    def changed(self, change) -> Expression:
        """The same tree with ``change`` applied to every weight."""
        new = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, Expression):
                new[f.name] = value.changed(change)
            elif f.name == "w":
                new[f.name] = change(value)
        return replace(self, **new)  # type: ignore[type-var]

    def shifted(self, by: int) -> Expression:
        return self.changed(lambda w: w + by if isinstance(w, int) else w)


@dataclass(frozen=True)
class X(Expression):
    """Feature ``i``."""

    i: int


@dataclass(frozen=True)
class Scale(Expression):
    """w·g; inside exp and sin of a feature far from zero, w·(g - centre)."""

    g: Expression
    w: Weight

    def size(self) -> int:
        if isinstance(self.g, One):
            return 1  # a weight by itself
        return self.g.size() if _is(self.w, 1.0) else 2 + self.g.size()


@dataclass(frozen=True)
class Shift(Expression):
    """g + w."""

    g: Expression
    w: Weight

    def size(self) -> int:
        return self.g.size() if _is(self.w, 0.0) else 2 + self.g.size()


@dataclass(frozen=True)
class Mix(Expression):
    """g + w·h."""

    g: Expression
    h: Expression
    w: Weight

    def size(self) -> int:
        bare = self.w in (1.0, -1.0) and isinstance(self.w, float)
        return 1 + (0 if bare else 2) + self.g.size() + self.h.size()


@dataclass(frozen=True)
class Power(Expression):
    """g**w of a positive g, or with a whole or half number as ``w``."""

    g: Expression
    w: Weight

    def size(self) -> int:
        if isinstance(self.w, float) and self.w == 1.0:
            return self.g.size()
        if isinstance(self.w, int) or self.w in PLAIN_EXPONENTS:
            return (
                1 if isinstance(self.w, float) and self.w in (2.0, -1.0, 0.5) else 2
            ) + self.g.size()
        return 3 + self.g.size()  # 5/3 is one of many numbers


@dataclass(frozen=True)
class Apply(Expression):
    """A primitive of one argument."""

    name: str
    g: Expression

    def size(self) -> int:
        return (3 if self.name == "tanh" else 1) + self.g.size()  # tanh is a ratio of exponentials


@dataclass(frozen=True)
class Times(Expression):
    """g·h."""

    g: Expression
    h: Expression

    def size(self) -> int:
        divides = any(isinstance(f, Power) and f.w == -1.0 for f in (self.g, self.h))
        return 1 + self.g.size() + self.h.size() - divides  # g/h is one operation


@dataclass(frozen=True)
class Plus(Expression):
    """g + sign·h: two columns whose coefficients are equal or opposite."""

    g: Expression
    h: Expression
    sign: float = 1.0


@dataclass(frozen=True)
class One(Expression):
    """The constant column."""


def _remember_hash(kind: type) -> None:
    """Trees are looked up often: what they are compared by is computed once.

    A weight's position is not a number of the form: 2 == 2.0, x**w2 is not x**2.
    """
    names = [f.name for f in fields(kind)]

    def key(self) -> tuple[int, tuple]:
        known = self.__dict__.get("_key")
        if known is None:
            own = (getattr(self, name) for name in names)
            parts = (kind.__name__, isinstance(getattr(self, "w", None), int), *own)
            known = hash(parts), parts
            object.__setattr__(self, "_key", known)
        return known

    def cached(self) -> int:
        return key(self)[0]

    def equal(self, other: object) -> bool:
        return self is other or (type(other) is kind and key(self) == key(other))

    kind.__hash__ = cached  # type: ignore[method-assign, assignment]
    kind.__eq__ = equal  # type: ignore[method-assign, assignment]


for _kind in (X, Scale, Shift, Mix, Power, Apply, Times, Plus, One):
    _remember_hash(_kind)


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


def simplify(g: Expression) -> Expression:
    """The same function with fewer nodes: equal forms become equal trees.

    >>> simplify(Apply("reciprocal", Shift(Power(X(0), 1.0), 0.0)))
    Power(g=X(i=0), w=-1.0)
    """
    parts = [simplify(part) for part in g.parts()]
    if isinstance(g, Apply):
        inner = parts[0]
        exponent = {"reciprocal": -1.0, "square": 2.0, "sqrt": 0.5}.get(g.name)
        if g.name == "identity":
            return inner
        if exponent is not None:
            return (
                simplify(Power(inner, exponent))
                if not isinstance(inner, Power)
                else _raised(inner, exponent)
            )
        if g.name == "exp" and isinstance(inner, Scale) and _is(inner.w, 0.0):
            return One()
        log = inner.g if isinstance(inner, Scale) else None
        if g.name == "exp" and isinstance(log, Apply) and log.name == "log":
            return _raised(log.g, inner.w)  # type: ignore[attr-defined]
        if (
            g.name == "sin"
            and isinstance(inner, Shift)
            and (isinstance(inner.w, float) and abs(inner.w) == QUARTER_TURN)
        ):
            return Apply("cos", inner.g)  # up to a sign, which the coefficient takes
        return Apply(g.name, inner)
    if isinstance(g, Scale):
        return parts[0] if g.w == 1.0 and isinstance(g.w, float) else Scale(parts[0], g.w)
    if isinstance(g, Shift):
        return parts[0] if g.w == 0.0 and isinstance(g.w, float) else Shift(parts[0], g.w)
    if isinstance(g, Mix):
        if isinstance(g.w, float) and g.w == 0.0:
            return parts[0]
        return Mix(parts[0], parts[1], g.w)
    if isinstance(g, Power):
        return _raised(parts[0], g.w)
    if isinstance(g, Times):
        return _product(parts[0], parts[1])
    if isinstance(g, Plus):
        return Plus(parts[0], parts[1], g.sign)
    return g


def _is(w: Weight, number: float) -> bool:
    return isinstance(w, float) and w == number


def _raised(g: Expression, w: Weight) -> Expression:
    if _is(w, 1.0):
        return g
    if _is(w, 0.0) or isinstance(g, One):
        return One()
    if isinstance(g, Power) and isinstance(w, float) and isinstance(g.w, float):
        whole = g.w == int(g.w) and g.w % 2 == 0 and (g.w * w) % 2 != 0
        if not whole:  # the root of a square is a magnitude
            return _raised(g.g, g.w * w)
    if isinstance(g, Apply) and g.name == "exp" and isinstance(w, float) and isinstance(g.g, Scale):
        return Power(g, w)
    return Power(g, w)


def factors(g: Expression) -> list[Expression]:
    """What a product multiplies."""
    if isinstance(g, Times):
        return [*factors(g.g), *factors(g.h)]
    return [g]


def _product(g: Expression, h: Expression) -> Expression:
    """Fixed powers of the same part join; parts are in a fixed order."""
    found: list[Expression] = []
    for part in [*factors(g), *factors(h)]:
        if isinstance(part, One):
            continue
        base, w = (part.g, part.w) if isinstance(part, Power) else (part, 1.0)
        for k, other in enumerate(found):
            other_base, other_w = (other.g, other.w) if isinstance(other, Power) else (other, 1.0)
            if base == other_base and isinstance(w, float) and isinstance(other_w, float):
                found[k] = _raised(base, w + other_w)
                break
        else:
            found.append(part)
    found = [part for part in found if not isinstance(part, One)]
    if not found:
        return One()
    found.sort(key=lambda part: (part.size(), repr(part)))
    total = found[0]
    for part in found[1:]:
        total = Times(total, part)
    return total


def substituted(g: Expression, old: Expression, new: Expression) -> Expression:
    """``g`` with ``new`` wherever ``old`` is."""
    if g == old:
        return new
    changes = {
        f.name: substituted(getattr(g, f.name), old, new)
        for f in fields(g)  # type: ignore[arg-type]
        if isinstance(getattr(g, f.name), Expression)
    }
    return replace(g, **changes) if changes else g  # type: ignore[type-var]


def nodes(g: Expression):
    """Every node of the tree."""
    yield g
    for part in g.parts():
        yield from nodes(part)


def show(g: Expression) -> str:
    """The tree in a line; weights are w0, w1, ….

    >>> show(Power(Shift(X(0), 0), -1.0))
    '(x0 + w0)**-1'
    """

    def w(v: Weight) -> str:
        return f"w{v}" if isinstance(v, int) else f"{v:g}"

    match g:
        case X():
            return f"x{g.i}"
        case One():
            return "1"
        case Scale():
            return f"{w(g.w)}*{show(g.g)}"
        case Shift():
            return f"({show(g.g)} + {w(g.w)})"
        case Mix():
            return f"({show(g.g)} + {w(g.w)}*{show(g.h)})"
        case Power():
            return f"{show(g.g)}**{w(g.w)}"
        case Apply():
            return f"{g.name}({show(g.g)})"
        case Times():
            return f"{show(g.g)}*{show(g.h)}"
        case Plus():
            return f"({show(g.g)} {'+' if g.sign > 0 else '-'} {show(g.h)})"
    raise TypeError(g)
