"""Laws of the refinement: exact data are solved exactly, and nothing spare stays."""

import numpy as np
import pytest
import torch

from peql.engine.formula import Formula
from peql.engine.moves import add_missing, as_trained, freeze_constant, freeze_doubtful, refine
from peql.engine.rows import arrange
from peql.engine.signs import settle_signs
from peql.engine.solver import Points, independent_share, jacobian, rescue, settle_constants, solve
from peql.equation import reading as symbolic
from peql.nn import SymbolicNetwork
from peql.nn.network import apply_layers

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


def refined(net, weights, points):
    kinds = [kind for kind, _ in net.layout.kinds]
    return refine(as_trained(net.layout, net.shapes, weights, points), points, kinds)


def read(fit):
    weights = fit.weights[..., 0].numpy()
    return symbolic.read(
        fit.formula, weights, ["x", "z"], ["t"], [1.0, 1.0], [0.0, 0.0], 1.0
    ), weights


def test_known_formula_is_solved_exactly():
    net, points = network(), points_of(truth)
    formula, flat = Formula.of_network(net.layout, net.shapes, list(TRUTH))
    start = near(net, TRUTH)[:, flat, None]
    fit = solve(formula, start, (False,) * len(flat), points)
    assert float(fit.error.max()) < 1e-26


def test_spare_weights_are_removed_and_constants_recognised():
    net, points = network(), points_of(truth)
    fit = refined(net, near(net, TRUTH), points)
    equation, weights = read(fit)
    assert str(equation.expression) == "x**2*a(t) + 0.5*z"
    np.testing.assert_allclose(equation.evaluate(weights)[:, 0], 2 * (T + 2), rtol=1e-10)
    assert float(fit.error.max()) < 1e-26
    assert any(fit.constant)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noise_keeps_no_spurious_terms(noise):
    net, points = network(), points_of(truth, n=400, noise=noise)
    equation, weights = read(refined(net, near(net, TRUTH), points))
    names = ["x", "z"]
    assert symbolic.structure(equation.expression, names) == symbolic.structure(
        symbolic.sympy.sympify("x**2 + z"), names
    )
    np.testing.assert_allclose(equation.evaluate(weights)[:, 0], 2 * (T + 2), atol=4 * noise)


def test_nothing_is_left_of_zero():
    net = network()
    points = points_of(lambda x, z, t: 0 * x)
    fit = refined(net, near(net, TRUTH), points)
    assert fit.formula.n_weights == 0 and float(fit.error.max()) == 0.0


def test_as_trained_changes_nothing():
    net, points = network(), points_of(truth)
    weights = near(net, TRUTH)
    fit = as_trained(net.layout, net.shapes, weights, points)
    value = apply_layers(net.layout, net.shapes, weights[None], points.x[None])[0, ..., 0]
    torch.testing.assert_close(fit.formula(points.spread(fit.weights), points.x), value)
    assert not any(fit.constant)


def test_formula_drops_weights_that_lead_nowhere():
    net = network()
    # 0 feeds identity, which the output does not read; 6 reads a square that nothing feeds.
    assert Formula.of_network(net.layout, net.shapes, [0, 6, 8])[1] == [8]


def test_formula_keeps_what_an_unfed_constant_gives():
    net = network()
    assert Formula.of_network(net.layout, net.shapes, [4])[1] == [4]


def test_jacobian_is_the_derivative():
    net, points = network(), points_of(truth, n=5)
    formula, _ = Formula.of_network(net.layout, net.shapes, range(net.n_weights))
    weights = near(net, TRUTH)[..., None]
    y, slopes = jacobian(formula, weights, points)
    for k in range(formula.n_weights):
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
    whole, part = (refined(net, near(net, TRUTH), p) for p in (points.thinned(40), padded))
    assert whole.formula == part.formula
    torch.testing.assert_close(whole.weights, part.weights, rtol=1e-9, atol=1e-12)


def test_constants_are_where_the_pooled_error_is_least():
    net, points = network(), points_of(truth, noise=0.05)
    formula, flats = Formula.of_network(net.layout, net.shapes, list(TRUTH))
    constant = tuple(flat == 8 for flat in flats)
    start = torch.from_numpy(np.stack([TRUTH[flat] for flat in flats], axis=1))[..., None]
    start[:, flats.index(8)] = 0.4
    settled = settle_constants(solve(formula, start, constant, points), points)
    value = settled.weights[0, flats.index(8), 0]
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
    fit = settle_signs(as_trained(net.layout, net.shapes, weights, points))
    fit = freeze_constant(fit, points)
    assert fit.constant == (False, True)
    assert float(fit.error.max()) < 1e-26


def along_a_curve(error, seed, n=400):
    """Rows of the truth, with an error, on a curve through (x, z) as a field's are at one t."""
    random = np.random.default_rng(seed)
    s = np.linspace(0, 2 * np.pi, n, endpoint=False)[None] + np.zeros((N_STEPS, 1))
    turn = random.uniform(0, 2 * np.pi, (2, N_STEPS, 1))
    x = np.stack([np.cos(s + turn[0]), np.sin(2 * s + turn[1])], axis=-1)
    y = truth(x[..., 0], x[..., 1], T[:, None]) + error(random, s, x)
    ones = torch.ones(N_STEPS, n, dtype=torch.float64)
    return Points(torch.from_numpy(x), torch.from_numpy(y), ones, ones[..., None])


def smooth_error(random, s, x):
    waves = range(1, 7)
    return 0.01 * sum(np.sin(k * s + random.uniform(0, 7, (N_STEPS, 1))) for k in waves)


