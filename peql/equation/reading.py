"""From a formula's weights to SymPy: one equation, with coefficient functions of t."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase

import numpy as np
import sympy
from sympy.core.function import AppliedUndef

from ..engine.formula import Formula
from ..engine.signs import leading_sign

SAME = 1e-9  # relative spread over t below which a coefficient is a number, not a function
DIGITS = 10  # significant digits kept of a number: a fit is exact to 1e-11 (solver.PRECISION)

# Products are multiplied out; exp(a + b), log(a*b) and sin(a + b) stay as they are.
_EXPAND = {"power_base": False, "power_exp": False, "log": False, "trig": False}


@dataclass(frozen=True)
class ParametricEquation:
    """An equation with fixed structure whose coefficients depend on ``varying``.

    ``expression`` holds functions such as ``a(t)``, called ``names``; ``coefficients`` tells how
    each follows from the ``weights`` of the formula it was read from, ``sizes`` how large it gets.
    ``constants`` are the numbers that do not vary: what each stands before, and how it follows.
    """

    expression: sympy.Expr
    names: tuple[str, ...]
    varying: tuple[sympy.Symbol, ...]
    weights: tuple[sympy.Dummy, ...]
    coefficients: tuple[sympy.Expr, ...]
    sizes: tuple[float, ...]
    constants: tuple[tuple[str, sympy.Expr], ...]

    def evaluate(self, weights: np.ndarray) -> np.ndarray:
        """The coefficient functions' values (step, coefficient) for weights (step, weight)."""
        columns = [_values(c, self.weights, weights) for c in self.coefficients]
        return np.stack(columns, axis=1) if columns else np.empty((len(weights), 0))

    def errors(
        self, parts: Sequence[sympy.Expr], weights: np.ndarray, covariance: np.ndarray
    ) -> np.ndarray:
        """Standard errors (step, part) of expressions in the weights, by the delta method."""
        if not parts or not self.weights:
            return np.zeros((len(weights), len(parts)))
        slopes = [
            [_values(part.diff(w), self.weights, weights) for w in self.weights] for part in parts
        ]
        gradient = np.array(slopes).transpose(2, 0, 1)  # (step, part, weight)
        variance = np.einsum("scv,svw,scw->sc", gradient, covariance, gradient)
        return np.sqrt(variance.clip(min=0))

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
    x_shift: Sequence[float],
    y_scale: float,
    taken: Sequence[str] = (),
    box: np.ndarray | None = None,
) -> ParametricEquation:
    """Write ``formula`` as an equation in raw units; no coefficient is called what is ``taken``.

    ``box`` (2, feature) holds the least and the largest value of each feature: within it the
    magnitude of x is x where x is positive.

    ``weights`` (step, weight) are the fitted values: they tell which coefficients do not vary.
    Feature and varying names become symbols as they are; nothing is parsed.
    """
    w = sympy.symbols(f"w:{formula.n_weights}", cls=sympy.Dummy) if formula.n_weights else ()
    symbols = [sympy.Symbol(name) for name in features]
    scaled = [
        (s - sympy.Float(shift)) / sympy.Float(scale) if shift else s / sympy.Float(scale)
        for s, scale, shift in zip(symbols, x_scale, x_shift, strict=True)
    ]
    raw = formula.evaluate(w, scaled, lambda p, given: p.sympy(*given), sympy.Integer(0))
    if box is not None:
        raw = _without_abs(raw, w, weights, symbols, box)
    raw = _tidied(sympy.Float(y_scale) * raw, symbols)
    expression = sympy.expand(raw, **_EXPAND)

    variables = tuple(sympy.Symbol(name) for name in varying)
    letters = _letters({*features, *varying, *taken})
    reader = _Reader(weights, w, symbols, variables, letters)
    readable = reader.canonical(expression)
    coefficients = tuple(reader.found.values())
    sizes = tuple(float(np.abs(_values(c, w, weights)).max()) for c in coefficients)
    return ParametricEquation(
        readable,
        tuple(reader.found),
        variables,
        tuple(w),
        coefficients,
        sizes,
        tuple(reader.constants),
    )


def _without_abs(
    expression: sympy.Expr,
    w: Sequence[sympy.Dummy],
    weights: np.ndarray,
    symbols: Sequence[sympy.Symbol],
    box: np.ndarray,
) -> sympy.Expr:
    """|g| written as g or -g where g has one sign at all steps and everywhere in ``box``."""
    sample = np.random.default_rng(0).uniform(size=(64, box.shape[1]))
    sample[0], sample[1] = 0.0, 1.0
    points = box[0] + sample * (box[1] - box[0])
    signs = {}
    for part in expression.atoms(sympy.Abs):
        function = sympy.lambdify([*w, *symbols], part.args[0], "numpy")
        columns = [*weights.T[:, :, None], *points.T[:, None, :]]
        values = np.asarray(function(*columns), dtype=float)
        if (values > 0).all() or (values < 0).all():
            signs[part] = part.args[0] if values.flat[0] > 0 else -part.args[0]
    return expression.xreplace(signs)


