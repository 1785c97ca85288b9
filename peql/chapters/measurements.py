"""The tables, figures and live run of the chapter on real measurements."""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
from matplotlib.figure import Figure

from ..datasets.measured import TABLES, Measured, load_measured
from ..equation.tex import tex
from ..estimators.tabular import SEQL
from ..style import legend, styled
from .benchmark import parsed

TITLES = {
    "indometh": "indomethacin",
    "puromycin": "puromycin",
    "orange": "orange trees",
    "dnase": "DNase",
    "theoph": "theophylline",
}


def no_worse(rows: pd.DataFrame) -> pd.Series:
    """Whether our form has a smaller criterion with as few or fewer constants."""
    better = rows["schwarz"] <= rows["accepted_schwarz"]
    return better & (rows["n_constants"] <= rows["accepted_n_constants"])


def forms(rows: pd.DataFrame) -> pd.DataFrame:
    """The accepted form and ours, of each table, one below the other."""
    shown = {
        (TITLES[row["table"]], kind): _shown(row[column])
        for row in rows.to_dict("records")
        for kind, column in (("accepted", "accepted"), ("found", "equation"))
    }
    return pd.DataFrame({"form": pd.Series(shown)})


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Schwarz's criterion and the number of fitted constants, accepted form and ours."""
    table = {
        TITLES[row["table"]]: {
            "rows, groups": f"{row['n_rows']}, {row['n_groups']}",
            "constants, accepted": row["accepted_n_constants"],
            "constants, found": row["n_constants"],
            "Schwarz, accepted": f"{row['accepted_schwarz']:.0f}",
            "Schwarz, found": f"{row['schwarz']:.0f}",
            "seconds": f"{row['cpu_seconds']:.0f}",
        }
        for row in rows.to_dict("records")
    }
    return pd.DataFrame.from_dict(table, orient="index")


def alternatives(rows: pd.DataFrame) -> pd.DataFrame:
    """The other forms that agree with each table."""
    found = rows.set_index("table")["alternatives"].fillna("").astype(str)
    table = {
        TITLES[str(name)]: [_shown(e) for e in told.split("; ") if e]
        for name, told in found.items()
    }
    return pd.DataFrame(
        {"also consistent with the data": {k: "; ".join(v) or "none" for k, v in table.items()}}
    )


def sources() -> pd.DataFrame:
    """Where each table comes from."""
    return pd.DataFrame({"source": {TITLES[name]: table.source for name, table in TABLES.items()}})


def _shown(equation: str) -> str:
    return rf"\({tex(parsed(equation), '.2g')}\)"


def curve(equation: str, table: str, constants: dict[str, float], x: np.ndarray) -> np.ndarray:
    """A form with one group's constants at ``x``.

    >>> curve("conc*V(state)/(conc + K(state))", "puromycin", {"V": 2.0, "K": 1.0}, np.ones(1))
    array([1.])
    """
    form = parsed(equation)
    own = form.atoms(sympy.core.function.AppliedUndef)
    numbers = {f: sympy.Float(constants[f.func.__name__]) for f in own}
    value = sympy.lambdify(sympy.Symbol(TABLES[table].features[0]), form.xreplace(numbers), "numpy")
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(value(x), dtype=float), x.shape)


def _in_order(group: Any) -> tuple[float, str]:
    """Numbers by their size, also where they are labels; other labels by the alphabet.

    >>> sorted(["10", "9", "treated"], key=_in_order)
    ['9', '10', 'treated']
    """
    told = str(group)
    return (float(told) if told.isdecimal() else np.inf), told


@styled
def figure(rows: pd.DataFrame, name: str) -> Figure:
    """Every group's points, with the accepted curve and ours."""
    row = rows.set_index("table").loc[name]
    data = load_measured(name)
    feature = TABLES[name].features[0]
    ours, accepted = (json.loads(str(row[c])) for c in ("constants", "accepted_constants"))
    groups = sorted(data.X.groupby(data.varying), key=lambda group: _in_order(group[0]))
    fullest = min((4, 3, 5), key=lambda n: -len(groups) % n)  # the fewest empty places
    n_columns = min(len(groups), fullest)
    n_lines = -(-len(groups) // n_columns)
    size = (max(6.4, 2.25 * n_columns), 1.9 * n_lines + 0.6)
    drawn, axes = plt.subplots(
        n_lines, n_columns, figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for k, (ax, (group, part)) in enumerate(zip(axes.flat, groups, strict=False)):
        x = part[feature].to_numpy(dtype=float)
        grid = np.linspace(x.min(), x.max(), 300)
        ax.plot(x, data.y[part.index], "o", color="0.4", markersize=3, label="measured")
        first = curve(str(row["accepted"]), name, accepted[str(group)], grid)
        ax.plot(grid, first, "--", color="C1", label="accepted form")
        ax.plot(grid, curve(str(row["equation"]), name, ours[str(group)], grid), label="found")
        ax.set_title(f"{data.varying} {group}", fontsize=8)
        if k + n_columns >= len(groups):  # the last of its column
            ax.set_xlabel(feature)
            ax.tick_params(labelbottom=True)
    for ax in axes.flat[len(groups) :]:
        ax.axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel(TABLES[name].target)
    legend(drawn)
    return drawn


def fit_live(name: str, *, seed: int) -> tuple[Measured, Any]:
    """A measured table, and SEQL with its default settings fitted to it."""
    data = load_measured(name)
    model = SEQL(varying=data.varying, random_state=seed, verbose=False)
    return data, model.fit(data.X, data.y)


def with_error(value: float, error: float) -> str:
    """A number with its standard error, both rounded to the first digit of the error.

    >>> with_error(447.6, 12.3), with_error(0.08213, 0.0042), with_error(3.0, float("nan"))
    ('450 ± 10', '0.082 ± 0.004', '3')
    """
    if not (np.isfinite(error) and error > 0):
        return f"{value:.3g}"
    places = -int(np.floor(np.log10(error)))
    return " ± ".join(f"{round(v, places):.{max(places, 0)}f}" for v in (value, error))


def with_errors(model: Any) -> pd.DataFrame:
    """Each group's constants with their standard errors."""
    value, error = model.coefficients_, model.coefficient_errors_
    return pd.DataFrame(
        {
            name: [with_error(v, e) for v, e in zip(value[name], error[name], strict=True)]
            for name in value
        },
        index=value.index,
    )
