"""From a field u(x, t) on a grid to rows for regression: u, its derivatives and their products."""

from __future__ import annotations

import numpy as np
import pandas as pd
import sympy
from numpy.typing import ArrayLike

from .._suggest import unknown_name
from ._derivatives import DIFFERENCE, FOURIER, SPLINE, Array, Method, polynomial

DERIVATIVES = ("accurate", "paper", "smooth")
MAX_POWER = 3


def library(order: int, *, cross_terms: bool = False) -> list[tuple[int, int]]:
    """The candidates u^p ∂^d u as pairs (p, d): u and its derivatives, then the products.

    >>> [term_name(*term) for term in library(1, cross_terms=True)]
    ['u', 'u_x', 'u**2', 'u**3', 'u*u_x', 'u**2*u_x', 'u**3*u_x']
    """
    terms = [(1, 0), *((0, d) for d in range(1, order + 1))]
    if cross_terms:
        terms += [(p, 0) for p in range(2, MAX_POWER + 1)]
        terms += [(p, d) for d in range(1, order + 1) for p in range(1, MAX_POWER + 1)]
    return terms


def term_name(power: int, order: int) -> str:
    """The column of u^power times the derivative of that order, as SymPy prints the product.

    >>> term_name(2, 1)
    'u**2*u_x'
    """
    factors = ["u" if power == 1 else f"u**{power}"] if power else []
    return "*".join(factors + (["u_" + "x" * order] if order else []))


def term_product(power: int, order: int) -> sympy.Expr:
    """The same term as a product of the symbols u and u_x, not as one symbol of that name."""
    derivative = sympy.Symbol("u_" + "x" * order) if order else sympy.Integer(1)
    return sympy.Symbol("u") ** power * derivative


def expand_cross_terms(equation: sympy.Expr) -> sympy.Expr:
    """Write every symbol that stands for a product, such as ``Symbol("u*u_x")``, as the product.

    >>> expand_cross_terms(2 * sympy.Symbol("u*u_x")).free_symbols == set(sympy.symbols("u u_x"))
    True
    """
    order = max((str(symbol).count("x") for symbol in equation.free_symbols), default=0)
    terms = library(order, cross_terms=True)
    return equation.subs({sympy.Symbol(term_name(*term)): term_product(*term) for term in terms})


def from_field(
    u: ArrayLike,
    x: ArrayLike,
    t: ArrayLike,
    *,
    order: int = 2,
    varying: str = "t",
    derivatives: str = "accurate",
    cross_terms: bool = False,
    periodic: bool = True,
    window: int | tuple[int, int] = (41, 31),
) -> tuple[pd.DataFrame, pd.Series]:
    """Rows (u, u_x, ..., varying) and the target u_t of a field ``u`` of shape (len(x), len(t)).

    Parameters
    ----------
    order : the highest derivative in x.
    varying : "x" or "t", the coordinate along which coefficients change. Rows come in its order,
        so ``y.to_numpy().reshape(n_varying, -1)`` is the image of u_t.
    derivatives : "accurate" (Fourier in a periodic x, splines of degree 7 in any other x and in
        t), "paper" (second-order differences in t; Fourier in a periodic x, differences in any
        other), or "smooth" for noisy data (polynomials fitted in windows along x and t; the half
        window at each edge that is not periodic is dropped).
    cross_terms : add the products u^p ∂^d u, p ≤ 3, as columns with names like ``"u**2*u_x"``.
    periodic : x covers one period, without its end point.
    window : how many points "smooth" fits, odd; a pair for x and t, or one number for both.

    >>> x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 1, 16)
    >>> X, y = from_field(np.sin(x[:, None] - t), x, t, order=1)
    >>> list(X), len(X), bool(np.allclose(y, -X["u_x"]))
    (['u', 'u_x', 't'], 512, True)
    """
    field, x, t = (np.asarray(values, dtype=float) for values in (u, x, t))
    if varying not in ("x", "t"):
        raise unknown_name("varying coordinate", varying, ("x", "t"))
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}")
    _check_field(field, x, t)
    windows = (window, window) if isinstance(window, int) else (window[0], window[1])
    along_x, along_t = _methods(derivatives, periodic, windows)
    if periodic:
        _check_periodic(field)

    def derivative(order_x: int, order_t: int) -> Array:
        return along_t(along_x(field, x, order_x, 0, "x"), t, order_t, 1, "t")

    edge_x, edge_t = (w // 2 if derivatives == "smooth" else 0 for w in windows)
    edge_x = 0 if periodic else edge_x
    inside = np.s_[edge_x : len(x) - edge_x, edge_t : len(t) - edge_t]

    def rows(values: Array) -> Array:
        return (values[inside] if varying == "x" else values[inside].T).ravel()

    in_space = [derivative(d, 0) for d in range(order + 1)]
    table = {
        term_name(p, d): rows(in_space[0] ** p * (in_space[d] if d else 1.0))
        for p, d in library(order, cross_terms=cross_terms)
    }
    position = x[:, None] if varying == "x" else t[None, :]
    table[varying] = rows(np.broadcast_to(position, field.shape))
    return pd.DataFrame(table), pd.Series(rows(derivative(0, 1)), name="u_t")


def _methods(derivatives: str, periodic: bool, windows: tuple[int, int]) -> tuple[Method, Method]:
    """How to differentiate along x and along t."""
    if derivatives == "accurate":
        return (FOURIER if periodic else SPLINE), SPLINE
    if derivatives == "paper":
        return (FOURIER if periodic else DIFFERENCE), DIFFERENCE
    if derivatives == "smooth":
        in_x = polynomial(windows[0], "wrap" if periodic else "interp")
        return in_x, polynomial(windows[1], "interp")
    raise unknown_name("derivatives", derivatives, DERIVATIVES)


def _check_field(u: Array, x: Array, t: Array) -> None:
    if x.ndim != 1 or t.ndim != 1 or u.shape != (len(x), len(t)):
        hint = " (u seems to be transposed)" if u.shape == t.shape + x.shape else ""
        raise ValueError(
            f"u must have shape (len(x), len(t)) = {x.shape + t.shape}, got {u.shape}{hint}"
        )
    for name, values in {"u": u, "x": x, "t": t}.items():
        if not np.isfinite(values).all():
            bad = np.argwhere(~np.isfinite(values))
            raise ValueError(
                f"{name} has {len(bad)} values that are NaN or infinite, the first at "
                f"{tuple(bad[0].tolist())}: fill or drop them before differentiating"
            )
    for name, grid in {"x": x, "t": t}.items():
        if (np.diff(grid) <= 0).any():
            raise ValueError(f"{name} must increase from each point to the next")


def _check_periodic(u: Array) -> None:
    """A periodic field is as smooth over its seam as elsewhere; if not, Fourier is wrong there."""
    for order in range(1, 5):
        around = np.concatenate([u, u[:order]])
        bends = np.abs(np.diff(around, order, axis=0)).max(axis=1)
        inside, seam = bends[: len(u) - order], bends[len(u) - order :]
        if len(inside) and seam.max() > 3 * inside.max():
            raise ValueError(
                "u is not periodic in x: it jumps or bends between the last point and the first. "
                "Pass periodic=False, or one full period of x without its end point"
            )
