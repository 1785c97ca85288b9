"""The five analytic benchmarks of the paper, f1 to f5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from ._dataset import Dataset

x, t = sympy.symbols("x t")
a, b = (sympy.Function(name)(t) for name in "ab")


def jagged(t: np.ndarray) -> np.ndarray:
    """The paper's j(t): three straight pieces, continuous, with corners at 0 and 1.5."""
    return np.where(t < 0, 0.5 * t + 2.5, np.where(t < 1.5, -0.5 * t + 2.5, t + 0.25))


@dataclass(frozen=True)
class Benchmark:
    """An equation and the functions of t that are its coefficients."""

    equation: sympy.Expr
    coefficients: dict[str, Callable[[np.ndarray], np.ndarray]]


BENCHMARKS = {
    "f1": Benchmark(a * x**2 + b * x, {"a": lambda t: t, "b": lambda t: 3 * np.sign(t)}),
    "f2": Benchmark(sympy.sin(a * x), {"a": jagged}),
    "f3": Benchmark(a * x, {"a": lambda t: t}),
    "f4": Benchmark(a * x**2 + b * x, {"a": lambda t: t, "b": lambda t: 3 * np.sin(t)}),
    "f5": Benchmark(sympy.sin(a * x), {"a": lambda t: (5 + t) / 2}),
}


def paper_grid(n_t: int = 128) -> np.ndarray:
    """Half of the points on [-3, 0], half on [0, 3]: the grid of the paper's printed t, 0 twice.

    >>> grid = paper_grid()
    >>> [round(float(grid[i]), 3) for i in (8, 40, 72, 104)]
    [-2.619, -1.095, 0.381, 1.905]
    """
    half = n_t // 2
    return np.concatenate([np.linspace(-3, 0, half), np.linspace(0, 3, n_t - half)])


def truth(name: str, t: np.ndarray) -> pd.DataFrame:
    """The true coefficients of benchmark ``name`` at any ``t``; shape (len(t), coefficients)."""
    functions = BENCHMARKS[name].coefficients
    t = np.asarray(t, dtype=float)
    return pd.DataFrame({k: f(t) for k, f in functions.items()}, index=pd.Index(t, name="t"))


def evaluate(name: str, X: pd.DataFrame) -> pd.Series:
    """The true y for rows of ``X`` (columns "x", "t"); any t, on the grid or between.

    >>> evaluate("f3", pd.DataFrame({"x": [2.0], "t": [0.5]})).tolist()
    [1.0]
    """
    columns = truth(name, X["t"].to_numpy())
    names = [sympy.Symbol(c) for c in columns]
    flat = BENCHMARKS[name].equation.subs({sympy.Function(c.name)(t): c for c in names})
    values = sympy.lambdify([x, *names], flat, "numpy")(
        X["x"].to_numpy(), *(columns[c].to_numpy() for c in columns)
    )
    return pd.Series(values, index=X.index, name="y")


def make_analytic(
    name: str,
    *,
    random_state: int | None = 0,
    n_t: int = 128,
    n_train: int = 512,
    n_test: int = 256,
) -> Dataset:
    """Draw a benchmark as in the paper: at each t, x uniform on [-3, 3], to test on [-5, 5]."""
    random = np.random.default_rng(random_state)
    grid = paper_grid(n_t)

    def draw(points: int, limit: float) -> pd.DataFrame:
        columns = {
            "x": random.uniform(-limit, limit, size=points * n_t),
            "t": np.repeat(grid, points),
        }
        return pd.DataFrame(columns)

    X_train, X_test = draw(n_train, 3), draw(n_test, 5)
    return Dataset(
        name=name,
        X_train=X_train,
        y_train=evaluate(name, X_train),
        X_test=X_test,
        y_test=evaluate(name, X_test),
        varying="t",
        equation=BENCHMARKS[name].equation,
        coefficients=truth(name, np.unique(grid)),
    )
