"""The verdict tells good data from noise."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sympy
from small import QUICK

import peql
from peql import primitives as P
from peql import results
from peql.analysis.comparison import form
from peql.analysis.verdict import (
    CHANCE,
    MARGIN,
    _chance,
    _copied,
    _order,
    _waves,
    _without_end,
    refitted,
    trade_off,
    verdict,
)
from peql.chapters import robustness
from peql.columns import select
from peql.engine.formula import Formula, Unit
from peql.engine.moves import as_found, polish
from peql.engine.rows import arrange
from peql.estimators.outcomes import Outcome, same_function


@pytest.fixture(scope="module")
def data():
    return peql.datasets.load("f4", n_t=8, n_train=64)


@pytest.fixture(scope="module")
def exact(data):
    return peql.SEQL(**QUICK).fit(data.X_train, data.y_train)


def disturbed(data, share):
    noise = np.random.default_rng(0).standard_normal(len(data.y_train))
    return data.y_train + share * data.y_train.std() * noise


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_truth_is_trusted(data, share):
    y = disturbed(data, share)
    model = peql.SEQL(**QUICK).fit(data.X_train, y)
    judged = verdict(model, data.X_train, y)
    assert judged.trustworthy, judged.checks
    assert str(judged).startswith("Trustworthy")


@pytest.mark.parametrize("cls", [peql.SEQL, peql.HEQL])
def test_noise_is_not_trusted(data, cls):
    y = np.random.default_rng(1).standard_normal(len(data.X_train))
    model = cls(**QUICK).fit(data.X_train, y)
    judged = verdict(model, data.X_train, y)
    assert not judged.trustworthy
    assert str(judged).startswith(("Nothing found", "Not certain"))


def test_a_pattern_that_is_left_is_seen(data):
    y = data.y_train + np.where(data.X_train["x"].between(0.5, 1), 3, 0)
    model = peql.SEQL(**QUICK | {"primitives": ["identity", "square"]}).fit(data.X_train, y)
    judged = verdict(model, data.X_train, y)
    assert not judged.trustworthy
    assert "a pattern remains" in str(judged)


def test_constant_y_is_not_called_an_equation(data):
    y = np.full(len(data.X_train), 2.0)
    model = peql.SEQL(**QUICK | {"max_iter": 20}).fit(data.X_train, y)
    assert not verdict(model, data.X_train, y).trustworthy


def test_error_falls_with_the_number_of_weights(data, exact):
    table = trade_off(exact, data.y_train)
    front = table[table["front"]]
    assert front["weights"].is_monotonic_increasing
    assert front["unexplained"].is_monotonic_decreasing
    assert front["unexplained"].iloc[-1] < 1e-20 < 1e-3 < front["unexplained"].iloc[-2]
    assert front["weights"].iloc[-1] == exact.formula_.n_weights


@pytest.mark.parametrize("bend", [0.0, 0.2])
def test_numbers_that_only_fit_noise_make_no_other_form(bend):
    """A line with a spare square is the line, unless the square has something to do."""
    random = np.random.default_rng(0)
    t, x = np.repeat([[1.0], [2.0], [3.0]], 40, axis=0), random.uniform(-1, 1, (120, 1))
    y = (t + t * x + bend * x**2)[:, 0] + 0.05 * random.standard_normal(120)
    arranged = arrange(x, t, y, validation_fraction=0.0, pool_below=0, random=random)
    one, square = Unit(P.get("one"), ()), Unit(P.get("square"), (((None, 0),),))
    line = Formula(1, (one,), ((0, 0), (1, 1)))
    parabola = Formula(1, (one, square), ((0, 0), (1, 1), (2, 2)))
    found = []
    for formula in (line, parabola):
        start = np.full((3, formula.n_weights), 0.1)
        fit = as_found(formula, start, (False,) * formula.n_weights, arranged.points)
        found.append(Outcome(polish(fit, arranged.points), arranged, "search", 0.0, 0.0))
    assert same_function(*found) == (bend == 0)
    assert not same_function(*reversed(found)) or bend == 0


def test_a_rival_within_the_margin_is_named_and_refuses(data, exact, monkeypatch):
    cubic = peql.SEQL(**QUICK).fit(data.X_train, data.X_train["x"] ** 3)
    for difference, trusted in ((MARGIN - 1, False), (MARGIN + 1, True)):
        rival = {"equation": ["x**3*a(t)"], "difference": [difference]}
        monkeypatch.setattr(exact, "alternatives_", pd.DataFrame(rival))
        monkeypatch.setattr(exact, "solutions_", [exact.solution_, cubic.solution_])
        judged = verdict(exact, data.X_train, data.y_train, repeats=0)
        assert judged.trustworthy == trusted
        assert ("Also consistent with the data" in str(judged)) != trusted


def test_held_out_rows_may_be_as_much_worse_as_few_rows_make_them(exact):
    """Seven rows and three numbers a group: three times the error is no wonder."""
    solution = exact.solution_
    groups = len(solution.t)
    few = _chance(3.0, 1.0, groups, 7 * groups, 3 * groups, solution)
    many = _chance(3.0, 1.0, 10 * groups, 70 * groups, 3 * groups, solution)
    assert few > 0.1 > 1e-3 > many


def test_a_form_is_fitted_again_to_some_of_the_rows(data):
    y = disturbed(data, 0.1).to_numpy()
    model = peql.SEQL(**QUICK).fit(data.X_train, y)
    half = np.arange(0, len(y), 2)
    again = refitted(model, data.X_train, y, half)
    error = (y - again.predict(data.X_train)) ** 2
    assert error[half].mean() < ((y - model.predict(data.X_train)) ** 2)[half].mean()
    assert error.mean() < 1.5 * ((y - model.predict(data.X_train)) ** 2).mean()
    assert again.equation_ == model.equation_


def test_values_of_x_that_are_measured_again_are_not_more_of_them():
    """Through two values of x any form with two numbers goes."""
    random = np.random.default_rng(0)
    t, x = np.repeat([1.0, 2.0, 3.0], 60), random.choice([1.0, 2.0], 180)
    X, y = pd.DataFrame({"x": x, "t": t}), t * x**2 + t + 0.05 * random.standard_normal(180)
    settings = {"primitives": ["one", "identity"], "method": "search"}
    model = peql.SEQL(varying="t", random_state=0, verbose=False, **settings).fit(X, y)
    judged = verdict(model, X, y, repeats=0)
    assert judged.checks.loc["rows for each number fitted", "value"] < 2
    assert not judged.trustworthy and "too many numbers" in str(judged)


LAWS_ON_A_PART = {
    "root": (lambda x, t: t * np.sqrt(x) + 2, True),
    "parabola": (lambda x, t: t * x**2 + x, True),
    "decay": (lambda x, t: t * np.exp(-x * (1.3 - 0.3 * t)) + 2 * t, False),
}


@pytest.mark.parametrize("name", LAWS_ON_A_PART)
def test_a_law_is_found_on_a_part_of_its_range_and_an_approximation_is_not(name):
    law, lawful = LAWS_ON_A_PART[name]
    random = np.random.default_rng(300)
    t, x = np.repeat([1.0, 2.0, 3.0], 60), random.uniform(0.1, 5, 180)
    y = law(x, t)
    y = y + 0.05 * y.std() * random.standard_normal(180)
    X = pd.DataFrame({"x": x, "t": t})
    settings = {"primitives": ["one", "identity", "square", "product"], "method": "search"}
    model = peql.SEQL(varying="t", random_state=0, verbose=False, **settings).fit(X, y)
    judged = verdict(model, X, y)
    assert judged.trustworthy == lawful, str(judged)
    assert ("part of the range" in str(judged)) != lawful


@pytest.mark.parametrize("leaks", [True, False])
def test_a_column_that_is_the_target_in_other_units_is_remarked_upon(leaks):
    random = np.random.default_rng(300)
    t, x = np.repeat([1.0, 2.0, 3.0], 40), random.uniform(0.1, 5, 120)
    y = t * x**2 + x
    y = y + 0.05 * y.std() * random.standard_normal(120)
    z = 1000 * (y if leaks else x) + random.standard_normal(120)
    X = pd.DataFrame({"x": x, "z": z, "t": t})
    settings = {"primitives": ["one", "identity", "square"], "method": "search"}
    model = peql.SEQL(varying="t", random_state=0, verbose=False, **settings).fit(X, y)
    judged = verdict(model, X, y, repeats=0)
    assert ("z alone nearly tells y" in str(judged)) == leaks


@pytest.mark.parametrize(
    ("equation", "noise", "remark"),
    [
        ("exp(z)", 0.1, "z alone nearly tells y"),
        ("cos(z)", 0.1, ""),
        ("z/x", 0.0, "exact, and the same at every t: if one of x, z was"),
        ("z/x", 0.1, ""),
        ("a(t)*z", 0.0, ""),
    ],
)
def test_columns_that_may_be_made_of_the_target_are_remarked_upon(equation, noise, remark):
    random = np.random.default_rng(300)
    X = pd.DataFrame(random.uniform(1, 5, (60, 3)), columns=["x", "z", "w"])
    equation = sympy.sympify(equation)
    used = tuple(c for c in X if equation.has(sympy.Symbol(c)))
    values = {"exp(z)": np.exp(X["z"]), "cos(z)": np.cos(X["z"])}.get(
        str(equation), X["z"] / X["x"]
    )
    residual = noise * random.standard_normal(60)
    fitted = SimpleNamespace(
        equation=equation,
        features=tuple(X),
        used_features=used,
        varying=("t",),
        target="y",
        weights=np.ones((3, 1)),
    )
    said = _copied(fitted, X, values.to_numpy() + residual, residual)
    assert (remark in said) and bool(said) == bool(remark)


@pytest.mark.parametrize("largest", [True, False])
def test_the_rows_left_out_are_the_outermost_of_each_step(largest):
    random = np.random.default_rng(300)
    step = random.permutation(np.repeat([0, 1, 2], [12, 13, 30]))
    x = random.standard_normal(len(step)) + 10 * step
    inner, outer = _without_end(x, step, largest)
    assert sorted([*inner, *outer]) == list(range(len(step)))
    for k in range(3):
        here, left = x[inner][step[inner] == k], x[outer][step[outer] == k]
        assert here.max() < left.min() if largest else here.min() > left.max()
        assert 2 * len(left) <= len(here)


RESIDUALS = {
    "noise": (lambda x, random: random.standard_normal(len(x)), False),
    "noise that grows": (lambda x, random: np.exp(x) * random.standard_normal(len(x)), False),
    "rounding": (lambda x, random: np.round(20 * x, 1) - 20 * x, False),
    "rounding error": (lambda x, random: 1e-13 * np.sin(9 * x), False),
    "drift": (lambda x, random: np.cumsum(random.standard_normal(len(x))), True),
    "ripple": (lambda x, random: 1e-6 * np.sin(9 * x), True),
    "corner in noise": (lambda x, random: np.abs(x - 2) + random.standard_normal(len(x)), True),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals_in_order_are_told_from_noise(name):
    make, in_order = RESIDUALS[name]
    t, x = np.repeat([1.0, 2.0], 100), np.tile(np.linspace(0.03, 4, 100), 2)
    left = make(x, np.random.default_rng(0))
    y = 20 * x + left
    for k in (1.0, 2.0):
        own = t == k
        left[own] -= np.polyval(np.polyfit(x[own], left[own], 1), x[own])
    names = {"varying": ("t",), "features": ("x",), "used_features": ("x",)}
    line = SimpleNamespace(source="stacked", slopes=None, labels=None, **names)
    chance = _order(line, pd.DataFrame({"x": x, "t": t}), y, left)
    assert (chance < CHANCE) == in_order


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize(("frequency", "passed"), [(2.0, True), (2000.0, False), (9.0, None)])
def test_a_wave_must_not_be_faster_than_the_rows_show(frequency, passed, each):
    """Two groups of eight rows: 9 is too fast for each of them, not for both together."""
    x, t = sympy.Symbol("x"), sympy.Symbol("t")
    b = sympy.Function("b")(t)
    table = pd.DataFrame({"x": np.linspace(0, 4, 16), "t": np.tile([0.0, 1.0], 8)})
    fitted = SimpleNamespace(
        equation=sympy.cos(x * (b if each else frequency)),
        coefficients=pd.DataFrame({"b": [frequency] * 2}),
        varying=("t",),
        source="stacked",
        slopes=None,
        labels=None,
    )
    (check,) = _waves(fitted, table)
    assert check["passed"] == (not each if passed is None else passed)


# --- the tables that try it ------------------------------------------------------------------


def test_forms_are_compared_up_to_all_constants():
    x, t = sympy.symbols("x t")
    a, b, c = (sympy.Function(name)(t) for name in "abc")
    assert form(a * sympy.exp(b * x), "x") == form(2 * sympy.exp(-0.3 * x), "x")
    assert form(a / (x + b), "x") == form(c / (0.5 + x), "x")
    assert form(a * sympy.exp(b * x), "x") != form(a * sympy.exp(b * x) + c, "x")
    assert form(a * sympy.exp(b * x), "x") != form(a * sympy.exp(b * x**2), "x")


def test_every_condition_has_a_law_and_a_table_without_useless_columns():
    tasks = results.task_module("verdicts")
    for condition, rows, noise in tasks.CONDITIONS:
        laws = {tasks.choose(condition, rows, noise, seed) for seed in range(8)}
        assert len(laws) >= 4
        X, y = select(tasks.make_table(condition, rows, noise, 0), "y", "group")
        law = tasks.LAWS[tasks.choose(condition, rows, noise, 0)]
        expected = {"x", "group"}
        expected |= {"z"} if law.z else set()
        expected |= {"w"} if condition in ("irrelevant column", "column measured twice") else set()
        assert set(X.columns) == expected
        assert len(y) == rows * tasks.N_GROUPS


def test_each_way_to_write_a_law_is_right_and_no_other_law_is():
    tasks = results.task_module("verdicts")
    for name, law in tasks.LAWS.items():
        for way in law.forms:
            right = [other for other in tasks.LAWS if tasks.is_right(sympy.parse_expr(way), other)]
            assert right == [name]


def test_rates_count_every_table_once():
    tables = pd.DataFrame(
        {
            "condition": ["noise", "noise", "shuffled target", "constant column"],
            "rows": 8,
            "noise": [0.0, 0.05, 0.0, 0.05],
            "seed": 0,
            "law": "line",
            "right_form": [True, True, False, False],
            "all_vary": [False, True, True, True],
            "nothing_found": False,
            "trustworthy": [True, False, False, True],
            "failed": [np.nan, "size of a(group) / its standard error", "p; q", np.nan],
            "equation": "x",
        }
    )
    rates = robustness.verdict_rates(tables)
    assert rates.loc["all"].tolist() == [4, 1, 1, 1, 1]
    assert (rates.drop(columns="tables").sum(axis=1) == rates["tables"]).all()
    told = robustness.verdict_summary(tables).replace("\N{NO-BREAK SPACE}", " ")
    assert "1 had a wrong law called trustworthy (25.0 % of the tables, 50.0 % of the 2" in told
    assert "In 1 of the right and trusted laws" in robustness.verdict_summary(tables)
    assert robustness.wrongly_trusted(tables)["condition"].tolist() == ["constant column"]
    assert robustness.refusals(tables).loc["size / error"].tolist() == [1, 1, 0, 0]
    assert not robustness.verdict_limits(tables)["wrongly trusted"].any()  # nothing is known


def test_other_limits_are_tried_on_what_the_checks_measured():
    good = {
        **{"explained": 0.9, "chance": 0.5, "rows_per_number": 9.0, "certainty": 8.0},
        **{"pattern": 0.0, "margin": np.inf, "beyond_plain": np.inf, "beyond": 1.0},
        **{"nothing_found": False},
    }
    tables = pd.DataFrame(
        [
            {**good, "right_form": True},
            {**good, "right_form": True, "margin": 4.0, "beyond": np.nan},
            {**good, "right_form": False, "pattern": 0.4, "beyond": np.nan},
            {**good, "right_form": False, "beyond": 1e-6},
        ]
    )
    limits = robustness.verdict_limits(tables)
    both = limits[["wrongly trusted", "right but refused"]].apply(tuple, axis=1)
    present = limits.index.get_level_values("limit").str.contains("present")
    assert set(both[present]) == {(0, 1)}
    assert both["pattern in the residuals", "0.5"] == (1, 1)
    assert both["better than other forms by", "3"] == (0, 0)
    assert both["chance of the error beyond", "none"] == (1, 1)
    assert present.sum() == len(robustness.LIMITS)
