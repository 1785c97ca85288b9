"""The experiments on what the paper suggests for future work.

Its suggestions are separate learning rates for the gates and the meta-weight unit (which is how
``peql`` trains HEQL), weights of lower rank, other primitives and what smoothness does. It also
says that the number of duplicates of a primitive hardly matters, which is tried here too. How few
data are enough is a sweep of its own, ``benchmarks/tasks/robustness.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import sympy
import torch
from jaxtyping import Float
from torch import Tensor

from ..analysis.comparison import has_true_terms, scaled_mse
from ..datasets import Dataset, analytic
from ..estimators import tabular
from ..nn.network import SymbolicNetwork
from ..nn.weights import INITIAL_SD, MetaWeights
from ..primitives import DEFAULT, Primitive
from . import protocol

SHORT = {"n_steps": 1500, "points": 32}  # of a training that is only compared with its like
NOISE = 0.3  # of y, in its standard deviations, where smoothness is tried


class LowRankMetaWeights(MetaWeights):
    """Meta-weight units that make each matrix as a product of two thin ones.

    A matrix that would not become smaller is made as it is.
    """

    def __init__(self, n_trials: int, shapes: list[tuple[int, int]], rank: int):
        self.shapes, self.rank = shapes, rank
        sizes = [rank * (i + o) if self._thin(i, o) else i * o for i, o in shapes]
        super().__init__(n_trials, sizes)
        factor_sd = (INITIAL_SD / rank**0.5) ** 0.5  # a product then has the usual size
        for bias, (i, o) in zip(self.out_bias, shapes, strict=True):
            if self._thin(i, o):
                bias.data *= factor_sd / INITIAL_SD

    def _thin(self, n_in: int, n_out: int) -> bool:
        return self.rank * (n_in + n_out) < n_in * n_out

    def forward(self, t: Float[Tensor, "step varying"]) -> Float[Tensor, "trial step weight"]:
        """The weights at ``t``, multiplied out."""
        made = super().forward(t).split([b.shape[-1] for b in self.out_bias], dim=-1)
        return torch.cat([self._product(m, *s) for m, s in zip(made, self.shapes, strict=True)], -1)

    def _product(self, made: Tensor, n_in: int, n_out: int) -> Tensor:
        if not self._thin(n_in, n_out):
            return made
        left, right = made.split([n_out * self.rank, self.rank * n_in], dim=-1)
        return (left.unflatten(-1, (n_out, -1)) @ right.unflatten(-1, (-1, n_in))).flatten(-2)


def n_parameters(network: SymbolicNetwork) -> int:
    """The trainable numbers of a network."""
    return sum(p.numel() for p in network.parameters())


def low_rank(network: SymbolicNetwork, rank: int) -> None:
    """Give an HEQL network meta-weight units of lower rank."""
    network.weights = LowRankMetaWeights(1, network.shapes, rank)


# --- primitives -----------------------------------------------------------------------------

SNAKE = Primitive(
    "snake",
    lambda g: g + torch.sin(2 * torch.pi * g) ** 2 / (2 * torch.pi),
    lambda g: g + sympy.sin(2 * sympy.pi * g) ** 2 / (2 * sympy.pi),
)
PADE = Primitive("pade", lambda g: g / (1 + g * g), lambda g: g / (1 + g**2))
NALU = Primitive(  # a quotient in the manner of NALU: by logarithms of magnitudes
    "nalu",
    lambda g1, g2: torch.exp(torch.log(g1.abs() + 1e-3) - torch.log(g2.abs() + 1e-3)),
    lambda g1, g2: (sympy.Abs(g1) + 0.001) / (sympy.Abs(g2) + 0.001),
    arity=2,
)
PRIMITIVES: dict[str, dict[Any, int]] = {
    "the paper's": dict(DEFAULT),
    "Snake for sin": {SNAKE if name == "sin" else name: n for name, n in DEFAULT.items()},
    "with Padé": {**DEFAULT, PADE: 2},
    "with NALU": {**DEFAULT, NALU: 2},
}

DUPLICATES: dict[str, dict[Any, int]] = {  # of each primitive
    "one of each": dict.fromkeys(DEFAULT, 1),
    "the paper's": dict(DEFAULT),
    "twice the paper's": {name: 2 * n for name, n in DEFAULT.items()},
}


def rational(seed: int, n_t: int = 16, n_train: int = 128) -> Dataset:
    """y = a(t) x / (1 + x²), which no finite sum of the paper's primitives is."""
    data = analytic.make_analytic("f3", n_t=n_t, n_train=n_train, random_state=seed)
    x, t = sympy.symbols("x t")
    return replace(
        data,
        name="rational",
        y_train=data.y_train / (1 + data.X_train["x"] ** 2),
        y_test=data.y_test / (1 + data.X_test["x"] ** 2),
        equation=sympy.Function("a")(t) * x / (1 + x**2),
    )


