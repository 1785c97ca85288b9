"""The hard-concrete gate of Louizos et al.: a differentiable chance to be exactly zero."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1


class HardConcreteGates(nn.Module):
    """Gates for ``n_weights`` weights in each of ``n_trials`` networks, shared by all steps t.

    >>> gates = HardConcreteGates(n_trials=1, n_weights=3)
    >>> gates.expected().shape, bool((gates.l0() <= 3).all())
    (torch.Size([1, 3]), True)
    """

    def __init__(self, n_trials: int, n_weights: int):
        super().__init__()
        self.log_alpha = nn.Parameter(torch.zeros(n_trials, n_weights))

    def sample(self, u: Float[Tensor, "trial weight"]) -> Float[Tensor, "trial weight"]:
        """The gates for uniform noise ``u`` in (0, 1)."""
        s = torch.sigmoid((torch.logit(u, eps=1e-6) + self.log_alpha) / BETA)
        return (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)

    def expected(self) -> Float[Tensor, "trial weight"]:
        """The gates without noise, as used after training; an exact 0 is a pruned weight."""
        return (torch.sigmoid(self.log_alpha) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)

    def l0(self) -> Float[Tensor, " trial"]:
        """The expected number of open gates."""
        return torch.sigmoid(self.log_alpha - BETA * math.log(-GAMMA / ZETA)).sum(-1)
