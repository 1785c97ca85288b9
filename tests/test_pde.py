"""What holds for the fields, their derivatives and the PDE datasets."""

import numpy as np
import pandas as pd
import pytest
import sympy

from peql.analysis.comparison import has_true_terms
from peql.baselines import least_squares_limit
from peql.datasets import expand_cross_terms, from_field, load
from peql.datasets._derivatives import DIFFERENCE, FOURIER, SPLINE
from peql.datasets.pde import PROBLEMS, equation, solve, truth

NAMES = [name for name in PROBLEMS if PROBLEMS[name].paper]


@pytest.mark.parametrize("name", NAMES)
def test_accurate_derivatives_lower_the_limit_a_millionfold(name):
    paper, accurate = (
        least_squares_limit(load(name, derivatives=d)) for d in ("paper", "accurate")
    )
    assert accurate.y_mse < 1e-6 * paper.y_mse
    assert accurate.coefficient_mse < 1e-6 * paper.coefficient_mse


@pytest.mark.parametrize("name", ["advection_diffusion", "burgers"])
def test_the_integral_of_u_over_a_period_stays(name):
    # Both right-hand sides are derivatives in x: (f u + ε u_x)_x and (f u²/2 + ε u_x)_x.
    total = solve(name).u.mean(axis=0)
    assert np.allclose(total, total[0], atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_the_grid_is_the_papers(name):
    problem, (u, x, t) = PROBLEMS[name], solve(name)
    assert u.shape == (problem.n_x, problem.n_t) and u.size == 131_072
    assert (x[0], t[-1]) == (-problem.half_width, problem.t_end)
    if not problem.second_half:
        assert np.allclose(u[:, 0], problem.initial["u"](x))
    else:
        assert t[0] > problem.t_end / 2


@pytest.mark.parametrize(
    ("name", "where", "printed"),
    [  # Table III of the paper
        ("advection_diffusion", -4.375, [-0.89, -0.79, 0.10]),
        ("advection_diffusion", 3.125, [0.89, -2.21, 0.10]),
        ("burgers", 0.627, [-1.15, 0.10]),
        ("burgers", 8.157, [-1.24, 0.10]),
    ],
)
def test_true_coefficients_are_those_the_paper_prints(name, where, printed):
    rows = truth(name, solve(name)[1 if PROBLEMS[name].varying == "x" else 2])
    nearest = rows.index[np.argmin(np.abs(rows.index - where))]
    assert nearest == pytest.approx(where, abs=5e-4)
    assert rows.loc[nearest].tolist() == pytest.approx(printed, abs=5.1e-3)


def test_cross_terms_are_the_products_of_the_columns_they_name():
    data = load("burgers", n_x=64, n_t=32, cross_terms=True)
    X = data.X_train
    assert X.shape == (64 * 32, 19 + 1)
    for name in X.columns.drop("t"):
        factors = {s.name: X[s.name] for s in sympy.sympify(name).free_symbols}
        assert np.allclose(X[name], eval(name, {}, factors))


@pytest.mark.parametrize("name", NAMES)
def test_with_cross_terms_the_equation_is_linear_in_columns(name):
    linear = equation(name, cross_terms=True)
    columns = load(name, n_x=64, n_t=64, cross_terms=True).X_train
    assert {symbol.name for symbol in linear.free_symbols} <= set(columns)
    assert expand_cross_terms(linear) == equation(name)


def test_rows_come_in_the_order_of_the_varying_coordinate():
    u, x, t = solve("burgers", 64, 32)
    along_t = load("burgers", n_x=64, n_t=32)
    along_x, _ = from_field(u, x, t, varying="x", derivatives="accurate")
    assert np.array_equal(along_t.X_train["u"].to_numpy().reshape(32, 64), u.T)
    assert np.array_equal(along_x["u"].to_numpy().reshape(64, 32), u)
    assert np.array_equal(along_t.X_train["t"].unique(), along_t.coefficients.index)


def test_noise_is_in_the_training_rows_only_and_is_repeatable():
    options = {"n_x": 64, "n_t": 64}
    clean = load("burgers", **options)
    noisy, again = (load("burgers", noise=0.05, random_state=1, **options) for _ in range(2))
    other = load("burgers", noise=0.05, random_state=2, **options)
    pd.testing.assert_frame_equal(noisy.X_train, again.X_train)
    pd.testing.assert_frame_equal(noisy.X_test, clean.X_train)
    assert not np.allclose(noisy.X_train["u"], other.X_train["u"])
    added = noisy.X_train["u"] - clean.X_train["u"]
    assert added.std() == pytest.approx(0.05 * clean.X_train["u"].std(), rel=0.05)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_are_exact_for_polynomials_up_to_the_edges(order):
    grid = np.linspace(-1, 1, 12)
    polynomial = np.polynomial.Polynomial(np.arange(1.0, order + 3))
    expected = polynomial.deriv(order)(grid)
    assert np.allclose(DIFFERENCE(polynomial(grid), grid, order, axis=0), expected)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_halved_step_quarters_the_error_of_differences(order):
    def error(n):
        grid = np.linspace(0, 2, n)
        expected = np.sin(grid + order * np.pi / 2)
        inside = slice(4, -4)
        return np.abs(DIFFERENCE(np.sin(grid), grid, order, axis=0) - expected)[inside].max()

    assert error(101) / error(201) == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("n", [31, 32])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_fourier_is_exact_for_waves(n, order):
    grid = np.linspace(0, 2 * np.pi, n, endpoint=False)
    expected = 3**order * np.sin(3 * grid + order * np.pi / 2)
    assert np.allclose(FOURIER(np.sin(3 * grid), grid, order, axis=0), expected)


def test_splines_take_any_increasing_grid():
    grid = np.linspace(0, 1, 60) ** 1.5
    assert np.allclose(SPLINE(np.exp(grid), grid, 2, axis=0), np.exp(grid), atol=1e-6)


def test_any_derivatives_of_a_wave_are_its_own():
    x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 1, 16)
    u = np.cos(x[:, None]) * np.exp(-t)
    for options in ({}, {"derivatives": "accurate"}, {"derivatives": "paper"}, {"periodic": False}):
        X, y = from_field(u, x, t, **options)
        assert np.allclose(y, -X["u"], atol=2e-3)


def test_bad_options_of_a_dataset():
    with pytest.raises(ValueError, match="noise must not be negative"):
        load("burgers", noise=-1)
    with pytest.raises(ValueError, match="did you mean 'burgers'"):
        solve("burger")


def test_a_product_among_the_features_counts_as_the_product():
    data = load("burgers", cross_terms=True)
    u, u_x, u_xx, t = sympy.symbols("u u_x u_xx t")
    a, b = sympy.Function("a")(t), sympy.Function("b")(t)
    assert has_true_terms(a * u * u_x + b * u_xx, data)
    assert has_true_terms(a * sympy.Symbol("u*u_x") + 0.1 * u_xx, data)
    assert not has_true_terms(a * u * u_x + b * u_xx + u, data)
