"""Whether an equation found in a reader's own data can be trusted, and what a simpler one costs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sympy
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from ..engine.criterion import CONSISTENT, information
from ..solution import Solution
from .comparison import form

# The limits, and why they are where they are; the chapter on noise says how often they are wrong.
EXPLAINED = 0.5  # share of y's variance on held-out rows: below, the noise is larger than the law
CHANCE = (
    1e-3  # probability at which the error on held-out rows is called larger than on fitted ones
)
ROWS_PER_NUMBER = 2.0  # rows for each number fitted: as in the criterion, more would interpolate
CERTAIN = 3.0  # a coefficient's size over its standard error: noise gets there in 3 of 1000 cases
# Share of the residuals that a generic model may predict: it predicts nothing of what a right law
# leaves, and most of what a missing term leaves. This is in between.
PATTERN = 0.25
NEGLIGIBLE = 1e-6  # share of y's variance; a pattern in smaller residuals does not matter
ROWS = 3000  # rows, at most, in which a pattern is looked for
LEAST_HALF = 6  # rows of each t in half of a table that are enough to fit it again


@dataclass(frozen=True)
class Verdict:
    """``trustworthy``, or why not; ``checks`` has a row for each thing that was looked at."""

    trustworthy: bool
    checks: pd.DataFrame
    nothing_found: bool = False
    alternatives: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.nothing_found:
            return (
                "Nothing found: no column explains the target. Try other primitives, more rows, or "
                "other columns."
            )
        if self.trustworthy:
            return "Trustworthy: all checks are passed."
        failed = self.checks.loc[~self.checks["passed"], "meaning"]
        also = f" Also consistent with the data: {'; '.join(self.alternatives)}."
        return f"Not certain: {'; '.join(failed)}.{also if self.alternatives else ''}"


def verdict(model: Any, X: pd.DataFrame, y: Any, *, repeats: int = 2) -> Verdict:
    """Judge a fitted ``model`` by the rows that it was fitted to (some of which it held out).

    It must explain rows that it did not see, and those as well as the ones it saw; need few numbers
    for many rows; have coefficients that stand out of their errors; leave residuals in which a
    generic model (extremely randomised trees, cross-validated) finds no pattern; be the only form
    that fits, better than straight lines and parabolas in each column; and be found again in random
    halves of the rows, ``repeats`` times.
    """
    check_is_fitted(model)
    solution: Solution = model.solution_
    y = np.asarray(y, dtype=float)
    residual = y - model.predict(X)
    variance = float(np.var(y))
    trial = model.trials_.loc[model.best_trial_]
    held_out, fitted = float(trial["validation_error"]), float(trial["train_error"])
    exact = 1e-12 * variance
    numbers = solution.n_numbers()
    n_held = max(int(model.validation_fraction * len(y)), len(solution.t) if held_out > 0 else 1)
    most = stats.f.ppf(1 - CHANCE, n_held, max(len(y) - n_held - numbers, 1))
    other = tuple(model.alternatives_["equation"])
    rows = [
        _check(
            "columns in the equation",
            len(solution.used_features),
            "at least",
            1,
            "no column is in the equation",
        ),
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
            float(most),
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
            _pattern(solution, X, residual) if np.var(residual) > NEGLIGIBLE * variance else 0.0,
            "at most",
            PATTERN,
            "a pattern remains in what it does not explain",
        ),
        _check(
            "other forms that fit as well",
            len(other),
            "at most",
            0,
            "two forms fit equally well" if len(other) == 1 else "several forms fit equally well",
        ),
        _check(
            "how much better than lines and parabolas, by the criterion",
            _beyond_plain(model, X, y, residual),
            "at least",
            CONSISTENT,
            "straight lines or parabolas do as well",
        ),
        *_agreement(model, X, y, repeats),
    ]
    checks = pd.DataFrame(rows).set_index("check")
    nothing = not solution.used_features
    return Verdict(bool(checks["passed"].all()), checks, nothing, other)


def _agreement(model: Any, X: pd.DataFrame, y: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """How often a random half of the rows of each t leads to the same form."""
    solution: Solution = model.solution_
    steps = np.asarray(X[list(solution.varying)].astype(str).agg("|".join, axis=1))
    _, step, counts = np.unique(steps, return_inverse=True, return_counts=True)
    single = solution.source == "single"
    if repeats < 1 or (len(y) if single else counts.min()) < 2 * LEAST_HALF:
        return []
    own = form(solution.equation, solution.features)
    agree = 0
    for seed in range(repeats):
        random = np.random.default_rng(seed)
        order = np.lexsort((random.random(len(y)), 0 * step if single else step))
        half = np.sort(order[seed % 2 :: 2])
        again = clone(model).set_params(random_state=seed, verbose=False)
        if "method" in again.get_params():
            again.set_params(method=model.trials_.loc[model.best_trial_, "method"])
        with warnings.catch_warnings(action="ignore"):
            again.fit(X.iloc[half], pd.Series(y[half]))
        agree += form(again.equation_, solution.features) == own
    return [
        _check(
            "random halves of the rows that give the same form",
            agree / repeats,
            "at least",
            1.0,
            f"only {agree} of {repeats} random halves of the rows give the same form",
        )
    ]


def _beyond_plain(model: Any, X: pd.DataFrame, y: np.ndarray, residual: np.ndarray) -> float:
    """By how much the criterion prefers the equation to polynomials of each column, at each t.

    An equation that is such a polynomial has no rival here.
    """
    solution: Solution = model.solution_
    features = [sympy.Symbol(name) for name in solution.features]
    if solution.equation.is_polynomial(*features):
        return np.inf
    labels = X[list(solution.varying)].astype(str).agg("|".join, axis=1)
    single = solution.source == "single"
    step = np.zeros(len(y), dtype=int) if single else pd.factorize(labels, sort=True)[0]
    counts = np.bincount(step)
    if not single and solution.slopes is not None:  # t on no grid: no t has rows of its own
        return np.inf
    x = X[list(solution.features)].to_numpy(dtype=float)
    scaled = (x - x.mean(axis=0)) / np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), 1.0)

    def errors(rest: np.ndarray) -> np.ndarray:
        return np.bincount(step, weights=rest**2) / counts

    floor = np.full(len(counts), 1e-22 * np.var(y))
    n_shared = sum(solution.constant)
    n_free = len(solution.constant) - n_shared
    own = information(errors(residual), counts, n_free, n_shared, solution.formula.size, floor)
    rivals = []
    for degree in (1, 2):
        columns = np.hstack([np.ones((len(y), 1)), *(scaled**k for k in range(1, degree + 1))])
        rest = y.copy()
        for k in range(len(counts)):
            here = step == k
            rest[here] -= columns[here] @ np.linalg.lstsq(columns[here], y[here], rcond=None)[0]
        size = 1 + columns.shape[1] + 2 * (degree - 1) * x.shape[1]
        rivals.append(information(errors(rest), counts, columns.shape[1], 0, size, floor))
    return min(rivals) - own


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


def _certainty(model: Any) -> list[dict[str, Any]]:
    """Of each coefficient function: its root mean square over that of its standard errors."""
    rows = []
    for name in model.coefficients_:
        size, error = (
            float(np.sqrt(np.mean(table[name] ** 2)))
            for table in (model.coefficients_, model.coefficient_errors_)
        )
        call = f"{name}({model.solution_.varying[0]})"
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


def _pattern(solution: Solution, X: pd.DataFrame, residual: np.ndarray) -> float:
    """How much of the residuals' variance trees predict on rows they did not see."""
    columns = X[[*solution.features, *(v for v in solution.varying if v not in solution.features)]]
    table = columns.apply(lambda c: c if c.dtype.kind in "fiub" else pd.factorize(c, sort=True)[0])
    table = table.to_numpy(dtype=float)
    chosen = np.random.default_rng(0).permutation(len(residual))[:ROWS]
    if len(chosen) < 20:
        return 0.0
    trees = ExtraTreesRegressor(50, min_samples_leaf=5, random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    target = residual[chosen] / np.std(residual[chosen])
    predicted = cross_val_predict(trees, table[chosen], target, cv=folds)
    return float(1 - np.mean((target - predicted) ** 2) / np.var(target))


# --- error against complexity ----------------------------------------------------------------


def trade_off(model: Any, y: Any) -> pd.DataFrame:
    """Error against the number of weights, over all that refinement tried and beyond.

    ``unexplained`` is a share of y's variance; ``front``: nothing with as few weights has a smaller
    error.
    """
    check_is_fitted(model)
    variance = float(np.var(np.asarray(y, dtype=float))) or 1.0
    table = model.prunings_.assign(unexplained=model.prunings_["train_error"] / variance)
    best_so_far = table["unexplained"].cummin().shift(fill_value=np.inf)
    return table.assign(front=table["unexplained"] < 0.999 * best_so_far)
