"""Whether an equation found in a reader's own data can be trusted, and what a simpler one costs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch
from scipy import stats
from scipy.spatial import KDTree
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted
from sympy.core.function import AppliedUndef

from ..engine.criterion import information
from ..engine.moves import as_found, polish
from ..engine.rows import by_step
from ..engine.solver import Points
from ..equation.writing import written
from ..solution import Solution
from .comparison import form

# The limits, and why they are where they are. The chapter on noise tries each of them looser and
# stricter on tables whose law is known (``peql.chapters.robustness.verdict_limits``).
EXPLAINED = 0.5  # share of y's variance on held-out rows: below, the noise is larger than the law
CHANCE = 1e-3  # of an error on held-out rows so much larger than on fitted ones, by the law's noise
ROWS_PER_NUMBER = 2.0  # rows for each number fitted: as in the criterion, more would interpolate
CERTAIN = 3.0  # a coefficient's size over its standard error: noise gets there in 3 of 1000 cases
# Share of the residuals that a generic model may predict: it predicts nothing of what a right law
# leaves, and most of what a missing term leaves. This is in between.
PATTERN = 0.25
# How much better than any other form, in the units of Schwarz's criterion, -2 log odds: a rival at
# this distance is the truth once in 1 + exp(3) times. At half of it that is once in 5 or 6, too
# often if one wrong law in a hundred tables is the goal; at 10, more right laws are refused.
MARGIN = 6.0
# Half waves between neighbouring rows: with more (the sampling theorem) a slower wave goes through
# the same rows, and through a few rows one of a thousand frequencies always does.
HALF_WAVES = 1.0
NEGLIGIBLE = 1e-6  # share of y's variance; a pattern in smaller residuals does not matter
ROWS = 3000  # rows, at most, in which a pattern is looked for
FLIPS = 4000  # of the residuals' signs at random: enough to see a chance of one in 1000
BENDS = 6  # of a curve through the residuals along a column
MOST_COLUMNS = 8  # along which the residuals are looked at, those in the equation first
NEIGHBOURS = 2  # of each row, whose residuals are compared with its own
EXACT = 1e-10  # of the size of y: smaller residuals are rounding
CERTAINLY = 1e15  # a larger ratio of a coefficient to its error says no more
# Share of each t's rows that are left out, outermost along a column: two thirds are mostly enough
# to show a law, and half as much range again lies beyond them, in which an approximation fails.
OUTER = 1 / 3
TELLS = 0.99  # share of the variance of y, or of its ranks, that one column alone explains
DIGITS = 4  # of numbers in a sentence
LEAST_ROWS = 12  # of each t, of which enough are left to fit it again


@dataclass(frozen=True)
class Verdict:
    """``trustworthy``, or why not; ``checks`` has a row for each thing that was looked at."""

    trustworthy: bool
    checks: pd.DataFrame
    nothing_found: bool = False
    alternatives: tuple[str, ...] = ()
    trials: str = ""  # how many of several agree
    copied: str = ""  # from which column the target may be, or the column from it

    def __str__(self) -> str:
        if self.nothing_found:
            return (
                "Nothing found: no column explains the target. Try other primitives, more rows, or "
                "other columns."
            )
        if self.trustworthy:
            return f"Trustworthy: all checks are passed.{self.trials}{self.copied}"
        failed = self.checks.loc[~self.checks["passed"], "meaning"]
        also = f" Also consistent with the data: {'; '.join(self.alternatives)}."
        return f"Not certain: {'; '.join(failed)}.{also if self.alternatives else ''}{self.trials}"


def verdict(model: Any, X: pd.DataFrame, y: Any, *, repeats: int = 2) -> Verdict:
    """Judge a fitted ``model`` by the rows that it was fitted to (some of which it held out).

    It must explain rows that it did not see as well as those it saw; need few numbers for many
    rows; have coefficients well above their standard errors; leave residuals in which a generic
    model (extremely randomised trees, cross-validated) finds no pattern, and whose signs are random
    along the columns; be the only form that fits, and fit better than straight lines and parabolas
    in each column; and be found again in at least one of ``repeats`` parts of the range, and hold
    beyond the others.
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
    alternatives = model.alternatives_.assign(equation=_written(model))
    if hasattr(model, "solutions_"):  # unless loaded; the same with other numbers is no rival
        forms = [form(s.equation, s.features) for s in model.solutions_]
        alternatives = alternatives[np.array([other != forms[0] for other in forms[1:]], bool)]
    differences = alternatives["difference"].astype(float)
    other = tuple(alternatives["equation"][differences < MARGIN])
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
            "chance of so large an error on held-out rows",
            _chance(held_out + exact, fitted + exact, n_held, len(y) - n_held, numbers, solution),
            "at least",
            CHANCE,
            "rows that were held out fit worse than those it was fitted to",
        ),
        _check(
            "rows for each number fitted",
            _different(solution, X) / max(numbers, 1),
            "at least",
            ROWS_PER_NUMBER,
            "it has too many numbers for so few different rows",
        ),
        *_waves(solution, X),
        *_certainty(model),
        _check(
            "share of the residuals' variance that a generic model predicts",
            _pattern(solution, X, residual) if np.var(residual) > NEGLIGIBLE * variance else 0.0,
            "at most",
            PATTERN,
            "a pattern remains in what it does not explain",
        ),
        _check(
            "chance of residuals so much in order",
            _order(solution, X, y, residual),
            "at least",
            CHANCE,
            "what it does not explain is no noise: neighbouring rows err alike",
        ),
        _check(
            "how much better than any other form, by the criterion",
            float(differences.min()) if len(differences) else np.inf,
            "at least",
            MARGIN,
            "two forms fit equally well" if len(other) == 1 else "several forms fit equally well",
        ),
        _check(
            "how much better than lines and parabolas, by the criterion",
            _beyond_plain(model, X, y, residual),
            "at least",
            MARGIN,
            "straight lines or parabolas do as well",
        ),
        *_agreement(model, X, y, repeats),
    ]
    checks = pd.DataFrame(rows).set_index("check")
    nothing = not solution.used_features
    passed = bool(checks["passed"].all())
    copied = _copied(solution, X, y, residual)
    return Verdict(passed, checks, nothing, other, _agreeing(model), copied)


