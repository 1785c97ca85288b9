"""PDEs whose coefficients vary along x or t, or both, solved and turned into rows.

Constants, grids and initial conditions of the first three are those of the paper and of Rudy,
Alla, Brunton and Kutz, "Data-driven identification of parametric partial differential equations"
(2019). The others are ours: a material boundary, coefficients of x and t, and two fields at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sympy
from numpy import fft
from scipy.integrate import solve_ivp

from .._suggest import unknown_name
from ._dataset import Dataset
from ._derivatives import Array, fourier_factor
from .field import FROM_SERIES, as_fields, factors, parse_term, tabulate, take

TOLERANCE = 1e-10  # keeps the error of solving far below that of the paper's derivatives
REFINED = 8  # solver's points for each of the grid at a material boundary; even, so that it is one


class Term(NamedTuple):
    """A column such as "u*u_x" and its coefficient, a function of the varying coordinates."""

    column: str
    coefficient: Callable[..., Array]


@dataclass(frozen=True)
class Problem:
    """The rate of change of each field is a sum of terms, on x in [-half_width, half_width]."""

    half_width: float
    t_end: float
    varying: str | tuple[str, ...]
    initial: dict[str, Callable[[Array], Array]]
    terms: dict[str, tuple[Term, ...]]
    n_x: int
    n_t: int
    periodic: bool = True  # if not, nothing passes through the ends: u_x is 0 there
    paper: bool = False  # is it one of the paper's, so that its derivatives are the default?
    paper_is_periodic: bool = True  # are the paper's derivatives in x Fourier, or differences?
    second_half: bool = False  # of t; the first is left for the solution to settle


def _constant(value: float) -> Callable[..., Array]:
    return lambda first, *_: np.full_like(first, value)


PROBLEMS = {
    "advection_diffusion": Problem(
        half_width=5,
        t_end=5,
        varying="x",
        initial={"u": lambda x: np.cos(2 * np.pi * x / 5)},
        terms={
            "u": (
                Term("u", lambda x: -2 * np.pi / 5 * np.sin(2 * np.pi * x / 5)),
                Term("u_x", lambda x: -1.5 + np.cos(2 * np.pi * x / 5)),
                Term("u_xx", _constant(0.1)),
            )
        },
        n_x=256,
        n_t=512,
        paper=True,
    ),
    "burgers": Problem(
        half_width=8,
        t_end=10,
        varying="t",
        initial={"u": lambda x: np.exp(-((x + 1) ** 2))},
        terms={
            "u": (
                Term("u*u_x", lambda t: -(1 + np.sin(t) / 4)),
                Term("u_xx", _constant(0.1)),
            )
        },
        n_x=512,
        n_t=256,
        paper=True,
        paper_is_periodic=False,
    ),
    "kuramoto_sivashinsky": Problem(
        half_width=10,
        t_end=200,
        varying="x",
        initial={"u": lambda x: np.exp(-(x**2))},
        terms={
            "u": (
                Term("u*u_x", lambda x: 1 + np.sin(2 * np.pi * x / 10) / 4),
                Term("u_xx", lambda x: -1 + np.exp(-((x - 2) ** 2) / 5) / 4),
                Term("u_xxxx", lambda x: -1 - np.exp(-((x + 2) ** 2) / 5) / 4),
            )
        },
        n_x=256,
        n_t=512,
        paper=True,
        second_half=True,
    ),
    # What diffuses is lost four times as fast beyond a boundary. A jump in the loss leaves u and
    # u_x continuous; one in diffusion would need (D u_x)_x, which is no sum of columns there.
    "decay_boundary": Problem(
        half_width=5,
        t_end=3,
        varying="x",
        initial={
            "u": lambda x: 1 + np.cos(0.6 * np.pi * (x + 5)) / 2 - np.cos(np.pi * (x + 5)) / 2
        },
        terms={"u": (Term("u", lambda x: -_step(x, 0.5, 2.0)), Term("u_xx", _constant(0.2)))},
        n_x=256,
        n_t=256,
        periodic=False,
    ),
    # A wind that changes from place to place and with time.
    "advection_diffusion_xt": Problem(
        half_width=5,
        t_end=5,
        varying=("x", "t"),
        initial={"u": lambda x: np.cos(2 * np.pi * x / 5) + np.sin(2 * np.pi * x / 10)},
        terms={
            "u": (
                Term("u_x", lambda x, t: -1 - np.sin(2 * np.pi * x / 10) * np.cos(t) / 2),
                Term("u_xx", lambda x, t: 0.1 + 0 * x * t),
            )
        },
        n_x=256,
        n_t=256,
    ),
    # FitzHugh and Nagumo's nerve, with a recovery that is driven from outside.
    "fitzhugh_nagumo": Problem(
        half_width=5,
        t_end=20,
        varying="t",
        initial={
            "u": lambda x: np.cos(2 * np.pi * x / 10) + np.sin(4 * np.pi * x / 10) / 2,
            "v": lambda x: np.sin(2 * np.pi * x / 10) / 2 + np.cos(6 * np.pi * x / 10) / 4,
        },
        terms={
            "u": (
                Term("u", _constant(1.0)),
                Term("u**3", _constant(-1.0)),
                Term("u_xx", _constant(0.1)),
                Term("v", _constant(-1.0)),
            ),
            "v": (
                Term("u", lambda t: 0.6 + 0.3 * np.sin(t)),
                Term("v", lambda t: -0.3 - 0.15 * np.sin(t)),
                Term("v_xx", _constant(0.05)),
            ),
        },
        n_x=128,
        n_t=512,
    ),
}
"""Each has one field, u, but the last."""

TARGETS = {
    name if len(problem.terms) == 1 else f"{name}_{field}": (name, field)
    for name, problem in PROBLEMS.items()
    for field in problem.terms
}
"""Datasets: the problem and the field whose rate of change is the target."""


def _step(x: Array, left: float, right: float) -> Array:
    """Two values with a jump at 0; at the jump, their mean."""
    return np.where(x < 0, left, np.where(x > 0, right, (left + right) / 2))


class Field(NamedTuple):
    """A solution ``u`` of shape (len(x), len(t)); of several fields, a dict of them."""

    u: Any
    x: Array
    t: Array


def _target(name: str) -> tuple[Problem, str]:
    if name not in TARGETS:
        raise unknown_name("PDE", name, TARGETS)
    problem, field = TARGETS[name]
    return PROBLEMS[problem], field


def equation(name: str, *, cross_terms: bool = False) -> sympy.Expr:
    """The right-hand side; with ``cross_terms`` a product is the symbol of its column.

    >>> equation("burgers")
    u*u_x*a(t) + u_xx*b(t)
    """
    problem, field = _target(name)
    where = sympy.symbols(_along(problem))
    total = sympy.Integer(0)
    for letter, term in zip("abcd", problem.terms[field], strict=False):
        column = sympy.Symbol(term.column) if cross_terms else parse_term(term.column)
        total += sympy.Function(letter)(*where) * column
    return total


def _along(problem: Problem) -> list[str]:
    return [problem.varying] if isinstance(problem.varying, str) else list(problem.varying)


def truth(name: str, *values: Array) -> pd.DataFrame:
    """The true coefficients at any values of the varying coordinates; (len(values), terms)."""
    problem, field = _target(name)
    places = [np.asarray(one, dtype=float) for one in values]
    along = _along(problem)
    index = (
        pd.Index(places[0], name=along[0])
        if len(along) == 1
        else pd.MultiIndex.from_arrays(places, names=along)
    )
    columns = zip("abcd", problem.terms[field], strict=False)
    return pd.DataFrame({k: term.coefficient(*places) for k, term in columns}, index=index)


def solve(name: str, n_x: int | None = None, n_t: int | None = None) -> Field:
    """Solve the PDE ``name``, by default on its own grid; kept for the next call.

    >>> solve("advection_diffusion", 64, 32).u.shape
    (64, 32)
    """
    name = TARGETS.get(name, (name, ""))[0]
    if name not in PROBLEMS:
        raise unknown_name("PDE", name, PROBLEMS)
    problem = PROBLEMS[name]
    return _solve(name, problem.n_x if n_x is None else n_x, problem.n_t if n_t is None else n_t)


@lru_cache(maxsize=16)
def _solve(name: str, n_x: int, n_t: int) -> Field:
    problem = PROBLEMS[name]
    t = np.linspace(0, problem.t_end, 2 * n_t if problem.second_half else n_t)
    x = np.linspace(-problem.half_width, problem.half_width, n_x, endpoint=not problem.periodic)
    solution = _waves(name, x, t) if problem.periodic else _between_walls(name, x, t)
    u = {
        field: np.ascontiguousarray(values[:, -n_t:])
        for field, values in zip(problem.terms, solution, strict=True)
    }
    x, t = x.copy(), t[-n_t:].copy()
    for values in (*u.values(), x, t):
        values.setflags(write=False)  # the cache hands the same arrays to every caller
    return Field(u if len(u) > 1 else u["u"], x, t)


def _integrate(name: str, rate: Callable, start: Array, t: Array, **options: Any) -> Array:
    """In t LSODA, which turns to an implicit method where the equation is stiff."""
    solution = solve_ivp(
        rate, (0, t[-1]), start, "LSODA", t, rtol=TOLERANCE, atol=TOLERANCE, **options
    )
    if not solution.success:
        raise RuntimeError(f"{name} on {len(start)} points was not solved: {solution.message}")
    return solution.y


def _waves(name: str, x: Array, t: Array) -> Array:
    """Fourier in x; (field, x, t)."""
    problem, n = PROBLEMS[name], len(x)
    along, names = _along(problem), list(problem.terms)
    step = 2 * problem.half_width / n
    terms = [
        (names.index(field), term.coefficient, factors(term.column))
        for field in names
        for term in problem.terms[field]
    ]
    orders = range(1 + max(f.order for *_, parts in terms for f in parts))
    waves = [fourier_factor(n, step, d) for d in orders]
    matrices = [fft.irfft(w[:, None] * fft.rfft(np.eye(n), axis=0), n, axis=0) for w in waves]

    def parts(time: float, state: Array) -> tuple[list[Array], list[Array]]:
        """The coefficients, each (x,), and the derivatives of each order, (field, x)."""
        place = {"x": x, "t": np.full(n, time)}
        spectrum = fft.rfft(state.reshape(len(names), n))
        coefficients = [c(*(place[name] for name in along)) for _, c, _ in terms]
        return coefficients, [fft.irfft(w * spectrum, n) for w in waves]

    def rate(time: float, state: Array) -> Array:
        coefficients, derivatives = parts(time, state)
        total = np.zeros((len(names), n))
        for c, (target, _, product) in zip(coefficients, terms, strict=True):
            for f in product:
                c = c * derivatives[f.order][names.index(f.field)] ** f.power
            total[target] += c
        return total.ravel()

    def jacobian(time: float, state: Array) -> Array:
        coefficients, derivatives = parts(time, state)
        total = np.zeros((len(names), n, len(names), n))
        for c, (target, _, product) in zip(coefficients, terms, strict=True):
            for k, moved in enumerate(product):
                slope = c * moved.power
                for j, f in enumerate(product):
                    power = f.power - (j == k)
                    slope = slope * derivatives[f.order][names.index(f.field)] ** power
                source = names.index(moved.field)
                total[target, :, source] += slope[:, None] * matrices[moved.order]
        return total.reshape(len(names) * n, -1)

    start = np.concatenate([problem.initial[field](x) for field in names])
    return _integrate(name, rate, start, t, jac=jacobian).reshape(len(names), n, -1)


def _between_walls(name: str, x: Array, t: Array) -> Array:
    """Second differences on a finer grid, twice, and the limit of both; (field, x, t).

    Not waves: where a coefficient jumps u_xx does, and differences with a point on the jump see
    nothing but the two sides.
    """
    problem = PROBLEMS[name]

    def on(fine: int) -> Array:
        points = np.linspace(x[0], x[-1], (len(x) - 1) * fine + 1)
        h = points[1] - points[0]
        terms = [(term.coefficient(points), factors(term.column)) for term in problem.terms["u"]]

        def rate(_: float, u: Array) -> Array:
            mirrored = np.concatenate([u[1:2], u, u[-2:-1]])
            bend = (mirrored[2:] - 2 * u + mirrored[:-2]) / h**2
            total = np.zeros_like(u)
            for c, product in terms:
                for f in product:
                    c = c * (bend if f.order == 2 else u) ** f.power
                total += c
            return total

        start = problem.initial["u"](points)
        return _integrate(name, rate, start, t, lband=1, uband=1)[::fine]

    coarse, fine = on(REFINED), on(2 * REFINED)
    return (fine + (fine - coarse) / 3)[None]


def make_pde(
    name: str,
    *,
    random_state: int | None = 0,
    cross_terms: bool = False,
    derivatives: str | None = None,
    order: int | None = None,
    noise: float = 0.0,
    n_x: int | None = None,
    n_t: int | None = None,
    rows: str = "independent",
) -> Dataset:
    """The rows (u, u_x, ..., varying) of a PDE, and u_t.

    The test rows are the training rows without noise: the paper measures u_t on the data it fits,
    so with ``noise=0`` they are the same, and the coefficients are what shows generalisation.
    With "auto", "series" and "weak" they are "accurate" derivatives at the points of the
    training rows.

    Args:
        cross_terms: add the products u^p ∂^d u, p ≤ 3, d ≤ 4, as columns such as ``"u*u_x"``.
        derivatives, rows: as in ``from_field``; derivatives are by default "paper" for the paper's
            equations (Fourier in x for advection-diffusion and Kuramoto-Sivashinsky, second-order
            differences for Burgers') and "auto" for the others.
        order: the highest derivative in x; by default the equation's, or 4 with cross terms.
        noise: standard deviation of what is added to u before differentiating, as a part of u's
            own.
        n_x, n_t: points of the grid, by default the paper's.

    >>> data = make_pde("burgers", n_x=64, n_t=32)
    >>> data.equation, list(data.X_train), data.y_train.name, len(data.X_train)
    (u*u_x*a(t) + u_xx*b(t), ['u', 'u_x', 'u_xx', 't'], 'u_t', 2048)
    """
    if noise < 0:
        raise ValueError(f"noise must not be negative, got {noise}")
    problem, target = _target(name)
    solution = solve(name, n_x, n_t)
    clean, x, t = as_fields(solution.u), solution.x, solution.t
    along = _along(problem)
    if order is None:
        columns = [term.column for terms in problem.terms.values() for term in terms]
        highest = max(f.order for column in columns for f in factors(column))
        order = 4 if cross_terms else highest
    how = derivatives or ("paper" if problem.paper else "auto")
    periodic = problem.paper_is_periodic if how == "paper" else problem.periodic
    random = np.random.default_rng(random_state)
    noisy = {k: u + noise * u.std() * random.standard_normal(u.shape) for k, u in clean.items()}

    taken = take(noisy, x, t, order, along, how, periodic, rows, cross_terms)
    exact = "accurate" if how in FROM_SERIES else how
    known = take(clean, x, t, order, along, exact, periodic).at(taken.rows, taken.columns)
    X_train, y_train = tabulate(taken, clean, x, t, order, along, cross_terms)
    X_test, y_test = tabulate(known, clean, x, t, order, along, cross_terms)
    places = X_train[along].drop_duplicates().to_numpy().T
    return Dataset(
        name=name,
        X_train=X_train,
        y_train=y_train[f"{target}_t"],
        X_test=X_test,
        y_test=y_test[f"{target}_t"],
        varying=problem.varying if isinstance(problem.varying, str) else along,
        equation=equation(name, cross_terms=cross_terms),
        coefficients=truth(name, *places),
    )
