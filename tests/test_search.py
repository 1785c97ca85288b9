"""The search finds the form of laws, shares what is shared, and finds nothing where nothing is."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sympy
import torch

import peql
from peql import primitives
from peql.datasets import load, load_measured
from peql.datasets.measured import TABLES
from peql.engine.criterion import information
from peql.search import search as search_module
from peql.search import varpro
from peql.search.search import search


def points(law, low, high, n_steps=6, n_rows=60, noise=0.0, seed=300):
    rng = np.random.default_rng(seed)
    low, high = np.atleast_1d(low), np.atleast_1d(high)
    x = rng.uniform(low, high, (n_steps, n_rows, len(low)))
    y = np.stack([law(*x[s].T, rng.uniform(1, 2, 4)) for s in range(n_steps)])
    y = y + noise * np.sqrt((y**2).mean()) * rng.standard_normal(y.shape)
    return SimpleNamespace(
        x=torch.tensor(x), y=torch.tensor(y), mask=torch.ones(y.shape, dtype=torch.float64)
    )


def predicted(candidate, x):
    weights = torch.tensor(candidate.weights)
    columns = [weights[:, [k]] for k in range(weights.shape[1])]
    return candidate.formula(columns, x)


LAWS = {
    "Michaelis-Menten": (lambda x, p: p[0] * x / (p[1] + x), 0.1, 9, 2, 0),
    "Gauss": (lambda x, p: p[0] * np.exp(-p[1] * (x - p[2]) ** 2), -1, 4, 3, 0),
    "decay": (lambda x, p: p[0] * np.exp(-p[1] * x), 0, 4, 2, 0),
    "oscillation": (lambda x, p: p[0] * np.sin(p[1] * x + p[2]), 0, 9, 3, 0),
    "free fall": (lambda x, p: -9.81 / 2 * x**2 + p[0] * x + p[1], 0, 1, 2, 1),
    "Kelvin": (lambda x, p: p[0] * (x - 300) + 1e5 * p[1], 280, 320, 2, 0),
    "ideal gas": (lambda t, v, p: p[0] * 8.314 * t / v, [1, 1], [5, 5], 1, 0),
    "saturation": (lambda x, p: p[0] * (1 - np.exp(-p[1] * x)), 0, 4, 2, 0),
    "critical damping": (lambda x, p: (p[0] + p[1] * x) * np.exp(-p[2] * x), 0, 5, 3, 0),
    "impedance": (lambda x, p: np.sqrt(p[0] + (p[1] * x - p[2] / x) ** 2), 0.3, 5, 3, 0),
    "inhibition": (lambda s, i, p: p[0] * s / (p[1] + s * (1 + i / p[2])), [0.1, 0], [9, 5], 3, 0),
    "warm sorption": (
        lambda x, t, p: p[0] * x / (x + p[1] * np.exp(-p[2] / t)),
        [0.1, 1],
        [5, 4],
        3,
        0,
    ),
    "no factor of its own": (lambda x, p: x / (1 + p[0] * x), 0.2, 9, 1, 1),
    "normalised": (lambda x, p: p[0] * np.exp(-p[0] * x), 0, 4, 1, 1),
    "normalised by a root": (lambda x, p: p[0] ** 1.5 * x**2 * np.exp(-p[0] * x**2), 0, 3, 1, 1),
    "ratio of sums": (lambda u, v, p: (u - v) / (1 - u * v * p[0] / 3), [0.2, 0], [0.9, 0.9], 1, 2),
    "flow": (
        lambda a, t, u, d, p: p[0] * a * (t - u) / d,
        [1, 6, 1, 1],
        [3, 9, 4, 2],
        1,
        1,
    ),
    "tide": (lambda x, p: p[0] * x / 5 + p[1] * np.sin(p[2] * x) + p[3], 0, 9, 4, 0),
    "years": (lambda x, p: p[0] * np.exp(p[1] / 20 * (x - 2000)), 1990, 2020, 2, 0),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_found_with_no_constant_too_many(name):
    law, low, high, n_free, n_shared = LAWS[name]
    data = points(law, low, high)
    best = search(data, progress=False)[0]
    assert best.exact
    assert (best.n_free, best.n_shared) == (n_free, n_shared)
    error = (predicted(best, data.x) - data.y).abs().max() / data.y.std()
    assert error < 1e-8


def test_a_square_below_a_fraction_is_not_multiplied_out():
    rows = points(lambda x, p: p[0] / (x + p[1]) ** 2, 0.2, 5)
    data = {"x": rows.x[..., 0].flatten(), "t": np.repeat(np.arange(6.0), 60)}
    model = peql.SEQL(varying="t", method="search", random_state=300, verbose=False)
    model.fit(pd.DataFrame(data), rows.y.flatten().numpy())
    x, t = sympy.symbols("x t")
    a, b = (sympy.Function(name)(t) for name in "ab")
    assert sympy.simplify(sympy.nsimplify(model.equation_ / (a / (x + b) ** 2))) == 1


def test_a_coefficient_that_nearly_follows_from_another_is_one_of_its_own():
    """Of two that fall together, one would do but for errors that every step shows."""
    rng = np.random.default_rng(300)
    x = rng.uniform(0.2, 4, (16, 40, 1))
    fall = np.linspace(0, 1, 16)[:, None]
    a, b = 0.9 - 0.36 * fall, 3.2 * np.exp(-fall) * np.where(fall < 0.5, 1, 0.6)
    y = a * x[..., 0] ** 2 + b * x[..., 0] + 0.17 * rng.standard_normal((16, 40))
    best = search(SimpleNamespace(x=x, y=y, mask=np.ones_like(y)), progress=False)[0]
    assert (best.n_free, best.n_shared) == (2, 0)
    assert best.formula.n_features == 1 and best.size < 6


def test_constants_shared_by_all_steps_are_marked():
    law, low, high, *_ = LAWS["free fall"]
    best = search(points(law, low, high), progress=False)[0]
    shared = best.weights[:, list(best.constant)]
    np.testing.assert_allclose(shared, -9.81 / 2)


def test_interrupted_the_best_so_far_is_returned(monkeypatch):
    rounds = iter(range(3))

    def told(pool):
        if next(rounds, None) is None:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr("peql.search.search.told", told)
    law, low, high, *_ = LAWS["decay"]
    with pytest.warns(UserWarning, match="interrupted"):
        best = search(points(law, low, high, noise=0.01), progress=False)[0]
    assert not best.found_nothing


def test_interrupted_in_training_what_the_search_found_is_kept(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("peql.estimators.tabular.train", interrupted)
    x = np.tile(np.linspace(0, 4, 20), 3)
    t = np.repeat([1.0, 2.0, 3.0], 20)
    y = 3 * np.exp(-t * x) + 0.05 * np.random.default_rng(300).standard_normal(len(x))
    with pytest.warns(UserWarning, match="interrupted"):
        model = peql.SEQL(random_state=300, verbose=False).fit(np.c_[x, t], y)
    assert model.equation_.has(sympy.exp) and set(model.trials_["method"]) == {"search"}


def test_with_little_effort_the_best_so_far_is_returned_whatever_the_clock_says(monkeypatch):
    law, low, high, *_ = LAWS["ideal gas"]
    data = points(law, low, high, noise=0.01)
    assert search(data, effort=0.0, progress=False)
    first = search(data, effort=0.01, progress=False)[0]
    monkeypatch.setattr("time.perf_counter", lambda: 1e9)
    again = search(data, effort=0.01, progress=False)[0]
    assert first.text == again.text and (first.weights == again.weights).all()


UNITS = {
    "saturation": (LAWS["Michaelis-Menten"], [37.0], 1e-3),
    "decay": (LAWS["decay"], [0.02], 250.0),
    "rest energy": ((lambda x, p: np.sqrt(x**2 + p[0] ** 2), 0.1, 4, 1, 1), [60.0], 0.01),
    "line and logarithm": (
        (lambda x, p: p[0] * (x - 1.1 * np.log(x)) + p[1], 0.1, 1.1, 2, 1),
        [500.0],
        7.0,
    ),
    "two temperatures": (
        (lambda x, z, p: p[0] * (x**4 - z**4), [1, 1], [3, 3], 1, 1),
        [10.0, 10.0],
        1e-3,
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_the_form_does_not_depend_on_the_units(name):
    (law, low, high, n_free, n_shared), x_unit, y_unit = UNITS[name]
    data = points(law, low, high, noise=1e-3)
    best = search(data, progress=False)[0]
    data.x, data.y = data.x * torch.tensor(x_unit), data.y * y_unit
    other = search(data, progress=False)[0]
    assert (best.n_free, best.n_shared) == (other.n_free, other.n_shared) == (n_free, n_shared)
    assert best.text == other.text


def test_rows_may_be_ragged():
    law, low, high, *_ = LAWS["decay"]
    data = points(law, low, high)
    data.mask[0, 20:] = 0
    data.y[0, 20:] = torch.nan
    data.x[0, 20:] = torch.nan
    assert search(data, progress=False)[0].exact


def test_many_steps_are_solved_a_few_at_a_time_with_the_same_result(monkeypatch):
    """What takes memory does not go with the number of steps."""
    data = points(lambda x, p: p[0] * np.exp(-p[1] * x), 0, 4, n_steps=41, noise=0.05)
    seen = []

    def exchange(columns, rows, *arguments, donors=None, **more):
        if donors is not None and len(rows.x) != search_module.SAMPLE_STEPS:
            seen.append(len(rows.x))
        return varpro.exchange(columns, rows, *arguments, donors=donors, **more)

    monkeypatch.setattr(search_module, "exchange", exchange)
    kinds = ["one", "identity", "exp", "product"]
    whole = search(data, kinds=kinds, progress=False)[0]
    assert set(seen) == {41}
    seen.clear()
    monkeypatch.setattr(search_module, "BLOCK", 10 * data.y.shape[1])
    blocks = search(data, kinds=kinds, progress=False)[0]
    assert set(seen) == {10, 11} and sum(seen) % 41 == 0
    assert blocks.text == whole.text == "exp(w0*x0)"
    np.testing.assert_allclose(blocks.weights, whole.weights, atol=1e-6)
    np.testing.assert_allclose(blocks.error, whole.error, rtol=1e-9)


def test_forms_that_interpolate_six_rows_do_not_hide_the_law():
    law, low, high, *_ = LAWS["Michaelis-Menten"]
    best = search(points(law, low, high, n_steps=8, n_rows=6, noise=0.01), progress=False)[0]
    assert not best.found_nothing
    assert 1 <= best.n_free <= 3


def test_noise_alone_is_nothing():
    data = points(lambda x, p: 0 * x, 0, 1)
    data.y += torch.tensor(np.random.default_rng(300).standard_normal(data.y.shape))
    kinds = ["one", "identity", "product", "exp", "reciprocal", "sin", "cos"]
    assert search(data, kinds=kinds, max_terms=1, progress=False)[0].found_nothing


def test_a_primitive_of_ones_own_takes_part():
    import sympy

    name = "arctan"
    primitives.register(primitives.Primitive(name, torch.arctan, sympy.atan))
    try:
        data = points(lambda x, p: p[0] * np.arctan(3 * p[1] * x - p[2]), -2, 2)
        kinds = ["one", "identity", "product", "exp", name]
        best = search(data, kinds=kinds, max_terms=1, progress=False)[0]
        assert best.exact and name in best.text
    finally:
        primitives._REGISTRY.pop(name)


def test_the_criterion_prefers_fewer_constants_and_never_interpolates():
    rows, error = np.full(4, 10), np.full(4, 1e-3)
    assert information(error, rows, 1, 1, 5) < information(error, rows, 2, 0, 5)
    assert information(error, rows, 2, 0, 5) < information(error, rows, 2, 0, 7)
    assert information(0 * error, rows, 6, 0, 5) == np.inf


@pytest.mark.parametrize("name", TABLES)
def test_measured_tables_name_their_groups_by_text(name):
    data = load_measured(name)
    assert data.X[data.varying].map(type).eq(str).all()
    assert len(data.X) == len(data.y) and data.source


def test_classbench_rows_follow_the_law():
    data = load("classbench_free_fall", n_experiments=2, n_train=5)
    own = data.coefficients.loc[data.X_train["experiment"]]
    t = data.X_train["t"].to_numpy()
    expected = -0.5 * 9.81 * t**2 + own["v0"].to_numpy() * t + own["z0"].to_numpy()
    np.testing.assert_allclose(data.y_train, expected)
