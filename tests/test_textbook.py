"""Two textbook laws with parameters of their own in each experiment."""

import numpy as np
import pytest
import sympy

import peql
from peql import results
from peql.analysis.comparison import coefficient_deviations, has_true_terms
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


def test_decay_is_found():
    data = peql.datasets.load("decay", n_train=40)
    model = peql.SEQL(
        varying="experiment",
        primitives=["one", "identity", "exp"],
        n_layers=1,
        max_iter=400,
        random_state=0,
    ).fit(data.X_train, data.y_train)
    assert has_true_terms(model.equation_, data), model.equation_
    assert coefficient_deviations(model, data).max() < 1e-6


def test_the_stored_sweep_found_both_laws_from_every_seed():
    table = results.load("textbook")
    assert table.groupby("law")["seed"].nunique().to_dict() == dict.fromkeys(PRIMITIVES, 10)
    assert table["true_terms"].all()
