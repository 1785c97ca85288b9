"""Laws of the three models."""

import numpy as np
import pandas as pd
import pytest
import sympy
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from small import HASTY, QUICK

import peql
from peql import primitives, solution
from peql.analysis.comparison import coefficient_deviations, has_true_terms
from peql.equation.reading import structure
from peql.estimators import tabular as estimators

MODELS = [peql.EQL, peql.SEQL, peql.HEQL]
VARYING = [peql.SEQL, peql.HEQL]


def terms(model):
    return structure(model.equation_, model.feature_names_)


# --- what is found -------------------------------------------------------------------------


@pytest.mark.parametrize("cls", VARYING)
@pytest.mark.parametrize("name", ["f1", "f2", "f4", "f5"])
def test_benchmarks_are_recovered(cls, name):
    data = peql.datasets.load(name, n_t=8, n_train=64)
    options = QUICK | ({"max_iter": 800} if name in ("f2", "f5") else {})
    model = cls(**options).fit(data.X_train, data.y_train)
    assert has_true_terms(model.equation_, data), model.equation_
    assert coefficient_deviations(model, data).max() < 1e-9
    assert np.mean((model.predict(data.X_test) - data.y_test) ** 2) < 1e-18


def test_default_settings_recover_f1(f1):
    model = peql.SEQL(varying="t", random_state=1).fit(f1.X_train, f1.y_train)
    assert has_true_terms(model.equation_, f1), model.equation_


def test_eql_finds_an_equation_without_varying_coefficients():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.uniform(-2, 2, (300, 2)), columns=["x", "t"])
    model = peql.EQL(**QUICK).fit(X, 2 * X["x"] ** 2 - 0.5 * X["t"])
    assert model.equation_ == 2.0 * sympy.Symbol("x") ** 2 - 0.5 * sympy.Symbol("t")
    assert model.equation(t=4.0) == 2.0 * sympy.Symbol("x") ** 2 - 2.0
    assert model.coefficients_.shape[1] == 0


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noise_changes_numbers_not_terms(f1, noise):
    y = f1.y_train + noise * f1.y_train.std() * np.random.default_rng(0).normal(
        size=len(f1.y_train)
    )
    model = peql.SEQL(**QUICK).fit(f1.X_train, y)
    assert has_true_terms(model.equation_, f1), model.equation_
    assert coefficient_deviations(model, f1).max() < 20 * noise


def test_primitive_of_ones_own_is_found():
    cube = primitives.register(primitives.Primitive("cube", lambda g: g**3, lambda g: g**3))
    try:
        random = np.random.default_rng(0)
        X = pd.DataFrame({"x": random.uniform(-2, 2, 320), "t": np.repeat(np.arange(8.0), 40)})
        y = (X["t"] + 1) * X["x"] ** 3
        model = peql.SEQL(**QUICK | {"primitives": ["identity", cube]}).fit(X, y)
        assert str(model.equation_) == "x**3*a(t)"
        np.testing.assert_allclose(model.coefficients_["a"], np.arange(8.0) + 1)
        by_name = peql.SEQL(**QUICK | {"primitives": ["identity", "cube"]}).fit(X, y)
        assert by_name.equation_ == model.equation_
    finally:
        del primitives._REGISTRY["cube"]


def test_unregistered_primitive_with_a_sympy_function_is_found():
    exp = primitives.Primitive("exp", torch.exp, sympy.exp)
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.uniform(-1, 1, 320), "t": np.repeat(np.arange(8.0), 40)})
    y = (X["t"] + 1) * np.exp(2 * X["x"])
    model = peql.SEQL(**QUICK | {"primitives": ["identity", exp], "max_iter": 800}).fit(X, y)
    assert str(model.equation_) == "a(t)*exp(2.0*x)"


# --- the table -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", VARYING)
def test_any_number_of_rows_per_t(cls, f1):
    kept = np.random.default_rng(0).random(len(f1.X_train)) < (f1.X_train["t"] + 4) / 9
    assert f1.X_train[kept]["t"].value_counts().nunique() > 3
    model = cls(**QUICK).fit(f1.X_train[kept], f1.y_train[kept])
    assert has_true_terms(model.equation_, f1), model.equation_
    assert np.mean((model.predict(f1.X_test) - f1.y_test) ** 2) < 1e-18


def test_heql_joins_a_short_t_to_its_neighbour(f1):
    kept = (f1.X_train["t"] > -3) | (np.arange(len(f1.X_train)) < 3)
    model = peql.HEQL(**QUICK).fit(f1.X_train[kept], f1.y_train[kept])
    assert has_true_terms(model.equation_, f1), model.equation_
    assert np.mean((model.predict(f1.X_test) - f1.y_test) ** 2) < 1e-12


