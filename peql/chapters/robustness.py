"""The tables, figures and live run of the chapter on noise and data efficiency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure
from scipy import stats

from .. import datasets
from ..analysis import verdict
from ..analysis.comparison import has_true_terms
from ..datasets import Dataset
from ..equation.tex import inline
from ..equation.writing import percent, scientific
from ..style import FOUND, legend, styled
from .analytic import fit_one
from .benchmark import parsed, rate
from .recording import record

FULL = {"n_t": 128, "n_train": 512}  # the paper's size
ROWS = 32  # at each t, where the values of t are varied
# What is varied: noise at the paper's size, rows at each t, values of t.
AXES = {"noise": "noise / spread of y", "n_train": "rows at each t", "n_t": "values of t"}
KEPT, LOST = 0.9, 0.5  # shares of trials: the equation is found; it is lost


def along(results: pd.DataFrame, column: str) -> pd.DataFrame:
    """The trials that differ in nothing but ``column``, one of ``AXES``, and the seed."""
    held: dict[str, float] = {**FULL} if column == "noise" else {"noise": size_noise(results)}
    if column == "n_train":
        held["n_t"] = FULL["n_t"]
    elif column == "n_t":
        held["n_train"] = ROWS
    return results[np.logical_and.reduce([results[k] == v for k, v in held.items()])]


def size_noise(results: pd.DataFrame) -> float:
    """The noise with which most sizes were run."""
    sizes = results.drop_duplicates(["noise", "n_t", "n_train"])
    return float(str(sizes.groupby("noise").size().idxmax()))


def by_noise(results: pd.DataFrame) -> pd.DataFrame:
    """Trials with exactly the true terms, at the paper's size, by noise and function."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    key: Any
    for key, trials in along(results, "noise").groupby(["noise", "model"], sort=True):
        noise, model = key
        row = rows[percent(noise), model] = {
            inline(str(f)): rate(part, "true_terms") for f, part in trials.groupby("function")
        }
        row["all"] = rate(trials, "true_terms")
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–")


def outcome(trials: pd.DataFrame) -> pd.Series:
    """The outcome of each trial in words; a miss is named by what is missing or too much."""
    extra, missing = trials["extra_terms"] > 0, trials["missing_terms"] > 0
    # Nothing: no term of x, though perhaps a constant.
    nothing = trials["equation"].map(lambda found: "x" not in str(found).replace("exp", ""))
    words = pd.Series("the true terms", index=trials.index)
    words[extra & ~missing] = "terms too many"
    words[missing & ~extra] = "terms missing"
    words[missing & extra] = "other terms"
    words[missing & nothing] = "nothing"
    words[~trials["true_terms"].astype(bool) & ~extra & ~missing] = "a number varies"
    return words


OUTCOMES = (
    *("the true terms", "a number varies", "terms too many"),
    *("terms missing", "other terms", "nothing"),
)


def outcomes(results: pd.DataFrame) -> pd.DataFrame:
    """The outcomes counted by noise, size and model, and the median error."""
    rows = {}
    key: Any
    for key, trials in results.groupby(["noise", "n_t", "n_train", "model"], sort=True):
        noise, n_t, n_train, model = key
        counts = outcome(trials).value_counts().reindex(OUTCOMES, fill_value=0)
        rows[percent(noise), f"{n_t}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{n_train}", model] = {
            **{word: str(n) for word, n in counts.items()},
            "test MSE, median": scientific(float(trials["test_mse_scaled"].median()), 1),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["noise", "t × rows", "model"])


def misses(results: pd.DataFrame) -> pd.DataFrame:
    """What the trials without exactly the true terms found instead, each form once, with a count.

    Numbers are left out: forms that differ in them alone are one.
    """
    missed = results[~results["true_terms"].astype(bool)]
    forms = [inline(_form(sympy.parse_expr(str(found)))) for found in missed["equation"]]
    counted = (
        missed.assign(found=forms)
        .groupby(["function", "found"])
        .agg(trials=("seed", "size"), least=("noise", "min"))
    )
    table = counted.sort_values(["function", "trials"], ascending=[True, False]).reset_index()
    table["function"] = table["function"].map(inline)
    table["least"] = table["least"].map(percent)
    names = {"found": "found instead", "least": "least noise"}
    return table.rename(columns=names).set_index("function")


