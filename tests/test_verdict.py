"""The verdict tells good data from noise."""

import numpy as np
import pandas as pd
import pytest
import sympy
from small import QUICK

import peql
from peql import results
from peql.analysis.comparison import form
from peql.analysis.verdict import trade_off, verdict
from peql.chapters import robustness
from peql.columns import select


@pytest.fixture(scope="module")
def data():
    return peql.datasets.load("f4", n_t=8, n_train=64)


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


def test_error_falls_with_the_number_of_weights(data):
    model = peql.SEQL(**QUICK).fit(data.X_train, data.y_train)
    table = trade_off(model, data.y_train)
    front = table[table["front"]]
    assert front["weights"].is_monotonic_increasing
    assert front["unexplained"].is_monotonic_decreasing
    assert front["unexplained"].iloc[-1] < 1e-20 < 1e-3 < front["unexplained"].iloc[-2]
    assert front["weights"].iloc[-1] == model.formula_.n_weights


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
        expected |= {"w"} if condition == "irrelevant column" else set()
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
            "trustworthy": [True, False, False, True],
            "failed": [np.nan, "size of a(group) / its standard error", "p; q", np.nan],
            "equation": "x",
        }
    )
    rates = robustness.verdict_rates(tables)
    assert rates.loc["all"].tolist() == [4, 1, 1, 1, 1]
    assert (rates.drop(columns="tables").sum(axis=1) == rates["tables"]).all()
    assert "trustworthy 1 times (25.0% of the tables, 50.0% of the 2" in (
        robustness.verdict_summary(tables)
    )
    assert "1 take for constant" in robustness.verdict_summary(tables)
    assert robustness.wrongly_trusted(tables)["condition"].tolist() == ["constant column"]
    assert robustness.refusals(tables).loc["size / error"].tolist() == [1, 1, 0, 0]
