"""What the chapter on noise and data efficiency shows of the sweep's table."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from .. import datasets
from ..analysis import verdict
from ..datasets import Dataset
from ..equation.writing import scientific, symbol, tex, text
from ..estimators import tabular as estimators
from ..style import FOUND, legend, styled

FULL = {"n_t": 128, "n_train": 512}  # the paper's size


def _rate(trials: pd.DataFrame) -> str:
    return f"{trials['true_terms'].sum()} of {len(trials)}"


def by_noise(results: pd.DataFrame) -> pd.DataFrame:
    """Trials with exactly the true terms, at the paper's size, by function and noise."""
    full = results[(results["n_t"] == FULL["n_t"]) & (results["n_train"] == FULL["n_train"])]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (model, noise), trials in full.groupby(["model", "noise"], sort=False):
        row = rows[str(model), f"{noise:.0%}"] = {
            tex(symbol(str(f))): _rate(part) for f, part in trials.groupby("function")
        }
        row["all"] = _rate(trials)
    return pd.DataFrame.from_dict(rows, orient="index")


def by_size(results: pd.DataFrame, noise: float = 0.1) -> pd.DataFrame:
    """Trials with exactly the true terms, by the number of t and of rows at each."""
    chosen = results[results["noise"] == noise]
    rows = {}
    key: Any
    for key, trials in chosen.groupby(["model", "n_t", "n_train"], sort=False):
        model, n_t, n_train = key
        rows[model, n_t, n_train] = {
            "rows in all": int(n_t * n_train),
            "true terms": _rate(trials),
            "terms too many": int(trials["extra_terms"].sum()),
            "terms missing": int(trials["missing_terms"].sum()),
            "test MSE, median": scientific(float(trials["test_mse_scaled"].median()), 1),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["model", "values of t", "rows per t"])
    return table.sort_index(ascending=[False, False, False])


def misses(results: pd.DataFrame) -> pd.DataFrame:
    """The trials without exactly the true terms, with what they found."""
    import sympy

    missed = results[~results["true_terms"].astype(bool)]
    table = missed[["model", "function", "noise", "n_t", "n_train", "seed"]].assign(
        equation=[tex(text(sympy.parse_expr(found), "#.2g")) for found in missed["equation"]]
    )
    return table.set_index(["model", "function"])


# --- the verdict ------------------------------------------------------------------------------


def verdict_rates(tables: pd.DataFrame) -> pd.DataFrame:
    """Of tables whose law is known, how many were found, trusted and refused, by condition."""
    conditions = tables["condition"].where(
        tables["condition"] != "noise",
        [f"{rows} rows a group, noise {noise:.0%}" for rows, noise in _sizes(tables)],
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
        f"{len(tables)} tables: a wrong law was called trustworthy "
        f"{count['wrongly trusted']} times ({count['wrongly trusted'] / len(tables):.1%} of the "
        f"tables, {count['wrongly trusted'] / max(trusted, 1):.1%} of the {trusted} verdicts "
        f"'trustworthy'), a right one was not {count['right but refused']} times "
        f"({count['right but refused'] / max(right, 1):.0%} of the {right} that were found). "
        f"Of the right and trusted, {fewer.sum()} take for constant what varies. "
        f"So many tables show that wrong trust is rarer than {most:.1%} of tables (95 %)."
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
    "margin": ("better than other forms by", True, (3.0, verdict.MARGIN, 10.0)),
    "beyond_plain": ("better than parabolas by", True, (0.0, verdict.MARGIN, 10.0)),
}


