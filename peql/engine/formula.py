"""A formula: the few units and weights of a symbolic network that are in use, as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations_with_replacement
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .. import primitives as P
from ..primitives import Layout, Primitive

Edge = tuple[int | float | None, int]
"""(weight, source node). A weight is an int, its place among the formula's weights; or, where it is
part of the form and not to be fitted, the number itself as a float; None is exactly 1."""
Edges = tuple[Edge, ...]


@dataclass(frozen=True)
class Unit:
    """One primitive in use: for each of its arguments the edges that are summed."""

    primitive: Primitive
    arguments: tuple[tuple[Edge, ...], ...]

    def edges(self) -> Iterator[Edge]:
        for argument in self.arguments:
            yield from argument


@dataclass(frozen=True)
class Formula:
    """Nodes are numbered: features first, then ``units`` in order; each reads earlier ones only.

    >>> x_squared = Formula(1, (Unit(P.get("square"), (((None, 0),),)),), ((0, 1),))
    >>> x_squared([torch.tensor(3.0)], torch.tensor([[[2.0]]]))      # 3 x² at x = 2
    tensor([[12.]])
    """

    n_features: int
    units: tuple[Unit, ...]
    output: tuple[Edge, ...]

    @property
    def n_weights(self) -> int:
        """Numbers to fit; one weight may stand at several edges."""
        return 1 + max((column for column in self.columns()), default=-1)

    def columns(self) -> Iterator[int]:
        """The weight of each edge that has one."""
        return (column for column, _ in self._all_edges() if isinstance(column, int))

    @property
    def size(self) -> int:
        """Nodes of the form: units, and the edges that feed them and the output."""
        return len(self.units) + sum(1 for _ in self._all_edges())

    def _all_edges(self) -> Iterator[Edge]:
        for unit in self.units:
            yield from unit.edges()
        yield from self.output

    def evaluate(self, weights: Sequence[Any], features: Sequence[Any], apply: Callable, zero: Any):
        """The output; works alike for tensors and for SymPy expressions."""
        values = list(features)

        def total(edges: Iterable[Edge]) -> Any:
            parts = (values[node] if c is None else _of(c) * values[node] for c, node in edges)
            return sum(parts, start=zero)

        def _of(weight: int | float) -> Any:
            return weights[weight] if isinstance(weight, int) else weight

        for unit in self.units:
            values.append(apply(unit.primitive, [total(edges) for edges in unit.arguments]))
        return total(self.output)

    def __call__(
        self, weights: Sequence[Tensor], x: Float[Tensor, "step point feature"]
    ) -> Float[Tensor, "step point"]:
        """Each weight is a tensor that broadcasts against (step, point)."""
        zero = torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)

        def apply(primitive: Primitive, arguments: list[Tensor]) -> Tensor:
            return primitive.torch(*arguments) if arguments else zero + primitive.torch()

        return self.evaluate(weights, x.unbind(-1), apply, zero)

    # --- parts -----------------------------------------------------------------------------

    def without(self, columns: Iterable[int]) -> tuple[Formula, list[int]]:
        """The formula without some weights, and which of its weights are left.

        What no longer leads anywhere goes too, and so does what is always 0.
        """
        gone = set(columns)
        units = [
            Unit(u.primitive, tuple(_kept(edges, gone) for edges in u.arguments))
            for u in self.units
        ]
        return _useful(self.n_features, units, _kept(self.output, gone))

    def extended(
        self, edges: Sequence[tuple[int, int, int]] = (), unit: Unit | None = None
    ) -> Formula:
        """With more weights: ``edges`` are (source node, unit, argument), unit -1 is the output.

        ``unit`` is added as the last, with a weight to the output. New weights come after the old.
        """
        column = self.n_weights
        units = [[list(a) for a in u.arguments] for u in self.units]
        output = list(self.output)
        for source, target, argument in edges:
            (output if target < 0 else units[target][argument]).append((column, source))
            column += 1
        made = [
            Unit(u.primitive, tuple(map(tuple, arguments)))
            for u, arguments in zip(self.units, units, strict=True)
        ]
        if unit is not None:
            fed: list[tuple[Edge, ...]] = []
            for read in unit.arguments:
                fed.append(tuple((column + k, node) for k, (_, node) in enumerate(read)))
                column += len(read)
            made.append(Unit(unit.primitive, tuple(fed)))
            output.append((column, self.n_features + len(self.units)))
        return Formula(self.n_features, tuple(made), tuple(output))

    def closed_edges(self) -> Iterator[tuple[int, int, int]]:
        """Edges that could be added between what is in use: (source node, unit, argument)."""
        n = self.n_features
        for target, unit in enumerate(self.units):
            for k, argument in enumerate(unit.arguments):
                known = {node for _, node in argument}
                for source in range(n + target):
                    if source not in known:
                        yield source, target, k
        known = {node for _, node in self.output}
        for source in range(n + len(self.units)):
            if source not in known:
                yield source, -1, 0

    def possible_units(self, primitives: Iterable[Primitive]) -> Iterator[Unit]:
        """Units of features that could be added, one weight for each argument."""
        for primitive in primitives:
            if not primitive.arity:
                if not any(unit.primitive == primitive for unit in self.units):
                    yield Unit(primitive, ())
                continue
            for chosen in combinations_with_replacement(range(self.n_features), primitive.arity):
                yield Unit(primitive, tuple(((0, feature),) for feature in chosen))

    def linear(self) -> list[int]:
        """The weights of the output, in which it is linear."""
        return [column for column, _ in self.output if isinstance(column, int)]

    def readers(self, node: int) -> Iterator[tuple[int | float | None, int]]:
        """Who reads a node: (weight, unit), unit -1 is the output."""
        for target, unit in enumerate(self.units):
            for column, source in unit.edges():
                if source == node:
                    yield column, target
        for column, source in self.output:
            if source == node:
                yield column, -1

    # --- there and back: the network that holds the formula -----------------------------------

    @classmethod
    def of_network(
        cls, layout: Layout, shapes: Sequence[tuple[int, int]], open: Iterable[int]
    ) -> tuple[Formula, list[int]]:
        """The formula of a network's open weights (flat indices), and which of them it kept."""
        n_features = shapes[0][0]
        chosen = sorted(open)
        column = {flat: k for k, flat in enumerate(chosen)}
        nodes = list(range(n_features))  # the node of each column of h
        units: list[Unit] = []
        offset = 0
        output: tuple[Edge, ...] = ()
        for layer, (n_in, n_out) in enumerate(shapes):
            incoming: list[list[Edge]] = [[] for _ in range(n_out)]
            for flat in chosen:
                if offset <= flat < offset + n_in * n_out:
                    o, i = divmod(flat - offset, n_in)
                    incoming[o].append((column[flat], nodes[i]))
            offset += n_in * n_out
            if layer == len(shapes) - 1:
                output = tuple(incoming[0])
                break
            first = n_features + len(units)
            made = [Unit(p, tuple(tuple(incoming[c]) for c in rows)) for p, rows in layout.units()]
            units += made
            nodes = [*range(first, first + len(made)), *nodes]
        formula, kept = _useful(n_features, units, output)
        return formula, [chosen[k] for k in kept]

    def placed(self) -> Placement:
        """The smallest network that holds this formula, and where its weights lie in it."""
        layers = [0] * self.n_features
        for unit in self.units:
            layers.append(1 + max((layers[node] for _, node in unit.edges()), default=0))
        depth = max([1, *layers[self.n_features :]])
        copies: dict[str, int] = {"identity": 1}
        for layer in range(1, depth + 1):
            here = [
                u for u, k in zip(self.units, layers[self.n_features :], strict=True) if k == layer
            ]
            for name in {u.primitive.name for u in here}:
                n = sum(u.primitive.name == name for u in here)
                copies[name] = max(copies.get(name, 0), n)
        kinds = {
            next((u.primitive for u in self.units if u.primitive.name == name), P.get(name)): n
            for name, n in copies.items()
        }
        layout = Layout(P.resolve(kinds))
        slots, node_at = layout.units(), {}
        for layer in range(1, depth + 1):
            free = list(range(len(slots)))
            for i, unit in enumerate(self.units):
                if layers[self.n_features + i] == layer:
                    slot = next(s for s in free if slots[s][0] == unit.primitive)
                    free.remove(slot)
                    node_at[i] = (layer, slot)
        n_units, n = len(slots), self.n_features

        def place(node: int, layer: int) -> int:
            """The column of a node in what layer ``layer`` (from 1) reads."""
            behind = (layer - 1) * n_units
            if node < n:
                return behind + node
            at, slot = node_at[node - n]
            return (layer - 1 - at) * n_units + slot

        widths = [n + k * n_units for k in range(depth + 1)]
        shapes = [*((w, layout.n_in) for w in widths[:-1]), (widths[-1], 1)]
        offsets = list(accumulate((i * o for i, o in shapes), initial=0))
        weights: dict[int, int] = {}
        numbers: dict[int, float] = {}

        def put(edge: Edge, layer: int, row: int) -> None:
            column, node = edge
            where = offsets[layer - 1] + row * shapes[layer - 1][0] + place(node, layer)
            if isinstance(column, int):
                weights[where] = column
            else:
                numbers[where] = 1.0 if column is None else column

        for i, unit in enumerate(self.units):
            layer, slot = node_at[i]
            for row, argument in zip(slots[slot][1], unit.arguments, strict=True):
                for edge in argument:
                    put(edge, layer, row)
        for edge in self.output:
            put(edge, depth + 1, 0)
        return Placement(kinds, depth, weights, numbers)


