"""What the chapters show: models fitted to several datasets, and tables beside the paper's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
import torch

from .. import datasets, results
from .._suggest import unknown_name
from ..analysis.comparison import has_true_terms, scaled_mse
from ..analysis.truth import feature, on_grid, true_equation
from ..datasets import Dataset
from ..equation.tex import Printer, cut, inline, tex
from ..equation.writing import ROUNDING, error, scientific, without_zeros
from ..estimators import tabular as estimators
from . import paper
from .recording import record

Case = tuple[Dataset, dict[str, Any]]
Cases = Mapping[str, Case]
MODELS = ("EQL", "SEQL", "HEQL")
BOUND = 1e-8  # of the test error of a fit that misses nothing
ALIKE = 10  # a factor by which errors of different random numbers may differ
NAMES = r"\b(?:(?=f\d|u_)([fu])_?)(\d|t|x+)\b"  # f1, u_t, u_xx in a sentence


def set_up() -> None:
    """Use one thread, so that a seed gives the same numbers anywhere; show tables in full.

    Figures are SVG, and an equation that ends a cell is written in TeX as in the tables.
    """
    torch.set_num_threads(1)
    from IPython import get_ipython  # of the notebooks alone
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    if shell := get_ipython():
        written = shell.display_formatter.formatters["text/latex"]
        written.for_type(sympy.Expr, lambda equation: rf"$\displaystyle {tex(equation)}$")
    plt.rcParams["svg.hashsalt"] = "peql"  # the same figure is the same file
    set_matplotlib_formats("svg", metadata={"Date": None})
    pd.set_option("display.max_colwidth", None)
    pd.set_option("display.max_columns", None)
    pd.set_option("display.width", 1000)


def with_origin(table: Any, *names: str) -> None:
    """Show a table made from one or more ``results/<name>.csv`` and, under it, what made those."""
    from IPython.display import Markdown, display

    display(table, *(Markdown(results.caption(name)) for name in names))


def sentences(table: pd.DataFrame) -> Any:
    """A table whose cells are sentences: their lines break. A named index is a column of it.

    The names of benchmarks and derivatives are set in TeX.
    """
    from IPython.display import HTML

    named = table.index.name is not None
    shown = (table.reset_index() if named else table).replace(NAMES, r"\(\1_{\2}\)", regex=True)
    return HTML(shown.to_html(classes="wraps", index=not named))


def fit(functions: Iterable[str], models: Iterable[str], *, seed: int, **options: Any) -> Cases:
    """Fit each model to each dataset; ``options`` go to the models."""
    models = list(models)
    for name in models:
        if name not in MODELS:
            raise unknown_name("model", name, MODELS)
    cases = {}
    for function in functions:
        data = datasets.load(function, random_state=seed)
        fitted = {}
        for name in models:
            model = fitted[name] = fit_one(name, data, random_state=seed, **options)
            record(
                {"function": function, "model": name, **options},
                equation=model.equation_,
                true_terms=has_true_terms(model.equation_, data),
                test_mse=mse(model, data),
                fit_seconds=model.trials_["seconds"].sum(),
            )
        cases[function] = (data, fitted)
    return cases


def fit_one(model: str, data: Dataset, **options: Any) -> Any:
    """Fit a model by the paper's training; the search has a chapter of its own."""
    chosen = {"varying": data.varying, "method": "network", **options}
    return getattr(estimators, model)(**chosen).fit(data.X_train, data.y_train)


def misses(cases: Cases) -> list[str]:
    """The fits without exactly the true terms, or with a test error above ``BOUND``."""
    return [
        f"{name} on {function}: {model.equation_}"
        for function, (data, models) in cases.items()
        for name, model in models.items()
        if not has_true_terms(model.equation_, data) or mse(model, data) > BOUND
    ]


# --- errors ---------------------------------------------------------------------------------


def mse(model: Any, data: Dataset) -> float:
    """Mean squared error on the test rows, in the paper's units."""
    return scaled_mse(data, data.X_test, (model.predict(data.X_test) - data.y_test).to_numpy())


def split_error(data: Dataset, predicted: np.ndarray) -> tuple[float, float]:
    """The test error inside and outside the training range of x, in the paper's units."""
    x, known = data.X_test[feature(data)], data.X_train[feature(data)]
    inside = x.between(known.min(), known.max()).to_numpy()
    difference = predicted - data.y_test.to_numpy()
    within, beyond = (
        scaled_mse(data, data.X_test[rows], difference[rows]) for rows in (inside, ~inside)
    )
    return within, beyond


def evaluate(equation: sympy.Expr, data: Dataset) -> np.ndarray:
    """The values of an equation with fixed numbers at the test rows."""
    columns = list(data.X_test.columns)
    function = sympy.lambdify([sympy.Symbol(c) for c in columns], equation, "numpy")
    values = function(*(data.X_test[c].to_numpy() for c in columns))
    return np.broadcast_to(values, len(data.X_test))