def _tidied(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> sympy.Expr:
    """As people write it: x**p for exp(p log x), factors outside, denominators that begin with x.

    exp(b x + c) becomes a factor times exp(b x), log(k x) a constant and log(x), and 1/(k x + b)
    a factor times 1/(x + b/k).
    """
    if not expression.args or not expression.has(*symbols):
        return expression
    e = expression.func(*(_tidied(part, symbols) for part in expression.args))
    if isinstance(e, sympy.exp):
        outside, inside = sympy.Integer(1), sympy.Integer(0)
        for term in sympy.Add.make_args(sympy.expand(e.args[0], **_EXPAND)):
            factor, rest = term.as_independent(*symbols, as_Add=False)
            if not term.has(*symbols):
                outside *= sympy.exp(term)
            elif isinstance(rest, sympy.log):
                outside *= rest.args[0] ** factor
            else:
                inside += term
        return outside * sympy.exp(inside)
    if isinstance(e, sympy.log):
        factor, rest = e.args[0].as_independent(*symbols, as_Add=False)
        if factor.is_positive:
            return sympy.log(factor) + sympy.log(rest)
    if isinstance(e, sympy.Pow) and e.base.has(*symbols):
        whole = e.exp.is_integer
        if isinstance(e.base, sympy.Add) and e.exp == -1:
            below, denominator = sympy.fraction(sympy.together(e.base))
            if denominator.is_polynomial(*symbols) and denominator.has(*symbols):
                # 1/(1/x + b) is x/(b x + 1)
                return denominator * _tidied(1 / sympy.expand(below, **_EXPAND), symbols)
        if isinstance(e.base, sympy.Add) and e.exp.is_negative:
            terms = sympy.Add.make_args(sympy.expand(e.base, **_EXPAND))
            first = max(terms, key=lambda term: _rank(term, symbols))
            factor = first.as_independent(*symbols, as_Add=False)[0]
            if factor != 1 and (whole or factor.is_positive):
                rest = sympy.Add(*(term / factor for term in terms))
                return factor**e.exp * sympy.expand(rest, **_EXPAND) ** e.exp
        if isinstance(e.base, sympy.Mul):
            factor, rest = e.base.as_independent(*symbols, as_Add=False)
            if factor != 1 and (whole or factor.is_positive):
                return factor**e.exp * rest**e.exp
    return e


def _rank(term: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> tuple:
    """Which term of a denominator leads: a function of the features, then the highest power."""
    rest = term.as_independent(*symbols, as_Add=False)[1]
    if not rest.has(*symbols):
        return (0, 0, "")
    polynomial = rest.is_polynomial(*symbols)
    degree = int(sympy.Poly(rest, *symbols).total_degree()) if polynomial else 0
    return (1 if polynomial else 2, degree, str(rest))


class _Reader:
    """Replaces coefficients by named functions of t, or by numbers where they do not vary."""

    def __init__(self, weights, symbols, features, varying, letters: Iterator[str]):
        self.weights, self.symbols, self.features = weights, symbols, features
        self.varying, self.letters = varying, letters
        self.found: dict[str, sympy.Expr] = {}
        self.constants: list[tuple[str, sympy.Expr]] = []
        self.flipped: set[sympy.Expr] = set()
        differ = np.ptp(weights, axis=0) > SAME * np.abs(weights).max(axis=0, initial=0.0)
        self.vary = {w for w, varies in zip(symbols, differ, strict=True) if varies}

    def canonical(self, expression: sympy.Expr) -> sympy.Expr:
        """The sum with each term's coefficient named, highest powers first."""
        terms: dict[sympy.Expr, sympy.Expr] = {}
        for term in sympy.Add.make_args(expression):
            coefficient, rest = term.as_independent(*self.features, as_Add=False)
            terms[rest] = terms.get(rest, sympy.Integer(0)) + self._parity(rest) * coefficient
        ordered = sorted(terms, key=self._order)
        named: dict[sympy.Expr, list[sympy.Expr]] = {}  # terms of the same coefficient together
        for rest in ordered:
            factor, own = self._name(terms[rest], rest).as_coeff_Mul()
            named.setdefault(own, []).append(factor * self._inside(rest))
        return sympy.Add(*(own * sympy.Add(*parts) for own, parts in named.items()))

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
            if leading_sign(self._values(inner)) < 0:
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

    def _describe(self, rest: sympy.Expr) -> str:
        """What a number stands before; other numbers in it are left blank."""
        shown = rest.xreplace({w: sympy.Symbol("·") for w in self.symbols})
        shown = shown.xreplace(dict.fromkeys(shown.atoms(sympy.Float), sympy.Symbol("·")))
        return str(shown)

    def _values(self, coefficient: sympy.Expr) -> np.ndarray:
        return _values(coefficient, self.symbols, self.weights)

    def _varying(self, coefficient: sympy.Expr) -> set[sympy.Symbol]:
        """The weights of a coefficient that are not the same at all steps."""
        return coefficient.free_symbols & self.vary

    def _name(self, coefficient: sympy.Expr, rest: sympy.Expr) -> sympy.Expr:
        values = self._values(coefficient)
        if np.ptp(values) <= SAME * np.abs(values).max(initial=0.0):
            if coefficient.free_symbols:
                self.constants.append((self._describe(rest), coefficient))
            return number(float(np.median(values)))
        for name, known in self.found.items():
            if self._varying(coefficient) != self._varying(known):
                continue
            ratio = sympy.simplify(coefficient / known)
            if not self._varying(ratio):
                if ratio.free_symbols:
                    self.constants.append((self._describe(rest), ratio))
                value = float(np.median(self._values(ratio)))
                return number(value) * sympy.Function(name)(*self.varying)
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
