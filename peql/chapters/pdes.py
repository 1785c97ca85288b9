"""The chapter on PDEs: models and SINDy on one equation, and tables beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import sympy

from .. import datasets
from ..analysis.comparison import has_true_terms
from ..analysis.truth import on_grid, true_equation
from ..baselines import GroupSINDy, PlainSINDy, coefficient_mse, least_squares_limit
from ..datasets import Dataset, expand_cross_terms
from ..datasets.pde import solve
from ..equation.tex import inline
from ..equation.writing import error, scientific
from . import paper
from .analytic import Cases, fit_one, in_terms
from .recording import record

U_T = inline("u_t")  # at the head of a column
ROUNDING = 1e-14  # derivatives amplify rounding: a squared error below this differs by machine


def fit(
    equations: Iterable[str], models: Iterable[str], *, seed: int, **options: Any
) -> dict[str, tuple[Dataset, dict[str, Any]]]:
    """Fit SINDy and each model to each PDE; ``options`` go to the dataset."""
    cases = {}
    models = list(models)
    for name in equations:
        data = datasets.load(name, random_state=seed, **options)
        fitted: dict[str, Any] = {"SINDy": sindy(data)}
        fitted |= {model: fit_one(model, data, random_state=seed) for model in models}
        for label, model in fitted.items():
            found = expand_cross_terms(model.equation_)
            record(
                {"PDE": name, "model": label},
                equation=found,
                true_terms=has_true_terms(found, data),
                u_t_mse=u_t_mse(model, data),
            )
        cases[name] = (data, fitted)
    return cases


def sindy(data: Dataset) -> GroupSINDy:
    """SINDy with group sparsity, fitted."""
    return GroupSINDy(varying=data.varying).fit(data.X_train, data.y_train)


def u_t_mse(model: Any, data: Dataset) -> float:
    """Mean squared error of the predicted u_t."""
    return float(np.mean((model.predict(data.X_test) - data.y_test) ** 2))


def other_axis(data: Dataset) -> tuple[np.ndarray, str]:
    """The coordinate along which the coefficients do not vary, and its name."""
    field = solve(data.name)
    return (field.t, "t") if data.varying == "x" else (field.x, "x")


def title(name: str) -> str:
    """The name of a PDE in prose."""
    return {
        "advection_diffusion": "advection–diffusion",
        "burgers": "Burgers'",
        "kuramoto_sivashinsky": "Kuramoto–Sivashinsky",
        "decay_boundary": "decay, a boundary",
        "fitzhugh_nagumo_u": "FitzHugh–Nagumo, u",
        "fitzhugh_nagumo_v": "FitzHugh–Nagumo, v",
        "advection_diffusion_xt": "advection–diffusion in x and t",
    }.get(name, name)


def case_title(name: str, cross_terms: bool) -> str:
    """The name of a row of the paper's table of PDEs.

    >>> case_title("burgers", True)
    "Burgers', with cross terms"
    """
    return f"{title(name)}, {'with' if cross_terms else 'no'} cross terms"


def terms_found(cases: Cases) -> pd.DataFrame:
    """The equation each method found, and whether its terms are the true ones."""
    rows = {}
    for name, (data, models) in cases.items():
        rows[title(name), "true"] = {
            U_T: in_terms(expand_cross_terms(data.equation)),
            "terms": "",
        }
        for model, fitted in models.items():
            found = expand_cross_terms(fitted.equation_)
            right = has_true_terms(found, data)
            rows[title(name), model] = {
                U_T: in_terms(found),
                "terms": "the true ones" if right else "wrong",
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def errors(cases: Cases, *, cross_terms: bool) -> pd.DataFrame:
    """Both errors of the paper's Table II: the limit, ours, the paper's."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name, (data, models) in cases.items():
        limit = least_squares_limit(data)
        rows[title(name), "limit"] = {
            U_T: scientific(limit.y_mse),
            "coefficients": scientific(limit.coefficient_mse),
        }
        for model, fitted in models.items():
            rows[title(name), model] = {
                U_T: scientific(u_t_mse(fitted, data)),
                f"{U_T}, paper": _printed("u_t", _case(name, cross_terms), model),
                "coefficients": _coefficient_error(fitted, data),
                "coefficients, paper": _printed("coefficient", _case(name, cross_terms), model),
            }
    columns = [U_T, f"{U_T}, paper", "coefficients", "coefficients, paper"]
    table = pd.DataFrame.from_dict(rows, orient="index")[columns].fillna("")
    return table.loc[:, (table != "").any()]


def _printed(kind: str, case: str, model: str) -> str:
    """The paper's error; it has none for Kuramoto–Sivashinsky."""
    errors = paper.table("pde_mse", kind)
    return scientific(errors[case][model], 3) if case in errors else ""


def _coefficient_error(model: Any, data: Dataset) -> str:
    try:
        return scientific(coefficient_mse(model.equation_, model.coefficients_, data))
    except ValueError:  # an equation that is not linear in its coefficients
        return "not linear in them"


def verdicts(cases: Cases, models: Iterable[str]) -> list[str]:
    """For each model a line: are its terms the true ones, and how far is it from the limit."""
    lines = []
    for name, (data, fits) in cases.items():
        limit = least_squares_limit(data).y_mse
        for model in models:
            terms = has_true_terms(fits[model].equation_, data)
            ratio = u_t_mse(fits[model], data) / limit
            distance = "within 1.5 times the limit" if ratio < 1.5 else f"{ratio:.1f} times it"
            lines.append(
                f"{model} on {title(name)}: {'the true' if terms else 'other'} terms, {distance}"
            )
    return lines


def _case(name: str, cross_terms: bool) -> str:
    return f"{name}_cross" if cross_terms else name


