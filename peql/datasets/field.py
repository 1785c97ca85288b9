"""From fields u(x, t) on a grid to rows for regression: u, its derivatives and their products."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sympy
from numpy.typing import ArrayLike

from .._suggest import unknown_name
from . import _series
from ._derivatives import DIFFERENCE, FOURIER, SPLINE, Array, Method, check_uniform
from ._series import MOST_MISSING, Basis, Series, Whole
from ._weak import TestFunctions

DERIVATIVES = ("auto", "series", "weak", "accurate", "paper")
FROM_SERIES = DERIVATIVES[:3]  # that know of noise and of missing points
ROWS = ("independent", "all")
MAX_POWER = 3
# How much noisier than usual a derivative may be near an end that is not periodic. Where
# coefficients change, each value stands on its own rows; elsewhere the ends are a few of many
# rows, and often those in which the field is liveliest.
EDGE_VARYING, EDGE = 2.0, 10.0
# Points of a direction, if it has them: a field of two waves is two numbers, but its powers have
# more waves, and terms are told apart by them. Without noise more points cost nothing.
FEWEST_ROWS, FEWEST_CLEAN = 16, 64
PATCH = 32  # rows that are fitted together where coefficients vary along x and t
REPEATS = 8  # measurements that are imagined to count independent rows: 28 pairs of errors


class Factor(NamedTuple):
    """A derivative of a field to a power."""

    field: str
    order: int
    power: int

    @property
    def column(self) -> str:
        """The derivative's own column, such as ``"u_xx"``."""
        return self.field + ("_" + "x" * self.order if self.order else "")


Term = tuple[Factor, ...]


def library(fields: Sequence[str], order: int, *, cross_terms: bool = False) -> list[Term]:
    """The candidates: fields, their derivatives, then powers of fields and products of the two.

    >>> [term_name(term) for term in library(["u"], 1, cross_terms=True)]
    ['u', 'u_x', 'u**2', 'u**3', 'u*u_x', 'u**2*u_x', 'u**3*u_x']
    """
    orders = range(1, order + 1)
    terms: list[Term] = [(Factor(f, d, 1),) for f in fields for d in (0, *orders)]
    if not cross_terms:
        return terms
    powers = {
        degree: [
            tuple(Factor(f, 0, chosen.count(f)) for f in fields if f in chosen)
            for chosen in combinations_with_replacement(fields, degree)
        ]
        for degree in range(1, MAX_POWER + 1)
    }
    terms += [power for degree in range(2, MAX_POWER + 1) for power in powers[degree]]
    return terms + [
        (*power, Factor(f, d, 1))
        for d in orders
        for f in fields
        for degree in powers
        for power in powers[degree]
    ]


def term_name(term: Term) -> str:
    """The column of a product, as SymPy prints it.

    >>> term_name((Factor("u", 0, 2), Factor("u", 1, 1)))
    'u**2*u_x'
    """
    factors = sorted(term, key=lambda factor: factor.column)
    return "*".join(f.column if f.power == 1 else f"{f.column}**{f.power}" for f in factors)


def factors(name: str) -> Term:
    """What ``term_name`` made a name of.

    >>> factors("u**2*u_x")
    (Factor(field='u', order=0, power=2), Factor(field='u', order=1, power=1))
    """
    found = re.findall(r"([^\W\d]\w*?)(?:_(x+))?(?:\*\*(\d+))?(?:\*|$)", name)
    return tuple(Factor(field, len(order), int(power or 1)) for field, order, power in found)


def expand_cross_terms(equation: sympy.Expr) -> sympy.Expr:
    """Write every symbol that stands for a product, such as ``Symbol("u*u_x")``, as the product.

    >>> expand_cross_terms(2 * sympy.Symbol("u*u_x")).free_symbols == set(sympy.symbols("u u_x"))
    True
    """
    products = [symbol for symbol in equation.free_symbols if "*" in str(symbol)]
    return equation.subs({symbol: parse_term(str(symbol)) for symbol in products})