# --- one run of each experiment ----------------------------------------------------------------


def tasks(seeds: int = 5) -> Iterator[dict[str, Any]]:
    """All runs: the experiment, model, function, what is varied and its value, and the seed."""
    five, two = ("f1", "f2", "f3", "f4", "f5"), ("f1", "f5")
    experiments: list[tuple[str, str, tuple[str, ...], Iterable[str]]] = [
        ("rates", "HEQL", five, ("one", "separate")),
        ("rank", "HEQL", two, ("1", "2", "4", "full")),
        ("primitives", "SEQL", (*two, "rational"), PRIMITIVES),
        ("duplicates", "SEQL", two, DUPLICATES),
        ("smoothness", "SEQL", two, ("0", "1e-6", "1e-4", "1e-2", "1")),
    ]
    for seed, (experiment, model, functions, values) in product(range(seeds), experiments):
        for function, value in product(functions, values):
            task = {"experiment": experiment, "model": model, "function": function}
            yield {**task, "value": value, "seed": seed}


def run(experiment: str, model: str, function: str, value: str, seed: int) -> dict[str, Any]:
    """One run; what it measures depends on the experiment, the rest is NaN."""
    if experiment in ("rates", "rank", "smoothness"):
        return _trained(experiment, model, function, value, seed)
    return _found(experiment, model, function, value, seed)


def _trained(experiment: str, model: str, function: str, value: str, seed: int) -> dict[str, Any]:
    """A short training by the paper's protocol, without refinement."""
    data = analytic.make_analytic(function, random_state=seed)
    changes: dict[str, Any] = dict(SHORT) if model == "HEQL" else {"n_steps": SHORT["n_steps"]}
    if experiment != "rates" or value == "separate":
        changes["gate_learning_rate"] = 1e-2
    if experiment == "smoothness":
        changes["smoothness"] = float(value)
        spread = NOISE * float(data.y_train.std())
        noise = np.random.default_rng(seed).normal(scale=spread, size=len(data.y_train))
        data = replace(data, y_train=data.y_train + noise)
    lower = experiment == "rank" and value != "full"
    prepare = (lambda network: low_rank(network, int(value))) if lower else None
    fitted = protocol.fit(model, data, seed, n_watched=1, prepare=prepare, **changes)
    error = protocol.predict(fitted, data.X_test) - data.y_test.to_numpy()
    return {
        "true_terms": np.nan,  # what so short a training leaves is not read
        "gates": int((fitted.network.gates.expected() > 0).sum()),
        "parameters": n_parameters(fitted.network),
        "test_mse_scaled": scaled_mse(data, data.X_test, error),
        "jump": protocol.jump(fitted) if function == "f1" else np.nan,
    }


def _found(experiment: str, model: str, function: str, value: str, seed: int) -> dict[str, Any]:
    """The whole method, training and refinement, on small data."""
    size = {"n_t": 16, "n_train": 128}
    if function == "rational":
        data = rational(seed, **size)
    else:
        data = analytic.make_analytic(function, random_state=seed, **size)
    chosen = (PRIMITIVES if experiment == "primitives" else DUPLICATES)[value]
    # The training is what is tried, not the search over forms, which needs no network.
    options: dict[str, Any] = {"method": "network", "primitives": chosen, "verbose": False}
    options |= {"varying": "t", "random_state": seed}
    fitted = getattr(tabular, model)(**options).fit(data.X_train, data.y_train)
    error = fitted.predict(data.X_test) - data.y_test.to_numpy()
    found = fitted.equation_
    return {
        "true_terms": has_true_terms(
            sympy.cancel(found) if function == "rational" else found, data
        ),
        "equation": str(found),
        "test_mse_scaled": scaled_mse(data, data.X_test, error),
    }