@pytest.mark.parametrize("position", [0, 1, -1])
def test_array_with_an_index_equals_dataframe(position, f1, hasty):
    columns = ["t", "x"] if position == 0 else ["x", "t"]
    X = f1.X_train[columns].to_numpy()
    model = peql.SEQL(**HASTY | {"varying": position}).fit(X, f1.y_train.to_numpy())
    x = sympy.Symbol("x1" if position == 0 else "x0")
    assert model.equation_ == hasty.equation_.subs(sympy.Symbol("x"), x)
    assert model.varying_names_ == ["t"]
    np.testing.assert_array_equal(model.predict(X), hasty.predict(f1.X_train))


def test_heql_takes_scattered_t():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.uniform(-2, 2, (800, 2)), columns=["x", "t"])
    y = (X["t"] + 3) * X["x"] ** 2 + 1 + X["t"] / 2
    model = peql.HEQL(**QUICK).fit(X, y)
    x, t = sympy.symbols("x t")
    a, b = (sympy.Function(name)(t) for name in "ab")
    assert model.equation_ == a * x**2 + b
    assert model.score(X, y) > 1 - 1e-6
    edge = X["t"].abs() > 1.9  # ranges of t end before the data do; the lines go on
    assert np.abs(model.predict(X[edge]) - y[edge]).max() < 1e-2


def test_odd_column_names_stay_names(f1):
    name, varying = "__import__('os').abort()", "lambda"
    X = f1.X_train.set_axis([name, varying], axis=1)
    model = peql.SEQL(**QUICK | {"varying": varying}).fit(X, f1.y_train)
    s, v = sympy.Symbol(name), sympy.Symbol(varying)
    a, b = (sympy.Function(letter)(v) for letter in "ab")
    assert model.equation_ == a * s**2 + b * s
    assert model.coefficients_.index.name == varying


def test_coefficient_letters_avoid_columns(f1):
    X = f1.X_train.set_axis(["a", "b"], axis=1)
    model = peql.SEQL(**HASTY | {"varying": "b"}).fit(X, f1.y_train)
    assert len(model.coefficients_.columns) > 1
    assert not {"a", "b"} & set(model.coefficients_)


# --- t -------------------------------------------------------------------------------------


def test_seql_names_its_range_at_an_unseen_t(seql, f1):
    message = "t = 0.5 was not in the training data.*from -3 to 3.*HEQL"
    with pytest.raises(ValueError, match=message):
        seql.predict(f1.X_test.assign(t=0.5))
    with pytest.raises(ValueError, match=message):
        seql.equation(t=0.5)
    with pytest.raises(ValueError, match="t = 9 was not"):
        seql.equation(t=9)


def test_seql_knows_a_t_printed_shorter(f1):
    X = f1.X_train.assign(t=f1.X_train["t"] / 7)
    model = peql.SEQL(**HASTY).fit(X, f1.y_train)
    assert model.equation(t=0.4286) == model.equation(t=3 / 7)


def test_heql_predicts_between_and_beyond():
    data = peql.datasets.load("f4", n_t=40, n_train=64)
    model = peql.HEQL(**QUICK).fit(data.X_train, data.y_train)
    X = data.X_test[data.X_test["t"] != data.X_test["t"].max()]
    X = X.assign(t=X["t"] + 0.05)
    y = X["t"] * X["x"] ** 2 + 3 * np.sin(X["t"]) * X["x"]
    assert np.mean((model.predict(X) - y) ** 2) < 1e-3 * y.var()
    with pytest.warns(UserWarning, match="outside the fitted range"):
        assert np.isfinite(model.predict(X.assign(t=100.0))).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, "one"])
def test_equation_at_no_number(fitted, value):
    with pytest.raises(ValueError):
        fitted.equation(t=value)


# --- trials --------------------------------------------------------------------------------


def test_trials_have_a_row_each(f1):
    model = peql.SEQL(**QUICK | {"n_trials": 2}).fit(f1.X_train, f1.y_train)
    assert len(model.trials_) == 2
    columns = {"train_error", "validation_error", "complexity", "equation", "seconds"}
    assert columns <= set(model.trials_)
    assert model.trials_["equation"][model.best_trial_] == str(model.equation_)
    assert (model.trials_["seconds"] > 0).all()
    assert has_true_terms(model.equation_, f1)


