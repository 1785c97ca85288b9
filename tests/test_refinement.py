"""Laws of the refinement: exact data are solved exactly, and nothing spare stays."""

import numpy as np
import pytest
import torch

from peql import symbolic
from peql.formula import Formula
from peql.nn import SymbolicNetwork
from peql.refinement import (
    EVIDENCE,
    Points,
    add_missing,
    as_trained,
    freeze_constant,
    independent_rows,
    jacobian,
    refine,
    rescue,
    settle_constants,
    solve,
)

N_STEPS = 6
T = np.linspace(-1, 1, N_STEPS)


def points_of(function, n=80, noise=0.0, seed=0):
    """Rows y = function(x, t), two features in [-1, 1], at every step."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (N_STEPS, n, 2))
    y = function(x[..., 0], x[..., 1], T[:, None])
    y = y + noise * y.std() * random.standard_normal(y.shape)
    ones = torch.ones(N_STEPS, n, dtype=torch.float64)
    return Points(torch.from_numpy(x), torch.from_numpy(y), ones, ones[..., None])


def network():
    return SymbolicNetwork(2, primitives=["one", "identity", "square"], n_layers=1)


def near(net, truth, seed=0, spare=0.05):
    """Weights (step, weight) with ``truth`` (flat index → values over t) and small spare ones."""
    random = np.random.default_rng(seed)
    weights = spare * random.standard_normal((N_STEPS, net.n_weights))
    for index, values in truth.items():
        weights[:, index] = values + 0.1 * random.standard_normal(N_STEPS)
    return torch.from_numpy(weights)


# The network is identity(w0 x + w1 z), square(w2 x + w3 z); the output adds up one, identity,
# square, x and z with the weights 4 to 8. The truth below is 2 (t + 2) x² + 0.5 z.
TRUTH = {2: np.ones(N_STEPS), 6: 2 * (T + 2), 8: np.full(N_STEPS, 0.5)}


def truth(x, z, t):
    return 2 * (t + 2) * x**2 + 0.5 * z


def read(fit):
    weights = fit.weights[..., 0].numpy()
    return symbolic.read(fit.formula, weights, ["x", "z"], ["t"], [1.0, 1.0], 1.0), weights


def test_known_formula_is_solved_exactly():
    net, points = network(), points_of(truth)
    formula = Formula(net.layout, net.shapes, list(TRUTH))
    start = near(net, TRUTH)[:, list(formula.open), None]
    fit = solve(formula, start, (False,) * len(formula.open), points)
    assert float(fit.error.max()) < 1e-26


def test_spare_weights_are_removed_and_constants_recognised():
    net, points = network(), points_of(truth)
    fit = refine(net.layout, net.shapes, near(net, TRUTH), points)
    equation, weights = read(fit)
    assert str(equation.expression) == "x**2*a(t) + 0.5*z"
    np.testing.assert_allclose(equation.evaluate(weights)[:, 0], 2 * (T + 2), rtol=1e-10)
    assert float(fit.error.max()) < 1e-26
    assert any(fit.constant)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noise_keeps_no_spurious_terms(noise):
    net, points = network(), points_of(truth, n=400, noise=noise)
    equation, weights = read(refine(net.layout, net.shapes, near(net, TRUTH), points))
    names = ["x", "z"]
    assert symbolic.structure(equation.expression, names) == symbolic.structure(
        symbolic.sympy.sympify("x**2 + z"), names
    )
    np.testing.assert_allclose(equation.evaluate(weights)[:, 0], 2 * (T + 2), atol=4 * noise)


def test_nothing_is_left_of_zero():
    net = network()
    points = points_of(lambda x, z, t: 0 * x)
    fit = refine(net.layout, net.shapes, near(net, TRUTH), points)
    assert fit.formula.open == () and float(fit.error.max()) == 0.0


def test_as_trained_changes_nothing():
    net, points = network(), points_of(truth)
    weights = near(net, TRUTH)
    fit = as_trained(net.layout, net.shapes, weights, points)
    assert torch.equal(fit.weights[..., 0], weights[:, list(fit.formula.open)])
    assert not any(fit.constant)


def test_formula_drops_weights_that_lead_nowhere():
    net = network()
    # 0 feeds identity, which the output does not read; 6 reads a square that nothing feeds.
    formula = Formula(net.layout, net.shapes, [0, 6, 8])
    assert formula.open == (8,)


def test_formula_keeps_what_an_unfed_constant_gives():
    net = network()
    assert Formula(net.layout, net.shapes, [4]).open == (4,)


def test_jacobian_is_the_derivative():
    net, points = network(), points_of(truth, n=5)
    formula = Formula(net.layout, net.shapes, range(net.n_weights))
    weights = near(net, TRUTH)[..., None]
    y, slopes = jacobian(formula, weights, points)
    for k in range(len(formula.open)):
        step = torch.zeros_like(weights)
        step[:, k] = 1e-6
        up, down = (formula(points.spread(w), points.x) for w in (weights + step, weights - step))
        torch.testing.assert_close(slopes[..., k, 0], (up - down) / 2e-6, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(y, formula(points.spread(weights), points.x))


def test_padding_has_no_part_in_the_fit():
    points = points_of(truth)
    y, mask = points.y.clone(), points.mask.clone()
    y[:, 40:], mask[:, 40:] = 1e6, 0.0
    padded = Points(points.x, y, mask, points.basis)
    net = network()
    whole, part = (
        refine(net.layout, net.shapes, near(net, TRUTH), p) for p in (points.thinned(40), padded)
    )
    assert whole.formula.open == part.formula.open
    torch.testing.assert_close(whole.weights, part.weights, rtol=1e-9, atol=1e-12)


def test_constants_are_where_the_pooled_error_is_least():
    net, points = network(), points_of(truth, noise=0.05)
    formula = Formula(net.layout, net.shapes, list(TRUTH))
    constant = tuple(flat == 8 for flat in formula.open)
    start = torch.from_numpy(np.stack([TRUTH[flat] for flat in formula.open], axis=1))[..., None]
    start[:, formula.open.index(8)] = 0.4
    settled = settle_constants(solve(formula, start, constant, points), points)
    value = settled.weights[0, formula.open.index(8), 0]
    # The problem is linear in these: z with one number for all steps, x² with one for each.
    square = torch.block_diag(*points.x[..., :1].square())
    design = torch.cat([points.x[..., 1].reshape(-1, 1), square], dim=1)
    best = torch.linalg.lstsq(design, points.y.reshape(-1, 1)).solution[0, 0]
    torch.testing.assert_close(value, best, rtol=1e-3, atol=0)


def test_a_sign_that_two_weights_share_is_settled():
    net = SymbolicNetwork(2, primitives=["sin"], n_layers=1)
    points = points_of(lambda x, z, t: np.sin(4 * np.pi * (0.1 + 0.05 * t) * x))
    sign = np.where(np.arange(N_STEPS) % 2, -1.0, 1.0)
    weights = torch.zeros(N_STEPS, net.n_weights, dtype=torch.float64)
    weights[:, 0] = torch.from_numpy(sign * (0.1 + 0.05 * T))
    weights[:, 2] = torch.from_numpy(sign)
    fit = freeze_constant(as_trained(net.layout, net.shapes, weights, points), points)
    assert fit.constant == (False, True)
    assert float(fit.error.max()) < 1e-26


def test_a_missing_weight_is_found():
    net, points = network(), points_of(truth)
    weights = near(net, TRUTH, spare=0.0)
    weights[:, 8] = 0.0
    fit = add_missing(as_trained(net.layout, net.shapes, weights, points), points)
    assert float(fit.error.max()) < 1e-20


def test_a_product_that_training_never_formed_is_found():
    net = SymbolicNetwork(2)
    points = points_of(lambda x, z, t: (t + 2) * x * z - 0.5 * z)
    weights = torch.zeros(N_STEPS, net.n_weights, dtype=torch.float64)
    weights[:, -2] = 1.0  # the output is x
    fit = refine(net.layout, net.shapes, weights, points)
    assert str(read(fit)[0].expression) == "x*z*a(t) - 0.5*z"
    assert float(fit.error.max()) < 1e-26


def test_rows_with_a_smooth_residual_count_for_less():
    net, random = network(), np.random.default_rng(1)
    weights = near(net, TRUTH, spare=0.0)
    for index, values in TRUTH.items():
        weights[:, index] = torch.from_numpy(values)

    def rows(rest):
        points = points_of(lambda x, z, t: truth(x, z, t) + 0.01 * rest(x, z))
        return independent_rows(as_trained(net.layout, net.shapes, weights, points), points)

    least, most = EVIDENCE
    assert rows(lambda x, z: random.standard_normal(x.shape)) == most
    assert rows(lambda x, z: x + z) < least + 0.2  # neighbours tell each other's
    assert rows(lambda x, z: random.standard_normal(x.shape) * (x > 0.95)) < most  # few are large
    assert rows(lambda x, z: 100 * (x + z)) == most  # no error: a term is lacking


def test_a_smooth_error_keeps_no_spurious_term():
    """A term that halves the error is kept where the rest is noise, and not where it is smooth."""
    net = network()
    random = np.random.default_rng(2)
    kept = {}
    for kind, rest in {
        "noise": lambda z: random.standard_normal(z.shape),
        "smooth": lambda z: np.sqrt(2) * np.cos(np.pi * z),
    }.items():
        points = points_of(lambda x, z, t: truth(x, z, t) + 1e-3 * (x + 0.55 * rest(z)))  # noqa: B023
        weights = near(net, {**TRUTH, 7: np.zeros(N_STEPS)}, spare=0.0)
        fit = refine(net.layout, net.shapes, weights, points)
        kept[kind] = len(read(fit)[0].expression.args)
    assert kept == {"noise": 3, "smooth": 2}


def test_spare_units_lead_from_features_to_the_output():
    net = SymbolicNetwork(2)
    points = points_of(truth, n=5)
    for primitive, features, flats in Formula(net.layout, net.shapes, []).spare_units():
        formula = Formula(net.layout, net.shapes, flats)
        assert formula.open == tuple(sorted(flats))
        weights = [torch.ones_like(points.y)] * len(flats)
        arguments = [points.x[..., feature] for feature in features]
        torch.testing.assert_close(formula(weights, points.x), primitive.torch(*arguments))


def test_fewer_rows_than_weights_are_not_fitted_by_all_of_them():
    net, points = network(), points_of(truth, n=7, noise=0.02)
    equation, _ = read(refine(net.layout, net.shapes, near(net, TRUTH), points))
    terms = symbolic.structure(symbolic.sympy.sympify("x**2 + z"), ["x", "z"])
    assert symbolic.structure(equation.expression, ["x", "z"]) == terms


def test_a_term_may_vanish_at_one_t():
    """w² v → 0 is a triple root, towards which Newton's steps creep; v alone goes there at once."""
    net = SymbolicNetwork(2, primitives=["square"], n_layers=1)
    value = np.where(np.arange(N_STEPS) == 2, 0.0, 2.0)
    points = points_of(lambda x, z, t: value[:, None] * x**2)
    weights = torch.zeros(N_STEPS, net.n_weights, dtype=torch.float64)
    weights[:, 0], weights[:, 2] = 1.0, torch.from_numpy(value)
    weights[2, [0, 2]] = 0.03  # crept up to here
    fit = rescue(as_trained(net.layout, net.shapes, weights, points), points, points.floor)
    assert float(fit.error.max()) < 1e-26
    assert fit.weights[2, 0, 0] == 1.0


def test_a_sine_does_not_stand_for_a_straight_line():
    net = SymbolicNetwork(2, primitives=["sin"], n_layers=1)
    points = points_of(lambda x, z, t: (t + 2) * x + 1e-4 * np.cos(np.pi * z))
    weights = torch.zeros(N_STEPS, net.n_weights, dtype=torch.float64)
    weights[:, 0] = 1e-3
    weights[:, 2] = torch.from_numpy((T + 2) / (4 * np.pi * 1e-3))
    fit = refine(net.layout, net.shapes, weights, points)
    assert str(read(fit)[0].expression) == "x*a(t)"
