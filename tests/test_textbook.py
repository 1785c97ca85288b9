"""Two textbook laws with parameters of their own in each experiment."""

import numpy as np
import pytest
import sympy

import peql
from peql import results
from peql.datasets.textbook import LAWS, PRIMITIVES


@pytest.mark.parametrize("law", LAWS)
def test_rows_obey_the_law(law):
    data = peql.datasets.load(law, n_train=5, n_test=5)
    for X, y in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        for (_, row), value in zip(X.iterrows(), y, strict=True):
            own = data.coefficients.loc[row["experiment"]]
            names = {sympy.Function(k)(sympy.Symbol("experiment")): v for k, v in own.items()}
            written = data.equation.subs(names).subs(sympy.Symbol("t"), row["t"])
            assert float(written) == pytest.approx(value)


def test_noise_is_added_to_the_training_rows_only():
    exact, noisy = (peql.datasets.load("decay", noise=noise) for noise in (0.0, 0.1))
    assert np.std(noisy.y_train - exact.y_train) == pytest.approx(
        0.1 * exact.y_train.std(), rel=0.1
    )
    np.testing.assert_array_equal(noisy.y_test, exact.y_test)


@pytest.mark.parametrize("law", PRIMITIVES)
def test_the_law_is_found_from_a_seed_that_is_not_reported(law):
    row = results.task_module("textbook").run(law, seed=300)
    assert row["true_terms"] and row["test_mse"] < 1e-12, row["equation"]