def noise_that_hides_a_variation(random, s, x):
    return 0.01 * T[:, None] * x[..., 1] + 0.02 * random.standard_normal(s.shape)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("error", "constant"), [(smooth_error, True), (noise_that_hides_a_variation, False)]
)
def test_a_smooth_error_is_no_coefficient_that_varies(error, constant, seed):
    """Neighbours that say the same are one witness; where the rest is noise each row is one."""
    net, points = network(), along_a_curve(error, seed)
    formula, flats = Formula.of_network(net.layout, net.shapes, list(TRUTH))
    start = torch.from_numpy(np.stack([TRUTH[flat] for flat in flats], axis=1))[..., None]
    fit = freeze_doubtful(solve(formula, start, (False,) * len(flats), points), points)
    assert fit.constant[flats.index(8)] == constant


def test_residuals_of_noise_count_one_by_one_and_smooth_ones_together():
    formula = Formula(2, (), ((0, 1),))
    shares = {}
    for name, noise in (("smooth", 0.0), ("noise", 1.0)):
        points = points_of(lambda x, z, t: z + np.sin(2 * x + t), n=200, noise=noise)
        start = torch.ones(N_STEPS, 1, 1, dtype=torch.float64)
        shares[name] = independent_share(solve(formula, start, (False,), points), points)
    assert shares["smooth"] < 0.05 and shares["noise"] > 0.3


def test_a_missing_weight_is_found():
    net, points = network(), points_of(truth)
    weights = near(net, TRUTH, spare=0.0)
    weights[:, 8] = 0.0
    kinds = [kind for kind, _ in net.layout.kinds]
    fit = add_missing(as_trained(net.layout, net.shapes, weights, points), points, kinds)
    assert float(fit.error.max()) < 1e-20


def test_a_product_that_training_never_formed_is_found():
    net = SymbolicNetwork(2)
    points = points_of(lambda x, z, t: (t + 2) * x * z - 0.5 * z)
    weights = torch.zeros(N_STEPS, net.n_weights, dtype=torch.float64)
    weights[:, -2] = 1.0  # the output is x
    fit = refined(net, weights, points)
    assert str(read(fit)[0].expression) == "x*z*a(t) - 0.5*z"
    assert float(fit.error.max()) < 1e-26


def test_fewer_rows_than_weights_are_not_fitted_by_all_of_them():
    net, points = network(), points_of(truth, n=7, noise=0.02)
    equation, _ = read(refined(net, near(net, TRUTH), points))
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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "turns"),  # weights that may be turned together: 0 to 3 inside, the last outside
    [
        ("sin", [(0, 1, -1)]),
        ("tanh", [(0, 1, -1)]),
        ("cos", [(0, 1)]),
        ("square", [(0, 1)]),
        ("reciprocal", [(0, 1, -1)]),
        ("product", [(0, 1, -1), (2, 3, -1), (0, 1, 2, 3)]),
    ],
)
def test_no_sign_that_a_primitive_leaves_open_is_read(name, turns, seed):
    random = np.random.default_rng(seed)
    net = SymbolicNetwork(2, primitives=[name], n_layers=1)
    inside = 2 * net.layout.n_in
    weights = np.zeros((N_STEPS, net.n_weights))
    weights[:, : inside + 1] = random.uniform(0.3, 1, inside + 1)
    weights[:, 0] += 0.2 * T  # one varies, the amplitude does not
    turned = weights.copy()
    for turn in turns:
        columns = [inside if k < 0 else k for k in turn]
        turned[:, columns] *= random.choice([-1.0, 1.0], N_STEPS)[:, None]
    points, found = points_of(truth, n=9), []
    for values in (weights, turned):
        fit = as_trained(net.layout, net.shapes, torch.from_numpy(values), points)
        equation, solved = read(settle_signs(fit))
        found.append((equation.expression, equation.evaluate(solved)))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_a_formula_can_be_placed_in_a_network(seed):
    random = np.random.default_rng(seed)
    net = SymbolicNetwork(2)
    open_weights = np.flatnonzero(random.random(net.n_weights) < 0.1)
    formula, _ = Formula.of_network(net.layout, net.shapes, open_weights.tolist())
    place = formula.placed()
    other = SymbolicNetwork(2, primitives=place.primitives, n_layers=place.n_layers)
    again, kept = Formula.of_network(other.layout, other.shapes, place.weights)
    assert sorted(place.weights) == kept and again.n_weights == formula.n_weights
    values = torch.from_numpy(random.normal(size=formula.n_weights))
    full = place.full(values[None], other.n_weights)[None]
    x = torch.from_numpy(random.uniform(-1, 1, (1, 7, 2)))
    through = apply_layers(other.layout, other.shapes, full, x[None])[0, ..., 0]
    torch.testing.assert_close(through, formula(list(values), x))


def test_what_is_drawn_does_not_hang_on_rounding():
    """On both sides of a wave u is the same but for rounding, and its slope is not."""
    random = np.random.default_rng(0)
    s = np.tile(np.linspace(-8, 8, 256), 4)
    x = np.stack([-2 * s * np.exp(-(s**2)), np.exp(-(s**2))], axis=1)
    t, y = np.repeat(np.arange(4.0), 256)[:, None], x @ [1.0, 2.0]
    drawn = []
    for _ in range(2):
        noise = 1e-16 * random.standard_normal((len(y), 3))
        shuffle = random.permutation(len(y))
        given = (x + noise[:, :2])[shuffle], t[shuffle], (y + noise[:, 2])[shuffle]
        seeded = np.random.default_rng(1)
        drawn.append(arrange(*given, validation_fraction=0.1, pool_below=4, random=seeded))
    for part in ("points", "held_out"):
        one, other = (getattr(each, part) for each in drawn)
        torch.testing.assert_close(one.x, other.x, rtol=0, atol=1e-8)
        torch.testing.assert_close(one.y, other.y, rtol=0, atol=1e-8)
