"""Two textbook laws, each measured in several experiments with parameters of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import sympy

from ._dataset import Dataset

t, experiment = sympy.symbols("t experiment")
a, b, c = (sympy.Function(name)(experiment) for name in "abc")

LAWS = {"decay": a * sympy.exp(b * t), "oscillator": a * sympy.sin(b * t + c)}
"""n0·exp(-t/T): a = n0, b = -1/T. A·cos(ωt + φ), written with a sine: a = A, b = ω, c = φ + π/2."""


PRIMITIVES = {"decay": "growth", "oscillator": "trig"}
"""The set of primitives in which each law can be written."""


def make_textbook(
    name: str,
    *,
    random_state: int | None = 0,
    n_experiments: int = 10,
    n_train: int = 100,
    n_test: int = 100,
    noise: float = 0.0,
) -> Dataset:
    """Draw the parameters of each experiment, then its measurements at random times.

    Times to train on are in [0, 5], to test on in [0, 8]. ``noise`` is in units of y's standard
    deviation and is added to the training rows. decay: n0 in [1, 3], T in [1, 4]. oscillator: A in
    [1, 2], ω in [1, 3], φ in [-1, 1].
    """
    random = np.random.default_rng(random_state)

    def draw(low: float, high: float) -> np.ndarray:
        return random.uniform(low, high, n_experiments)

    if name == "decay":
        drawn = {"a": draw(1, 3), "b": -1 / draw(1, 4)}
    else:
        drawn = {"a": draw(1, 2), "b": draw(1, 3), "c": np.pi / 2 + draw(-1, 1)}
    labels = pd.Index(np.arange(1.0, n_experiments + 1), name=experiment.name)
    coefficients = pd.DataFrame(drawn, index=labels)
    symbols = [sympy.Symbol(k) for k in drawn]
    flat = LAWS[name].subs({sympy.Function(s.name)(experiment): s for s in symbols})
    law = sympy.lambdify([t, *symbols], flat, "numpy")

    def measure(rows: int, end: float) -> tuple[pd.DataFrame, pd.Series]:
        X = pd.DataFrame(
            {
                "t": random.uniform(0, end, rows * n_experiments),
                "experiment": np.repeat(labels.to_numpy(), rows),
            }
        )
        own = coefficients.loc[X["experiment"]]
        return X, pd.Series(law(X["t"].to_numpy(), *own.to_numpy().T), name="y")

    (X_train, y_train), (X_test, y_test) = measure(n_train, 5), measure(n_test, 8)
    y_train = y_train + noise * y_train.std() * random.standard_normal(len(y_train))
    return Dataset(
        name, X_train, y_train, X_test, y_test, experiment.name, LAWS[name], coefficients
    )