def parse_term(name: str) -> sympy.Expr:
    """The product that a column's name says, of symbols only: a field may be called E or I.

    >>> parse_term("u**2*u_x").free_symbols == set(sympy.symbols("u u_x"))
    True
    """
    symbols = {word: sympy.Symbol(word) for word in re.findall(r"[^\W\d]\w*", name)}
    return sympy.parse_expr(name, local_dict=symbols)


def from_field(
    u: ArrayLike | Mapping[str, ArrayLike],
    x: ArrayLike,
    t: ArrayLike,
    *,
    order: int = 2,
    varying: str | Sequence[str] = "t",
    derivatives: str = "auto",
    cross_terms: bool = False,
    periodic: bool = True,
    rows: str = "independent",
) -> tuple[pd.DataFrame, Any]:
    """Rows (u, u_x, ..., varying) and the target u_t of a field ``u`` of shape (len(x), len(t)).

    Args:
        u: one field, or several by name, ``{"u": u, "v": v}``; the target is then a table with the
            columns u_t, v_t. With the first three ``derivatives``, up to a fifth of the points may
            be NaN.
        x, t: increasing. x must be uniform where it is periodic; else any spacing will do, though
            "paper" takes uniform ones only.
        order: the highest derivative in x.
        varying: "x", "t" or both, the coordinates along which coefficients change. Rows come in
            their order, so ``y.to_numpy().reshape(n_varying, -1)`` is the image of u_t.
        derivatives: "series", one for the whole field, waves in a periodic x and polynomials in t
            and any other x, in which each wave is shrunk by the noise that the shortest waves show.
            There are about as many rows as the series has numbers, and none near ends where it is
            unsure. A field without noise is differentiated as by "accurate", at as many points. Or
            "weak", integrals of the same series, times bumps, over the direction in which the
            coefficients do not vary; derivatives along it are moved to the bumps where possible.
            They are less noisy, but fewer rows differ where that direction is short; and a product
            of two such columns means nothing, so products must be columns (``cross_terms=True``).
            Or "auto", the series; with ``cross_terms`` integrals, where they leave no fewer
            independent rows of a noisy field. Or "accurate", of every point as it is: Fourier in a
            periodic x, splines of degree 7 otherwise. Or "paper", second-order differences in t,
            and in x Fourier where it is periodic, differences where it is not.
        cross_terms: add products of powers up to 3 and derivatives, as columns like ``"u**2*u_x"``.
        periodic: x covers one period, without its end point.
        rows: of the first three, "independent" or "all". At every point of the grid a smoothed
            field repeats itself, which misleads a criterion that counts rows; a method with another
            one (SINDy's counts terms, not their coefficients) does better with all.

    Returns:
        X, y: ``X.attrs`` of the first three says what was done: ``form`` ("series" or "weak"),
            ``noise`` (standard deviation, of each field), ``kept`` (share of its numbers),
            ``edges`` (points left out at each end of x and t), ``grid`` (values of x and of t among
            the rows), ``error`` (of each rate of change, root mean square), ``independent`` (the
            share of the rows of one value of varying whose errors are independent) and ``products``
            (whether they are columns already, so that none need be formed).

    >>> x, t = np.linspace(0, 2 * np.pi, 32, endpoint=False), np.linspace(0, 1, 16)
    >>> X, y = from_field(np.sin(x[:, None] - t), x, t, order=1)
    >>> list(X), bool(np.allclose(y, -X["u_x"], atol=1e-6))
    (['u', 'u_x', 't'], True)
    """
    fields = as_fields(u)
    x, t = np.asarray(x, dtype=float), np.asarray(t, dtype=float)
    along = [varying] if isinstance(varying, str) else list(varying)
    for name in along:
        if name not in ("x", "t"):
            raise unknown_name("varying coordinate", name, ("x", "t"))
    taken = take(fields, x, t, order, along, derivatives, periodic, rows, cross_terms)
    X, target = tabulate(taken, fields, x, t, order, along, cross_terms)
    return X, (target if isinstance(u, Mapping) else target["u_t"])


