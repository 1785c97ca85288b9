"""From a formula's weights to SymPy: one equation, with coefficient functions of t."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase

import numpy as np
import pandas as pd
import sympy
from sympy.core.function import AppliedUndef

from .formula import Formula

SAME = 1e-9  # relative spread over t below which a coefficient is a number, not a function
DIGITS = 12  # significant digits kept of a number: what is beyond is rounding error

# Products are multiplied out; exp(a + b), log(a*b) and sin(a + b) stay as they are.
_EXPAND = {"power_base": False, "power_exp": False, "log": False, "trig": False}


@dataclass(frozen=True)
class ParametricEquation:
    """An equation with fixed structure whose coefficients depend on ``varying``.

    ``expression`` holds functions such as ``a(t)``, called ``names``; ``coefficients`` tells how
    each follows from the ``weights`` of the formula it was read from, ``sizes`` how large it gets.
    """

    expression: sympy.Expr
    names: tuple[str, ...]
    varying: tuple[sympy.Symbol, ...]
    weights: tuple[sympy.Dummy, ...]
    coefficients: tuple[sympy.Expr, ...]
    sizes: tuple[float, ...]

    def evaluate(self, weights: np.ndarray) -> np.ndarray:
        """The coefficient functions' values (step, coefficient) for weights (step, weight)."""
        columns = [_values(c, self.weights, weights) for c in self.coefficients]
        return np.stack(columns, axis=1) if columns else np.empty((len(weights), 0))

    def functions(self) -> list[AppliedUndef]:
        """The coefficient functions, in the order of ``names``."""
        return [sympy.Function(name)(*self.varying) for name in self.names]

    def at(self, values: Sequence[float], threshold: float = 0.0) -> sympy.Expr:
        """The equation with numbers as coefficients; terms below ``threshold`` are left out."""
        rounding = [10.0**-DIGITS * size for size in self.sizes]
        numbers = {
            f: number(0.0 if abs(v) < r else v)
            for f, v, r in zip(self.functions(), values, rounding, strict=True)
        }
        return drop_small(self.expression.subs(numbers), threshold)


def _values(
    coefficient: sympy.Expr, symbols: Sequence[sympy.Dummy], weights: np.ndarray
) -> np.ndarray:
    """A coefficient (step,) for weights (step, weight)."""
    function = sympy.lambdify([*symbols], coefficient, "numpy")
    return np.broadcast_to(np.asarray(function(*weights.T), dtype=float), (len(weights),))


def number(value: float, digits: int = DIGITS) -> sympy.Expr:
    """A SymPy number with rounding error removed, exactly 0 or ±1 where it is.

    >>> number(0.1 + 0.2), number(1 - 1e-16)
    (0.300000000000000, 1)
    """
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) in (0.0, 1.0):
        return sympy.Integer(int(rounded))
    return sympy.Float(rounded)


def drop_small(expression: sympy.Expr, threshold: float) -> sympy.Expr:
    """Leave out additive terms whose number is smaller than ``threshold`` in magnitude."""
    if threshold <= 0:
        return expression
    terms = sympy.Add.make_args(sympy.expand(expression, **_EXPAND))
    return sympy.Add(*(term for term in terms if abs(term.as_coeff_Mul()[0]) >= threshold))


def structure(expression: sympy.Expr, features: Sequence[str]) -> frozenset:
    """The terms of an equation without their coefficients: two equal ones have the same form.

    >>> x, t = sympy.symbols("x t")
    >>> a, b = sympy.Function("a")(t), sympy.Function("b")(t)
    >>> structure(a * x**2 + b * x, ["x"]) == structure(3 * x + 2 * x**2, ["x"])
    True
    >>> structure(sympy.sin(a * x), ["x"]) == structure(b * sympy.sin(a * x + 1), ["x"])
    False
    """
    symbols = {sympy.Symbol(name) for name in features}
    terms = sympy.Add.make_args(sympy.expand(expression, **_EXPAND))
    return frozenset(
        _skeleton(term.as_independent(*symbols, as_Add=False)[1], features) for term in terms
    )


def _skeleton(part: sympy.Expr, features: Sequence[str]) -> tuple:
    factors: list[tuple] = []
    for factor in sympy.Mul.make_args(part):
        base, power = factor.as_base_exp()
        if isinstance(base, sympy.Symbol) or not base.args:
            factors.append((str(base), str(power)))
        else:
            inner = tuple(structure(argument, features) for argument in base.args)
            factors.append((base.func.__name__, str(power), inner))
    return tuple(sorted(factors, key=str))