def equations_at(cases: Cases, model: str) -> pd.DataFrame:
    """The equations at the paper's four values of x or t, beside the paper's."""
    rows = {}
    for name, (data, models) in cases.items():
        if name not in paper.table("pde_equations"):
            continue
        printed = paper.table("pde_equations", name)
        for k, value in enumerate(printed[data.varying]):
            point = on_grid(data, value)
            found = expand_cross_terms(models[model].equation(t=point))
            true = expand_cross_terms(true_equation(data, point))
            rows[rf"\({data.varying} = {value:.3f}\)"] = {
                "true": in_terms(true, spec=".2f"),
                f"{model}, here": in_terms(found, true, ".2f"),
                f"{model}, paper": in_terms(printed[model][k], true, ".2f"),
            }
    return pd.DataFrame.from_dict(rows, orient="index")


# --- what SINDy's column measured ------------------------------------------------------------


def sindy_grids() -> pd.DataFrame:
    """SINDy on the grids that the paper states and on 256 × 256, with the paper's figures."""
    rows = {}
    for name, stated in (("advection_diffusion", (256, 512)), ("burgers", (512, 256))):
        for n_x, n_t in (stated, (256, 256)):
            data = datasets.load(name, cross_terms=True, n_x=n_x, n_t=n_t)
            model = sindy(data)
            coefficients = coefficient_mse(model.equation_, model.coefficients_, data)
            rows[title(name), f"{n_x} × {n_t}"] = {
                "terms": ", ".join(inline(sympy.parse_expr(term)) for term in sorted(model.terms_)),
                U_T: scientific(u_t_mse(model, data), 3),
                f"{U_T}, paper": scientific(
                    paper.table("pde_mse", "u_t", f"{name}_cross", "SINDy"), 3
                ),
                "coefficients": scientific(coefficients, 3),
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def sindy_without_the_answer() -> tuple[float, list[str]]:
    """SINDy on Burgers' equation, 256 × 256, with no product among its candidates."""
    data = datasets.load("burgers", n_x=256, n_t=256, order=4)
    model = sindy(data)
    return u_t_mse(model, data), list(model.terms_)


def plain_sindy(equations: Iterable[str]) -> pd.DataFrame:
    """PySINDy, with one number for each term, beside SINDy with group sparsity."""
    rows = {}
    for name in equations:
        data = datasets.load(name, cross_terms=True)
        row = rows[title(name)] = {"true terms": str(len(data.coefficients.columns))}
        for model, label in ((PlainSINDy, "plain"), (GroupSINDy, "group sparsity")):
            fitted = model(varying=data.varying).fit(data.X_train, data.y_train)
            row[f"terms, {label}"] = str(len(fitted.terms_))
            row[f"{U_T} MSE, {label}"] = scientific(u_t_mse(fitted, data), 1)
    return pd.DataFrame.from_dict(rows, orient="index")


def derivative_limits(equations: Iterable[str]) -> pd.DataFrame:
    """How the limit falls when the derivatives are computed more accurately.

    Below ``ROUNDING`` these errors are rounding errors.
    """
    rows: dict[str, dict[str, str]] = {}
    for name in equations:
        row = rows[title(name)] = {}
        for derivatives in ("paper", "accurate"):
            limit = least_squares_limit(datasets.load(name, derivatives=derivatives))
            row[f"{U_T}, {derivatives}"] = error(limit.y_mse, 1, ROUNDING)
            row[f"coefficients, {derivatives}"] = error(limit.coefficient_mse, 1, ROUNDING)
    return pd.DataFrame.from_dict(rows, orient="index")


def statistics(results: pd.DataFrame) -> pd.DataFrame:
    """A summary of the stored trials of each case and model."""
    rows = {}
    for (name, cross, model), trials in results.groupby(
        ["equation", "cross_terms", "model"], sort=False
    ):
        rows[case_title(str(name), bool(cross)), str(model)] = {
            "true terms": f"{trials['true_terms'].sum()} of {len(trials)}",
            f"worst {U_T} MSE / limit": _ratio(trials, "u_t_mse"),
            "worst coefficient MSE / limit": _ratio(trials, "coefficient_mse"),
            "seconds, median": f"{trials['cpu_seconds'].median():.0f}",
            "slowest": f"{trials['cpu_seconds'].max():.0f}",
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.sort_index(key=lambda level: level.str.lower())


def right(results: pd.DataFrame) -> tuple[str, str]:
    """How many of the stored trials of SEQL and HEQL on the paper's PDEs have the true terms.

    And the largest u_t error of those, in units of the limit.
    """
    known = results["equation"].isin(paper.table("pde_equations"))
    ours = results[known & (results["model"] != "SINDy")]
    found = ours[ours["true_terms"]]
    return f"{len(found)} of {len(ours)}", _ratio(found, "u_t_mse")


def missed_trials(results: pd.DataFrame) -> pd.DataFrame:
    """The stored trials of SEQL and HEQL without exactly the true terms."""
    missed = results[~results["true_terms"] & (results["model"] != "SINDy")]
    table = pd.DataFrame(
        {
            "case": [
                case_title(str(row.equation), bool(row.cross_terms)) for row in missed.itertuples()
            ],
            "model": missed["model"].tolist(),
            "seed": missed["seed"].tolist(),
            "found": [inline(sympy.parse_expr(found), "#.2g") for found in missed["found"]],
            f"{U_T} MSE / limit": [_ratio(trial, "u_t_mse") for _, trial in missed.iterrows()],
        }
    )
    return table.set_index("case")


def _ratio(trials: pd.DataFrame | pd.Series, column: str) -> str:
    ratio = np.max(trials[column] / trials[f"limit_{column}"])
    return f"{ratio:.2f}" if ratio < 100 else scientific(ratio, 1)
