"""What holds for the spring data and for equations behind an encoder."""

import numpy as np
import pandas as pd
import pytest
import sympy
import torch
from sklearn.base import clone
from torch import nn

import peql
from peql.baselines import EncodedReLU
from peql.chapters import springs
from peql.datasets import load
from peql.datasets.spring import HALF_WIDTH, PIXELS, TARGETS, draw_images, stiffness
from peql.estimators.encoded import HALF, EncodedHEQL, EncodedSEQL, LinearMap, Rows

SMALL = {"n_t": 8, "n_train": 128, "n_test": 32}
QUICK = {
    "primitives": ["identity"],
    "n_layers": 1,
    "max_iter": 400,
    "polish_iter": 100,
    "random_state": 0,
}
# Where what is found does not matter, only that it is the same, or that it is there.
HASTY = QUICK | {"max_iter": 3, "polish_iter": 2}


@pytest.fixture(scope="module")
def force():
    return load("spring_force", **SMALL)


def fit(model, data):
    return model.fit(data.images_train, data.X_train["t"], data.y_train)


def dense():
    """An encoder that trains quickly; dense layers cost a fifth of convolutions."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 1))


@pytest.fixture(scope="module")
def seql(force):
    return fit(EncodedSEQL(encoder=dense(), **QUICK), force)


@pytest.fixture(scope="module")
def heql(force):
    return fit(EncodedHEQL(encoder=dense(), **QUICK), force)


@pytest.fixture(scope="module", params=["seql", "heql"])
def fitted(request):
    return request.getfixturevalue(request.param)


# --- the data --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_true_equation_holds_on_the_data(name):
    data = load(name, **SMALL)
    symbols = {c: data.X_test[c].to_numpy() for c in data.X_test}
    k = sympy.Function("k")(sympy.Symbol("t"))
    equation = data.equation.subs(k, sympy.Symbol("k"))
    values = sympy.lambdify(["k", *symbols], equation)(stiffness(symbols["t"]), *symbols.values())
    assert np.allclose(values, data.y_test)
    assert np.allclose(data.coefficients["k"], stiffness(data.coefficients.index))


def test_training_pairs_are_near_and_some_test_pairs_are_not():
    data = load("spring_energy")
    assert data.images_train.shape == (128 * 512, 2, 64)
    assert data.images_train.dtype == np.float32
    apart = (data.X_train["psi2"] - data.X_train["psi1"]).abs()
    assert 3.9 < apart.max() <= 4
    # Two of nine of the square |psi| < 3 by halves: (1/3)² of it is farther apart than 4.
    assert springs.extrapolated(data.X_test).mean() == pytest.approx(1 / 9, abs=0.01)
    assert data.X_train[["psi1", "psi2"]].abs().max().max() <= 3


def test_an_image_has_its_light_at_the_position():
    psi = np.linspace(-3, 3, 101)
    light = draw_images(psi).astype(float)
    pixels = np.linspace(-HALF_WIDTH, HALF_WIDTH, PIXELS)
    centre = light @ pixels / light.sum(axis=1)
    spread = np.sqrt((light * (pixels - psi[:, None]) ** 2).sum(axis=1) / light.sum(axis=1))
    assert np.allclose(centre, psi, atol=1e-4)
    assert np.allclose(spread, 0.1, atol=1e-3)  # standard deviation, not variance


def test_a_seed_draws_the_same_data(force):
    again, other = load("spring_force", **SMALL), load("spring_force", random_state=1, **SMALL)
    assert np.array_equal(force.images_test, again.images_test)
    assert not np.array_equal(force.images_test, other.images_test)


def test_a_width_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="sd=0"):
        load("spring_force", sd=0, **SMALL)


# --- the equation ----------------------------------------------------------------------------


def test_the_force_is_found_and_the_latent_variable_is_the_position(fitted, force):
    assert springs.right_terms(fitted, force)
    assert abs(springs.line(fitted, force).r) > 0.999
    assert springs.stiffness_error(fitted, force) < 0.05
    inside, outside = springs.errors_of(fitted, force)
    assert inside < 1e-4 and outside < 1e-3


def test_the_two_torch_modules_together_predict(fitted, force):
    images = torch.from_numpy(force.images_test)
    t = force.X_test["t"].to_numpy()
    with torch.no_grad():
        z = HALF * fitted.latent_network_(images).double()[:, None]
        solution = fitted.solution_
        steps = torch.from_numpy(np.searchsorted(solution.t[:, 0], t))
        if solution.source == "meta":
            steps = torch.from_numpy(solution.scales.t(t[:, None]))
        y = fitted.network_(z, steps)[:, 0, 0]
    predicted = fitted.predict(force.images_test, t)
    assert np.allclose(fitted.y_scale_ * y.numpy(), predicted)


def test_batch_normalisation_really_runs(fitted, force):
    norm = fitted.latent_network_.norm
    assert norm.num_batches_tracked == QUICK["max_iter"]  # and not in the polish
    z = fitted.latent(force.images_train)
    assert abs(z.mean()) < 0.2 and abs(z.std() - 1) < 0.2


def test_seql_refuses_a_t_that_it_does_not_know_and_heql_does_not(seql, heql, force):
    middle = np.full(len(force.images_test), heql.t_[:2, 0].mean())
    with pytest.raises(ValueError, match="Use HEQL"):
        seql.predict(force.images_test, middle)
    ends = [heql.predict(force.images_test, np.full_like(middle, t)) for t in heql.t_[:2, 0]]
    assert np.allclose(heql.predict(force.images_test, middle), np.mean(ends, axis=0))


def test_a_seed_gives_the_same_model_whatever_torch_drew_before(force):
    torch.manual_seed(1)
    first = fit(EncodedHEQL(**HASTY), force)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    again = fit(clone(first), force)
    other = fit(clone(first).set_params(random_state=1), force)
    assert np.array_equal(first.latent(force.images_test), again.latent(force.images_test))
    assert first.equation_ == again.equation_
    assert not np.allclose(first.latent(force.images_test), other.latent(force.images_test))
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())  # the fit drew none of the user's numbers


def test_a_target_that_is_zero_gives_zero(force):
    model = EncodedSEQL(**HASTY | {"max_iter": 20})
    model.fit(force.images_train, force.X_train["t"], 0 * force.y_train)
    assert np.abs(model.predict(force.images_test, force.X_test["t"])).max() < 1e-6


def test_relu_predicts_and_finds_no_equation(force):
    model = fit(EncodedReLU(encoder=dense(), max_iter=400, polish_iter=0, random_state=0), force)
    inside, _ = springs.errors_of(model, force)
    assert inside < 1e-2
    assert "true_terms" not in springs.measure(model, force)


# --- any encoder, any number of images -------------------------------------------------------


class Flat(nn.Module):
    """Any picture to ``n_latent`` numbers."""

    def __init__(self, n_latent=1):
        super().__init__()
        self.dense = nn.LazyLinear(n_latent)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.dense(x.flatten(1))


@pytest.mark.parametrize(
    ("shape", "n_latent", "names"),
    [
        ((1, 6), 1, ["z1"]),
        ((3, 6), 1, ["z1", "z2", "z3"]),
        ((2, 4, 5), 1, ["z1", "z2"]),
        ((1, 3, 4, 5), 2, ["z1_1", "z1_2"]),
    ],
)
def test_rows_hold_any_number_of_images_of_any_shape(shape, n_latent, names):
    random = np.random.default_rng(0)
    images, t = random.random((40, *shape)), np.arange(40) % 4
    model = EncodedHEQL(encoder=Flat(n_latent), **HASTY)
    model.fit(images, pd.Series(t, name="hour"), images.sum(axis=tuple(range(1, images.ndim))))
    assert model.feature_names_ == names
    assert model.latent(images).shape == (40, len(names))
    assert model.predict(images, t + 0.5).shape == (40,)
    assert model.coefficients_.index.name == "hour"


def test_the_users_encoder_stays_as_it_was(force):
    encoder = peql.nn.ImageEncoder()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    model = fit(EncodedSEQL(encoder=encoder, **HASTY), force)
    trained = model.latent_network_.encoder.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert any(not torch.equal(trained[name], before[name]) for name in before)


def test_frozen_parameters_are_not_trained(force):
    encoder = peql.nn.ImageEncoder()
    encoder[1].requires_grad_(False)
    model = fit(EncodedSEQL(encoder=encoder, **HASTY), force)
    assert torch.equal(model.latent_network_.encoder[1].weight, encoder[1].weight)


def test_a_batch_has_rows_of_the_steps_it_names():
    t = np.array([0.0, 1, 1, 2, 2, 2, 0, 0])
    y = 10 * t
    rows = Rows.of(torch.zeros(8, 1, 2), t, y, np.random.default_rng(0))
    steps, chosen = rows.draw(2, torch.Generator().manual_seed(0))
    assert chosen.shape == (2, 128)
    assert torch.equal(rows.y[chosen], 10 * torch.from_numpy(rows.t)[steps, None].expand(2, 128))
    points = rows.points(torch.arange(8.0).double()[:, None])
    assert points.count.tolist() == [3, 2, 3]
    seen = points.x[..., 0][points.mask > 0] / HALF
    assert sorted(seen.tolist()) == list(range(8))


# --- carrying over ---------------------------------------------------------------------------


def test_a_line_carries_an_equation_over():
    z1, z2, psi1, psi2 = sympy.symbols("z1 z2 psi1 psi2")
    line = LinearMap(slope=-2.0, offset=0.5, r=-1.0)
    carried = line.carry(3 * z1**2 - z1 * z2, {"z1": "psi1", "z2": "psi2"})
    at = {psi1: 0.3, psi2: -1.1}
    z = {z1: -2 * 0.3 + 0.5, z2: 2 * 1.1 + 0.5}
    assert float(carried.subs(at)) == pytest.approx(float((3 * z1**2 - z1 * z2).subs(z)))


def test_the_line_needs_matching_shapes():
    with pytest.raises(ValueError, match=r"\(3, 2\).*\(2, 3\)"):
        LinearMap.of(np.zeros((3, 2)), np.zeros((2, 3)))


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_stiffness_of_the_true_equation_is_the_true_one(name):
    data = load(name, **SMALL)

    class Perfect:
        """Knows the equation in z = 2 psi - 1."""

        degree = 1 if name == "spring_force" else 2
        equation_ = data.equation.subs(
            {sympy.Symbol(f"psi{i}"): sympy.Symbol(f"z{i}") for i in (1, 2)}
        )
        coefficients_ = data.coefficients / 2.0**degree

        def latent(self, images):
            return 2 * data.X_test[["psi1", "psi2"]].to_numpy() - 1

    assert springs.right_terms(Perfect(), data)
    assert springs.stiffness_error(Perfect(), data) < 1e-12


# --- bad input -------------------------------------------------------------------------------

IMAGES, T, Y = np.random.default_rng(0).random((20, 2, 8)), np.arange(20.0) % 2, np.arange(20.0)


def without(array, value):
    changed = array.copy()
    changed.flat[3] = value
    return changed


@pytest.mark.parametrize(
    ("images", "t", "y", "message"),
    [
        (IMAGES[:, 0], T, Y, r"\(20, 8\): expected \(row, image, ...\)"),
        (IMAGES, T[:-1], Y, "20 rows, t 19 and y 20"),
        (IMAGES, T[:, None], Y, r"t has shape \(20, 1\)"),
        (IMAGES, T, Y[:, None], r"y has shape \(20, 1\)"),
        (without(IMAGES, np.nan), T, Y, "images has values that are NaN"),
        (IMAGES, without(T, np.inf), Y, "t has values that are NaN"),
        (IMAGES, T, without(Y, np.nan), "y has values that are NaN"),
        (IMAGES, np.arange(20.0), Y, "20 of 20 values of t have fewer than 4 rows"),
        (IMAGES[:, :, None], T, Y, "default encoder takes"),
    ],
)
def test_bad_rows_are_one_clear_error(images, t, y, message):
    with pytest.raises(ValueError, match=message):
        EncodedSEQL(**HASTY).fit(images, t, y)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (nn.Linear(5, 1), r"encoder failed on images of shape \(8, 8\)"),
        (nn.Unflatten(1, (2, 4)), r"makes \(8, 2, 4\) of images"),
        (nn.Flatten(0), r"makes \(64,\) of images"),
        (lambda x: x, "expected an nn.Module"),
    ],
)
def test_an_encoder_that_does_not_fit_is_one_clear_error(encoder, message):
    with pytest.raises(ValueError, match=message):
        EncodedSEQL(encoder=encoder, **HASTY).fit(IMAGES, T, Y)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("max_iter", 0),
        ("max_iter", 2.5),
        ("polish_iter", -1),
        ("n_layers", True),
        ("l0_weight", -1.0),
        ("encoder_learning_rate", np.nan),
        ("smoothness", "much"),
    ],
)
def test_bad_parameters_are_named(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter}="):
        EncodedSEQL(**HASTY | {parameter: value}).fit(IMAGES, T, Y)


def test_training_that_diverges_says_so():
    with pytest.raises(RuntimeError, match="encoder_learning_rate"):
        EncodedReLU(max_iter=30, polish_iter=0, encoder_learning_rate=1e30).fit(IMAGES, T, Y)


def test_predicting_needs_a_fit_and_the_same_images(seql, force):
    with pytest.raises(ValueError, match="not fitted"):
        EncodedSEQL().predict(force.images_test, force.X_test["t"])
    with pytest.raises(ValueError, match=r"expected \(2, 64\)"):
        seql.predict(force.images_test[:, :1], force.X_test["t"])
    with pytest.raises(ValueError, match="as many of each"):
        seql.predict(force.images_test, force.X_test["t"][:-1])


def test_unknown_names_are_suggested():
    with pytest.raises(ValueError, match="force"):
        springs.fit("forse", [], seed=0)
    with pytest.raises(ValueError, match="HEQL"):
        springs.fit("force", ["HEQLs"], seed=0)