def verdict_limits(tables: pd.DataFrame) -> pd.DataFrame:
    """Both errors of the verdict if one limit were another, or not there at all.

    Halves of the rows were fitted only where everything else was passed. Where a looser limit lets
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
                    "limit": "none" if limit is None else f"{limit:g}",
                    "present": limit == tried[1],
                    "wrongly trusted": int((trusted & ~right).sum()),
                    "right but refused": int((~trusted & right).sum()),
                }
            )
    halves = _trusted(known, {"halves": None})
    counts = {
        "wrongly trusted": (halves & ~right).sum(),
        "right but refused": (~halves & right).sum(),
    }
    rows.append({"check": "random halves", "limit": "none", "present": False, **counts})
    return pd.DataFrame(rows).set_index(["check", "limit"])


def _trusted(tables: pd.DataFrame, other: dict[str, float | None]) -> pd.Series:
    """Which tables pass all checks; of those in ``other`` with that limit, or without one."""
    passed = ~tables["nothing_found"].astype(bool)
    for check, (_, large, tried) in LIMITS.items():
        limit = other.get(check, tried[1])
        if limit is not None:
            value = tables[check] if check in tables else pd.Series(np.nan, tables.index)
            value = value.fillna(np.inf) if check == "certainty" else value  # no coefficient varies
            passed &= value >= limit if large else value <= limit
    if "halves" not in other and "halves" in tables:
        passed &= tables["halves"].fillna(1.0) >= 1.0
    return passed


def wrongly_trusted(tables: pd.DataFrame) -> pd.DataFrame:
    """The tables whose verdict was wrong in the worse way, with what was trusted."""
    wrong = tables[tables["trustworthy"].astype(bool) & ~tables["right_form"].astype(bool)]
    return wrong.set_index("law")[["condition", "rows", "noise", "seed", "equation"]]


def refusals(tables: pd.DataFrame) -> pd.DataFrame:
    """How often each check refused a right law, how often another, and how often it alone did."""
    refused = tables[~tables["trustworthy"].astype(bool)]
    failed = refused["failed"].fillna("").str.split("; ")
    checks = refused.assign(check=failed, alone=failed.map(len) == 1).explode("check")
    checks["check"] = checks["check"].str.replace(r"size of \w+\(.*", "size / error", regex=True)
    checks = checks[checks["check"] != ""]
    right = checks["right_form"].astype(bool)
    names = checks["check"].drop_duplicates()
    rows = {
        name: {
            "right laws refused": int((here & right).sum()),
            "right, by it alone": int((here & right & checks["alone"]).sum()),
            "wrong laws refused": int((here & ~right).sum()),
            "wrong, by it alone": int((here & ~right & checks["alone"]).sum()),
        }
        for name in names
        if (here := checks["check"] == name).any()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("check")


def scaling(fits: pd.DataFrame) -> pd.DataFrame:
    """CPU time and peak memory of single fits, over what grows."""
    shown = fits.sort_values(["grows", "size"]).set_index(["grows", "size"])
    columns = {
        "table_rows": "rows of the table",
        "cpu_seconds": "CPU seconds",
        "megabytes": "peak memory, MB",
        "equation": "equation",
    }
    return shown[list(columns)].rename(columns=columns)


@styled
def figure(results: pd.DataFrame) -> Figure:
    """The share of trials with the true terms over noise, rows per t and values of t."""
    panels: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("noise", {**FULL}, "noise / standard deviation of y"),
        ("n_train", {"noise": 0.1, "n_t": FULL["n_t"]}, "rows per t"),
        ("n_t", {"noise": 0.1, "n_train": FULL["n_train"]}, "values of t"),
    )
    drawn, axes = plt.subplots(1, 3, figsize=(9, 2.9), sharey=True)
    for ax, (column, fixed, label) in zip(axes, panels, strict=True):
        chosen = results[np.logical_and.reduce([results[k] == v for k, v in fixed.items()])]
        for model, trials in chosen.groupby("model", sort=False):
            share = trials.groupby(column)["true_terms"].mean()
            look: dict[str, Any] = {**FOUND[str(model)], "marker": "o", "label": model}
            ax.plot(share.index, share, **look)
        ax.set_xscale("log", base=2 if column != "noise" else 10)
        ticks = sorted(chosen[column].unique())
        ax.set_xticks(ticks, [f"{v:.0%}" if column == "noise" else f"{v:g}" for v in ticks])
        ax.minorticks_off()
        ax.set(xlabel=label, ylim=(-0.05, 1.05))
    axes[0].set_ylabel("share with the true terms")
    legend(drawn)
    return drawn


def fit_with_noise(
    function: str, model: str, noise: float, *, seed: int, **size: int
) -> tuple[Dataset, Any]:
    """A small live run: data with noise in the training y, and the model fitted to it."""
    data = datasets.load(function, random_state=seed, **size)
    random = np.random.default_rng([seed, 1])
    disturbed = data.y_train + noise * data.y_train.std() * random.standard_normal(
        len(data.y_train)
    )
    options = {"varying": data.varying, "random_state": seed, "method": "network"}
    fitted = getattr(estimators, model)(**options, verbose=False)
    return data, fitted.fit(data.X_train, disturbed)