def polynomial_error(data: Dataset) -> float:
    """The test error of polynomials of degree 4 in x, one for each t, in the paper's units."""
    x, t = feature(data), data.varying
    predicted = pd.Series(0.0, index=data.X_test.index)
    train, test = data.X_train.groupby(t).groups, data.X_test.groupby(t).groups
    for value, rows in train.items():
        fitted = np.polynomial.Polynomial.fit(data.X_train[x][rows], data.y_train[rows], 4)
        predicted[test[value]] = fitted(data.X_test[x][test[value]].to_numpy())
    return scaled_mse(data, data.X_test, (predicted - data.y_test).to_numpy())


# --- tables ---------------------------------------------------------------------------------


def equations(cases: Cases, spec: str = "#.2g") -> pd.DataFrame:
    """The true equation of each dataset and those found; numbers in the format ``spec``."""
    rows = {
        inline(function): {
            "true": inline(data.equation),
            **{name: inline(model.equation_, spec) for name, model in models.items()},
        }
        for function, (data, models) in cases.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def equations_at(
    cases: Cases, model: str, t: Sequence[float], protocol: pd.DataFrame
) -> pd.DataFrame:
    """The equations of one model at several t: the paper's, those of its protocol, the refined.

    ``protocol`` holds the trials of the paper's protocol; the one with the lowest test error is
    shown, which is how the paper picks.
    """
    rows = {}
    for function, (data, models) in cases.items():
        printed = paper.table("analytic_equations", function, model)
        again = best_printed(protocol, function, model)
        for k, value in enumerate(t):
            point = on_grid(data, value)
            true = true_equation(data, point)
            rows[inline(function), rf"\({value:.3f}\)"] = {
                "true": in_terms(true),
                "paper": in_terms(printed[k], true),
                "its protocol, here": (
                    in_terms(sympy.parse_expr(again[k]), true) if again else "not run"
                ),
                "with refinement": in_terms(models[model].equation(t=point), true),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(columns=data.varying)


def best_printed(protocol: pd.DataFrame, function: str, model: str) -> list[str]:
    """The printed equations of the trial with the lowest test error, which is how the paper picks.

    Trials whose equation was too long to print are passed over.
    """
    chosen = protocol[(protocol["function"] == function) & (protocol["model"] == model)]
    chosen = chosen[chosen["printed"].notna()]
    if chosen.empty:
        return []
    best = int(chosen["test_mse_scaled"].to_numpy().argmin())
    return str(chosen["printed"].iloc[best]).split(" | ")


def in_terms(
    equation: sympy.Expr | str, true: sympy.Expr | str | None = None, spec: str = ".3f"
) -> str:
    r"""TeX of a sum, each term a formula of its own: a narrow cell breaks between them.

    An equation given as text keeps the digits that it is printed with. In bold: the numbers that
    differ from those of ``true``, as far as both are printed.

    >>> print(in_terms("1.95*x - 3.004*sin(2.00*x) + 0.02", "1.952*x - 3.000*sin(2.000*x)"))
    \(1.95 \, x\) \(- \mathbf{3.004} \, \sin{\left(2.00 \, x \right)}\) \(+ \mathbf{0.02}\)
    """
    shown, digits = _printed(equation, spec)
    if true is not None:
        differing = list(_differing(shown, digits, *_printed(true, spec)))
        digits |= {n: rf"\mathbf{{{digits[n]}}}" for n in differing}
    return cut(shown, Printer(spec, digits))


NUMBER = re.compile(r"\d+\.\d+")
Digits = dict[sympy.Float, str]  # how each number is printed, without its sign


def _printed(equation: sympy.Expr | str, spec: str) -> tuple[sympy.Expr, Digits]:
    """The equation, without what is zero in the format ``spec``, and its digits."""
    if isinstance(equation, str):
        return sympy.parse_expr(equation), {sympy.Float(n): n for n in NUMBER.findall(equation)}
    shown = without_zeros(equation, spec)
    return shown, {n: Printer(spec).doprint(n) for n in map(abs, shown.atoms(sympy.Float))}


def _differing(
    shown: sympy.Expr, digits: Digits, true: sympy.Expr, true_digits: Digits
) -> Iterator[sympy.Float]:
    """The numbers that are not, but for rounding, those of the same term of ``true``."""
    known = dict(map(_taken_apart, sympy.Add.make_args(true)))
    for form, own in map(_taken_apart, sympy.Add.make_args(shown)):
        for mine, other in zip_longest(own, known.get(form, ())):
            if mine in digits and (
                other is None or _differ(digits[mine], true_digits.get(other, str(other)))
            ):
                yield mine


def _taken_apart(term: sympy.Expr) -> tuple[str, list[sympy.Expr]]:
    """A term's form, with its sign, and its numbers without: the factor, then those inside."""
    factor, rest = term.as_coeff_Mul()
    inside = [part for part in sympy.preorder_traversal(rest) if isinstance(part, sympy.Float)]
    form = rest.xreplace(dict.fromkeys(inside, sympy.Integer(1)))
    return f"{sympy.sign(factor)} {form}", [abs(factor), *map(abs, inside)]


def _differ(a: str, b: str) -> bool:
    """Whether two printed numbers are more than a rounding apart; 1 and 1/2 are exact."""
    half = max(0.5 * 10.0 ** -len(n.partition(".")[2]) for n in (a, b) if "." in n)
    return bool(abs(sympy.Rational(a) - sympy.Rational(b)) > 1.001 * half)


def compared(protocol: pd.DataFrame, refined: pd.DataFrame) -> pd.DataFrame:
    """Test errors over all trials: the paper's, those of its protocol run here, the refined.

    "Found" counts as the paper does: the true terms, and perhaps a small constant.
    """
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for function in paper.table("analytic_mse", "best"):
        for model in ("SEQL", "HEQL"):
            row = rows[inline(function), model] = {}
            for kind in ("best", "mean"):
                level = paper.table("analytic_mse", kind, function, model)
                row["paper", kind] = scientific(level, 3)
            both = (("its protocol, here", protocol), ("with refinement", refined))
            for name, table in both:
                runs = table[(table["function"] == function) & (table["model"] == model)]
                errors = runs["test_mse_scaled"]
                row[name, "best"] = bounded(errors.min()) if len(runs) else "–"
                row[name, "mean"] = bounded(errors.mean()) if len(runs) else "–"
                row[name, "found"] = f"{int(runs['true_terms'].sum())} of {len(runs)}"
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.columns = pd.MultiIndex.from_tuples(next(iter(rows.values())))
    return table


def nearness(protocol: pd.DataFrame) -> pd.DataFrame:
    """Whether the protocol's best error is within ``ALIKE`` times the paper's, for each case."""
    words = {}
    for key, runs in protocol.groupby(["function", "model"]):
        function, model = map(str, key)
        ratio = runs["test_mse_scaled"].min() / paper.table("analytic_mse", "best", function, model)
        words[inline(function), model] = (
            "smaller" if ratio < 1 / ALIKE else "larger" if ratio > ALIKE else "alike"
        )
    table = pd.Series(words).unstack().reindex(columns=["SEQL", "HEQL"])
    return table.astype(object).fillna("not run")


def failures(cases: Cases) -> pd.DataFrame:
    """EQL's equation and the paper's, their terms and their errors inside and outside."""
    rows = {}
    for function, (data, models) in cases.items():
        found = {"here": (models["EQL"].equation_, models["EQL"].equation_)}
        if function in paper.table("eql_failure"):
            printed = paper.table("eql_failure", function, "learned")
            found["paper"] = (sympy.parse_expr(printed), printed)
        for source, (equation, written) in found.items():
            inside, outside = split_error(data, evaluate(equation, data))
            rows[inline(function), source] = {
                "equation": in_terms(written, spec="#.2g"),
                "terms": len(sympy.Add.make_args(sympy.expand(equation))),
                "MSE inside": scientific(inside),
                "MSE outside": scientific(outside),
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def bounded(value: float, floor: float = ROUNDING) -> str:
    """A squared error with one digit, for a narrow column; rounding errors are given by a bound.

    >>> bounded(3e-32), bounded(0.0159)
    ('<10⁻²⁰', '2×10⁻²')
    """
    bound = scientific(floor, 1).removeprefix("1×")
    return f"<{bound}" if value < floor else scientific(value, 1)


def statistics(stored: pd.DataFrame) -> pd.DataFrame:
    """A summary of the stored trials of each function and model, with the paper's best error."""
    rows = {}
    stored = stored.sort_values("function", kind="stable")
    for key, trials in stored.groupby(["function", "model"], sort=False):
        function, name = map(str, key)
        mse, validation = trials["test_mse_scaled"], trials["validation_error"]
        rows[inline(function), name] = {
            "true terms": f"{trials['true_terms'].sum()} of {len(trials)}",
            "picked by validation": bounded(mse.iloc[validation.to_numpy().argmin()]),
            "picked by test error": bounded(mse.min()),
            "mean": bounded(mse.mean()),
            "worst": bounded(mse.max()),
            "worst, raw units": bounded(trials["test_mse_raw"].max()),
            "paper, best": scientific(paper.table("analytic_mse", "best", function, name), 3),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def missed_trials(stored: pd.DataFrame) -> pd.DataFrame:
    """The stored trials without exactly the true terms."""
    missed = stored[~stored["true_terms"]]
    table = missed[["model", "function", "seed"]].assign(
        equation=[inline(sympy.parse_expr(found), "#.2g") for found in missed["equation"]],
        error=missed["test_mse_scaled"].map(lambda value: error(value, 1)),
    )
    return table.rename(columns={"error": "test MSE"}).set_index(["model", "function"])


def between(stored: pd.DataFrame) -> pd.DataFrame:
    """HEQL's worst error at the training t and midway between them."""
    trials = stored[stored["model"] == "HEQL"].groupby("function")
    table = trials[["test_mse_scaled", "midpoint_mse_scaled"]].max().map(error)
    table.columns = ["worst at the training t", "worst midway between them"]
    return table.rename(index=inline).rename_axis(None)
