"""Expressions of a few inner weights: small trees.

``w`` in a tree is the position of an inner weight, or a number that is part of the form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from ..primitives import FREQUENCY

Weight = int | float  # int: the position of an inner weight; float: a number of the form

FULL_TURN = 2 * math.pi / FREQUENCY  # the argument of sin after which it repeats
EXPONENTS = {"reciprocal": -1.0, "square": 2.0, "sqrt": 0.5}  # of primitives that are powers
PLAIN_EXPONENTS = (3.0, 4.0, -2.0, -0.5, 1.5)


class Expression:
    """A node; the classes below are all there are.

    Trees are looked up often: what they are compared by is computed once. A weight's position is
    not a number of the form: 2 == 2.0, x**w2 is not x**2.
    """

    def _key(self) -> tuple[int, tuple]:
        known = self.__dict__.get("_known_key")
        if known is None:
            own = (getattr(self, name) for name in self.__match_args__)  # type: ignore[attr-defined]
            parts = (type(self).__name__, isinstance(getattr(self, "w", None), int), *own)
            known = hash(parts), parts
            object.__setattr__(self, "_known_key", known)
        return known

    def __hash__(self) -> int:
        return self._key()[0]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, type(self)) and self._key() == other._key()

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


@dataclass(frozen=True, eq=False)
class X(Expression):
    """Feature ``i``."""

    i: int


@dataclass(frozen=True, eq=False)
class Scale(Expression):
    """w·g; inside exp and sin of a feature far from zero, w·(g - centre)."""

    g: Expression
    w: Weight

    def size(self) -> int:
        if isinstance(self.g, One):
            return 1  # a weight by itself
        return self.g.size() if _is(self.w, 1.0) else 2 + self.g.size()


@dataclass(frozen=True, eq=False)
class Shift(Expression):
    """g + w."""

    g: Expression
    w: Weight

    def size(self) -> int:
        return self.g.size() if _is(self.w, 0.0) else 2 + self.g.size()


@dataclass(frozen=True, eq=False)
class Mix(Expression):
    """g + w·h."""

    g: Expression
    h: Expression
    w: Weight

    def size(self) -> int:
        bare = self.w in (1.0, -1.0) and isinstance(self.w, float)
        return 1 + (0 if bare else 2) + self.g.size() + self.h.size()


@dataclass(frozen=True, eq=False)
class Power(Expression):
    """g**w of a positive g, or with a whole or half number as ``w``."""

    g: Expression
    w: Weight

    def size(self) -> int:
        if _is(self.w, 1.0):
            return self.g.size()
        # Which power of a weight gives a coefficient is one of many choices.
        gives = isinstance(self.g, Scale) and isinstance(self.g.g, One)
        if isinstance(self.w, float) and self.w in EXPONENTS.values() and not gives:
            return 1 + self.g.size()  # one primitive
        plain = isinstance(self.w, int) or (self.w in PLAIN_EXPONENTS and not gives)
        return (2 if plain else 3) + self.g.size()  # 5/3 is one of many numbers


@dataclass(frozen=True, eq=False)
class Apply(Expression):
    """A primitive of one argument."""

    name: str
    g: Expression

    def size(self) -> int:
        return (3 if self.name == "tanh" else 1) + self.g.size()  # tanh is a ratio of exponentials


@dataclass(frozen=True, eq=False)
class Times(Expression):
    """g·h."""

    g: Expression
    h: Expression

    def size(self) -> int:
        divides = any(isinstance(f, Power) and f.w == -1.0 for f in (self.g, self.h))
        return 1 + self.g.size() + self.h.size() - divides  # g/h is one operation


@dataclass(frozen=True, eq=False)
class Plus(Expression):
    """g + sign·h: two columns whose coefficients are equal or opposite."""

    g: Expression
    h: Expression
    sign: float = 1.0


@dataclass(frozen=True, eq=False)
class One(Expression):
    """The constant column."""


def simplify(g: Expression) -> Expression:
    """The same function with fewer nodes: equal forms become equal trees.

    >>> simplify(Apply("reciprocal", Shift(Power(X(0), 1.0), 0.0)))
    Power(g=X(i=0), w=-1.0)
    """
    parts = [simplify(part) for part in g.parts()]
    match g:
        case Apply():
            return _applied(g.name, parts[0])
        case Scale():
            return parts[0] if _is(g.w, 1.0) else Scale(parts[0], g.w)
        case Shift():
            return parts[0] if _is(g.w, 0.0) else Shift(parts[0], g.w)
        case Mix():
            return parts[0] if _is(g.w, 0.0) else Mix(parts[0], parts[1], g.w)
        case Power():
            return _raised(parts[0], g.w)
        case Times():
            return _product(parts[0], parts[1])
        case Plus():
            return Plus(parts[0], parts[1], g.sign)
    return g


def _applied(name: str, g: Expression) -> Expression:
    if name == "identity":
        return g
    if name in EXPONENTS:
        return _raised(g, EXPONENTS[name])
    if name == "exp" and isinstance(g, Scale):
        if _is(g.w, 0.0):
            return One()
        if isinstance(g.g, Apply) and g.g.name == "log":
            return _raised(g.g.g, g.w)
    if name == "sin" and isinstance(g, Shift) and g.w in (FULL_TURN / 4, -FULL_TURN / 4):
        return Apply("cos", g.g)  # up to a sign, which the coefficient takes
    return Apply(name, g)


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