@pytest.mark.parametrize(
    ("validation", "complexity", "best"),
    [
        ([1.0, 1e-3, 0.5], [3, 9, 3], 1),  # a clearly smaller error wins
        ([1e-3, 1.2e-3, 1.0], [9, 5, 1], 1),  # of two alike the simpler
        ([1e-30, 1e-27, 1.0], [9, 5, 1], 1),  # both are exact
        ([np.inf, 1e-3, np.inf], [1, 9, 1], 1),  # one that cannot be evaluated never wins
        ([np.nan, np.nan, np.nan], [9, 9, 9], 2),  # nothing held out: by the training error
    ],
)
def test_best_trial_is_by_validation_and_simplicity(validation, complexity, best):
    trials = pd.DataFrame(
        {
            "train_error": [0.3, 0.2, 0.1],
            "validation_error": validation,
            "complexity": complexity,
            "method": "network",
            "criterion": 0.0,
        }
    )
    assert estimators.choose(trials, exact=1e-22) == best


def test_a_quarter_of_each_t_is_held_out_and_no_row_is_in_both_parts(f1):
    X, y = f1.X_train, f1.y_train.to_numpy()
    kept = estimators.arrange(
        X[["x"]].to_numpy(),
        X[["t"]].to_numpy(),
        y,
        validation_fraction=0.25,
        pool_below=0,
        random=np.random.default_rng(0),
    )
    counts = X["t"].value_counts().sort_index().to_numpy()
    assert kept.held_out.mask.sum(-1).tolist() == (counts // 4).tolist()
    rows = [part.y[part.mask > 0] * kept.scales.y for part in (kept.points, kept.held_out)]
    np.testing.assert_allclose(np.sort(torch.cat(rows)), np.sort(y), atol=1e-12)


def test_paper_protocol_without_refinement():
    data = peql.datasets.load("f3", n_t=8, n_train=64)
    model = peql.SEQL(**QUICK | {"refine": False, "max_iter": 800}).fit(data.X_train, data.y_train)
    assert model.score(data.X_train, data.y_train) > 0.99
    assert terms(model) == structure(data.equation, ["x"])
    assert 1e-12 < coefficient_deviations(model, data).max() < 0.1  # as trained, not solved
    assert 0 < abs(model.coefficients_["a"][0.0]) < 0.01  # below the threshold: not written
    assert model.equation(t=0.0) == 0
    assert model.equation(t=3.0) != 0


def diverging_train(monkeypatch, times):
    """Make the first ``times`` trainings end in NaN for their first trial."""
    original, calls = estimators.train, []

    def train(network, *arguments):
        loss = original(network, *arguments)
        calls.append(len(loss))
        if len(calls) <= times:
            loss[0] = torch.nan
        return loss

    monkeypatch.setattr(estimators, "train", train)
    return calls


def test_trial_that_diverges_begins_again_and_says_so(monkeypatch, f1):
    calls = diverging_train(monkeypatch, 1)
    model = peql.SEQL(**HASTY | {"n_trials": 2})
    with pytest.warns(UserWarning, match="trial 0: the loss became NaN, it begins again"):
        model.fit(f1.X_train, f1.y_train)
    assert calls == [2, 1]
    assert model.trials_["restarts"].tolist() == [1, 0]
    assert np.isfinite(model.predict(f1.X_test)).all()


@pytest.mark.filterwarnings("ignore:trial 0:UserWarning")
def test_trial_that_always_diverges_is_an_error(monkeypatch, f1):
    diverging_train(monkeypatch, 99)
    with pytest.raises(RuntimeError, match="diverged 4 times: check the data"):
        peql.SEQL(**HASTY).fit(f1.X_train, f1.y_train)


# --- random numbers ------------------------------------------------------------------------


def test_same_seed_same_result_whatever_torch_did(f1, hasty):
    torch.manual_seed(123)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    model = peql.SEQL(**HASTY).fit(f1.X_train, f1.y_train)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    np.testing.assert_array_equal(model.predict(f1.X_test), hasty.predict(f1.X_test))


def test_random_state_may_be_a_generator(f1):
    one, two = (
        peql.SEQL(**HASTY | {"random_state": np.random.RandomState(3)}).fit(f1.X_train, f1.y_train)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.predict(f1.X_test), two.predict(f1.X_test))


# --- scikit-learn --------------------------------------------------------------------------


@pytest.mark.parametrize("cls", MODELS)
def test_parameters_are_only_stored(cls):
    model = cls(varying="t", n_trials=3)
    assert model.get_params()["n_trials"] == 3
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(max_iter=7).max_iter == 7
    assert ("smoothness" in model.get_params()) == (cls is peql.SEQL)
    with pytest.raises(TypeError):
        cls("t")  # keyword-only
    with pytest.raises(ValueError, match="Invalid parameter 'n_trial'"):
        model.set_params(n_trial=2)
    assert repr(cls(varying="t")) == f"{cls.__name__}(varying='t')"


def test_pipeline_cross_validation_and_grid_search(f1):
    fast = peql.SEQL(**HASTY | {"max_iter": 100})
    folds = KFold(2, shuffle=True, random_state=0)  # each with rows of every t
    pipeline = make_pipeline(FunctionTransformer(), fast)
    scores = cross_val_score(pipeline, f1.X_train, f1.y_train, cv=folds)
    assert (scores > 0.5).all()
    grid = {"l0_weight": np.array([1e-3, 3e-3]), "max_iter": np.array([1, 100])}
    search = GridSearchCV(fast, grid, cv=folds).fit(f1.X_train, f1.y_train)
    assert search.best_params_["max_iter"] == 100
    assert search.best_estimator_.score(f1.X_train, f1.y_train) > 0.5
    assert search.best_estimator_.equation_ != 0


def test_refitting_forgets(f1):
    model = peql.SEQL(**QUICK).fit(f1.X_train, f1.y_train)
    model.fit(f1.X_train.rename(columns={"x": "z"}), 0 * f1.y_train + 2)
    assert model.equation_ == 2.0
    assert model.feature_names_ == ["z"]
    assert model.coefficients_.shape[1] == 0


def test_latex_has_the_asked_precision(seql):
    assert seql.latex() == r"a(t) \, x^{2} + b(t) \, x"
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.uniform(-1, 1, 200), "t": np.repeat(np.arange(4.0), 50)})
    model = peql.SEQL(**QUICK).fit(X, 1.23456 * X["x"])
    assert model.latex(precision=3) == r"1.23 \, x"
    assert model.latex(precision=5) == r"1.2346 \, x"


