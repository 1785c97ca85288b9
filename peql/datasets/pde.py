"""The paper's PDEs, whose coefficients vary along x or t, solved and turned into rows.

Constants, grids and initial conditions are those of the paper and of Rudy, Alla, Brunton and Kutz,
"Data-driven identification of parametric partial differential equations" (2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import sympy
from numpy import fft
from scipy.integrate import solve_ivp

from .._suggest import unknown_name
from ._dataset import Dataset
from ._derivatives import Array, fourier_factor
from .field import from_field, term_name, term_product

TOLERANCE = 1e-10  # keeps the error of solving far below that of the paper's derivatives


class Term(NamedTuple):
    """A coefficient function times u^power times the derivative of u of that order."""

    power: int
    order: int
    coefficient: Callable[[Array], Array]


@dataclass(frozen=True)
class Problem:
    """u_t = the sum of ``terms`` on a periodic x in [-half_width, half_width)."""

    half_width: float
    t_end: float
    varying: str
    initial: Callable[[Array], Array]
    terms: tuple[Term, ...]
    n_x: int
    n_t: int
    paper_is_periodic: bool = True  # are the paper's derivatives in x Fourier, or differences?
    second_half: bool = False  # of t; the first is left for the solution to settle


PROBLEMS = {
    "advection_diffusion": Problem(
        half_width=5,
        t_end=5,
        varying="x",
        initial=lambda x: np.cos(2 * np.pi * x / 5),
        terms=(
            Term(1, 0, lambda x: -2 * np.pi / 5 * np.sin(2 * np.pi * x / 5)),
            Term(0, 1, lambda x: -1.5 + np.cos(2 * np.pi * x / 5)),
            Term(0, 2, lambda x: np.full_like(x, 0.1)),
        ),
        n_x=256,
        n_t=512,
    ),
    "burgers": Problem(
        half_width=8,
        t_end=10,
        varying="t",
        initial=lambda x: np.exp(-((x + 1) ** 2)),
        terms=(
            Term(1, 1, lambda t: -(1 + np.sin(t) / 4)),
            Term(0, 2, lambda t: np.full_like(t, 0.1)),
        ),
        n_x=512,
        n_t=256,
        paper_is_periodic=False,
    ),
    "kuramoto_sivashinsky": Problem(
        half_width=10,
        t_end=200,
        varying="x",
        initial=lambda x: np.exp(-(x**2)),
        terms=(
            Term(1, 1, lambda x: 1 + np.sin(2 * np.pi * x / 10) / 4),
            Term(0, 2, lambda x: -1 + np.exp(-((x - 2) ** 2) / 5) / 4),
            Term(0, 4, lambda x: -1 - np.exp(-((x + 2) ** 2) / 5) / 4),
        ),
        n_x=256,
        n_t=512,
        second_half=True,
    ),
}


class Field(NamedTuple):
    """A solution ``u`` of shape (len(x), len(t))."""

    u: Array
    x: Array
    t: Array


def equation(name: str, *, cross_terms: bool = False) -> sympy.Expr:
    """The right-hand side; with ``cross_terms`` a product is the symbol of its column.

    >>> equation("burgers")
    u*u_x*a(t) + u_xx*b(t)
    """
    problem = PROBLEMS[name]
    total = sympy.Integer(0)
    for letter, (power, order, _) in zip("abc", problem.terms, strict=False):
        column = sympy.Symbol(term_name(power, order))
        term = column if cross_terms else term_product(power, order)
        total += sympy.Function(letter)(sympy.Symbol(problem.varying)) * term
    return total


def truth(name: str, values: Array) -> pd.DataFrame:
    """The true coefficients at any ``values`` of the varying coordinate; (len(values), terms)."""
    problem = PROBLEMS[name]
    values = np.asarray(values, dtype=float)
    columns = zip("abc", problem.terms, strict=False)
    return pd.DataFrame(
        {letter: term.coefficient(values) for letter, term in columns},
        index=pd.Index(values, name=problem.varying),
    )


def solve(name: str, n_x: int | None = None, n_t: int | None = None) -> Field:
    """Solve the PDE ``name``, by default on the paper's grid; kept for the next call.

    >>> solve("advection_diffusion", 64, 32).u.shape
    (64, 32)
    """
    if name not in PROBLEMS:
        raise unknown_name("PDE", name, PROBLEMS)
    problem = PROBLEMS[name]
    return _solve(name, problem.n_x if n_x is None else n_x, problem.n_t if n_t is None else n_t)


@lru_cache(maxsize=16)
def _solve(name: str, n_x: int, n_t: int) -> Field:
    """Fourier in x; in t LSODA, which turns to an implicit method where the equation is stiff."""
    problem = PROBLEMS[name]
    x = np.linspace(-problem.half_width, problem.half_width, n_x, endpoint=False)
    t = np.linspace(0, problem.t_end, 2 * n_t if problem.second_half else n_t)
    # Each term is c u^power ∂^d u; a plain power u^p is u^(p-1) times ∂^0 u.
    powers = np.array([[term.power - (term.order == 0)] for term in problem.terms])
    step = 2 * problem.half_width / n_x
    factors = np.array([fourier_factor(n_x, step, term.order) for term in problem.terms])
    matrices = fft.irfft(factors[:, :, None] * fft.rfft(np.eye(n_x), axis=0), n_x, axis=1)
    along_x = truth(name, x).to_numpy().T

    def parts(time: float, u: Array) -> tuple[Array, Array]:
        """The coefficients and the derivatives, each of shape (terms, n_x)."""
        c = along_x if problem.varying == "x" else truth(name, np.array([time])).to_numpy().T
        return c, fft.irfft(factors * fft.rfft(u), n_x)

    def rate(time: float, u: Array) -> Array:
        c, derivatives = parts(time, u)
        return (c * u**powers * derivatives).sum(axis=0)

    def jacobian(time: float, u: Array) -> Array:
        c, derivatives = parts(time, u)
        total = np.einsum("ci,cij->ij", c * u**powers, matrices)
        slopes = c * powers * u ** np.maximum(powers - 1, 0) * derivatives
        total[np.diag_indices(n_x)] += slopes.sum(axis=0)
        return total

    solution = solve_ivp(
        rate,
        (0, problem.t_end),
        problem.initial(x),
        method="LSODA",
        t_eval=t,
        jac=jacobian,
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )
    if not solution.success:
        raise RuntimeError(f"{name} on {n_x} x {n_t} points was not solved: {solution.message}")
    field = Field(solution.y[:, -n_t:], x, t[-n_t:])
    for values in field:
        values.setflags(write=False)  # the cache hands the same arrays to every caller
    return field


def make_pde(
    name: str,
    *,
    random_state: int | None = 0,
    cross_terms: bool = False,
    derivatives: str = "paper",
    order: int | None = None,
    noise: float = 0.0,
    n_x: int | None = None,
    n_t: int | None = None,
    window: int | tuple[int, int] = (41, 31),
) -> Dataset:
    """The rows (u, u_x, ..., varying) and u_t of a PDE at every point of its grid.

    The test rows are the training rows without noise: the paper measures u_t on the data it fits,
    so with ``noise=0`` they are the same, and the coefficients are what shows generalisation.

    Parameters
    ----------
    cross_terms : add the products u^p ∂^d u, p ≤ 3, d ≤ 4, as columns such as ``"u*u_x"``.
    derivatives, window : as in ``from_field``; "paper" is Fourier in x for advection-diffusion
        and Kuramoto-Sivashinsky, second-order differences for Burgers'.
    order : the highest derivative in x; by default the equation's, or 4 with cross terms.
    noise : standard deviation of what is added to u before differentiating, as a part of u's own.
    n_x, n_t : points of the grid, by default the paper's.

    >>> data = make_pde("burgers", n_x=64, n_t=32)
    >>> data.equation, list(data.X_train), data.y_train.name, len(data.X_train)
    (u*u_x*a(t) + u_xx*b(t), ['u', 'u_x', 'u_xx', 't'], 'u_t', 2048)
    """
    if noise < 0:
        raise ValueError(f"noise must not be negative, got {noise}")
    problem = PROBLEMS[name]
    u, x, t = solve(name, n_x, n_t)
    if order is None:
        order = 4 if cross_terms else max(term.order for term in problem.terms)

    def rows(values: Array) -> tuple[pd.DataFrame, pd.Series]:
        return from_field(
            values,
            x,
            t,
            order=order,
            varying=problem.varying,
            derivatives=derivatives,
            cross_terms=cross_terms,
            periodic=problem.paper_is_periodic or derivatives != "paper",
            window=window,
        )

    disturbance = np.random.default_rng(random_state).standard_normal(u.shape)
    X_train, y_train = rows(u + noise * u.std() * disturbance)
    X_test, y_test = rows(u)
    return Dataset(
        name=name,
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        varying=problem.varying,
        equation=equation(name, cross_terms=cross_terms),
        coefficients=truth(name, X_train[problem.varying].unique()),
    )
