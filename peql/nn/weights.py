"""Where the weights of the symbolic network come from: the one difference of EQL, SEQL and HEQL.

Each source maps steps of the varying variable to weights (trial, step, weight), all layers of the
network in one flat row.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

INITIAL_SD = 0.1
HIDDEN = (64, 64, 256)


class SingleWeights(nn.Module):
    """EQL: one row of weights, the same at every t."""

    def __init__(self, n_trials: int, n_weights: int):
        super().__init__()
        self.value = nn.Parameter(INITIAL_SD * torch.randn(n_trials, 1, n_weights))

    def forward(self, steps: Tensor | None = None) -> Float[Tensor, "trial 1 weight"]:
        return self.value


class StackedWeights(nn.Module):
    """SEQL: a row of weights for each of ``n_steps`` values of t, all equal at first."""

    def __init__(self, n_trials: int, n_weights: int, n_steps: int):
        super().__init__()
        start = INITIAL_SD * torch.randn(n_trials, 1, n_weights)
        self.value = nn.Parameter(start.repeat(1, n_steps, 1))

    def forward(self, steps: Tensor | None = None) -> Float[Tensor, "trial step weight"]:
        """The rows at the indices ``steps`` (step,); all of them if None."""
        return self.value if steps is None else self.value[:, steps]


class MetaWeights(nn.Module):
    """HEQL: a small ReLU network of t, the meta-weight unit, for each layer of the network.

    ``layer_sizes`` are the numbers of weights of the layers. The units are independent but are
    evaluated together: dimension 1 of the hidden parameters counts the layers. ``n_kinks`` is the
    width of the last hidden layer, if it is not the paper's.
    """

    def __init__(
        self, n_trials: int, layer_sizes: list[int], n_varying: int = 1, n_kinks: int | None = None
    ):
        super().__init__()
        widths = (n_varying, *HIDDEN[:-1], n_kinks or HIDDEN[-1])
        n_layers = len(layer_sizes)

        def uniform(*shape: int, fan_in: int) -> nn.Parameter:
            return nn.Parameter((torch.rand(*shape) * 2 - 1) / math.sqrt(fan_in))

        pairs = list(pairwise(widths))
        self.hidden_weight = nn.ParameterList(
            uniform(n_trials, n_layers, i, o, fan_in=i) for i, o in pairs
        )
        self.hidden_bias = nn.ParameterList(
            uniform(n_trials, n_layers, 1, o, fan_in=i) for i, o in pairs
        )
        # Nearly constant in t at first, as in StackedWeights: the gates then act on all t alike.
        self.out_weight = nn.ParameterList(
            nn.Parameter(0.1 * uniform(n_trials, widths[-1], size, fan_in=widths[-1]).data)
            for size in layer_sizes
        )
        self.out_bias = nn.ParameterList(
            nn.Parameter(INITIAL_SD * torch.randn(n_trials, 1, size)) for size in layer_sizes
        )

    def features(self, t: Float[Tensor, "step varying"]) -> Float[Tensor, "trial layer step unit"]:
        """The last hidden layer of every unit."""
        h = t[None, None]
        for weight, bias in zip(self.hidden_weight, self.hidden_bias, strict=True):
            h = torch.relu(h @ weight + bias)
        return h

    def forward(self, t: Float[Tensor, "step varying"]) -> Float[Tensor, "trial step weight"]:
        features = self.features(t)
        rows = [
            torch.baddbmm(bias, features[:, k], weight)
            for k, (weight, bias) in enumerate(zip(self.out_weight, self.out_bias, strict=True))
        ]
        return torch.cat(rows, dim=-1)

    @torch.no_grad()
    def interpolate(
        self, t: Float[Tensor, "step varying"], weights: Float[Tensor, "step weight"]
    ) -> None:
        """Set the units of a one-trial module so that ``forward(t)`` is ``weights``.

        The first two layers pass t on; the third holds a kink for each t. With one varying column
        (ascending) each unit becomes the broken line through the given values, flat outside; with
        several, the smallest combination of kinks in random directions that goes through them.
        """
        n_varying = t.shape[1]
        for parameter in self.parameters():
            parameter.zero_()
        shift = 1 - t.amin(dim=0)  # keeps the passed-on t positive
        for weight in self.hidden_weight[:-1]:
            weight[..., range(n_varying), range(n_varying)] = 1
        self.hidden_bias[0][..., :n_varying] = shift
        directions, kinks, slopes, start = (
            _broken_line(t, weights)
            if n_varying == 1
            else _ridges(t, weights, self.out_weight[0].shape[1])
        )
        width = len(kinks)
        self.hidden_weight[-1][..., :n_varying, :width] = directions
        self.hidden_bias[-1][..., :width] = -(kinks + shift @ directions)
        sizes = [bias.shape[-1] for bias in self.out_bias]
        parts = zip(slopes.split(sizes, dim=1), start.split(sizes), strict=True)
        for k, (slope, value) in enumerate(parts):
            self.out_weight[k][0, :width] = slope
            self.out_bias[k][0, 0] = value


Kinks = tuple[Tensor, Tensor, Tensor, Tensor]  # directions, kinks, slopes, value without kinks


def _broken_line(t: Float[Tensor, "step 1"], weights: Float[Tensor, "step weight"]) -> Kinks:
    """The broken line through ``weights`` at ascending ``t``."""
    knots = t[:, 0]
    slopes = weights.diff(dim=0) / knots.diff()[:, None]
    flat = torch.zeros_like(weights[:1])
    bends = torch.cat([flat, slopes, flat]).diff(dim=0)
    return torch.ones_like(knots)[None], knots, bends, weights[0]


def _ridges(
    t: Float[Tensor, "step varying"], weights: Float[Tensor, "step weight"], n_kinks: int
) -> Kinks:
    """Kinks through given points in random directions, their slopes by least squares."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(t.shape[1], n_kinks, generator=generator, dtype=t.dtype)
    directions = directions / directions.norm(dim=0)
    through = torch.randint(len(t), (n_kinks,), generator=generator)
    kinks = (t[through] * directions.T).sum(-1)
    mean = weights.mean(dim=0)
    features = torch.relu(t @ directions - kinks)
    solution = torch.linalg.lstsq(features, weights - mean, rcond=1e-12, driver="gelsd").solution
    return directions, kinks, solution, mean
