"""Laws of the hard-concrete gate."""

import math

import pytest
import torch

from peql.nn.gates import HardConcreteGates


def gates_at(*log_alpha):
    gates = HardConcreteGates(1, len(log_alpha))
    gates.log_alpha.data[:] = torch.tensor([log_alpha])
    return gates


def test_samples_lie_between_closed_and_open():
    gates = gates_at(*torch.linspace(-8, 8, 50).tolist())
    z = gates.sample(torch.rand(1, 50))
    assert bool((z >= 0).all()) and bool((z <= 1).all())


@pytest.mark.parametrize("u", [0.0, 0.5, 1.0])
def test_extreme_gates_are_exact(u):
    z = gates_at(-100.0, 100.0).sample(torch.full((1, 2), u))
    assert z.tolist() == [[0.0, 1.0]]
    assert gates_at(-100.0, 100.0).expected().tolist() == [[0.0, 1.0]]


def test_expected_l0_is_the_chance_to_be_open():
    torch.manual_seed(0)
    values = [-3.0, -1.0, 0.0, 1.5, 4.0]
    for value in values:
        z = gates_at(*[value] * 100_000).sample(torch.rand(1, 100_000))
        chance = gates_at(value).l0().item()
        assert (z > 0).double().mean().item() == pytest.approx(chance, abs=0.006)


def test_l0_is_the_papers_formula():
    values = [-2.0, 0.3, 5.0]
    formula = sum(1 / (1 + math.exp(-(v - 2 / 3 * math.log(0.1 / 1.1)))) for v in values)
    assert gates_at(*values).l0().item() == pytest.approx(formula, rel=1e-6)


def test_l0_counts_each_trial():
    gates = HardConcreteGates(3, 10)
    gates.log_alpha.data[1] = -100.0
    gates.log_alpha.data[2] = 100.0
    assert gates.l0()[1:].tolist() == pytest.approx([0.0, 10.0])


def test_gradients_reach_gates_that_are_neither_open_nor_closed():
    gates = gates_at(0.0)
    gates.sample(torch.tensor([[0.5]])).sum().backward()
    assert float(gates.log_alpha.grad) > 0