def error_ratios(results: pd.DataFrame) -> pd.DataFrame:
    """The coefficients' errors in units of their standard errors, medians over trials."""
    exact = results["noise"] == 0  # both are rounding errors there
    groups = results[~exact].groupby(["n_t", "n_train", "model", "noise"])
    ratio = groups["error_in_standard_errors"].median().map("{:.2f}".format).unstack("noise")
    ratio.columns = [f"noise {percent(float(noise))}" for noise in ratio.columns.tolist()]
    shown = ratio.fillna("").replace("nan", "–").reset_index()
    shown.insert(
        0, "t × rows", [f"{a} × {b}" for a, b in zip(shown.n_t, shown.n_train, strict=True)]
    )
    return shown.drop(columns=["n_t", "n_train"]).set_index(["t × rows", "model"])


def _form(expression: Any) -> Any:
    """The expression with every decimal number replaced by 1."""
    return expression.xreplace({n: sympy.Integer(1) for n in expression.atoms(sympy.Float)})


def limits(results: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """The last value of each axis at which the equation is kept, and the first where it is lost.

    It is kept where at least ``KEPT`` of the trials have exactly the true terms, and lost where
    fewer than ``LOST`` have; "" stands for no value that was tried.
    """
    words = {}
    for column in AXES:
        share = along(results, column).groupby(column)["true_terms"].mean()
        share = share.sort_index(ascending=column == "noise")  # from easy to hard
        kept = share.index[(share >= KEPT).cummin() & (len(share) > 1)]
        lost = share.index[share < LOST]
        tell: Callable[[Any], str] = percent if column == "noise" else "{:g}".format
        words[column] = tell(kept[-1]) if len(kept) else "", tell(lost[0]) if len(lost) else ""
    return words


def summary(results: pd.DataFrame) -> str:
    """The result of the sweep in two or three sentences."""
    held, sizes = limits(results), {k: AXES[k] for k in ("n_train", "n_t")}
    at = f"at {percent(size_noise(results))} noise with "
    few = [f"as few as {held[k][0]} {sizes[k]}" for k in sizes if held[k][0]]
    good = [f"with noise of up to {held['noise'][0]} of y's spread"] * bool(held["noise"][0])
    good += [at + " or ".join(few)] * bool(few)
    told = "Exactly the true equation is found in at least nine trials of ten "
    told += ", and ".join(good) + "." if good else "at no noise and no size that was tried."
    lost = [f"{held[k][1]} {sizes[k]}" for k in sizes if held[k][1]]
    bad = [f"with {held['noise'][1]} noise"] * bool(held["noise"][1])
    bad += [at + " or ".join(lost)] * bool(lost)
    told += f" It is lost in most trials {', and '.join(bad)}." if bad else ""
    words = outcome(results)
    n_missed, n_nothing = int((words != OUTCOMES[0]).sum()), int((words == "nothing").sum())
    if not n_missed:
        return f"{told} None of the {len(results)} trials missed it."
    return f"{told} Of {n_missed} misses, {n_nothing} report no law rather than a wrong one."


# --- the verdict ------------------------------------------------------------------------------


def verdict_rates(tables: pd.DataFrame) -> pd.DataFrame:
    """How many of the tables whose law is known were found, trusted and refused, by condition."""
    conditions = tables["condition"].where(
        tables["condition"] != "noise",
        [f"{rows} rows a group, noise {percent(noise)}" for rows, noise in _sizes(tables)],
    )
    groups = [*tables.groupby(conditions, sort=False), ("all", tables)]
    return pd.DataFrame.from_dict(
        {name: _judged(part) for name, part in groups}, orient="index"
    ).rename_axis("condition")


def _sizes(tables: pd.DataFrame) -> Any:
    return zip(tables["rows"], tables["noise"], strict=True)


def _judged(part: pd.DataFrame) -> dict[str, int]:
    right, trusted = part["right_form"].astype(bool), part["trustworthy"].astype(bool)
    return {
        "tables": len(part),
        "right and trusted": int((right & trusted).sum()),
        "right but refused": int((right & ~trusted).sum()),
        "wrong or nothing, refused": int((~right & ~trusted).sum()),
        "wrongly trusted": int((~right & trusted).sum()),
    }


def verdict_summary(tables: pd.DataFrame) -> str:
    """The two rates in a sentence each."""
    count = _judged(tables)
    right = count["right and trusted"] + count["right but refused"]
    trusted = count["right and trusted"] + count["wrongly trusted"]
    wrong = count["wrongly trusted"]
    most = float(stats.beta.ppf(0.95, wrong + 1, max(len(tables) - wrong, 1)))
    fewer = tables["right_form"] & tables["trustworthy"] & ~tables["all_vary"]
    told = (
        f"Of {len(tables)} tables, {wrong} had a wrong law called trustworthy "
        f"({percent(wrong / len(tables), '.1f')} of the tables, "
        f"{percent(wrong / max(trusted, 1), '.1f')} of the {trusted} verdicts 'trustworthy'), "
        f"and {count['right but refused']} had a right law refused "
        f"({percent(count['right but refused'] / max(right, 1))} of the {right} that were found). "
        f"In {fewer.sum()} of the right and trusted laws a varying number is taken for constant. "
        f"With so many tables, wrong trust is rarer than {percent(most, '.1f')} of them at "
        f"{percent(0.95)} confidence."
    )
    if "right_named" in tables:
        refused = tables[~tables["trustworthy"].astype(bool)]
        named = refused["right_named"].fillna(False).astype(bool).sum()
        told += f" In {named} of the {len(refused)} refusals the law is among the forms named."
    return told


# Of each check: what the table calls it, whether it must be large, and limits to try, loosest
# first; the second is the present one.
LIMITS: dict[str, tuple[str, bool, tuple[float, float, float]]] = {
    "explained": ("variance explained", True, (0.25, verdict.EXPLAINED, 0.75)),
    "chance": ("chance of the held-out error", True, (1e-5, verdict.CHANCE, 1e-2)),
    "rows_per_number": ("rows for each number", True, (1.0, verdict.ROWS_PER_NUMBER, 4.0)),
    "certainty": ("size / standard error", True, (2.0, verdict.CERTAIN, 5.0)),
    "pattern": ("pattern in the residuals", False, (0.5, verdict.PATTERN, 0.1)),
    "order": ("chance of the residuals' order", True, (1e-5, verdict.CHANCE, 1e-2)),
    "margin": ("better than other forms by", True, (3.0, verdict.MARGIN, 10.0)),
    "beyond_plain": ("better than parabolas by", True, (0.0, verdict.MARGIN, 10.0)),
    "found_again": ("parts in which it is found again", True, (0.0, 1.0, 2.0)),
    "beyond": ("chance of the error beyond", True, (1e-5, verdict.CHANCE, 1e-2)),
    "swings": ("half waves from row to row", False, (2.0, verdict.HALF_WAVES, 0.5)),
}
# Checks that are not made of every table: no coefficient varies, rows are few, another refused,
# there is no sine.
UNMADE = ("certainty", "found_again", "beyond", "swings")


def verdict_limits(tables: pd.DataFrame) -> pd.DataFrame:
    """Both errors of the verdict if one limit were changed or left out.

    Parts of the range were fitted only where everything else was passed. Where a looser limit lets
    a table through they are taken as passed, so a looser limit is at most as bad as is shown.
    """
    known = tables.dropna(subset=["margin"]) if "margin" in tables else tables[:0]
    right = known["right_form"].astype(bool)
    rows = []
    for check, (name, _, tried) in LIMITS.items():
        for limit in (None, *tried):
            trusted = _trusted(known, {check: limit})
            rows.append(
                {
                    "check": name,
                    "limit": _limit(limit, present=tried[1]),
                    "wrongly trusted": int((trusted & ~right).sum()),
                    "right but refused": int((~trusted & right).sum()),
                }
            )
    return pd.DataFrame(rows).set_index(["check", "limit"])


def _limit(limit: float | None, present: float) -> str:
    """
    >>> _limit(None, 3.0), _limit(2.0, 3.0), _limit(3.0, 3.0)
    ('none', '2', '3, the present one')
    """
    return "none" if limit is None else f"{limit:g}{', the present one' * (limit == present)}"


def _trusted(tables: pd.DataFrame, other: dict[str, float | None]) -> pd.Series:
    """Which tables pass all checks; of those in ``other`` with that limit, or without one."""
    passed = ~tables["nothing_found"].astype(bool)
    for check, (_, large, tried) in LIMITS.items():
        limit = other.get(check, tried[1])
        if limit is not None and check in tables:
            value = tables[check]
            if check in UNMADE:
                value = value.fillna(np.inf if large else -np.inf)
            passed &= value >= limit if large else value <= limit
    return passed


def wrongly_trusted(tables: pd.DataFrame) -> pd.DataFrame:
    """The tables of which a wrong equation was trusted, with that equation."""
    wrong = tables[tables["trustworthy"].astype(bool) & ~tables["right_form"].astype(bool)]
    written = [inline(parsed(one), "#.2g") for one in wrong["equation"]]
    shown = wrong.assign(equation=written).set_index("law")
    return shown[["condition", "rows", "noise", "equation"]]


def refusals(tables: pd.DataFrame) -> pd.DataFrame:
    """How often each check, and it alone, refused right laws and wrong ones."""
    refused = tables[~tables["trustworthy"].astype(bool)]
    failed = refused["failed"].fillna("").str.split("; ")
    alone = failed.map(len) == 1
    checks = refused.assign(check=failed, alone=alone).explode("check", ignore_index=True)
    checks["check"] = checks["check"].str.replace(r"size of \w+\(.*", "size / error", regex=True)
    checks = checks[checks["check"] != ""]
    right, alone = checks["right_form"].astype(bool), checks["alone"]
    counted = {
        "right laws refused": right,
        "right, by it alone": right & alone,
        "wrong laws refused": ~right,
        "wrong, by it alone": ~right & alone,
    }
    return pd.DataFrame(counted).groupby(checks["check"], sort=False).sum()


def scaling(fits: pd.DataFrame) -> pd.DataFrame:
    """CPU time and peak memory of single fits, over what grows."""
    shown = fits.assign(equation=[inline(sympy.parse_expr(e)) for e in fits["equation"]])
    shown = shown.sort_values(["grows", "size"]).set_index(["grows", "size"])
    columns = {
        "table_rows": "rows of the table",
        "cpu_seconds": "CPU seconds",
        "megabytes": "peak memory, MB",
        "equation": "equation",
    }
    return shown[list(columns)].rename(columns=columns)


@styled
def figure(results: pd.DataFrame) -> Figure:
    """The share of trials with the true terms over noise, rows at each t and values of t.

    The bars are 90 % confidence intervals (Clopper and Pearson).
    """
    drawn, axes = plt.subplots(1, 3, figsize=(9, 3.1), sharey=True)
    for ax, (column, label) in zip(axes, AXES.items(), strict=True):
        chosen = along(results, column)
        ticks = sorted(chosen[column].unique())
        for side, model in zip((-1, 1), MARKERS, strict=True):
            trials = chosen[chosen["model"] == model]
            if trials.empty:
                continue
            share = trials.groupby(column)["true_terms"].agg(["sum", "size"])
            right, n = share["sum"].astype(float), share["size"].astype(float)
            low = stats.beta.ppf(0.05, right, n - right + 1)
            high = stats.beta.ppf(0.95, right + 1, n - right)
            ends = np.abs(np.nan_to_num([low, high], nan=0.0) - (right / n).to_numpy())
            ends[1][right == n] = 0
            place = [ticks.index(v) + 0.06 * side for v in share.index]
            look: dict[str, Any] = {**FOUND[model], "marker": MARKERS[model]}
            ax.errorbar(place, right / n, ends, capsize=2, elinewidth=0.8, label=model, **look)
        tell: Callable[[Any], str] = percent if column == "noise" else "{:g}".format
        ax.set_xticks(range(len(ticks)), [tell(v) for v in ticks])
        held = "" if column == "noise" else f", {percent(size_noise(results))} noise"
        ax.set(xlabel=label + held, ylim=(-0.05, 1.08), xlim=(-0.4, max(len(ticks), 1) - 0.6))
        if column != "noise" and len(ticks):
            ax.invert_xaxis()  # harder to the right in every panel
    axes[0].set_ylabel("share with the true terms")
    legend(drawn)
    return drawn


MARKERS = {"SEQL": "o", "HEQL": "s"}


def fit_with_noise(
    function: str, model: str, noise: float, *, seed: int, **size: int
) -> tuple[Dataset, Any]:
    """A small live run: data with noise in the training y, and the model fitted to it."""
    data = datasets.load(function, random_state=seed, **size)
    random = np.random.default_rng([seed, 1])
    disturbed = data.y_train + noise * data.y_train.std() * random.standard_normal(
        len(data.y_train)
    )
    fitted = fit_one(model, replace(data, y_train=disturbed), random_state=seed, verbose=False)
    right = has_true_terms(fitted.equation_, data)
    record({"function": function, "model": model}, equation=fitted.equation_, true_terms=right)
    return data, fitted
