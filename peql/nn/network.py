"""The symbolic network behind EQL, SEQL and HEQL, usable behind any ``nn.Module``."""

from __future__ import annotations

from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .. import primitives as P
from .gates import HardConcreteGates
from .weights import MetaWeights, SingleWeights, StackedWeights


class SymbolicNetwork(nn.Module):
    """A network whose activations are primitives and whose weights are gated.

    Layer i computes ``h_i = [f(h_{i-1} W_i); h_{i-1}]``, the output is linear in the last h. The
    weights come from one matrix ("single"), one per step of t ("stacked") or a network of t
    ("meta"); the gates are shared by all steps.

    >>> net = SymbolicNetwork(n_inputs=2, weights="stacked", n_steps=5)
    >>> net(torch.randn(5, 16, 2)).shape          # (step, point, feature) → (step, point, output)
    torch.Size([5, 16, 1])
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        *,
        weights: str = "single",
        n_steps: int | None = None,
        n_varying: int = 1,
        primitives: P.PrimitiveChoice = "default",
        n_layers: int = 2,
        n_trials: int = 1,
        n_kinks: int | None = None,
    ):
        super().__init__()
        self.layout = P.Layout(P.resolve(primitives))
        widths = list(accumulate([self.layout.n_out] * n_layers, initial=n_inputs))
        outs = [self.layout.n_in] * n_layers + [n_outputs]
        self.shapes = list(zip(widths, outs, strict=True))
        self.layer_sizes = [i * o for i, o in self.shapes]
        self.n_weights = sum(self.layer_sizes)
        self.gates = HardConcreteGates(n_trials, self.n_weights)
        self.weights: SingleWeights | StackedWeights | MetaWeights
        if weights == "single":
            self.weights = SingleWeights(n_trials, self.n_weights)
        elif weights == "stacked":
            if n_steps is None:
                raise ValueError("weights='stacked' needs n_steps, the number of values of t")
            self.weights = StackedWeights(n_trials, self.n_weights, n_steps)
        elif weights == "meta":
            self.weights = MetaWeights(n_trials, self.layer_sizes, n_varying, n_kinks)
        else:
            raise ValueError(f"weights={weights!r}: expected 'single', 'stacked' or 'meta'")

    def forward(
        self,
        x: Float[Tensor, "*trial step point feature"],
        steps: Tensor | None = None,
        noise: Float[Tensor, "trial weight"] | None = None,
    ) -> Float[Tensor, "*trial step point output"]:
        """Evaluate at ``x``. ``steps``: the index of t (stacked) or t itself (meta) of each step.

        In training mode the gates are sampled, with ``noise`` uniform in (0, 1) if it is given.
        A network of one trial may be called without the trial dimension.
        """
        weights = self.weights(steps) * self.gate(noise)[:, None, :]
        out = apply_layers(self.layout, self.shapes, weights, x if x.ndim == 4 else x[None])
        return out if x.ndim == 4 else out[0]

    def gate(self, noise: Tensor | None = None) -> Float[Tensor, "trial weight"]:
        """The gates of this pass: sampled in training, expected in evaluation."""
        if not self.training:
            return self.gates.expected()
        return self.gates.sample(torch.rand_like(self.gates.log_alpha) if noise is None else noise)


def apply_layers(
    layout: P.Layout,
    shapes: list[tuple[int, int]],
    weights: Float[Tensor, "trial _ weight"],  # a row for each step, or one for all
    x: Float[Tensor, "trial step point feature"],
) -> Float[Tensor, "trial step point output"]:
    """Run the layers with the given flat weights; a layer's matrix is (output, input), row by row.

    Points are the last dimension inside, so that the columns of a kind of primitive, and the parts
    that a skip connection joins, are contiguous.
    """
    h = x.mT
    rows = weights.split([i * o for i, o in shapes], dim=-1)
    for row, (n_in, n_out) in zip(rows[:-1], shapes[:-1], strict=True):
        g = row.unflatten(-1, (n_out, n_in)) @ h
        h = torch.cat([*layout.activate(g), h.expand(*g.shape[:-2], n_in, -1)], dim=-2)
    n_in, n_out = shapes[-1]
    return (rows[-1].unflatten(-1, (n_out, n_in)) @ h).mT
