"""Laws of the network: three sources of weights, one function."""

import pytest
import torch
from torch import nn

from peql.engine.formula import Formula
from peql.engine.training import l0_factor, learning_rate_factor, smoothness_loss
from peql.nn import SymbolicNetwork
from peql.nn.weights import HIDDEN, MetaWeights

KINDS = ["single", "stacked", "meta"]


def network(kind="single", n_trials=1, n_steps=5, seed=0, **options):
    torch.manual_seed(seed)
    net = SymbolicNetwork(2, weights=kind, n_steps=n_steps, n_trials=n_trials, **options)
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return net.double().eval()


def steps_of(kind, n_steps=5):
    return torch.linspace(-1, 1, n_steps, dtype=torch.float64)[:, None] if kind == "meta" else None


def test_stacked_with_equal_weights_is_single():
    single, stacked = network("single"), network("stacked")
    stacked.gates.log_alpha.data.copy_(single.gates.log_alpha)
    stacked.weights.value.data.copy_(single.weights.value.expand_as(stacked.weights.value))
    x = torch.randn(5, 16, 2, dtype=torch.float64)
    torch.testing.assert_close(stacked(x), single(x), rtol=1e-12, atol=1e-12)


def test_meta_with_constant_output_is_single():
    single, meta = network("single"), network("meta")
    meta.gates.log_alpha.data.copy_(single.gates.log_alpha)
    rows = single.weights.value.data[0].repeat(2, 1)
    meta.weights.interpolate(torch.tensor([[-1.0], [1.0]], dtype=torch.float64), rows)
    x = torch.randn(5, 16, 2, dtype=torch.float64)
    torch.testing.assert_close(meta(x, steps_of("meta")), single(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gates_are_shared_over_t(kind):
    net = network(kind)
    x = torch.randn(5, 16, 2, dtype=torch.float64)
    net.gates.log_alpha.data[:] = -100.0
    assert torch.equal(net(x, steps_of(kind)), torch.zeros(5, 16, 1, dtype=torch.float64))
    assert net.gates.log_alpha.shape == (1, net.n_weights)


@pytest.mark.parametrize("kind", KINDS)
def test_batched_trials_equal_separate_networks(kind):
    batch = network(kind, n_trials=3)
    x = torch.randn(3, 5, 16, 2, dtype=torch.float64)
    together = batch(x, steps_of(kind))
    for k in range(3):
        single = network(kind)
        single.load_state_dict({n: v[k : k + 1] for n, v in batch.state_dict().items()})
        alone = single(x[k], steps_of(kind))
        torch.testing.assert_close(together[k], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_formula_of_open_weights_is_the_dense_network(kind):
    net = network(kind)
    keep = torch.rand(1, net.n_weights) < 0.3
    net.gates.log_alpha.data[:] = torch.where(keep, 100.0, -100.0)
    x = torch.randn(5, 16, 2, dtype=torch.float64)
    weights = (net.weights(steps_of(kind)) * net.gates.expected()[:, None])[0].detach()
    weights = weights.expand(5, -1)
    opened = torch.nonzero(keep[0]).squeeze(-1).tolist()
    formula, flats = Formula.of_network(net.layout, net.shapes, opened)
    assert 0 < len(flats) <= int(keep.sum())
    columns = [weights[:, k, None] for k in flats]
    dense = net(x, steps_of(kind))[..., 0].detach()
    torch.testing.assert_close(formula(columns, x), dense, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_steps", [1, 2, 7, HIDDEN[-1]])
def test_meta_weights_interpolate_exactly(n_steps):
    torch.manual_seed(0)
    unit = MetaWeights(1, [4, 9]).double()
    t = torch.rand(n_steps, 1, dtype=torch.float64).sort(dim=0).values * 2 - 1
    rows = torch.randn(n_steps, 13, dtype=torch.float64)
    unit.interpolate(t, rows)
    torch.testing.assert_close(unit(t)[0], rows, rtol=0, atol=1e-8)


def test_meta_weights_are_a_broken_line_flat_outside():
    unit = MetaWeights(1, [1]).double()
    t = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    unit.interpolate(t, torch.tensor([[0.0], [2.0], [-2.0]], dtype=torch.float64))
    between = torch.tensor([[-5.0], [-0.5], [0.25], [5.0]], dtype=torch.float64)
    torch.testing.assert_close(
        unit(between).flatten(), torch.tensor([0.0, 1.0, 1.0, -2.0], dtype=torch.float64)
    )


def test_network_works_behind_an_encoder():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 2))
    decoder = SymbolicNetwork(2, n_outputs=3, weights="stacked", n_steps=4)
    model = nn.ModuleList([encoder, decoder])
    model.train()
    out = decoder(encoder(torch.randn(4, 16, 10)))
    assert out.shape == (4, 16, 3)
    out.square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all())
    assert any(bool(p.grad.abs().sum() > 0) for p in encoder.parameters())


def test_noise_is_used_in_training_only():
    net = network()
    x = torch.randn(5, 16, 2, dtype=torch.float64)
    noise = torch.rand(1, net.n_weights, dtype=torch.float64)
    assert torch.equal(net(x, None, noise), net(x))
    net.train()
    assert torch.equal(net(x, None, noise), net(x, None, noise))
    assert not torch.equal(net(x, None, noise), net(x, None, 1 - noise))


def test_wrong_sources_of_weights_are_explained():
    with pytest.raises(ValueError, match="expected 'single', 'stacked' or 'meta'"):
        SymbolicNetwork(1, weights="other")
    with pytest.raises(ValueError, match="needs n_steps"):
        SymbolicNetwork(1, weights="stacked")


def test_smoothness_is_the_sum_of_squared_steps():
    weights = torch.tensor([[[0.0, 1.0], [2.0, 1.0], [2.0, 4.0]]])
    assert smoothness_loss(weights).tolist() == [4.0 + 9.0]


@pytest.mark.parametrize(
    ("r", "factor"),
    [(0.0, 0.05), (5 / 24, 2.525), (5 / 12, 5.0), (5 / 6, 0.05), (0.84, 1e-4), (1.0, 1e-4)],
)
def test_learning_rate_at_the_papers_landmarks(r, factor):
    assert learning_rate_factor(r) == pytest.approx(factor)


PEAK = 0.95 * 5 / 6


@pytest.mark.parametrize(
    ("r", "factor"),
    [
        (0.0, 0.0),
        (5 / 12, 1.0),
        (PEAK, 3.61),
        ((PEAK + 5 / 6) / 2, (3.61 + 1) / 2),
        (5 / 6, 1.0),
        (1.0, 1.0),
    ],
)
def test_l0_weight_at_the_papers_landmarks(r, factor):
    assert l0_factor(r) == pytest.approx(factor)
