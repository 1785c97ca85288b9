"""Dimensions: a number may be part of a form only where no change of units could change it.

Every feature and y have a unit of their own. A coefficient or a weight takes whatever dimension
its place asks for, so it may be free, or shared by all steps, but 1 or -1 only where it has none:
exp(w x) - 1 stays what it is in other units of x, x - 1 and x - log(x) do not.
"""

from __future__ import annotations

from .expressions import Apply, Expression, Mix, One, Plus, Power, Scale, Shift, Times, X

Dimension = dict  # of features (or of parts without a plain dimension) to exponents; {} is a number
ANY = {"any": 1.0}  # what a free factor makes of it


def _times(a: Dimension, b: Dimension, exponent: float = 1.0) -> Dimension:
    if a == ANY or (b == ANY and exponent):
        return ANY
    total = {k: a.get(k, 0.0) + exponent * b.get(k, 0.0) for k in {**a, **b}}
    return {k: v for k, v in total.items() if v}


def dimension(g: Expression) -> Dimension:
    """Exponents of the features' units in ``g``.

    >>> dimension(Times(X(0), Power(X(1), -2.0))), dimension(Apply("exp", Scale(X(0), 0)))
    ({0: 1.0, 1: -2.0}, {})
    """
    if isinstance(g, X):
        return {g.i: 1.0}
    if isinstance(g, One):
        return {}
    if isinstance(g, Scale):
        return ANY if isinstance(g.w, int) else dimension(g.g)
    if isinstance(g, (Shift, Mix, Plus)):
        return dimension(g.g)
    if isinstance(g, Times):
        return _times(dimension(g.g), dimension(g.h))
    inner = dimension(g.parts()[0])
    if isinstance(g, Power):
        if isinstance(g.w, float):
            return _times({}, inner, g.w)
        return {} if not inner else {g: 1.0}  # differs from step to step
    if isinstance(g, Apply) and inner not in ({}, ANY):
        return {g: 1.0}  # log(x): in other units it is another column
    return {}


def is_number(g: Expression) -> bool:
    """Whether ``g`` has no unit, or can be given none by its factor."""
    return dimension(g) in ({}, ANY)


def alike(g: Expression, h: Expression) -> bool:
    """Whether ``g`` and ``h`` may be added as they are."""
    return dimension(g) == dimension(h)


def of_weight(n: Expression) -> Dimension:
    """The dimension of the weight that a node holds."""
    if isinstance(n, Scale):
        return _times({}, dimension(n.g), -1.0)
    if isinstance(n, Shift):
        inner = dimension(n.g)
        return {} if inner == ANY else inner
    if isinstance(n, Mix):
        return _times(dimension(n.g), dimension(n.h), -1.0)
    return {}