def as_fields(u: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Fields by name; one without a name is u."""
    given = u if isinstance(u, Mapping) else {"u": u}
    return {str(name): np.asarray(values, dtype=float) for name, values in given.items()}


class Taken(NamedTuple):
    """Columns at the points ``rows`` of x and ``columns`` of t, each of shape (rows, columns)."""

    term: Callable[[Term], Array]
    rate: Callable[[str], Array]
    rows: Whole
    columns: Whole
    report: dict[str, Any]

    def at(self, rows: Whole, columns: Whole) -> Taken:
        """Some of the points, of those of a whole grid."""
        part = np.ix_(rows, columns)
        return Taken(
            lambda term: self.term(term)[part],
            lambda name: self.rate(name)[part],
            rows,
            columns,
            {},
        )


def take(
    fields: dict[str, Array],
    x: Array,
    t: Array,
    order: int,
    along: list[str],
    derivatives: str,
    periodic: bool,
    rows: str = "independent",
    products: bool = False,
) -> Taken:
    """Differentiate ``fields``, after checking them; ``products`` are to be columns."""
    if derivatives not in DERIVATIVES:
        raise unknown_name("derivatives", derivatives, DERIVATIVES)
    if rows not in ROWS:
        raise unknown_name("rows", rows, ROWS)
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}")
    for name, values in fields.items():
        _check_field(name, values, x, t, holes=derivatives in FROM_SERIES)
        if periodic:
            _check_periodic(name, values)
    given = fields, x, t, order, along, periodic, rows == "all"
    if derivatives == "auto":
        return _from_either(*given) if products and len(along) == 1 else _from_series(*given)
    if derivatives == "series":
        return _from_series(*given)
    if derivatives == "weak":
        return _from_integrals(*given)
    return _from_points(fields, x, t, derivatives, periodic)


def tabulate(
    taken: Taken,
    names: Iterable[str],
    x: Array,
    t: Array,
    order: int,
    along: list[str],
    cross_terms: bool,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows X and the rates of change, one column for each field."""
    names = list(names)

    def rows(values: Array) -> Array:
        return (values if along[0] == "x" else values.T).ravel()

    terms = library(names, order, cross_terms=cross_terms)
    table = {term_name(term): rows(taken.term(term)) for term in terms}
    place = {"x": x[taken.rows][:, None], "t": t[taken.columns][None, :]}
    shape = len(taken.rows), len(taken.columns)
    table |= {name: rows(np.broadcast_to(place[name], shape)) for name in along}
    X = pd.DataFrame(table)
    X.attrs |= taken.report
    if taken.report:
        X.attrs["products"] = cross_terms
    return X, pd.DataFrame({f"{name}_t": rows(taken.rate(name)) for name in names})


def _product(term: Term, derivative: Callable[[str, int], Array]) -> Array:
    factors = [derivative(f.field, f.order) ** f.power for f in term]
    return np.prod(factors, axis=0)


# --- point by point ----------------------------------------------------------------------------


def _from_points(
    fields: dict[str, Array], x: Array, t: Array, derivatives: str, periodic: bool
) -> Taken:
    """At every point, each from its neighbours."""
    along_x, along_t = _methods(derivatives, periodic)
    found: dict[tuple[str, int], Array] = {}

    def derivative(name: str, d: int) -> Array:
        if (name, d) not in found:
            found[name, d] = along_x(fields[name], x, d, 0, "x")
        return found[name, d]

    return Taken(
        lambda term: _product(term, derivative),
        lambda name: along_t(fields[name], t, 1, 1, "t"),
        np.arange(len(x)),
        np.arange(len(t)),
        {},
    )


def _methods(derivatives: str, periodic: bool) -> tuple[Method, Method]:
    """How to differentiate along x and along t."""
    if derivatives == "accurate":
        return (FOURIER if periodic else SPLINE), SPLINE
    return (FOURIER if periodic else DIFFERENCE), DIFFERENCE


# --- from a series -----------------------------------------------------------------------------


def _fit(
    fields: dict[str, Array], x: Array, t: Array, order: int, periodic: bool
) -> tuple[dict[str, Series], Basis, Basis]:
    if periodic:
        check_uniform(x, "x")
    in_x = (_series.fourier if periodic else _series.polynomials)(x, order)
    in_t = _series.polynomials(t, 1)
    return {name: _series.fit(u, in_x, in_t, name) for name, u in fields.items()}, in_x, in_t


def _freedom(series: dict[str, Series], every: bool) -> list[int]:
    """Points to take of x and of t."""
    if every:
        return [len(basis.grid) for one in series.values() for basis in (one.x, one.t)][:2]
    return [max(one.freedom[axis] for one in series.values()) for axis in (0, 1)]


Columns = tuple[Callable[[Term], Array], Callable[[str], Array]]  # terms and rates of change


class Doubt(NamedTuple):
    """How far rows can be relied on: ``error`` of each rate of change, root mean square, and the
    share of the rows at one value of varying whose errors are ``independent``.
    """

    error: dict[str, float]
    independent: float


def _doubt(
    series: dict[str, Series], columns: Callable[[dict[str, Series]], Columns], along: list[str]
) -> Doubt:
    """The field is measured again and again, to see the errors of its columns.

    Those of two repeats have in common what smoothing takes from both alike, and chance, which
    averages out over independent rows; see ``_distinct``. Of all columns, the one in the middle
    counts.
    """
    random = np.random.default_rng(0)
    orders = range(len(next(iter(series.values())).x.tables))

    def table(given: dict[str, Series]) -> Array:
        term, rate = columns(given)
        parts = [term((Factor(name, d, 1),)) for name in given for d in orders]
        return np.stack([*(rate(name) for name in given), *parts])

    known = table(series)
    again = [
        table({name: one.measured_again(random) for name, one in series.items()}) - known
        for _ in range(REPEATS)
    ]
    errors = np.stack(again)  # (repeat, column, x, t)
    sizes = np.sqrt((errors[:, : len(series)] ** 2).mean(axis=(0, 2, 3)))
    steps = [errors if name == "x" else errors.swapaxes(2, 3) for name in along]
    return Doubt(
        {f"{name}_t": float(size) for name, size in zip(series, sizes, strict=True)},
        min(float(np.median(_distinct(e)) / e.shape[-1]) for e in steps),
    )


def _doubt_of_points(fields: dict[str, Array], series: dict[str, Series], alone: float) -> Doubt:
    """Of a clean field: what rounding makes of its rates."""
    error = {}
    for name, u in fields.items():
        noise = series[name].noise * np.random.default_rng(0).standard_normal(u.shape)
        error[f"{name}_t"] = float(np.std(SPLINE(noise, series[name].t.grid, 1, 1, "t")))
    return Doubt(error, alone)


def _alone(along: list[str], rows: Whole, columns: Whole) -> float:
    """The independent share of a clean field: what errors it has are the method's, the same
    however often one measures, so that all rows of one x count as one, and all of one t.
    """
    if len(along) == 2:  # a patch of n rows has √n values of x
        return PATCH**-0.5
    return 1 / len(columns if along == ["x"] else rows)


def _distinct(errors: Array) -> Array:
    """Independent rows of a step, for each column; errors (repeat, column, step, row).

    >>> errors = np.random.default_rng(0).standard_normal((8, 1, 50, 20))
    >>> round(float(_distinct(errors)[0])), round(float(_distinct(0 * errors + 1)[0]))
    (20, 1)
    """
    size = np.sqrt((errors**2).mean(axis=(0, 3), keepdims=True))
    unit = errors / np.where(size > 0, size, 1.0)
    common = np.einsum("jcsr,kcsr->jkcs", unit, unit)[~np.eye(len(errors), dtype=bool)]
    n = errors.shape[-1]
    return n**2 / np.maximum((common**2).mean(axis=(0, 2)), n)


def _report(
    series: dict[str, Series],
    rows: Whole,
    columns: Whole,
    edges: dict[str, tuple[int, int]],
    doubt: Doubt,
) -> dict[str, Any]:
    noise = {name: one.noise for name, one in series.items()}
    kept = {name: float(one.gain.mean()) for name, one in series.items()}
    only = next(iter(series)) if len(series) == 1 else None
    return {
        "form": "series",
        "noise": noise[only] if only else noise,
        "kept": kept[only] if only else kept,
        "edges": edges,
        "grid": {"x": len(rows), "t": len(columns)},
        **doubt._asdict(),
    }


def _from_series(
    fields: dict[str, Array],
    x: Array,
    t: Array,
    order: int,
    along: list[str],
    periodic: bool,
    every: bool,
) -> Taken:
    series, in_x, in_t = _fit(fields, x, t, order, periodic)
    freedom = _freedom(series, every)
    if all(one.clean for one in series.values()):
        known = {
            name: np.where(np.isnan(u), series[name].everywhere, u) for name, u in fields.items()
        }
        rows, columns = (
            basis.spread(max(count, FEWEST_CLEAN), np.ones(len(basis.grid), dtype=bool))
            for basis, count in zip((in_x, in_t), freedom, strict=True)
        )
        taken = _from_points(known, x, t, "accurate", periodic).at(rows, columns)
        nothing = {"x": (0, 0), "t": (0, 0)}
        doubt = _doubt_of_points(known, series, _alone(along, rows, columns))
        return taken._replace(report=_report(series, rows, columns, nothing, doubt))
    points, edges = [], {}
    for axis, (name, basis) in enumerate({"x": in_x, "t": in_t}.items()):
        highest = max(one.highest[axis] for one in series.values())
        edge = EDGE_VARYING if name in along else EDGE
        trusted = basis.trusted(highest, len(basis.tables) - 1, edge)
        inside = np.flatnonzero(trusted)
        edges[name] = int(inside[0]), len(basis.grid) - 1 - int(inside[-1])
        points.append(basis.spread(max(freedom[axis], FEWEST_ROWS), trusted))
        if len(inside) < len(basis.grid) / 2:
            warnings.warn(
                f"{len(basis.grid) - len(inside)} of the {len(basis.grid)} values of {name} are "
                "left out, being too near an end for the waves that the field holds: measure "
                f"{name} more finely",
                stacklevel=4,
            )
    rows, columns = points

    def of(given: dict[str, Series]) -> Columns:
        found: dict[tuple[str, int], Array] = {}

        def derivative(name: str, d: int) -> Array:
            if (name, d) not in found:
                found[name, d] = given[name](d, 0, rows, columns)
            return found[name, d]

        return (
            lambda term: _product(term, derivative),
            lambda name: given[name](0, 1, rows, columns),
        )

    report = _report(series, rows, columns, edges, _doubt(series, of, along))
    return Taken(*of(series), rows, columns, report)


# --- integrals ---------------------------------------------------------------------------------


def _from_integrals(
    fields: dict[str, Array],
    x: Array,
    t: Array,
    order: int,
    along: list[str],
    periodic: bool,
    every: bool,
) -> Taken:
    """At points of the varying coordinate, integrals over the other."""
    if len(along) != 1:
        raise ValueError(
            "the weak form integrates over the coordinate along which coefficients do not vary, "
            f"and with varying={along} there is none: take derivatives='auto'"
        )
    series, in_x, in_t = _fit(fields, x, t, order, periodic)
    held, axis = (in_x, 0) if along == ["x"] else (in_t, 1)
    freedom = _freedom(series, every)
    highest = [max(one.highest[k] for one in series.values()) for k in (0, 1)]
    trusted = held.trusted(highest[axis], len(held.tables) - 1, EDGE_VARYING)
    points = held.spread(max(freedom[axis], FEWEST_ROWS), trusted)
    count = max(freedom[1 - axis], FEWEST_ROWS)
    over = TestFunctions((in_t, in_x)[axis], highest[1 - axis], count)
    inside = np.flatnonzero(trusted)
    edges = {along[0]: (int(inside[0]), len(trusted) - 1 - int(inside[-1]))}
    edges["t" if along == ["x"] else "x"] = over.edges
    grid = (points, np.arange(len(t))) if axis == 0 else (np.arange(len(x)), points)

    def mean(values: Array) -> Array:
        return over(0, values.T).T if axis == 0 else over(0, values)

    def of(given: dict[str, Series]) -> Columns:
        def derivative(name: str, d: int) -> Array:
            return given[name](d, 0, *grid)

        def term(term: Term) -> Array:
            *powers, last = term
            own = [f.field for f in powers]
            if axis == 1 and not own and last.power == 1:
                return (-1.0) ** last.order * over(last.order, derivative(last.field, 0))
            if axis == 1 and own == [last.field] and last.order == 1:
                degree = powers[0].power + 1  # u^p u_x = (u^(p+1))_x / (p+1)
                return -over(1, derivative(last.field, 0) ** degree / degree)
            return mean(_product(term, derivative))

        def rate(name: str) -> Array:
            if axis == 0:
                return -over(1, derivative(name, 0).T).T
            return mean(given[name](0, 1, *grid))

        return term, rate

    rows, columns = (points, over.centres) if axis == 0 else (over.centres, points)
    doubt = _doubt(series, of, along)
    if all(one.clean for one in series.values()):
        doubt = doubt._replace(independent=_alone(along, rows, columns))
    report = _report(series, rows, columns, edges, doubt) | {"form": "weak"}
    return Taken(*of(series), rows, columns, report)


def _from_either(
    fields: dict[str, Array],
    x: Array,
    t: Array,
    order: int,
    along: list[str],
    periodic: bool,
    every: bool,
) -> Taken:
    """Integrals, if a noisy field has no fewer independent rows by them than by its series.

    Their errors are always smaller; but where the direction they run along is short, bumps overlap,
    and what is left are too few different rows to tell terms apart.
    """
    given = fields, x, t, order, along, periodic
    series = _from_series(*given, every)
    fitted, *_ = _fit(fields, x, t, order, periodic)
    if all(one.clean for one in fitted.values()):
        return series
    try:
        weak = _from_integrals(*given, every)
    except ValueError:  # not even one bump fits
        return series
    other = "t" if along == ["x"] else "x"
    count = [one.report["grid"][other] * one.report["independent"] for one in (series, weak)]
    return weak if count[1] >= count[0] else series


# --- checks ------------------------------------------------------------------------------------


def _check_field(name: str, u: Array, x: Array, t: Array, *, holes: bool) -> None:
    if x.ndim != 1 or t.ndim != 1 or u.shape != (len(x), len(t)):
        hint = f" ({name} seems to be transposed)" if u.shape == t.shape + x.shape else ""
        raise ValueError(
            f"{name} must have shape (len(x), len(t)) = {x.shape + t.shape}, got {u.shape}{hint}"
        )
    for label, values in {name: u, "x": x, "t": t}.items():
        bad = ~np.isfinite(values)
        if holes and label == name and not np.isinf(values).any():
            if bad.mean() > MOST_MISSING:
                raise ValueError(
                    f"{bad.mean():.0%} of {name} is NaN, and at most {MOST_MISSING:.0%} can be "
                    "filled: cut out a part of the field that is known better"
                )
        elif bad.any():
            raise ValueError(
                f"{label} has {bad.sum()} values that are NaN or infinite, the first at "
                f"{tuple(np.argwhere(bad)[0].tolist())}: fill or drop them before differentiating"
            )
    for label, grid in {"x": x, "t": t}.items():
        if (np.diff(grid) <= 0).any():
            raise ValueError(f"{label} must increase from each point to the next")
        if holes and len(grid) < _series.FEWEST:
            raise ValueError(
                f"too few points along {label}: {_series.FEWEST} are needed to tell a field from "
                f"its noise, got {len(grid)}; measure more values of {label}"
            )


def _check_periodic(name: str, u: Array) -> None:
    """A periodic field is as smooth over its seam as elsewhere; if not, Fourier is wrong there."""
    for order in range(1, 5):
        around = np.concatenate([u, u[:order]])
        bends = np.abs(np.diff(around, order, axis=0))
        bends = np.where(np.isnan(bends), 0, bends).max(axis=1)
        inside, seam = bends[: len(u) - order], bends[len(u) - order :]
        if len(inside) and seam.max() > 3 * inside.max():
            raise ValueError(
                f"{name} is not periodic in x: it jumps or bends between the last point and the "
                "first. Pass periodic=False, or one full period of x without its end point"
            )
