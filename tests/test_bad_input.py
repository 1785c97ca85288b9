"""Bad input gives one clear error, or works and is right."""

import numpy as np
import pandas as pd
import pytest
import sympy
import torch
from sklearn.exceptions import DataConversionWarning, NotFittedError
from small import HASTY, QUICK

import peql
from peql.analysis.comparison import has_true_terms

MODELS = [peql.EQL, peql.SEQL, peql.HEQL]


def fit(X, y, cls=peql.SEQL, **options):
    return cls(**QUICK | options).fit(X, y)


# --- errors --------------------------------------------------------------------------------


def with_nan(X):
    X = X.copy()
    X.iloc[[3, 5], 0] = np.nan
    X.iloc[7, 1] = np.inf
    return X


BAD_TABLES = {
    "NaN and infinity": (with_nan, "NaN or infinity: column 'x' has 2, column 't' has 1.*Drop"),
    "missing, nullable": (
        lambda X: X.convert_dtypes().mask(X["x"] > 2.9),
        "NaN or infinity: column 'x' has .*Drop",
    ),
    "NaN in an array": (
        lambda X: with_nan(X).to_numpy(),
        "NaN or infinity: column number 0 has 2, column number 1 has 1",
    ),
    "masked": (
        lambda X: np.ma.masked_greater(X.to_numpy(), 2.9),
        "NaN or infinity: column number 0 has ",
    ),
    "too large": (
        lambda X: X.assign(x=[*X["x"][:3], 10**400, *X["x"][4:]]),
        "column 'x', row 4: 1000.* too large for a floating-point number",
    ),
    "too large, in lists": (
        lambda X: [[10**400, 1.0]] * len(X),
        "column 0, row 1: 1000.* too large for a floating-point number",
    ),
    "beyond the scales": (
        lambda X: X * [1e250, 1],
        "column 'x' of X holds.*give it in other units",
    ),
    "below the scales": (
        lambda X: X * [1e-250, 1],
        "column 'x' of X holds.*give it in other units",
    ),
    "text": (lambda X: X.assign(s="north"), "hold no numbers.*'s'.*Drop them, or encode"),
    "numbers as text": (lambda X: X.astype({"x": str}), "hold no numbers.*'x'"),
    "categories": (
        lambda X: X.assign(c=pd.Categorical(["u", "v"] * (len(X) // 2))),
        "hold no numbers: {'c': 'category'}",
    ),
    "dates": (lambda X: X.assign(d=pd.Timestamp("2024-01-01")), "hold no numbers: {'d': 'datetime"),
    "objects": (lambda X: X.assign(o=[None] * len(X)), "hold no numbers.*'o'"),
    "complex": (lambda X: X.assign(c=1j), "hold no numbers: {'c': 'complex128'}"),
    "twice the same name": (lambda X: pd.concat([X, X], axis=1), r"\['x', 't'\].*more than once"),
    "no rows": (lambda X: X[:0], "X is empty"),
    "too few rows": (lambda X: X[:-1], "X has 511 rows and y has 512: each row of X needs one y"),
    "no columns": (lambda X: X[[]], "no columns"),
    "no such varying column": (
        lambda X: X.rename(columns={"t": "time"}),
        "unknown varying column 't': .*Known: x, time",
    ),
    "array, varying a name": (lambda X: X.to_numpy(), "varying='t', but X has no column names"),
    "one dimension": (lambda X: X["x"].to_numpy(), "Expected 2D array, got 1D array"),
}


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("case", BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_bad_tables(case, cls, f1):
    change, message = case
    with pytest.raises(ValueError, match=message):
        fit(change(f1.X_train), f1.y_train, cls)


BAD_TARGETS = {
    "NaN": (lambda y: y.where(y.index != 3), "y has 1 values that are NaN or infinity: drop"),
    "NaN in a list": (lambda y: [np.nan, *y[1:]], "y has 1 values that are NaN"),
    "masked": (lambda y: np.ma.masked_array(y, mask=y.index == 3), "y has 1 values that are NaN"),
    "too large": (lambda y: [10**400, *y[1:]], "column 'y', row 1: 1000.* too large"),
    "beyond the scales": (lambda y: y * 1e160, "y holds numbers up to .* give it in other units"),
    "infinity": (lambda y: y.where(y.index != 3, -np.inf), "y has 1 values"),
    "missing, nullable": (lambda y: y.convert_dtypes().where(y.index > 4), "y has 5 values"),
    "text": (lambda y: y.astype(str) + " m", "y holds no numbers.*pass a numeric column"),
    "text in an array": (lambda y: y.astype(str).to_numpy(), "y holds no numbers"),
    "dates": (lambda y: pd.to_datetime(y, unit="s"), "y holds no numbers but datetime"),
    "too short": (lambda y: y[:-2], "X has 512 rows and y has 510"),
    "two columns": (lambda y: np.stack([y, y], axis=1), "y should be a 1d array"),
    "nothing": (lambda y: None, "requires y to be passed"),
}


@pytest.mark.parametrize("case", BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_bad_targets(case, f1):
    change, message = case
    with pytest.raises(ValueError, match=message):
        fit(f1.X_train, change(f1.y_train))


BAD_OPTIONS = [
    ({"varying": "T"}, "unknown varying column 'T'.*Known: x, t"),
    ({"varying": "tt"}, "did you mean 't'"),
    ({"varying": 2}, "varying=2: X has 2 columns, numbered 0 to 1"),
    ({"varying": 0.5}, "varying=0.5: expected a column's name or position"),
    ({"varying": None}, "varying=None: expected a column's name or position"),
    ({"primitives": ["sine"]}, "unknown primitive 'sine': did you mean 'sin'"),
    ({"n_trials": 0}, "n_trials=0: expected a whole number of at least 1"),
    ({"n_layers": 1.5}, "n_layers=1.5: expected a whole number"),
    ({"max_iter": "many"}, "max_iter='many': expected a whole number"),
    ({"l0_weight": -1.0}, r"l0_weight=-1.0: expected a number in \[0, inf\)"),
    ({"smoothness": np.nan}, r"smoothness=nan: expected a number in \[0, inf\)"),
    ({"validation_fraction": 1.0}, r"validation_fraction=1.0: expected a number in \[0, 1\)"),
    ({"device": "gpu"}, "device='gpu': expected 'cpu' or 'cuda'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options(options, message, f1):
    with pytest.raises(ValueError, match=message):
        fit(f1.X_train, f1.y_train, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cuda_without_cuda(device, f1):
    with pytest.raises(ValueError, match="no CUDA device here; use device='cpu'"):
        fit(f1.X_train, f1.y_train, device=device)


@pytest.mark.parametrize(
    ("name", "hint"), [("f6", "f5"), ("burger", "burgers"), ("F1", ""), ("", "")]
)
def test_unknown_dataset(name, hint):
    message = f"unknown dataset '{name}':.*{hint}.*Known: f1, f2"
    with pytest.raises(ValueError, match=message):
        peql.datasets.load(name)


def test_too_few_rows_at_some_t(f1):
    kept = (f1.X_train["t"] != 1.0) | (f1.X_train["t"].groupby(f1.X_train["t"]).cumcount() < 3)
    message = r"1 of 7 values of 't' have fewer than 4 rows \(1\).*Drop them, pool.*or use HEQL"
    with pytest.raises(ValueError, match=message):
        fit(f1.X_train[kept], f1.y_train[kept])


def test_varying_column_alone(f1):
    with pytest.raises(ValueError, match="needs at least one more column"):
        fit(f1.X_train[["t"]], f1.y_train)


def test_failed_fit_leaves_no_fitted_model(f1):
    model = peql.SEQL(**QUICK)
    with pytest.raises(ValueError):
        model.fit(with_nan(f1.X_train), f1.y_train)
    for use in (model.predict, lambda X: model.equation(t=1.0), lambda X: model.latex()):
        with pytest.raises(NotFittedError):
            use(f1.X_train)


BAD_PREDICTIONS = {
    "NaN": (with_nan, "column 'x' has 2"),
    "text": (lambda X: X.astype({"x": str}), "hold no numbers"),
    "other columns": (lambda X: X.rename(columns={"x": "z"}), "feature names should match"),
    "other order": (lambda X: X[["t", "x"]], "same order"),
    "more columns": (lambda X: X.assign(z=1.0), "feature names should match"),
    "no rows": (lambda X: X[:0], "X is empty"),
}


@pytest.mark.parametrize("case", BAD_PREDICTIONS.values(), ids=BAD_PREDICTIONS.keys())
def test_bad_tables_to_predict(case, fitted, f1):
    change, message = case
    with pytest.raises(ValueError, match=message):
        fitted.predict(change(f1.X_train))


# --- what works ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "x_unit", "y_unit"),
    [
        (peql.SEQL, 1, 1e12),
        (peql.SEQL, 1, 1e-12),
        (peql.HEQL, 1, 1e12),
        (peql.SEQL, 1e9, 1),
        (peql.SEQL, 1e-9, 1),
    ],
)
def test_any_units(cls, x_unit, y_unit, f1):
    model = fit(x_unit * f1.X_train, y_unit * f1.y_train, cls)
    assert has_true_terms(model.equation_, f1), model.equation_
    found = model.coefficients_.to_numpy() * [x_unit**2 / y_unit, x_unit / y_unit]
    np.testing.assert_allclose(found, f1.coefficients.to_numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [5.0, -1e-7, 0.0])
@pytest.mark.parametrize("cls", MODELS)
def test_constant_y(cls, value, f1):
    y = np.full(len(f1.X_train), value)
    model = fit(f1.X_train, y, cls)
    assert model.equation_.is_number
    assert float(model.equation_) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(model.predict(f1.X_test), value)
    assert float(model.equation(t=3.0)) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("cls", MODELS)
def test_one_t_only(cls, f1):
    one = f1.X_train["t"] == 2.0
    spare = ["one", "identity", "square", "square"]
    model = fit(f1.X_train[one], f1.y_train[one], cls, primitives=spare)
    x = sympy.Symbol("x")
    assert model.equation_ == model.equation(t=2.0) == 2.0 * x**2 + 3.0 * x


SAME_TABLES = {
    "objects": lambda X: X.astype(object),
    "nullable": lambda X: X.convert_dtypes(),
    "float32 t": lambda X: X.astype({"t": np.float32}),
    "integer t": lambda X: X.astype({"t": int}),
    "other index": lambda X: X.set_axis(range(1000, 1000 + len(X))),
}


@pytest.mark.parametrize("change", SAME_TABLES.values(), ids=SAME_TABLES.keys())
def test_tables_that_are_the_same(change, f1, hasty):
    X = change(f1.X_train)
    before = X.copy(deep=True)
    model = fit(X, f1.y_train, **HASTY)
    pd.testing.assert_frame_equal(X, before)
    assert model.equation_ == hasty.equation_
    np.testing.assert_array_equal(model.predict(X), hasty.predict(f1.X_train))


SAME_TARGETS = {
    "array": np.asarray,
    "list": list,
    "objects": lambda y: y.astype(object),
    "nullable": lambda y: y.convert_dtypes(),
    "other index": lambda y: y.set_axis(range(1000, 1000 + len(y))),
}


@pytest.mark.parametrize("change", SAME_TARGETS.values(), ids=SAME_TARGETS.keys())
def test_targets_that_are_the_same(change, f1, hasty):
    model = fit(f1.X_train, change(f1.y_train), **HASTY)
    np.testing.assert_array_equal(model.predict(f1.X_test), hasty.predict(f1.X_test))


def test_target_with_one_column_is_taken_with_a_warning(f1, hasty):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = fit(f1.X_train, f1.y_train.to_frame(), **HASTY)
    np.testing.assert_array_equal(model.predict(f1.X_test), hasty.predict(f1.X_test))


@pytest.mark.parametrize("column", [0.0, 7.0, True], ids=["zero", "constant", "all true"])
def test_columns_that_say_nothing(column, f1):
    model = fit(f1.X_train.assign(c=column)[["c", "x", "t"]], f1.y_train)
    np.testing.assert_allclose(
        model.predict(f1.X_test.assign(c=column)[["c", "x", "t"]]), f1.y_test, atol=1e-8
    )


def test_bool_and_integer_columns_are_numbers(f1):
    random = np.random.default_rng(0)
    X = f1.X_train.assign(flag=random.random(len(f1.X_train)) < 0.5)
    X["n"] = random.integers(-4, 5, len(X))
    y = (X["t"] + 5) * X["flag"] + 2 * X["n"]
    model = fit(X, y)
    flag, n = sympy.symbols("flag n")
    assert model.score(X, y) == pytest.approx(1.0)
    assert model.equation(t=1.0).subs({flag: 1, n: 2}) == pytest.approx(10.0)


def test_too_many_features_are_refused_at_once():
    X = np.zeros((20, 1001))
    with pytest.raises(ValueError, match="1000 features: a law is looked for among at most 256"):
        peql.SEQL(verbose=False).fit(X, np.arange(20.0))


def dated():
    random = np.random.default_rng(300)
    day = np.repeat(np.arange(6.0), 20)
    X = pd.DataFrame({"x": random.uniform(1, 3, 120)})
    X["day"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(day, unit="D")
    return X, (1 + day) * X["x"]


@pytest.mark.parametrize("model", [peql.SEQL, peql.HEQL])
def test_dates_are_days_since_an_origin(model):
    X, y = dated()
    fitted = model(varying="day", method="search", verbose=False).fit(X, y)
    assert fitted.coefficients_.index.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(fitted.predict(X), y)
    assert fitted.equation("2000-01-03") == fitted.equation(2.0)
    assert fitted.equation(pd.Timestamp("2000-01-03")) == fitted.equation(2.0)


def test_heql_warns_beyond_the_range_of_t():
    X, y = dated()
    fitted = peql.HEQL(varying="day", method="search", verbose=False).fit(X, y)
    with pytest.warns(UserWarning, match="1 of 120 rows have day outside"):
        fitted.predict(X.assign(day=X["day"].where(X.index > 0, pd.Timestamp("2001-01-01"))))
