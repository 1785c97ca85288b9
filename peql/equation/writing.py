"""How equations and numbers are written in plain text; ``tex`` has them in TeX."""

from __future__ import annotations

import re

import sympy
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.str import StrPrinter

ROUNDING = 1e-20  # a squared error below this is rounding error, and differs between machines
_CALCULATION = re.compile(r"[-+*/^()=,]")  # in a name
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(e[-+]?\d+)?")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class _Printer(StrPrinter):
    """SymPy's text, with numbers in a given format and coefficient functions first."""

    def __init__(self, spec: str):
        super().__init__()
        self.spec = spec

    def _print_Float(self, expr: sympy.Float) -> str:
        return format(float(expr), self.spec)

    def _print_Mul(self, expr: sympy.Mul) -> str:
        functions = [part for part in expr.args if isinstance(part, AppliedUndef)]
        rest = expr.func(*(part for part in expr.args if part not in functions))
        numerator, denominator = rest.as_numer_denom()
        if not functions or denominator != 1:
            return super()._print_Mul(expr)
        number, powers = numerator.as_coeff_Mul()
        parts = [self._print(abs(number))] if abs(number) != 1 else []
        parts += map(self._print, functions)
        if powers != 1:
            parts.append(self.parenthesize(powers, precedence(expr), strict=True))
        return "-" * bool(number < 0) + "*".join(parts)


class _AsPeopleWrite(_Printer):
    """Also in fractions, and with quotes around names that would read as calculations."""

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return f'"{expr.name}"' if _CALCULATION.search(expr.name) else expr.name

    def _print_Mul(self, expr: sympy.Mul) -> str:
        above, below = sympy.fraction(expr, exact=True)
        if below == 1:
            return super()._print_Mul(expr)
        negative = above.could_extract_minus_sign()
        above = self.parenthesize(-above if negative else above, PRECEDENCE["Mul"], strict=True)
        return f"{'-' * negative}{above}/{self.parenthesize(below, PRECEDENCE['Mul'])}"


def written(equation: sympy.Expr | str, digits: int = 10) -> str:
    """The equation for a reader of his own table, numbers with so many digits.

    Of one that is text already only the numbers are shortened.

    >>> x, ratio = sympy.symbols("x T/K")
    >>> a, b = (sympy.Function(name)(sympy.Symbol("t")) for name in "ab")
    >>> written(a * x / (b + x)), written(7.5 - x / 3.0, 4), written(a * sympy.exp(-b / ratio))
    ('a(t)*x/(x + b(t))', '7.5 - 0.3333*x', 'a(t)*exp(-b(t)/"T/K")')
    >>> written("x*a(t) + 0.9347101285", 3), written(-a / (b * x) - 1)
    ('x*a(t) + 0.935', '-1 - a(t)/(b(t)*x)')
    """
    spec = f".{digits}g"
    if isinstance(equation, str):
        return _NUMBER.sub(lambda number: format(float(number[0]), spec), equation)
    return _AsPeopleWrite(spec).doprint(equation)


def text(equation: sympy.Expr, spec: str = ".3f") -> str:
    """The equation as text, each decimal number in the format ``spec``; zeros are left out.

    >>> x = sympy.Symbol("x")
    >>> text(-2.61904 * x**2 - 3.0 * x + 1e-9)
    '-2.619*x**2 - 3.000*x'
    >>> a = sympy.Function("a")(sympy.Symbol("t"))
    >>> text(sympy.sin(x * a)), text(x - a * x), text(-a / x), text(-2.5 * a * x)
    ('sin(a(t)*x)', '-a(t)*x + x', '-a(t)/x', '-2.500*a(t)*x')
    """
    return _Printer(spec).doprint(without_zeros(equation, spec))


def without_zeros(equation: sympy.Expr, spec: str) -> sympy.Expr:
    """The equation without the numbers that are zero in the format ``spec``."""
    zeros = [n for n in equation.atoms(sympy.Float) if float(format(float(n), spec)) == 0]
    return equation.xreplace(dict.fromkeys(zeros, sympy.Integer(0)))


def plain(equation: str) -> str:
    """An equation written as text, in Unicode for a figure that knows no TeX.

    >>> plain("-2.619*x**2 - 3.000*x"), plain("v**1.09")
    ('−2.619 x² − 3.000 x', 'v^1.09')
    """
    powers = re.sub(r"\*\*(\d+)\b(?!\.)", lambda m: m[1].translate(_SUPERSCRIPT), equation)
    return powers.replace("**", "^").replace("*", " ").replace("-", "−")


def scientific(value: float, digits: int = 2) -> str:
    """A number with a power of ten.

    >>> scientific(6.97e-6), scientific(0.0)
    ('7.0×10⁻⁶', '0')
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def percent(share: float, spec: str = ".0f") -> str:
    """A share in percent, in the format ``spec``, with a space that does not break.

    >>> percent(0.125), percent(0.001, "g")
    ('12\\xa0%', '0.1\\xa0%')
    """
    return f"{100 * share:{spec}}\N{NO-BREAK SPACE}%"


def error(value: float, digits: int = 2, floor: float = ROUNDING) -> str:
    """A squared error; one below ``floor``, where rounding decides it, only by that bound.

    >>> error(3e-32), error(0.0159), error(4e-15, floor=1e-14)
    ('at rounding (<10⁻²⁰)', '1.6×10⁻²', 'at rounding (<10⁻¹⁴)')
    """
    if value < floor:
        return f"at rounding (<{scientific(floor, 1).removeprefix('1×')})"
    return scientific(value, digits)
