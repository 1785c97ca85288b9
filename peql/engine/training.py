"""Training: the one-cycle schedules of the paper, the loss, and many trials as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from ..nn.network import SymbolicNetwork
from ..nn.weights import MetaWeights, StackedWeights

CHUNK = 64  # steps whose random numbers are drawn at once
ALPHA = 0.9  # of RMSProp, as in the authors' code


@dataclass(frozen=True)
class Schedule:
    """How long and how hard to train; the defaults of each model are in ``estimators``."""

    n_steps: int
    learning_rate: float
    gate_learning_rate: float
    l0_weight: float
    smoothness: float
    points: int
    steps_per_batch: int


PAPER = {
    "stacked": Schedule(34_800, 1e-2, 1e-2, 3e-3, 3e-6, points=16, steps_per_batch=2**31),
    "meta": Schedule(34_800, 1e-3, 1e-3, 3e-3, 0.0, points=64, steps_per_batch=64),
}
"""The paper's own training of SEQL and HEQL, with one rate for weights and gates and no refinement.

Steps and schedules are in its text; rates, weights and batches, which it does not give, are those
of the authors' public code (its smoothness is 1e-3 of the L0 weight).
"""
PAPER_THRESHOLD = 0.01  # of what is not refined, terms with smaller numbers are not printed


def learning_rate_factor(r: float) -> float:
    """The paper's one-cycle learning rate at progress ``r`` in [0, 1]: up to 5 at 5/12, then down.

    >>> learning_rate_factor(5 / 12), learning_rate_factor(0.9)
    (5.0, 0.0001)
    """
    return 5 - 9.9 * abs(1.2 * r - 0.5) if r <= 5 / 6 else 1e-4


def l0_factor(r: float) -> float:
    """The paper's L0 weight at progress ``r``: quadratic up to about 3.6, linearly back to 1.

    >>> l0_factor(0.0), l0_factor(1.0)
    (0.0, 1.0)
    """
    peak, end = 0.95 * 5 / 6, 5 / 6
    if r <= peak:
        return (2.4 * r) ** 2
    if r <= end:
        return 1 + ((2.4 * peak) ** 2 - 1) * (end - r) / (end - peak)
    return 1.0


@dataclass(frozen=True)
class Table:
    """Rows sorted into steps of t, in scaled units; short steps are padded with their own rows.

    ``x`` (step, row, feature), ``y`` (step, row, output), ``t`` (step, varying), ``count`` (step,)
    """

    x: Tensor
    y: Tensor
    t: Tensor
    count: Tensor

    @property
    def n_steps(self) -> int:
        return self.x.shape[0]


def batches(
    table: Table, schedule: Schedule, n_trials: int, n_weights: int, generator: torch.Generator
) -> Iterator[tuple[Tensor | None, Tensor, Tensor, Tensor]]:
    """Endless (steps, x, y, gate noise); every trial draws its own rows and noise."""
    n_steps = table.n_steps
    k = min(schedule.steps_per_batch, n_steps)
    device = table.x.device
    everything, steps = torch.arange(n_steps, device=device), None
    while True:
        noise = torch.rand(CHUNK, n_trials, n_weights, generator=generator).to(device)
        pick = torch.rand(CHUNK, n_trials, k, schedule.points, generator=generator).to(device)
        for i in range(CHUNK):
            if k < n_steps:
                steps = torch.randperm(n_steps, generator=generator)[:k].to(device)
            chosen = everything if steps is None else steps
            rows = (pick[i] * table.count[chosen, None]).long()
            index = (chosen[None, :, None], rows)
            yield steps, table.x[index], table.y[index], noise[i]


class Descent:
    """An optimiser of torch whose base rates are multiplied by a factor at every step."""

    def __init__(self, optimiser: torch.optim.Optimizer):
        self.optimiser = optimiser
        self.rates = [group["lr"] for group in optimiser.param_groups]

    def step(self, factor: float) -> None:
        """Move by the gradients, at ``factor`` times the base rates, and forget them."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimiser.step()
        self.optimiser.zero_grad()


def head_descent(network: SymbolicNetwork, rate: float, gate_rate: float) -> Descent:
    """RMSProp as in the paper, with rates of their own for weights and gates."""
    groups = [
        {"params": list(network.weights.parameters()), "lr": rate},
        {"params": list(network.gates.parameters()), "lr": gate_rate},
    ]
    return Descent(torch.optim.RMSprop(groups, alpha=ALPHA, eps=1e-8, foreach=True))


def smoothness_loss(weights: Float[Tensor, "trial step weight"]) -> Float[Tensor, " trial"]:
    """Squared differences between adjacent steps, summed."""
    return weights.diff(dim=1).square().sum(dim=(1, 2))


Watch = Callable[[int, SymbolicNetwork], None]


def train(
    network: SymbolicNetwork,
    table: Table,
    schedule: Schedule,
    generator: torch.Generator,
    progress: bool = False,
    watch: Watch | None = None,
) -> Float[Tensor, " trial"]:
    """Train all trials of ``network`` on ``table``; returns the last batch loss of each trial.

    A loss that is not finite in the end marks a trial that blew up: the caller restarts it.
    ``watch`` is called before each step with its number and the network, and once at the end.
    """
    network.train()
    optimiser = head_descent(network, schedule.learning_rate, schedule.gate_learning_rate)
    n_trials = network.gates.log_alpha.shape[0]
    source = batches(table, schedule, n_trials, network.n_weights, generator)
    meta = isinstance(network.weights, MetaWeights)
    smooth = isinstance(network.weights, StackedWeights) and schedule.smoothness > 0
    error = torch.zeros(n_trials)
    for step in tqdm(
        range(schedule.n_steps), desc="training", disable=None if progress else True, leave=False
    ):
        if watch:
            watch(step, network)
        r = step / schedule.n_steps
        steps, x, y, noise = next(source)
        if meta:
            steps = table.t if steps is None else table.t[steps]
        error = (network(x, steps, noise) - y).square().mean(dim=(1, 2, 3))
        penalty = schedule.l0_weight * network.gates.l0()
        if smooth:
            penalty = penalty + schedule.smoothness * smoothness_loss(network.weights())
        (error + l0_factor(r) * penalty).sum().backward()
        optimiser.step(learning_rate_factor(r))
    network.eval()
    if watch:
        watch(schedule.n_steps, network)
    return error.detach()
