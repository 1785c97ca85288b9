"""The verdict tells good data from noise."""

import numpy as np
import pytest
from small import QUICK

import peql
from peql.verdict import trade_off, verdict


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
    assert "explains too little" in str(judged)


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
    table = trade_off(model, data.X_train, data.y_train)
    front = table[table["front"]]
    assert front["weights"].is_monotonic_increasing
    assert front["unexplained"].is_monotonic_decreasing
    assert front["unexplained"].iloc[-1] < 1e-20 < 1e-3 < front["unexplained"].iloc[-2]
    assert front["weights"].iloc[-1] == len(model.formula_.open)