def read(
    formula: Formula,
    weights: np.ndarray,
    features: Sequence[str],
    varying: Sequence[str],
    x_scale: Sequence[float],
    y_scale: float,
) -> ParametricEquation:
    """Write ``formula`` as an equation in raw units.

    ``weights`` (step, weight) are the fitted values: they tell which coefficients do not vary.
    Feature and varying names become symbols as they are; nothing is parsed.
    """
    w = sympy.symbols(f"w:{len(formula.open)}", cls=sympy.Dummy) if formula.open else ()
    symbols = [sympy.Symbol(name) for name in features]
    scaled = [s / sympy.Float(scale) for s, scale in zip(symbols, x_scale, strict=True)]
    raw = formula.nodes(w, scaled, lambda p, arguments: p.sympy(*arguments), sympy.Integer(0))[0]
    expression = sympy.expand(sympy.Float(y_scale) * raw, **_EXPAND)

    variables = tuple(sympy.Symbol(name) for name in varying)
    taken = {*features, *varying}
    reader = _Reader(weights, w, symbols, variables, _letters(taken))
    readable = reader.canonical(expression)
    coefficients = tuple(reader.found.values())
    sizes = tuple(float(np.abs(_values(c, w, weights)).max()) for c in coefficients)
    return ParametricEquation(
        readable, tuple(reader.found), variables, tuple(w), coefficients, sizes
    )


class _Reader:
    """Replaces coefficients by named functions of t, or by numbers where they do not vary."""

    def __init__(self, weights, symbols, features, varying, letters: Iterator[str]):
        self.weights, self.symbols, self.features = weights, symbols, features
        self.varying, self.letters = varying, letters
        self.found: dict[str, sympy.Expr] = {}
        self.flipped: set[sympy.Expr] = set()

    def canonical(self, expression: sympy.Expr) -> sympy.Expr:
        """The sum with each term's coefficient named, highest powers first."""
        terms: dict[sympy.Expr, sympy.Expr] = {}
        for term in sympy.Add.make_args(expression):
            coefficient, rest = term.as_independent(*self.features, as_Add=False)
            terms[rest] = terms.get(rest, sympy.Integer(0)) + self._parity(rest) * coefficient
        ordered = sorted(terms, key=self._order)
        return sympy.Add(*(self._name(terms[rest]) * self._inside(rest) for rest in ordered))

    def _order(self, rest: sympy.Expr) -> tuple:
        if not rest.free_symbols & set(self.features):
            return (2, 0, "")
        polynomial = rest.is_polynomial(*self.features)
        degree = sympy.Poly(rest, *self.features).total_degree() if polynomial else 0
        return (0 if polynomial else 1, -degree, sympy.default_sort_key(self._plain(rest)))

    def _plain(self, rest: sympy.Expr) -> sympy.Expr:
        """Dummies carry a running number that must not decide the order."""
        return rest.subs({s: sympy.Symbol(f"_w{k}") for k, s in enumerate(self.symbols)})

    def _parity(self, rest: sympy.Expr) -> int:
        """The sign that ``rest`` gains when its odd and even functions take positive arguments.

        c·sin(-b x) is then written -c·sin(b x), and a(t) does not depend on which a trial found.
        """
        sign, z = 1, sympy.Dummy("z")
        for factor in sympy.Mul.make_args(rest):
            function, power = factor.as_base_exp()
            if not isinstance(function, sympy.Function) or len(function.args) != 1:
                continue
            parity = function.func(-z) / function.func(z)
            if parity not in (1, -1) or not power.is_integer:
                continue
            first = min(sympy.Add.make_args(function.args[0]), key=self._order)
            inner = first.as_independent(*self.features, as_Add=False)[0]
            if np.median(self._values(inner)) < 0:
                self.flipped.add(function)
                sign *= int(parity**power)
        return sign

    def _inside(self, rest: sympy.Expr) -> sympy.Expr:
        """Name the coefficients inside functions, sin(w·x) → sin(b(t)·x)."""
        if not rest.free_symbols & set(self.symbols):
            return rest
        if isinstance(rest, sympy.Mul):
            return sympy.Mul(*(self._inside(factor) for factor in rest.args))
        if isinstance(rest, sympy.Pow):
            return self._inside_sum(rest.base) ** self._inside_sum(rest.exp)
        sign = -1 if rest in self.flipped else 1
        return rest.func(*(self._inside_sum(sympy.expand(sign * part)) for part in rest.args))

    def _inside_sum(self, argument: sympy.Expr) -> sympy.Expr:
        return self.canonical(argument) if argument.free_symbols & set(self.symbols) else argument

    def _values(self, coefficient: sympy.Expr) -> np.ndarray:
        return _values(coefficient, self.symbols, self.weights)

    def _name(self, coefficient: sympy.Expr) -> sympy.Expr:
        values = self._values(coefficient)
        if np.ptp(values) <= SAME * np.abs(values).max(initial=0.0):
            return number(float(np.median(values)))
        name = next(self.letters)
        self.found[name] = coefficient
        return sympy.Function(name)(*self.varying)


def _letters(taken: set[str]) -> Iterator[str]:
    """a, b, c …, a1, b1 …, without names already in use."""
    for round_ in count():
        for letter in ascii_lowercase:
            name = letter if round_ == 0 else f"{letter}{round_}"
            if name not in taken:
                yield name


def coefficient_table(
    equation: ParametricEquation, weights: np.ndarray, index: pd.Index
) -> pd.DataFrame:
    """The coefficient functions over ``index``, one column each."""
    return pd.DataFrame(equation.evaluate(weights), index=index, columns=list(equation.names))
