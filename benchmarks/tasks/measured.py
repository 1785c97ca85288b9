"""Five classic tables of measurements: SEQL as it is set by default, beside the accepted form."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy
from scipy.optimize import least_squares

import peql
from peql.datasets.measured import TABLES, Measured, load_measured

N_STARTS = 60
MEASURES = ("schwarz", "accepted_schwarz", "n_constants", "accepted_n_constants", "cpu_seconds")
SECONDS = 20
NEVER = [("peql.estimators.tabular", "_SymbolicRegressor._summed")]  # for fields


def TASKS() -> Iterator[dict[str, Any]]:
    """Each table, once."""
    for table in TABLES:
        yield {"table": table, "seed": 0}


def PARAMETERS() -> dict[str, Any]:
    """What the model is set to."""
    return {"SEQL": peql.SEQL().get_params(), "n_starts": N_STARTS}


def run(table: str, seed: int) -> dict[str, Any]:
    """Fit SEQL and, in each group on its own, the accepted form by least squares."""
    data = load_measured(table)
    model = peql.SEQL(varying=data.varying, random_state=seed, verbose=False)
    started = time.process_time()
    model.fit(data.X, data.y)
    cpu_seconds = time.process_time() - started
    squares = float(np.sum((model.predict(data.X) - data.y.to_numpy()) ** 2))
    own = model.coefficients_
    n_constants = own.size + len(model.constants_)
    accepted, accepted_squares = fit_accepted(data, seed)
    n_accepted = sum(len(group) for group in accepted.values())
    n = len(data.y)
    return {
        "equation": str(model.equation_),
        "accepted": str(data.equation),
        "schwarz": schwarz(squares, n, n_constants),
        "accepted_schwarz": schwarz(accepted_squares, n, n_accepted),
        "n_constants": n_constants,
        "accepted_n_constants": n_accepted,
        "squares": squares,
        "accepted_squares": accepted_squares,
        "n_rows": n,
        "n_groups": len(own),
        "constants": json.dumps({str(k): v for k, v in own.T.to_dict().items()}),
        "accepted_constants": json.dumps(accepted),
        "alternatives": "; ".join(map(str, model.alternatives_["equation"])),
        "method": model.trials_["method"][model.best_trial_],
        "cpu_seconds": round(cpu_seconds, 2),
    }


def schwarz(squares: float, n: int, n_constants: int) -> float:
    """Schwarz's criterion of all rows together; smaller is better."""
    return float(n * np.log(squares / n) + n_constants * np.log(n))


def fit_accepted(data: Measured, seed: int) -> tuple[dict[str, dict[str, float]], float]:
    """The accepted form's constants in each group, from many starts, and its sum of squares."""
    own = sorted(data.equation.atoms(sympy.core.function.AppliedUndef), key=str)
    names = [f.func.__name__ for f in own]
    [feature] = [column for column in data.X if column != data.varying]
    plain = data.equation.xreplace({f: sympy.Symbol(f"_{f.func.__name__}") for f in own})
    symbols = [sympy.Symbol(f"_{name}") for name in names]
    value = sympy.lambdify([sympy.Symbol(feature), *symbols], plain, "numpy")
    random = np.random.default_rng(seed)
    found: dict[str, dict[str, float]] = {}
    total = 0.0
    for group, rows in data.X.groupby(data.varying):
        x, y = rows[feature].to_numpy(dtype=float), data.y[rows.index].to_numpy(dtype=float)
        within = np.log(x) if "log" in str(data.equation) else x
        typical = max(float(np.median(np.abs(within))), 0.1)
        units = [
            y.max() if n[0] in "AVC" else 1 / typical if n.startswith("k") else typical
            for n in names
        ]
        best = None
        for _ in range(N_STARTS):
            start = np.array(units) * 10 ** random.uniform(-1, 1, len(names))
            with np.errstate(all="ignore"):
                try:
                    fit = least_squares(
                        lambda c, x=x, y=y: np.nan_to_num(value(x, *c) - y, nan=1e6, posinf=1e6),
                        start,
                        x_scale="jac",
                        max_nfev=300,
                    )
                except ValueError:
                    continue
            if best is None or fit.cost < best.cost:
                best = fit
        if best is None:
            raise RuntimeError(f"{data.name}, {group}: no start of the accepted form converged")
        found[str(group)] = dict(zip(names, map(float, best.x), strict=True))
        total += 2 * float(best.cost)
    return found, total
