"""From a solved model to a formula: a graph of units with its weights at each step."""

from __future__ import annotations

import numpy as np

from ..engine.formula import Edge, Edges, Formula, Unit
from ..primitives import get
from .evaluation import Rows
from .expressions import (
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
    X,
    factors,
    nodes,
)
from .models import Model

LARGEST_EXPONENT = 150.0  # of a factor that goes to a coefficient; the guard of exp is at 177


class Writer:
    """Collects units and weight columns; a part that occurs twice is one node.

    What the centre of an argument amounts to is written behind its weight, unless a coefficient
    has ``absorbed`` it; some arguments have ``taken`` a coefficient, (step,), besides.
    """

    def __init__(
        self,
        m: Model,
        rows: Rows,
        absorbed: set[Expression],
        taken: dict[Expression, np.ndarray],
    ):
        self.m, self.rows, self.n_features = m, rows, rows.x.shape[-1]
        self.absorbed, self.taken = absorbed, taken
        self.units: list[Unit] = []
        self.nodes: dict[Unit, int] = {}
        self.values: list[np.ndarray] = []  # each (step,)
        self.constant: list[bool] = []
        self.columns: dict[tuple, int] = {}

    def column(self, key: tuple, values: np.ndarray, constant: bool) -> int:
        if key not in self.columns:
            self.columns[key] = len(self.values)
            self.values.append(np.broadcast_to(values, (len(self.m.w),)).astype(float))
            self.constant.append(constant)
        return self.columns[key]

    def weight(self, w: Weight) -> int | float | None:
        if isinstance(w, float):
            return None if w == 1.0 else w
        return self.column(("weight", w), self.m.w[:, w], self.m.shared[w])

    def unit(self, name: str, *arguments: Edges) -> int:
        unit = Unit(get(name), arguments)
        if unit not in self.nodes:
            self.nodes[unit] = self.n_features + len(self.units)
            self.units.append(unit)
        return self.nodes[unit]

    def one(self) -> int:
        return self.unit("one")

    def node(self, g: Expression) -> int:
        """A node whose value is ``g``."""
        edges = self.edges(g)
        if len(edges) == 1 and edges[0][0] is None:
            return edges[0][1]
        return self.unit("identity", edges)

    def edges(self, g: Expression) -> Edges:
        """``g`` as a weighted sum of nodes."""
        if isinstance(g, X):
            return ((None, g.i),)
        if isinstance(g, One):
            return ((None, self.one()),)
        if isinstance(g, Scale):
            return ((self.weight(g.w), self.node(g.g)),)
        if isinstance(g, Shift):
            return (*self.edges(g.g), (self.weight(g.w), self.one()))
        if isinstance(g, Mix):
            return (*self.edges(g.g), (self.weight(g.w), self.node(g.h)))
        if isinstance(g, Plus):
            return (*self.edges(g.g), (self.weight(g.sign), self.node(g.h)))
        if isinstance(g, Times):
            return ((None, self.unit("product", self.edges(g.g), self.edges(g.h))),)
        if isinstance(g, Power):
            return ((None, self.power(g)),)
        if isinstance(g, Apply):
            return ((None, self.unit(g.name, self.argument(g))),)
        raise TypeError(g)

    def argument(self, g: Apply) -> Edges:
        """The argument; where it was centred, with what the centre amounts to."""
        edges = self.edges(g.g)
        centre, w = _centre(g, self.rows)
        if centre and g not in self.absorbed:
            edges = (*edges, (self.moved(g, w, centre), self.one()))
        return edges

    def moved(self, g: Expression, w: Weight, centre: float) -> int | float:
        """What the centre of ``g`` amounts to behind its weight, and what it takes besides."""
        if isinstance(w, float) and g not in self.taken:
            return -w * centre
        own = self.m.w[:, w] if isinstance(w, int) else np.full(len(self.m.w), w)
        shared = isinstance(w, int) and self.m.shared[w] and g not in self.taken
        return self.column(("centre", g), -own * centre + self.taken.get(g, 0.0), shared)

    def power(self, g: Power) -> int:
        if isinstance(g.w, float):
            inner = self.edges(g.g)
            # Multiplied out, 1/(x + b)**2 would show three coefficients where two are free.
            if g.w < 0 and g.w % 2 == 0 and len(inner) > 1 and g.g.weights():
                log = self.unit("log", inner)
                return self.unit("exp", ((self.weight(g.w), log),))
            if g.w == 2.0:
                return self.unit("square", inner)
            if g.w == 0.5:
                return self.unit("sqrt", inner)
            if g.w == -1.0:
                return self.unit("reciprocal", inner)
            if g.w < 0 and 2 * g.w == int(2 * g.w):
                return self.unit("reciprocal", ((None, self.power(Power(g.g, -g.w))),))
            if g.w == int(g.w):
                half = int(g.w) // 2
                if g.w % 2 == 0:
                    return self.unit("square", ((None, self.node(Power(g.g, float(half)))),))
                rest = self.node(Power(g.g, g.w - 1)) if g.w > 2 else self.node(g.g)
                return self.unit("product", inner, ((None, rest),))
            # Of a sum (x² + b)**1.5 reads better than the product of the sum and its root.
            if 2 * g.w == int(2 * g.w) and (g.w < 1.5 or len(inner) == 1):
                whole = self.node(Power(g.g, g.w - 0.5)) if g.w > 1.5 else self.node(g.g)
                root = self.unit("sqrt", inner)
                return self.unit("product", ((None, whole),), ((None, root),))
        log = self.unit("log", self.edges(g.g))
        edges: Edges = ((self.weight(g.w), log),)
        centre, _ = _centre(g, self.rows)
        if centre and g not in self.absorbed:
            edges = (*edges, (self.moved(g, g.w, centre), self.one()))
        return self.unit("exp", edges)


