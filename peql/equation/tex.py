r"""TeX and MathML of equations, in which a name is only ever a name.

One printer writes all: names of several letters upright, whatever is special to TeX escaped, so
that a column called ``\input{x}`` or ``$`` prints as itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

import sympy
from sympy.core.function import AppliedUndef
from sympy.printing.latex import LatexPrinter
from sympy.printing.mathml import mathml as _sympy_mathml
from sympy.printing.precedence import PRECEDENCE

from .writing import without_zeros

GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|"
    "upsilon|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
_ESCAPED = {
    **{c: f"\\{c}" for c in "_$%&#{}"},
    **{"\\": r"\backslash{}", "^": r"\wedge{}", "~": r"\sim{}"},
    **dict.fromkeys("`'", r"{}^{\prime}"),
}
LONG = 160  # characters of TeX that fit on one line
MOST_ZEROS = 4  # a number of up to so many powers of ten is written out
_PLACES = 0xE000  # of Unicode's private use; a name stands there while MathML is made


def name(text: str) -> str:
    r"""A column's name in TeX's mathematics.

    A letter is italic, with a subscript after ``_`` or a number; Greek letters are known by name;
    anything longer is upright.

    >>> print(name("x"), name("f1"), name("u_xx"), name("alpha"), name("air speed"))
    x f_{1} u_{xx} \alpha \mathrm{air\ speed}
    >>> print(name(r"\input{a}"), name("$_%"), name("T °C"))
    \mathrm{\backslash{}input\{a\}} \mathrm{\$\_\%} \mathrm{T\ \text{°}C}
    """
    parts = re.fullmatch(r"([A-Za-z]+)(?:_([A-Za-z0-9]+)|(\d+))?", text)
    if parts and (len(parts[1]) == 1 or GREEK.fullmatch(parts[1])):
        base = parts[1] if len(parts[1]) == 1 else rf"\{parts[1]}"
        below = parts[2] or parts[3]
        return f"{base}_{{{below}}}" if below else base
    written = "".join(_character(c) for c in text)
    return rf"\mathrm{{{written}}}" if written else r"\mathrm{?}"


def _character(c: str) -> str:
    if c in _ESCAPED:
        return _ESCAPED[c]
    if c.isspace() or not c.isprintable():
        return r"\ "
    return c if c.isascii() else rf"\text{{{c}}}"


class Printer(LatexPrinter):
    """SymPy's TeX, with names as ``name`` writes them and numbers in the format ``spec``.

    Numbers whose sizes are keys of ``numbers`` are written as it says.
    """

    def __init__(self, spec: str, numbers: Mapping[sympy.Float, str] | None = None):
        super().__init__({"mul_symbol": r" \, "})
        self.spec, self.numbers = spec, numbers or {}

    def _print_Symbol(self, expr: sympy.Symbol, style: str = "plain") -> str:
        return name(expr.name)

    def _print_Float(self, expr: sympy.Float) -> str:
        if abs(expr) in self.numbers:
            return "- " * bool(expr < 0) + self.numbers[abs(expr)]
        number = format(float(expr), self.spec)
        mantissa, _, exponent = number.partition("e")
        if exponent and 0 <= int(exponent) <= MOST_ZEROS:
            return f"{float(number):.0f}"
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa.rstrip(".")

    def _print_Function(self, expr: sympy.Function, exp: str | None = None) -> str:
        if not isinstance(expr, AppliedUndef):
            return super()._print_Function(expr, exp)
        arguments = ", ".join(map(self._print, expr.args))
        power = f"^{{{exp}}}" if exp is not None else ""
        return f"{name(expr.func.__name__)}{power}({arguments})"

    def _print_Mul(self, expr: sympy.Mul) -> str:
        """A number, then coefficient functions, then the rest, as an equation is read."""
        functions = [part for part in expr.args if isinstance(part, AppliedUndef)]
        rest = expr.func(*(part for part in expr.args if part not in functions))
        numerator, denominator = rest.as_numer_denom()
        if not functions or denominator != 1:
            return super()._print_Mul(expr)
        number, powers = numerator.as_coeff_Mul()
        parts = [self._print(abs(number))] if abs(number) != 1 else []
        parts += map(self._print, functions)
        if powers != 1:
            parts.append(self.parenthesize(powers, PRECEDENCE["Mul"], strict=True))
        return "- " * bool(number < 0) + r" \, ".join(parts)


def tex(expression: sympy.Expr, spec: str = "#.3g", left: str | None = None) -> str:
    r"""The expression in TeX, without signs around it; ``left`` makes an equation.

    ``spec`` is the format of decimal numbers. LaTeX needs ``amsmath``.

    >>> speed, t = sympy.symbols("speed t")
    >>> a = sympy.Function("a")
    >>> print(tex(a(t) * speed**2 - 1.2345 * speed, left="force"))
    \mathrm{force} = a(t) \, \mathrm{speed}^{2} - 1.23 \, \mathrm{speed}
    >>> print(tex(250.3 * speed, "#.2g"), tex(75.2 * speed, "#.2g"), tex(3e6 * speed, ".2g"))
    250 \, \mathrm{speed} 75 \, \mathrm{speed} 3 \cdot 10^{6} \, \mathrm{speed}
    """
    written = Printer(spec).doprint(expression)
    return written if left is None else f"{name(left)} = {written}"


def inline(expression: sympy.Expr | str, spec: str = ".3f") -> str:
    r"""An expression, or a name, in TeX for a cell of a table; a long sum is cut between terms.

    Numbers that are zero in the format ``spec`` are left out, as in ``writing.text``.

    >>> x = sympy.Symbol("x")
    >>> print(inline(-2.61904 * x**2 - 3.0 * x + 1e-9), inline("u_xx"))
    \(- 2.619 \, x^{2} - 3.000 \, x\) \(u_{xx}\)
    """
    if isinstance(expression, str):
        return rf"\({name(expression)}\)"
    shown = without_zeros(expression, spec)
    written = Printer(spec).doprint(shown)
    return rf"\({written}\)" if len(written) <= LONG else cut(shown, Printer(spec))


def cut(expression: sympy.Expr, printer: Printer) -> str:
    r"""A sum in TeX, each term a formula of its own, so that a line can break between them.

    >>> x = sympy.Symbol("x")
    >>> print(cut(0.5 * x**2 - 2 * x, Printer(".2f")))
    \(0.50 \, x^{2}\) \(- 2 \, x\)
    """
    terms = [printer.doprint(term) for term in expression.as_ordered_terms()]
    signed = [terms[0], *(t if t.startswith("-") else f"+ {t}" for t in terms[1:])]
    return " ".join(rf"\({term}\)" for term in signed)


def mathml(expression: sympy.Expr, left: str | None = None) -> str:
    """The expression as presentation MathML, names as text; ``left`` makes an equation.

    SymPy's printer writes names as markup; here they take no part in it.

    >>> mathml(sympy.Symbol("<b>") ** 2, left="y")
    '<mrow><mi>y</mi><mo>=</mo><msup><mi>&lt;b&gt;</mi><mn>2</mn></msup></mrow>'
    """
    names: list[str] = [] if left is None else [left]

    def place(text: str) -> str:
        if text not in names:
            names.append(text)
        return chr(_PLACES + names.index(text))

    functions = {f: sympy.Function(place(f.func.__name__)) for f in expression.atoms(AppliedUndef)}
    # Arguments are replaced with everything else below.
    replaced = expression.xreplace({f: made(*f.args) for f, made in functions.items()})
    symbols = {s: sympy.Symbol(place(str(s))) for s in replaced.free_symbols}
    replaced = replaced.xreplace(symbols)
    if left is not None:
        replaced = sympy.Eq(sympy.Symbol(chr(_PLACES)), replaced, evaluate=False)
    written = _sympy_mathml(replaced, printer="presentation")
    # A little space between factors, as in TeX: names of several letters would run together.
    written = written.replace("<mo>&InvisibleTimes;", "<mo lspace='0.17em'>&InvisibleTimes;")
    for k, text in enumerate(names):
        for place_taken in (f"&#{_PLACES + k};", chr(_PLACES + k)):
            written = written.replace(place_taken, html.escape(text))
    return written
