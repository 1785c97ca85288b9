"""Whether an equation found in a reader's own data can be trusted, and what a simpler one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from .refinement import Formula, importance, refit
from .tables import arrange

EXPLAINED = 0.5  # share of y's variance on held-out rows that an equation must explain
OVERFIT = 2.0  # times by which the error on held-out rows may exceed that on fitted rows
ROWS_PER_NUMBER = 3.0  # rows for each number that was fitted
CERTAIN = 3.0  # a coefficient's size over its standard error
PATTERN = 0.25  # share of the residuals that a generic model may predict
NEGLIGIBLE = 1e-6  # share of y's variance; a pattern in smaller residuals does not matter
TRIED = 4  # weights, least important first, of which the one that is missed least is taken out
ROWS = 3000  # rows, at most, in which a pattern is looked for


@dataclass(frozen=True)
class Verdict:
    """``trustworthy``, or why not; ``checks`` has a row for each thing that was looked at."""

    trustworthy: bool
    checks: pd.DataFrame

    def __str__(self) -> str:
        if self.trustworthy:
            return "Trustworthy: all checks are passed."
        failed = self.checks.loc[~self.checks["passed"], "meaning"]
        return "Nothing trustworthy was found: " + "; ".join(failed) + "."


def verdict(model: Any, X: pd.DataFrame, y: Any) -> Verdict:
    """Judge a fitted ``model`` by the rows that it was fitted to (some of which it held out).

    It must explain rows that it did not see, and those as well as the ones it saw; need few numbers
    for many rows; have coefficients that stand out of their errors; and leave residuals in which
    a generic model (extremely randomised trees, cross-validated) finds no pattern.
    """
    check_is_fitted(model, "network_")
    y = np.asarray(y, dtype=float)
    residual = y - model.predict(X)
    variance = float(np.var(y))
    trial = model.trials_.loc[model.best_trial_]
    held_out, fitted = float(trial["validation_error"]), float(trial["train_error"])
    exact = 1e-12 * float(np.mean(y**2))
    numbers = _numbers(model)
    rows = [
        _check(
            "share of y's variance explained, held-out rows",
            1 - held_out / variance if variance > 0 else 0.0,
            "at least",
            EXPLAINED,
            "it explains too little of the rows that were held out",
        ),
        _check(
            "error on held-out rows / on fitted rows",
            (held_out + exact) / (fitted + exact) if exact > 0 else 1.0,
            "at most",
            OVERFIT,
            "rows that were held out fit worse than those it was fitted to",
        ),
        _check(
            "rows for each number fitted",
            len(y) / max(numbers, 1),
            "at least",
            ROWS_PER_NUMBER,
            "it has too many numbers for these rows",
        ),
        *_certainty(model),
        _check(
            "share of the residuals' variance that a generic model predicts",
            _pattern(X, residual) if np.var(residual) > NEGLIGIBLE * variance else 0.0,
            "at most",
            PATTERN,
            "a pattern remains in what it does not explain",
        ),
    ]
    if not model.formula_.open or not model.equation_.free_symbols & _symbols(model):
        rows.append(
            _check(
                "features in the equation", 0, "at least", 1, "the equation has no feature in it"
            )
        )
    checks = pd.DataFrame(rows).set_index("check")
    return Verdict(bool(checks["passed"].all()), checks)


def _check(name: str, value: float, side: str, limit: float, meaning: str) -> dict[str, Any]:
    """A number that must be at least, or at most, ``limit``; NaN means: could not be measured."""
    passed = bool(value >= limit if side == "at least" else value <= limit)
    if np.isnan(value):
        meaning = f"{name}: could not be measured"
    return {
        "check": name,
        "value": float(value),
        "must be": f"{side} {limit:g}",
        "passed": passed,
        "meaning": meaning,
    }


def _symbols(model: Any) -> set[Any]:
    import sympy

    return {sympy.Symbol(name) for name in model.feature_names_}


def _numbers(model: Any) -> int:
    """How many numbers were fitted: one for a constant weight, one at each t for another."""
    weights = model._open_weights(model.t_)
    varies = (weights.amax(0) - weights.amin(0)) > 1e-9 * weights.abs().amax(0)
    return int(varies.sum()) * len(weights) + int((~varies).sum())


def _certainty(model: Any) -> list[dict[str, Any]]:
    """Of each coefficient function: its root mean square over that of its standard errors."""
    rows = []
    for name in model.coefficients_:
        size, error = (
            float(np.sqrt(np.mean(table[name] ** 2)))
            for table in (model.coefficients_, model.coefficient_errors_)
        )
        call = f"{name}({model.varying_names_[0]})"
        rows.append(
            _check(
                f"size of {call} / its standard error",
                min(size / max(error, 1e-300), 1e15),
                "at least",
                CERTAIN,
                f"{call} does not stand out of its standard error",
            )
        )
    return rows


def _pattern(X: pd.DataFrame, residual: np.ndarray) -> float:
    """How much of the residuals' variance trees predict on rows they did not see."""
    table = np.asarray(X, dtype=float)
    chosen = np.random.default_rng(0).permutation(len(residual))[:ROWS]
    if len(chosen) < 20:
        return 0.0
    trees = ExtraTreesRegressor(50, min_samples_leaf=5, random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    target = residual[chosen] / np.std(residual[chosen])
    predicted = cross_val_predict(trees, table[chosen], target, cv=folds)
    return float(1 - np.mean((target - predicted) ** 2) / np.var(target))


# --- error against complexity ----------------------------------------------------------------


def trade_off(model: Any, X: pd.DataFrame, y: Any) -> pd.DataFrame:
    """Error against the number of weights, in the trials and as weights are taken out of the best.

    Weights go one at a time, each time the one that is missed least, and the others are solved
    for again. ``front``: nothing with as few weights has a smaller error.
    """
    check_is_fitted(model, "network_")
    target = np.asarray(y, dtype=float)
    variance = float(np.var(target)) or 1.0
    rows = _prunings(model)
    rows += [
        {"origin": f"taken out of trial {model.best_trial_}", **row}
        for row in _taken_out(model, X, target)
    ]
    table = pd.DataFrame(rows)
    table["unexplained"] = table.pop("error") / variance
    table = table.sort_values(["weights", "unexplained"], kind="stable", ignore_index=True)
    best_so_far = table["unexplained"].cummin().shift(fill_value=np.inf)
    table["front"] = table["unexplained"] < 0.999 * best_so_far
    return table


def _prunings(model: Any) -> list[dict[str, Any]]:
    """What refinement tried in the trial that was kept, as the model recorded it."""
    return [
        {"origin": f"trial {model.best_trial_}", "weights": row.weights, "error": row.train_error}
        for row in model.prunings_.itertuples()
    ]


def _taken_out(model: Any, X: pd.DataFrame, y: np.ndarray) -> list[dict[str, Any]]:
    table = np.asarray(X[list(model._columns)] if isinstance(X, pd.DataFrame) else X, dtype=float)
    x, t = model._split_columns(table)
    arranged = arrange(
        x,
        t,
        y,
        validation_fraction=0.0,
        pool_below=model._pool_below,
        random=np.random.default_rng(0),
    )
    points = arranged.points.thinned(96)
    weights = model._open_weights(arranged.t)[..., None]
    if points.basis.shape[-1] > 1:  # lines over ranges of t, flat to begin with
        weights = weights.new_zeros(*weights.shape[:2], 2).index_copy(
            2, weights.new_zeros(1).long(), weights
        )
    fit = refit(model.formula_, weights, (False,) * weights.shape[1], points)
    rows = []
    while True:
        n = len(fit.formula.open)
        error = float((fit.error * points.count).sum() / points.count.sum())
        rows.append({"weights": n, "error": model._raw_error(error)})
        smaller = []
        for k in importance(fit, points).argsort()[:TRIED].tolist():
            rest = [flat for i, flat in enumerate(fit.formula.open) if i != k]
            formula = Formula(fit.formula.layout, fit.formula.shapes, rest)
            columns = [fit.formula.open.index(flat) for flat in formula.open]
            smaller.append(refit(formula, fit.weights[:, columns], (False,) * len(columns), points))
        if not smaller:
            return rows
        fit = min(smaller, key=lambda f: float((f.error * points.count).sum()))
