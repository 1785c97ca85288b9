"""Standard errors, jumps and explanations of coefficient functions."""

import numpy as np
import pandas as pd
import pytest
import sympy
from scipy import special
from sklearn.base import clone
from small import QUICK

import peql
from peql import primitives as P
from peql.analysis.breaks import COLUMNS, _describe, find_breaks
from peql.analysis.explanation import explain
from peql.datasets.analytic import jagged, paper_grid, truth
from peql.engine.formula import Formula, Unit
from peql.engine.rows import Scales
from peql.solution import Solution

NOISE = 0.05


def noisy(name="f4", **size):
    data = peql.datasets.load(name, **{"n_t": 16, "n_train": 64, **size})
    random = np.random.default_rng(1)
    noise = NOISE * data.y_train.std() * random.standard_normal(len(data.y_train))
    return data, data.y_train + noise


@pytest.fixture(scope="module", params=[peql.SEQL, peql.HEQL])
def fitted_to_noise(request):
    data, y = noisy()
    return request.param(**QUICK).fit(data.X_train, y), data, y


# --- standard errors -------------------------------------------------------------------------


def test_errors_of_coefficients_have_the_size_of_their_standard_errors(fitted_to_noise):
    model, data, _ = fitted_to_noise
    assert model.equation_ == data.equation
    z = (model.coefficients_ - data.coefficients) / model.coefficient_errors_
    rms = np.sqrt((z**2).mean())
    assert rms.between(0.7, 1.4).all(), rms  # 15 values each


def test_standard_errors_follow_the_noise(fitted_to_noise):
    model, data, y = fitted_to_noise
    louder = clone(model).fit(data.X_train, data.y_train + 2 * (y - data.y_train))
    assert louder.equation_ == model.equation_
    ratio = louder.coefficient_errors_ / model.coefficient_errors_
    assert np.median(ratio) == pytest.approx(2, rel=0.1)


def test_constants_have_standard_errors():
    data, _ = noisy("f2")
    random = np.random.default_rng(2)
    y = data.y_train + NOISE * random.standard_normal(len(data.y_train))
    model = peql.SEQL(**QUICK).fit(data.X_train, y)
    amplitude = model.constants_
    assert len(amplitude) == 1
    wrong = (amplitude["value"] - 1) / amplitude["standard_error"]
    assert abs(wrong.item()) < 4
    assert 0 < amplitude["standard_error"].item() < NOISE


def test_exact_data_have_no_error(seql, heql):
    for model in (seql, heql):
        assert (model.coefficient_errors_ < 1e-9).all(axis=None)


# --- jumps and corners -----------------------------------------------------------------------


def describe(t, values, error=0.0, **how):
    found = [_describe(b, t) for b in find_breaks(t, values, np.full(len(t), error), **how)]
    return [(d["kind"], d["t"], d["size"]) for d in found]


@pytest.mark.parametrize("n_t", [8, 16, 32, 128])
def test_the_jump_of_f1_is_found(n_t):
    t = np.unique(paper_grid(n_t))
    [(kind, place, size)] = describe(t, 3 * np.sign(t))
    assert (kind, place) == ("jump", pytest.approx(0, abs=1e-9))
    assert size == pytest.approx(6)


@pytest.mark.parametrize("n_t", [16, 32, 128])
def test_the_corners_of_f2_are_found(n_t):
    t = np.unique(paper_grid(n_t))
    found = describe(t, jagged(t))
    assert [kind for kind, _, _ in found] == ["corner", "corner"]
    np.testing.assert_allclose([place for _, place, _ in found], [0, 1.5], atol=1e-6)
    np.testing.assert_allclose([size for _, _, size in found], [-1, 1.5], rtol=1e-6)


SMOOTH = {
    "constant": lambda t: 0 * t + 2,
    "zero": lambda t: 0 * t,
    "line": lambda t: t,
    "sine of f4": lambda t: 3 * np.sin(t),
    "exponential": np.exp,
    "narrow bump": lambda t: np.exp(-(t**2) / 0.2),
}


