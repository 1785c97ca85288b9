"""What the chapters show: models fitted to several datasets, and tables beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch

from .. import datasets, estimators, paper
from .._suggest import unknown_name
from ..datasets import Dataset
from ..evaluation import has_true_terms, scaled_mse
from ..formatting import error, scientific, symbol, tex, text
from ..truth import feature, on_grid, true_equation

Case = tuple[Dataset, dict[str, Any]]
Cases = Mapping[str, Case]
MODELS = ("EQL", "SEQL", "HEQL")


def set_up() -> None:
    """One thread, so that a seed gives the same numbers anywhere; tables shown in full."""
    torch.set_num_threads(1)
    pd.set_option("display.max_colwidth", None)
    pd.set_option("display.max_columns", None)
    pd.set_option("display.width", 1000)


def fit(functions: Iterable[str], models: Iterable[str], *, seed: int, **options: Any) -> Cases:
    """Each dataset with each model fitted to it; ``options`` go to the models."""
    models = list(models)
    for name in models:
        if name not in MODELS:
            raise unknown_name("model", name, MODELS)
    cases = {}
    for function in functions:
        data = datasets.load(function, random_state=seed)
        fitted = {}
        for name in models:
            model = getattr(estimators, name)(varying=data.varying, random_state=seed, **options)
            fitted[name] = model.fit(data.X_train, data.y_train)
        cases[function] = (data, fitted)
    return cases


def misses(cases: Cases, bound: float = 1e-8) -> list[str]:
    """The fits without exactly the true terms, or with a test error above ``bound``."""
    return [
        f"{name} on {function}: {model.equation_}"
        for function, (data, models) in cases.items()
        for name, model in models.items()
        if not has_true_terms(model.equation_, data) or mse(model, data) > bound
    ]


# --- errors ---------------------------------------------------------------------------------


def mse(model: Any, data: Dataset, *, raw: bool = False) -> float:
    """Mean squared error on the test rows, in the paper's units or in y's own."""
    difference = (model.predict(data.X_test) - data.y_test).to_numpy()
    return float(np.mean(difference**2)) if raw else scaled_mse(data, data.X_test, difference)


def split_error(data: Dataset, predicted: np.ndarray) -> tuple[float, float]:
    """The test error inside and outside the training range of x, in the paper's units."""
    x, known = data.X_test[feature(data)], data.X_train[feature(data)]
    inside = x.between(known.min(), known.max()).to_numpy()
    difference = predicted - data.y_test.to_numpy()
    return (
        scaled_mse(data, data.X_test[inside], difference[inside]),
        scaled_mse(data, data.X_test[~inside], difference[~inside]),
    )


def evaluate(equation: sympy.Expr, data: Dataset) -> np.ndarray:
    """An equation in all columns of the data, with fixed numbers, at the test rows."""
    columns = list(data.X_test.columns)
    function = sympy.lambdify([sympy.Symbol(c) for c in columns], equation, "numpy")
    values = function(*(data.X_test[c].to_numpy() for c in columns))
    return np.broadcast_to(values, len(data.X_test))


def polynomial_error(data: Dataset, degree: int = 4) -> float:
    """The test error of a polynomial in x fitted at each t on its own, in the paper's units."""
    x, t = feature(data), data.varying
    predicted = pd.Series(0.0, index=data.X_test.index)
    train, test = data.X_train.groupby(t).groups, data.X_test.groupby(t).groups
    for value, rows in train.items():
        fitted = np.polynomial.Polynomial.fit(data.X_train[x][rows], data.y_train[rows], degree)
        predicted[test[value]] = fitted(data.X_test[x][test[value]].to_numpy())
    return scaled_mse(data, data.X_test, (predicted - data.y_test).to_numpy())


# --- tables ---------------------------------------------------------------------------------