def _centre(g: Expression, rows: Rows) -> tuple[float, Weight]:
    """What was subtracted from the argument of ``g``, and the weight before it."""
    if isinstance(g, Power) and isinstance(g.w, int) and not g.g.weights():
        return rows.centre(Apply("log", g.g)), g.w
    if isinstance(g, Apply) and get(g.name).redundant_shift:
        core = g.g.g if isinstance(g.g, Shift) else g.g
        if isinstance(core, Scale) and not core.g.weights():
            return rows.centre(core.g), core.w
    return 0.0, 0.0


def write(m: Model, rows: Rows) -> tuple[Formula, np.ndarray, tuple[bool, ...]]:
    """The formula, its weights (step, weight), and which of them are constant."""
    coefficients, kinds, absorbed, taken = _centres_exchanged(m, rows)
    writer = Writer(m, rows, absorbed, taken)
    output: list[Edge] = []
    for k, (column, kind) in enumerate(zip(m.columns, kinds, strict=True)):
        if kind == 1.0:
            output += writer.edges(column)
            continue
        node = writer.node(column)
        if isinstance(kind, float):
            output.append((writer.weight(kind), node))
        else:
            key = ("coefficient", k)
            output.append((writer.column(key, coefficients[:, k], kind == "shared"), node))
    values = np.stack(writer.values, axis=1) if writer.values else np.zeros((len(m.w), 0))
    formula = Formula(writer.n_features, tuple(writer.units), tuple(output))
    return formula, values, tuple(writer.constant)


def _centres_exchanged(m: Model, rows: Rows):
    """A factor exp(-w·centre) of a whole term goes to its coefficient, or that to the exponent.

    The coefficients and their kinds, a number for one that went; the parts whose centre a
    coefficient absorbed, and what others took.
    """
    coefficients = m.c.copy()
    kinds: list[str | float] = list(m.kinds)
    absorbed: set[Expression] = set()
    taken: dict[Expression, np.ndarray] = {}
    for k, column in enumerate(m.columns):
        for part in factors(column):
            centre, w = _centre(part, rows)
            exponential = isinstance(part, Power) or (
                isinstance(part, Apply) and part.name == "exp"
            )
            if not centre or not exponential or sum(part == q for q in factors(column)) > 1:
                continue
            alone = sum(part in nodes(other) for other in m.columns) == 1
            if not alone or kinds[k] != "free":
                continue
            exponent = -(m.w[:, w] if isinstance(w, int) else w) * centre
            if np.abs(exponent).max() < LARGEST_EXPONENT:
                coefficients[:, k] *= np.exp(exponent)
                absorbed.add(part)
            elif part == column:
                # exp(w x + p) then: the coefficient goes into p, all but its sign.
                sign = np.sign(coefficients[:, k])
                if (sign == sign[0]).all() and sign[0] != 0:
                    taken[part] = np.log(np.abs(coefficients[:, k]))
                    kinds[k] = float(sign[0])
    return coefficients, kinds, absorbed, taken