def test_prediction_of_many_t_is_made_in_blocks(heql, monkeypatch, f1):
    X = f1.X_test.assign(t=np.linspace(-3, 3, len(f1.X_test)))
    whole = heql.predict(X)
    monkeypatch.setattr(solution, "BLOCK", 100)
    np.testing.assert_allclose(heql.predict(X), whole, rtol=1e-12, atol=1e-12)


def two_columns(n=24, points=24, seed=0):
    """y = t1 t2 x + x² over scattered (t1, t2), ``points`` rows at each."""
    random = np.random.default_rng(seed)
    t = np.repeat(random.uniform(-1, 1, (n, 2)), points, axis=0)
    table = pd.DataFrame({"t1": t[:, 0], "x": random.uniform(-2, 2, len(t)), "t2": t[:, 1]})
    return table, table["t1"] * table["t2"] * table["x"] + table["x"] ** 2


def test_heql_varies_along_several_columns():
    X, y = two_columns()
    model = peql.HEQL(**QUICK | {"varying": ["t1", "t2"]}).fit(X, y)
    assert str(model.equation_) == "x**2 + x*a(t1, t2)"
    np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
    index = model.coefficients_.index
    assert index.names == ["t1", "t2"]
    product = index.get_level_values("t1") * index.get_level_values("t2")
    np.testing.assert_allclose(model.coefficients_["a"], product, atol=1e-9)
    assert model.equation(t=X.loc[0, ["t1", "t2"]]).has(sympy.Symbol("x"))


def test_several_columns_scattered():
    X, y = two_columns(n=4000, points=1)
    model = peql.HEQL(**QUICK | {"varying": ["t1", "t2"]}).fit(X, y)
    assert str(model.equation_) == "x**2 + x*a(t1, t2)"
    # Where a(t1, t2) is a product of two weights, blending each between boxes costs accuracy.
    assert np.mean((model.predict(X) - y) ** 2) < 0.005 * np.var(y)


def test_seql_refuses_several_columns():
    X, y = two_columns()
    with pytest.raises(ValueError, match="use HEQL"):
        peql.SEQL(**QUICK | {"varying": ["t1", "t2"]}).fit(X, y)


@pytest.mark.parametrize("varying", [[], ["t1", "t1"]])
def test_varying_columns_must_differ(varying):
    X, y = two_columns()
    with pytest.raises(ValueError, match="different columns"):
        peql.HEQL(**QUICK | {"varying": varying}).fit(X, y)


def test_prunings_end_with_the_formula_that_was_kept(seql):
    weights, equations = seql.prunings_["weights"], seql.prunings_["equation"]
    assert weights.is_monotonic_increasing and weights.is_unique
    kept = seql.formula_.n_weights
    assert 0 == weights.iloc[0] < kept < weights.iloc[-1]
    assert equations[weights == kept].item() == str(seql.equation_)