def _written(model: Any) -> list[str]:
    """The alternatives, to read."""
    kept = [s.equation for s in getattr(model, "solutions_", [])[1:]]
    return [written(e, DIGITS) for e in kept or model.alternatives_["equation"]]


def _agreeing(model: Any) -> str:
    """How many trials of the network found the equation but for its numbers, if there were several.

    >>> from types import SimpleNamespace
    >>> found = ["x*a(t) + 0.99", "x*a(t) + 1.01", "x*a(t)"]
    >>> trials = pd.DataFrame({"method": "network", "equation": found})
    >>> _agreeing(SimpleNamespace(trials_=trials, best_trial_=0))
    ' 2 of 3 trials of the network found this form.'
    """
    trials = model.trials_
    forms = trials["equation"].str.replace(r"\b\d+\.\d*(e[-+]?\d+)?", "#", regex=True)
    same = (forms == forms[model.best_trial_])[trials["method"] == "network"]
    return f" {same.sum()} of {len(same)} trials of the network found this form." * (len(same) > 1)


def _copied(solution: Solution, X: pd.DataFrame, y: np.ndarray, residual: np.ndarray) -> str:
    """A remark if columns of the table may have been computed from the target.

    An equation with such a column may be right, but the column hides the law. Alone it nearly tells
    the target, in whatever units, at every t alike; or several do so together without any error.
    """
    names = solution.used_features
    for name in names if len(solution.features) > 1 else ():
        pairs = np.column_stack([X[name], y])
        alike = np.corrcoef(pairs.T)[0, 1], stats.spearmanr(pairs)[0]
        if max(np.square(alike)) >= TELLS:
            return (
                f" But {name} alone nearly tells {solution.target}: if one was computed from the "
                "other, leave that column out."
            )
    rounding = max(EXACT**2 * float(np.mean(y**2)), _digits(y) ** 2 / 6)
    same = len(solution.weights) > 1 and not solution.equation.atoms(AppliedUndef)
    if same and 1 < len(names) < len(solution.features) and np.mean(residual**2) <= rounding:
        return (
            f" But it is exact, and the same at every {solution.varying[0]}: if one of "
            f"{', '.join(names)} was computed from {solution.target}, leave that column out."
        )
    return ""


def _chance(
    held_out: float, fitted: float, n_held: int, n_fitted: int, numbers: int, solution: Solution
) -> float:
    """How likely noise makes the error on ``n_held`` new rows so large (Fisher's F).

    The numbers fit a part of the noise of their own rows, and carry it over to new ones: with n
    rows and k numbers the mean squared error is n/(n - k) and 1 + k/(n - k - 1) times off.
    """
    if not fitted > 0:
        return 1.0
    free = max(n_fitted - numbers, 1)
    noise = fitted * n_fitted / free
    carried = noise * (1 + numbers / max(free - len(solution.t), 1))
    return float(stats.f.sf(held_out / carried, n_held, free))