def equations(cases: Cases, spec: str = "#.2g") -> pd.DataFrame:
    """The true equation of each dataset and those found; numbers in the format ``spec``."""
    rows = {
        tex(symbol(function)): {
            "true": tex(text(data.equation)),
            **{name: tex(text(model.equation_, spec)) for name, model in models.items()},
        }
        for function, (data, models) in cases.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def equations_at(cases: Cases, model: str, t: Sequence[float]) -> pd.DataFrame:
    """The equations that one model found, with their numbers at several t, beside the paper's."""
    rows = {}
    for function, (data, models) in cases.items():
        printed = paper.table("analytic_equations", function, model)
        for value, paper_equation in zip(t, printed, strict=True):
            point = on_grid(data, value)
            rows[tex(symbol(function)), tex(f"{value:.3f}")] = {
                "true": tex(text(true_equation(data, point))),
                f"{model}, here": tex(text(models[model].equation(t=point))),
                f"{model}, paper": tex(paper_equation),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(columns=data.varying)


def errors(cases: Cases) -> pd.DataFrame:
    """Test errors of the fitted models, with the paper's."""
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for function, (data, models) in cases.items():
        row = rows[tex(symbol(function))] = {}
        for name, model in models.items():
            row[name, "here"] = error(mse(model, data))
            row[name, "here, raw units"] = error(mse(model, data, raw=True))
            for kind in ("best", "mean"):
                level = paper.table("analytic_mse", kind, function, name)
                row[name, f"paper, {kind}"] = scientific(level, 3)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.columns = pd.MultiIndex.from_tuples(next(iter(rows.values())))
    return table


def failures(cases: Cases) -> pd.DataFrame:
    """EQL's equation and the paper's, their terms and their errors inside and outside."""
    rows = {}
    for function, (data, models) in cases.items():
        found = {"here": text(models["EQL"].equation_, "#.2g")}
        if function in paper.table("eql_failure"):
            found["paper"] = paper.table("eql_failure", function, "learned")
        for source, written in found.items():
            equation = models["EQL"].equation_ if source == "here" else sympy.parse_expr(written)
            inside, outside = split_error(data, evaluate(equation, data))
            rows[tex(symbol(function)), source] = {
                "equation": tex(written),
                "terms": len(sympy.Add.make_args(sympy.expand(equation))),
                "MSE inside": scientific(inside),
                "MSE outside": scientific(outside),
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def statistics(results: pd.DataFrame) -> pd.DataFrame:
    """What the stored trials of each function and model come to, with the paper's best error."""
    rows = {}
    results = results.sort_values("function", kind="stable")
    for key, trials in results.groupby(["function", "model"], sort=False):
        function, name = map(str, key)
        mse, validation = trials["test_mse_scaled"], trials["validation_error"]
        rows[tex(symbol(function)), name] = {
            "true terms": f"{trials['true_terms'].sum()} of {len(trials)}",
            "picked by validation": scientific(mse.iloc[validation.to_numpy().argmin()], 1),
            "picked by test error": scientific(mse.min(), 1),
            "mean": scientific(mse.mean(), 1),
            "worst": scientific(mse.max(), 1),
            "worst, raw units": scientific(trials["test_mse_raw"].max(), 1),
            "paper, best": scientific(paper.table("analytic_mse", "best", function, name), 3),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def missed_trials(results: pd.DataFrame) -> pd.DataFrame:
    """The stored trials without exactly the true terms; none leaves the table empty."""
    missed = results[~results["true_terms"]]
    table = missed[["model", "function", "seed"]].assign(
        equation=[tex(text(sympy.parse_expr(found), "#.2g")) for found in missed["equation"]],
        error=missed["test_mse_scaled"].map(lambda value: scientific(value, 1)),
    )
    return table.rename(columns={"error": "test MSE"}).set_index(["model", "function"])


def between(results: pd.DataFrame) -> pd.DataFrame:
    """HEQL's worst error at the training t and midway between them."""
    trials = results[results["model"] == "HEQL"].groupby("function")
    table = trials[["test_mse_scaled", "midpoint_mse_scaled"]].max().map(scientific)
    table.columns = ["worst at the training t", "worst midway between them"]
    return table.rename(index=lambda function: tex(symbol(function))).rename_axis(None)
