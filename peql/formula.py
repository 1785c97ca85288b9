"""The part of a symbolic network that its open weights make up: a formula of a few weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations_with_replacement

import torch
from jaxtyping import Float
from torch import Tensor

from .primitives import Layout, Primitive


@dataclass(frozen=True)
class Unit:
    """One primitive in use: for each of its arguments the (weight column, source node) it sums."""

    primitive: Primitive
    arguments: tuple[tuple[tuple[int, int], ...], ...]


class Formula:
    """The part of a symbolic network that its open weights make up.

    ``open`` are flat indices of weights; those that cannot change the output are dropped. Nodes
    are numbered: features first, then the units in use. ``weights`` columns follow ``open``.
    """

    def __init__(self, layout: Layout, shapes: Sequence[tuple[int, int]], open: Iterable[int]):
        self.layout, self.shapes = layout, list(shapes)
        self.open = tuple(_useful(layout, self.shapes, sorted(open)))
        self.n_features = self.shapes[0][0]
        column = {flat: k for k, flat in enumerate(self.open)}
        nodes = list(range(self.n_features))  # the node of each column of h
        self.units: list[Unit] = []
        offset = 0
        for layer, (n_in, n_out) in enumerate(self.shapes):
            incoming = [
                tuple(
                    (column[offset + o * n_in + i], nodes[i])
                    for i in range(n_in)
                    if offset + o * n_in + i in column
                )
                for o in range(n_out)
            ]
            offset += n_in * n_out
            if layer < len(self.shapes) - 1:
                first = self.n_features + len(self.units)
                units = [Unit(p, tuple(incoming[c] for c in rows)) for p, rows in layout.units()]
                self.units += units
                nodes = [*range(first, first + len(units)), *nodes]
        self.outputs = incoming
        self._columns = nodes  # of the last layer
        self._used = self._nodes_in_use()

    def _nodes_in_use(self) -> set[int]:
        used: set[int] = set()
        stack = [node for output in self.outputs for _, node in output]
        while stack:
            node = stack.pop()
            if node not in used:
                used.add(node)
                if node >= self.n_features:
                    unit = self.units[node - self.n_features]
                    stack += [source for argument in unit.arguments for _, source in argument]
        return used

    def nodes(self, weights, features, apply, zero):
        """Evaluate every node in use; works alike for tensors and for SymPy expressions."""
        values = dict(enumerate(features))

        def total(terms):
            return sum((weights[k] * values[node] for k, node in terms), start=zero)

        for i, unit in enumerate(self.units, start=self.n_features):
            if i in self._used:
                values[i] = apply(unit.primitive, [total(argument) for argument in unit.arguments])
        return [total(output) for output in self.outputs]

    def arguments_behind(self, column: int) -> list[list[int]]:
        """For each argument of the unit that a weight multiplies, the weights it sums."""
        sums = [*self.outputs, *(a for unit in self.units for a in unit.arguments)]
        source = next(node for terms in sums for k, node in terms if k == column)
        if source < self.n_features:
            return []
        unit = self.units[source - self.n_features]
        return [[k for k, _ in argument] for argument in unit.arguments]

    def reachable(self) -> list[int]:
        """All weights, open or not, that lead from a part in use to a part in use."""
        found, offset, first_unit = [], 0, self.n_features
        columns = list(range(self.n_features))  # node of each h column
        for layer, (n_in, n_out) in enumerate(self.shapes):
            last = layer == len(self.shapes) - 1
            units = [] if last else self.layout.units()
            nodes = [first_unit + k for k in range(len(units))]
            targets = set(range(n_out)) if last else set()
            for node, (_, arguments) in zip(nodes, units, strict=True):
                if node in self._used:
                    targets |= set(arguments)
            found += [
                offset + o * n_in + i
                for o in targets
                for i, node in enumerate(columns)
                if node < self.n_features or node in self._used
            ]
            offset += n_in * n_out
            first_unit += len(units)
            columns = nodes + columns
        return found

    def output_weight(self, node: int) -> int:
        """The flat index of the weight, open or not, that leads from a node to the output."""
        return sum(i * o for i, o in self.shapes[:-1]) + self._columns.index(node)

    def units_of_output(self) -> Iterator[tuple[int, list[int]]]:
        """The weight of each unit that the output adds up, and the nodes that the unit reads."""
        for column, node in self.outputs[0]:
            if node >= self.n_features:
                arguments = self.units[node - self.n_features].arguments
                yield (
                    self.open[column],
                    [source for argument in arguments for _, source in argument],
                )

    def spare_units(self) -> Iterator[tuple[Primitive, tuple[int, ...], list[int]]]:
        """Ways to add a unit of each primitive that has a copy not in use.

        The primitive, the feature that each argument is, and the weights to open: one for each
        argument, and last the one that leads from the unit to the output.
        """
        units = self.layout.units()
        offsets = accumulate((i * o for i, o in self.shapes), initial=0)
        met: list[Primitive] = []
        for layer, (offset, (n_in, _)) in enumerate(zip(offsets, self.shapes[:-1], strict=False)):
            first = offset + n_in - self.n_features  # features are the last columns of a layer
            for k, (primitive, rows) in enumerate(units):
                node = self.n_features + layer * len(units) + k
                if node in self._used or primitive in met or not rows:
                    continue
                met.append(primitive)
                for features in combinations_with_replacement(range(self.n_features), len(rows)):
                    pairs = zip(rows, features, strict=True)
                    arguments = [first + row * n_in + feature for row, feature in pairs]
                    yield primitive, features, [*arguments, self.output_weight(node)]

    def __call__(
        self, weights: Sequence[Tensor], x: Float[Tensor, "step point feature"]
    ) -> Float[Tensor, "step point"]:
        """The first output; each weight is a tensor that broadcasts against (step, point)."""
        zero = torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)

        def apply(primitive: Primitive, arguments: list[Tensor]) -> Tensor:
            return primitive.torch(*arguments) if arguments else zero + primitive.torch()

        return self.nodes(weights, x.unbind(-1), apply, zero)[0]


def _useful(layout: Layout, shapes: list[tuple[int, int]], open: list[int]) -> list[int]:
    """Drop open weights that no path of open weights joins to both something and the output."""
    units = layout.units()
    probe = torch.tensor([0.3, 0.7], dtype=torch.float64)
    offsets = [sum(i * o for i, o in shapes[:k]) for k in range(len(shapes))]
    kept = set(open)
    while True:
        alive = [True] * shapes[0][0]  # h columns that can be non-zero
        edges: list[list[tuple[int, int, int]]] = []  # per layer: (flat, source column, target)
        for offset, (n_in, n_out) in zip(offsets, shapes, strict=True):
            layer = [
                (f, (f - offset) % n_in, (f - offset) // n_in)
                for f in kept
                if offset <= f < offset + n_in * n_out and alive[(f - offset) % n_in]
            ]
            edges.append(layer)
            fed = {target for _, _, target in layer}
            values = []
            for primitive, columns in units:
                value = primitive.torch(
                    *(probe * (1 + c) if c in fed else 0 * probe for c in columns)
                )
                values.append(bool((torch.as_tensor(value) != 0).any()))
            alive = values + alive
        needed = {source for _, source, _ in edges[-1]}
        found = {flat for flat, _, _ in edges[-1]}
        n_units = len(units)
        for layer in edges[-2::-1]:
            read = {c for k in needed if k < n_units for c in units[k][1]}
            found |= {flat for flat, _, target in layer if target in read}
            needed = {k - n_units for k in needed if k >= n_units} | {
                source for _, source, target in layer if target in read
            }
        if found == kept:
            return sorted(kept)
        kept = found