def _agreement(model: Any, X: pd.DataFrame, y: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """Whether the form is found again where the outermost rows along a column are left out.

    A law is the same on a part of its range; what approximates another law there is, on each part,
    another form, or other numbers that fail on the rest. A part may be too small to tell: a form
    that it does not name must, fitted to it, predict the rows left out as well as it fits the part.
    One part at least must name it, or nothing but the choice that is on trial speaks for it.
    """
    solution: Solution = model.solution_
    step, numbers = _steps(solution, X), solution.n_numbers()
    ends = _ends(solution.used_features)[:repeats]
    if not ends or np.bincount(step).min() < LEAST_ROWS:
        return []
    own, exact = form(solution.equation, solution.features), 1e-12 * float(np.var(y))
    others: dict[str, float] = {}  # what else a part names, and the chance of the form's error
    for seed, (column, largest) in enumerate(ends):
        inner, outer = _without_end(X[column].to_numpy(dtype=float), step, largest)
        again = clone(model).set_params(random_state=seed, verbose=False)
        if "method" in again.get_params():
            again.set_params(method=model.trials_.loc[model.best_trial_, "method"])
        with warnings.catch_warnings(action="ignore"):
            again.fit(X.iloc[inner], pd.Series(y[inner]))
            if own in [form(found.equation, solution.features) for found in again.solutions_]:
                continue
            same = refitted(model, X, y, inner)
            beyond, within = (
                float(np.mean((y[rows] - same.predict(X.iloc[rows])) ** 2)) + exact
                for rows in (outer, inner)
            )
        chance = _chance(beyond, within, len(outer), len(inner), numbers, solution)
        other = written(again.equation_, DIGITS)
        others[f"{other} for the {'smaller' if largest else 'larger'} {column}"] = chance
    failed = [found for found, chance in others.items() if chance < CHANCE]
    return [
        _check(
            "parts of the range in which it is found again",
            len(ends) - len(others),
            "at least",
            1,
            f"parts of the range have another form ({'; '.join(others)})",
        ),
        _check(
            "chance of its error beyond parts of the range with another form",
            min(others.values(), default=1.0),
            "at least",
            CHANCE,
            "fitted to a part of the range, it fails on the rest"
            + (f" (there it is {'; '.join(failed)})" if len(others) < len(ends) else ""),
        ),
    ]


def _ends(columns: Sequence[str]) -> list[tuple[str, bool]]:
    """Both ends of each column, the largest and the smallest rows, every column once first.

    >>> _ends(["x", "z"])
    [('x', True), ('z', False), ('x', False), ('z', True)]
    """
    first = [(column, k % 2 == 0) for k, column in enumerate(columns)]
    return first + [(column, not largest) for column, largest in first]


def _without_end(x: np.ndarray, step: np.ndarray, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each step but those with the largest (smallest) x, and those.

    >>> _without_end(np.array([3.0, 1.0, 2.0]), np.array([0, 0, 0]), largest=True)
    (array([1, 2]), array([0]))
    """
    order = np.lexsort((x if largest else -x, step))
    counts = np.bincount(step)
    place = np.empty(len(x), dtype=int)
    place[order] = np.arange(len(x)) - np.repeat(np.cumsum(counts) - counts, counts)
    outer = place >= np.ceil((1 - OUTER) * counts)[step]
    return np.flatnonzero(~outer), np.flatnonzero(outer)


def _steps(solution: Solution, X: pd.DataFrame) -> np.ndarray:
    """The step of each row, in the order of the solution's."""
    if solution.source == "single":
        return np.zeros(len(X), dtype=int)
    varying = X[list(solution.varying)]
    if solution.labels is not None:
        varying = varying.astype(str)
    return varying.groupby(list(solution.varying), sort=True).ngroup().to_numpy()


def refitted(model: Any, X: pd.DataFrame, y: np.ndarray, rows: np.ndarray | None = None) -> Any:
    """The model's form with its numbers fitted to other ``y``, or to some of the ``rows`` only.

    Where t is on no grid the model is returned as it is.
    """
    solution: Solution = model.solution_
    if solution.slopes is not None:
        return model
    step = _steps(solution, X)
    rows = np.arange(len(y)) if rows is None else rows
    x = solution.scales.features(X[list(solution.features)].to_numpy(dtype=float))
    index, mask = by_step(step, len(solution.weights), rows)
    arrays = x[index] * mask[..., None], y[index] / solution.scales.y * mask, mask
    points = Points(*map(torch.from_numpy, (*arrays, np.ones((*index.shape, 1)))))
    start = as_found(solution.formula, solution.weights, solution.constant, points)
    again = copy(model)
    again.solution_ = replace(solution, weights=polish(start, points).weights[..., 0].numpy())
    return again


def _waves(solution: Solution, X: pd.DataFrame) -> list[dict[str, Any]]:
    """Half waves of a sine from a row to the next, where there are most; none without a sine.

    Rows of one step count if the frequency differs from step to step, else all.
    """
    calls = {type(one).__name__: one for one in solution.equation.atoms(AppliedUndef)}
    waves = solution.equation.atoms(sympy.sin, sympy.cos, sympy.tan)
    values = solution.coefficients
    step = _steps(solution, X)
    if not waves or solution.slopes is not None or step.max() >= len(values):
        return []
    own = {call: values[name].to_numpy()[step] for name, call in calls.items()}
    columns = {sympy.Symbol(c): X[c].to_numpy() for c in X if X[c].dtype.kind in "fiu"}
    counts = []
    for wave in waves:
        known = {s: v for s, v in {**own, **columns}.items() if wave.args[0].has(s)}
        turns = np.broadcast_to(_at_rows(wave.args[0], known), step.shape)
        each = solution.source == "stacked" and not own.keys().isdisjoint(known)
        for at in (turns[step == k] for k in np.unique(step)) if each else (turns,):
            different = len(np.unique(np.round(at, 9)))
            counts.append(np.ptp(at) / np.pi / max(different - 1, 1))
    return [
        _check(
            "half waves from a row to the next",
            max(counts),
            "at most",
            HALF_WAVES,
            "it swings faster than the rows can show",
        )
    ]


def _at_rows(expression: sympy.Expr, known: dict[Any, np.ndarray]) -> np.ndarray:
    """The values of an expression whose symbols and functions are ``known`` at each row."""
    plain = {each: sympy.Dummy() for each in known}
    evaluate = sympy.lambdify(list(plain.values()), expression.xreplace(plain), "numpy")
    return np.asarray(evaluate(*known.values()), dtype=float)


def _beyond_plain(model: Any, X: pd.DataFrame, y: np.ndarray, residual: np.ndarray) -> float:
    """By how much the criterion prefers the equation to polynomials of each column, at each t.

    An equation that is such a polynomial has no rival here.
    """
    solution: Solution = model.solution_
    features = [sympy.Symbol(name) for name in solution.features]
    if solution.equation.is_polynomial(*features):
        return np.inf
    step = _steps(solution, X)
    counts = np.bincount(step)
    if solution.slopes is not None:  # t on no grid: no t has rows of its own
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
    """Of each coefficient function: the root mean square of its size over its standard error.

    At each t by itself: coefficients may differ by orders of magnitude, and so may their errors.
    """
    rows = []
    for name in model.coefficients_:
        errors = model.coefficient_errors_[name].to_numpy()
        ratio = np.abs(model.coefficients_[name].to_numpy()) / np.maximum(errors, 1e-300)
        ratio = np.where(np.isnan(errors), 0.0, np.minimum(ratio, CERTAINLY))
        size = np.nan if np.isnan(errors).all() else float(np.sqrt(np.mean(ratio**2)))
        call = f"{name}({model.solution_.varying[0]})"
        rows.append(
            _check(
                f"size of {call} / its standard error",
                size,
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


def _different(solution: Solution, X: pd.DataFrame) -> int:
    """How many rows differ in what the equation sees: a measurement again shows no other x.

    Through two values of x any form with two numbers goes, however often they were measured.
    """
    seen = [*solution.used_features, *(v for v in solution.varying if v in X)]
    return len(X[list(dict.fromkeys(seen))].drop_duplicates())


def _order(solution: Solution, X: pd.DataFrame, y: np.ndarray, residual: np.ndarray) -> float:
    """The chance that noise leaves residuals so alike among neighbours or along the columns.

    Noise may be larger at some rows than at others, but is as likely above as below: what random
    signs would have made of the residuals is what chance gives. A form that is near the law leaves
    a curve, one that follows a drift of the instrument leaves the rest of the drift. This shows in
    many rows, long before it is a large share of the residuals.
    """
    floor = max(EXACT**2 * float(np.mean(y**2)), 2 * _digits(y) ** 2 / 12)
    if solution.source == "meta":  # its coefficients are lines between kinks
        floor = max(floor, NEGLIGIBLE * float(np.var(y)))
    if np.mean(residual**2) <= floor or len(y) < 20:
        return 1.0
    step, random = _steps(solution, X), np.random.default_rng(0)
    if solution.slopes is not None:  # t on no grid: rows of other t are neighbours, too
        step = np.zeros(len(y), dtype=int)
    chosen = _some_steps(step, random)
    along = solution.varying if solution.slopes is not None else ()
    names = list(dict.fromkeys([*solution.used_features, *along, *solution.features]))
    columns = X.iloc[chosen][names[:MOST_COLUMNS]].to_numpy(dtype=float)
    step, residual = step[chosen], residual[chosen] / np.std(residual)
    place = np.empty_like(columns)  # of a row among those of its step, from -1 to 1
    for k in np.unique(step):
        here = step == k
        ranks = stats.rankdata(columns[here], axis=0)
        place[here] = (2 * ranks - 1) / here.sum() - 1
    flips = random.choice([-1.0, 1.0], size=(FLIPS, len(residual)))
    flipped = np.vstack([residual, flips * residual])
    found = [
        _alike(place, step, flipped),
        *(_along(curve, flipped) for curve in _curves(place, step)),
    ]
    return min(1.0, len(found) * min(found))


def _digits(y: np.ndarray) -> float:
    """What y is a multiple of, a power of ten, 0 if there is none: it was written so.

    >>> _digits(np.array([1.25, 3.5, 10.0])), _digits(np.array([np.pi, 1.0]))
    (0.01, 0.0)
    """
    for k in range(-3, 10):
        scaled = y * 10.0**k
        rounding = 8 * np.finfo(float).eps * np.maximum(np.abs(scaled), 1)
        if (np.abs(scaled - np.round(scaled)) <= rounding).all():
            return 10.0**-k
    return 0.0


def _some_steps(step: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows of as many whole steps as make ``ROWS``, of one that has more as many at random."""
    order = random.permutation(step.max() + 1)[step]
    rows = np.lexsort((random.random(len(step)), order))
    return np.sort(rows[:ROWS])


def _alike(place: np.ndarray, step: np.ndarray, residuals: np.ndarray) -> float:
    """The share of ``residuals`` (case, row) whose neighbours are as alike as in the first.

    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> flips = np.random.default_rng(0).choice([-1.0, 1.0], size=(999, 50))
    >>> _alike(line, np.zeros(50), np.vstack([np.ones(50), flips]))
    0.001
    """
    apart = np.column_stack([place, 10.0 * place.shape[1] * step])  # no neighbours across steps
    near = KDTree(apart).query(apart, k=min(NEIGHBOURS + 1, len(apart)))[1][:, 1:]
    pairs = np.column_stack([np.repeat(np.arange(len(near)), near.shape[1]), near.ravel()])
    pairs = np.unique(np.sort(pairs[step[pairs[:, 0]] == step[pairs[:, 1]]], axis=1), axis=0)
    one, other = pairs[pairs[:, 0] != pairs[:, 1]].T
    return _as_large(np.array([r[one] @ r[other] for r in residuals]))


def _curves(place: np.ndarray, step: np.ndarray) -> list[np.ndarray]:
    """Smooth curves (row, curve) that residuals may follow: at all steps alike, and at each."""
    bends = range(1, BENDS + 1)
    own = [np.polynomial.Legendre.basis(k)(place) for k in bends]
    both = [(place[:, i] * place[:, j])[:, None] for i in range(place.shape[1]) for j in range(i)]
    alike = np.hstack([*own, *both])
    at_each = (alike[:, :, None] * (step[:, None] == np.unique(step))[:, None]).reshape(
        len(step), -1
    )
    sets = [alike, at_each] if at_each.shape[1] > alike.shape[1] else [alike]
    return [curves for curves in sets if 2 * curves.shape[1] <= len(step)]


def _along(curves: np.ndarray, residuals: np.ndarray) -> float:
    """The share of ``residuals`` (case, row) that follow the ``curves`` as closely as the first."""
    basis = np.linalg.qr(curves)[0]
    return _as_large(((residuals @ basis) ** 2).sum(axis=1))


def _as_large(cases: np.ndarray) -> float:
    return float(np.mean(cases >= cases[0] * (1 - 1e-12)))


# --- error against complexity ----------------------------------------------------------------


def trade_off(model: Any, y: Any) -> pd.DataFrame:
    """Error against the number of weights, over all that refinement tried and beyond.

    ``unexplained`` is a share of y's variance, so that what is worse than a constant is left out;
    ``front``: nothing with as few weights has a smaller error.
    """
    check_is_fitted(model)
    variance = float(np.var(np.asarray(y, dtype=float))) or 1.0
    table = model.prunings_.assign(unexplained=model.prunings_["train_error"] / variance)
    table = table[table["unexplained"] <= max(1.0, table["unexplained"].iloc[-1])]
    best_so_far = table["unexplained"].cummin().shift(fill_value=np.inf)
    return table.assign(front=table["unexplained"] < 0.999 * best_so_far)