@pytest.mark.parametrize("function", SMOOTH.values(), ids=SMOOTH.keys())
@pytest.mark.parametrize("error", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("even", [True, False])
def test_smooth_curves_have_no_breaks(function, error, even):
    random = np.random.default_rng(5)
    t = np.linspace(-3, 3, 128) if even else np.sort(random.uniform(-3, 3, 128))
    values = function(t) + error * random.standard_normal(len(t))
    assert describe(t, values, error) == []


@pytest.mark.parametrize("seed", range(5))
def test_breaks_are_found_in_noise_at_uneven_t(seed):
    random = np.random.default_rng(seed)
    t = np.sort(random.uniform(-3, 3, 128))
    noise = random.standard_normal(len(t))
    [(kind, place, size)] = describe(t, 3 * np.sign(t) + 0.03 * noise, 0.03)
    assert (kind, size) == ("jump", pytest.approx(6, abs=0.3))
    assert abs(place) < 0.15
    corners = describe(t, jagged(t) + 0.001 * noise, 0.001)
    assert any(abs(place - 1.5) < 0.15 for _, place, _ in corners)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_breaks_do_not_depend_on_units(scale):
    t = np.unique(paper_grid(32))
    found = describe(scale * t, scale * 3 * np.sign(t))
    assert found == [("jump", pytest.approx(0, abs=1e-9 * scale), pytest.approx(6 * scale))]


def ringing_step(t, place):
    """A step of the waves that fit between the values: it takes two of them, and rings."""
    waves = (t - place) / (t[1] - t[0])
    return 2 / np.pi * special.sici(np.pi * waves)[0]


@pytest.mark.parametrize("error", [0.0, 1e-3, 0.03])
@pytest.mark.parametrize("place", [-0.4, 0.0, 0.73])
def test_a_jump_of_a_smoothed_curve_is_found_though_it_rings(place, error):
    """Its standard errors do not know of the ringing."""
    random = np.random.default_rng(5)
    t = np.linspace(-3, 3, 64)
    values = ringing_step(t, place) + 0.3 * t + error * random.standard_normal(len(t))
    [new] = find_breaks(t, values, np.full(len(t), error), smoothed=True)
    found = _describe(new, t)
    assert found["kind"] == "jump" and found["low"] <= place <= found["high"]
    assert found["size"] == pytest.approx(2, abs=0.35)
    assert describe(t, values, error) != describe(t, values, error, smoothed=True)


@pytest.mark.parametrize("function", SMOOTH.values(), ids=SMOOTH.keys())
@pytest.mark.parametrize("stated", [1.0, 0.25])
@pytest.mark.parametrize("error", [1e-3, 0.1])
def test_smoothed_curves_have_no_breaks_if_their_errors_are_understated(function, stated, error):
    """Smoothing makes neighbours' errors alike, and standard errors too small."""
    random = np.random.default_rng(5)
    t = np.linspace(-3, 3, 128)
    rough = np.convolve(random.standard_normal(len(t) + 2), [0.5, 0.7, 0.5], "valid")
    assert describe(t, function(t) + error * rough, stated * error, smoothed=True) == []


def test_a_peak_is_no_jump_however_wide_the_gap():
    t = np.linspace(-3, 3, 64)
    peak = np.exp(-((t / (t[1] - t[0])) ** 2) / 2)
    kinds = [kind for kind, *_ in describe(t, 1 + peak, 1e-3, smoothed=True)]
    assert "jump" not in kinds


def test_parallel_sides_that_never_meet_are_a_jump():
    """Their difference has roots, though none where it is real."""
    t = np.linspace(-3, 3, 64)
    [(kind, place, size)] = describe(t, np.where(t < 0, 0.0, 1 + 0.05 * t**2))
    assert (kind, place) == ("jump", pytest.approx(0, abs=0.05))
    assert size == pytest.approx(1, abs=0.01)


def test_jumps_of_a_model(seql, heql, eql):
    for model in (seql, heql):
        table = model.jumps()
        assert list(table.columns) == COLUMNS
        assert table[["coefficient", "kind"]].to_numpy().tolist() == [["b", "jump"]]
        assert table["size"].item() == pytest.approx(6)
    assert eql.jumps().empty


# --- explanations ----------------------------------------------------------------------------


def known(coefficients, error=0.0):
    """A solution a(t)·x² + b(t)·x, or a(t)·x, whose coefficient functions are given."""
    n, names = len(coefficients), list(coefficients)
    units = tuple(Unit(P.get("square"), (((None, 0),),)) for _ in names[1:])
    formula = Formula(1, units, ((0, 1), (1, 0)) if units else ((0, 0),))
    t = coefficients.index.to_numpy()[:, None]
    scales = Scales(np.ones(1), np.zeros(1), 1.0, np.zeros(1), np.ones(1))
    return Solution(
        formula,
        coefficients.to_numpy(),
        (False,) * len(names),
        t,
        scales,
        ("x",),
        ("t",),
        "y",
        "stacked",
        covariance=np.broadcast_to(error**2 * np.eye(len(names)), (n, len(names), len(names))),
    )


t = sympy.Symbol("t")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f1", [("a", t), ("b", -3), ("b", 3)]),
        ("f2", [("a", t / 2 + 2.5), ("a", 2.5 - t / 2), ("a", t + 0.25)]),
        ("f4", [("a", t), ("b", 3 * sympy.sin(t))]),
        ("f5", [("a", t / 2 + 2.5)]),
    ],
)
def test_coefficients_are_explained_by_pieces(name, expected):
    table = explain(known(truth(name, np.unique(paper_grid(64)))))
    assert (table["verdict"] == "consistent").all()
    assert table["coefficient"].tolist() == [c for c, _ in expected]
    grid = np.linspace(-3, 3, 7)
    for found, (_, true) in zip(table["expression"], expected, strict=True):
        difference = sympy.lambdify(t, found - true, "numpy")(grid)
        np.testing.assert_allclose(np.broadcast_to(difference, 7), 0, atol=1e-6)


def test_what_is_no_formula_is_called_so():
    grid = np.unique(paper_grid(64))
    walk = np.cumsum(np.random.default_rng(0).standard_normal(len(grid)))
    table = explain(known(pd.DataFrame({"a": walk}, index=grid)))
    assert table["verdict"].str.startswith("not found").any()
    assert not (table["verdict"] == "consistent").all()


def test_a_model_with_few_t_is_not_explained(seql):
    table = seql.explain()
    assert table.loc[table["coefficient"] == "b", "verdict"].str.contains("too few").all()
    assert table.loc[table["coefficient"] == "a", "expression"].tolist() == [t]


def test_no_coefficients_no_rows(f1):
    model = peql.SEQL(**QUICK | {"max_iter": 5}).fit(f1.X_train, 0 * f1.y_train)
    assert model.explain().empty
    assert model.jumps().empty