@dataclass(frozen=True)
class Placement:
    """Where a formula lies in a network: flat indices with their weight, or their number."""

    primitives: dict[Primitive, int]
    n_layers: int
    weights: dict[int, int]
    numbers: dict[int, float]

    def full(self, weights: Float[Tensor, "step weight"], n_weights: int) -> Tensor:
        """The whole network's weights (step, weight), closed ones 0."""
        full = weights.new_zeros(len(weights), n_weights)
        full[:, list(self.weights)] = weights[:, list(self.weights.values())]
        full[:, list(self.numbers)] = weights.new_tensor(list(self.numbers.values()))
        return full


def _kept(edges: Sequence[Edge], gone: set[int]) -> tuple[Edge, ...]:
    return tuple(edge for edge in edges if not (isinstance(edge[0], int) and edge[0] in gone))


def _useful(
    n_features: int, units: Sequence[Unit], output: Sequence[Edge]
) -> tuple[Formula, list[int]]:
    """Drop what can only be 0 and what leads nowhere; weights are numbered anew in their order."""
    alive = [True] * n_features
    trimmed: list[Unit] = []
    for unit in units:
        arguments = tuple(tuple(e for e in edges if alive[e[1]]) for edges in unit.arguments)
        trimmed.append(Unit(unit.primitive, arguments))
        alive.append(_can_move(unit.primitive, tuple(bool(edges) for edges in arguments)))
    ends = [edge for edge in output if alive[edge[1]]]
    used: set[int] = set()
    stack = [node for _, node in ends]
    while stack:
        node = stack.pop()
        if node not in used:
            used.add(node)
            if node >= n_features:
                stack += [source for _, source in trimmed[node - n_features].edges()]
    number = {node: node for node in range(n_features)}
    for i in range(len(trimmed)):
        if n_features + i in used:
            number[n_features + i] = len(number)
    old = sorted(
        {
            column
            for i, unit in enumerate(trimmed)
            if n_features + i in used
            for column, _ in unit.edges()
            if isinstance(column, int)
        }
        | {column for column, _ in ends if isinstance(column, int)}
    )
    new = {column: k for k, column in enumerate(old)}

    def renumbered(edges: Iterable[Edge]) -> tuple[Edge, ...]:
        return tuple((new[c] if isinstance(c, int) else c, number[node]) for c, node in edges)

    kept = tuple(
        Unit(unit.primitive, tuple(renumbered(edges) for edges in unit.arguments))
        for i, unit in enumerate(trimmed)
        if n_features + i in used
    )
    return Formula(n_features, kept, renumbered(ends)), old


def _can_move(primitive: Primitive, fed: tuple[bool, ...]) -> bool:
    """Whether a unit can differ from 0 when only some of its arguments do."""
    probe = torch.tensor([0.3, 0.7], dtype=torch.float64)
    value = primitive.torch(*(probe * (1 + k) if on else 0 * probe for k, on in enumerate(fed)))
    return bool((torch.as_tensor(value) != 0).any())
