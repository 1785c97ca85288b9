"""Laws of one form with constants of their own in each experiment, and rows that follow them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from ._dataset import Dataset

experiment = sympy.Symbol("experiment")
Range = tuple[float, float]


@dataclass(frozen=True)
class Law:
    """``form`` in its symbols, the range of each feature and of each experiment's constants."""

    form: str
    features: dict[str, Range]
    constants: dict[str, Range]
    target: str


def make_law(
    name: str,
    law: Law,
    *,
    random_state: int | None = 0,
    n_experiments: int = 10,
    n_train: int = 100,
    n_test: int = 100,
    noise: float = 0.0,
) -> Dataset:
    """Draw each experiment's constants, then its rows; ``noise`` is in units of y's rms.

    >>> hooke = Law("-k*x", {"x": (-1, 1)}, {"k": (1, 2)}, "F")
    >>> make_law("Hooke", hooke, n_experiments=3, n_train=20).equation
    -x*k(experiment)
    """
    random = np.random.default_rng(random_state)
    symbols = {s: sympy.Symbol(s) for s in (*law.features, *law.constants)}
    form = sympy.sympify(law.form, locals=symbols)
    labels = pd.Index(np.arange(1.0, n_experiments + 1), name=experiment.name)
    coefficients = pd.DataFrame(
        {k: random.uniform(*ends, n_experiments) for k, ends in law.constants.items()},
        index=labels,
    )
    value = sympy.lambdify(list(symbols.values()), form, "numpy")

    def measure(rows: int) -> tuple[pd.DataFrame, pd.Series]:
        n = rows * n_experiments
        X = pd.DataFrame({k: random.uniform(*ends, n) for k, ends in law.features.items()})
        X[experiment.name] = np.repeat(labels.to_numpy(), rows)
        own = coefficients.loc[X[experiment.name]]
        features = (X[k].to_numpy() for k in law.features)
        return X, pd.Series(value(*features, *own.to_numpy().T), name=law.target)

    (X_train, y_train), (X_test, y_test) = measure(n_train), measure(n_test)
    rms = float(np.sqrt(np.mean(np.square(y_train))))
    y_train = y_train + noise * rms * random.standard_normal(len(y_train))
    functions = {symbols[k]: sympy.Function(k)(experiment) for k in law.constants}
    return Dataset(
        name,
        X_train,
        y_train,
        X_test,
        y_test,
        experiment.name,
        form.subs(functions),
        coefficients,
    )
