"""The eight laws of Φ-SO's class benchmark: one form, constants of their own in each experiment.

Laws, ranges and fixed numbers are those of W. Tenachi et al., "Class Symbolic Regression: Gotta
Fit 'Em All" (2024), https://arxiv.org/abs/2312.01816, as in their package physo.
"""

from __future__ import annotations

from typing import Any

import sympy

from ._dataset import Dataset
from .laws import Law, make_law

LAWS = {
    "classbench_oscillator": Law(
        "A*cos(omega*t + Phi)",
        {"t": (0, 9.42)},
        {"A": (0.6, 1.2), "omega": (0.2, 1.5), "Phi": (0.95, 1.15)},
        "l",
    ),
    "classbench_decay": Law(
        "n0*exp(-t/T)", {"t": (0.5, 6)}, {"n0": (0.4, 2), "T": (0.9, 1.4)}, "n"
    ),
    "classbench_free_fall": Law(
        "-0.5*9.81*t**2 + v0*t + z0", {"t": (0, 1)}, {"v0": (-2, 8), "z0": (-3, 3)}, "z"
    ),
    "classbench_damped_a": Law(
        "exp(-k*t)*cos(1.389*t + Phi)",
        {"t": (0, 9.42)},
        {"k": (0.2, 1.0), "Phi": (-0.2, 0.3)},
        "l",
    ),
    "classbench_damped_b": Law(
        "exp(-0.345*t)*cos(omega*t + Phi)",
        {"t": (0, 9.42)},
        {"omega": (0.6, 1.4), "Phi": (-0.2, 0.3)},
        "l",
    ),
    "classbench_black_body": Law("1/(exp(5.90*nu/T) - 1)", {"nu": (1, 5)}, {"T": (1, 5)}, "n"),
    "classbench_ideal_gas": Law("n*8.314*T/V", {"T": (1, 5), "V": (1, 5)}, {"n": (1, 5)}, "P"),
    "classbench_terminal_velocity": Law(
        "sqrt(2*m*9.807/(rho*A*0.470))", {"m": (1, 10), "A": (1, 5)}, {"rho": (1, 6)}, "v"
    ),
}


def make_classbench(name: str, **options: Any) -> Dataset:
    """A law of the benchmark and its rows; options as in ``make_law``.

    >>> data = make_classbench("classbench_decay", n_experiments=3, n_train=20)
    >>> data.equation, data.X_train.shape
    (n0(experiment)*exp(-t/T(experiment)), (60, 2))
    """
    return make_law(name, LAWS[name], **options)


def has_true_form(equation: sympy.Expr, data: Dataset) -> bool:
    """Whether ``equation`` is the law of ``data`` but for the values of its constants.

    Whether a constant is shared by the experiments does not matter; a factor of each experiment's
    own where the law has none does.

    >>> data = make_classbench("classbench_damped_a", n_experiments=2, n_train=4)
    >>> right, wrong = "0.99*exp(-2*t)*sin(1.4*t + 1)", "a(experiment)*exp(-2*t)*sin(1.4*t + 1)"
    >>> [has_true_form(sympy.parse_expr(found), data) for found in (right, wrong)]
    [True, False]
    """
    features = [column for column in data.X_train if column != data.varying]
    found, true = (_terms(e, features) for e in (equation, data.equation))
    return found.keys() == true.keys() and not any(
        found[form].free_symbols and true[form] == 1 for form in true
    )


def _terms(equation: sympy.Expr, features: list[Any]) -> dict[str, sympy.Expr]:
    """The form of each term of an equation, with the factor before it."""
    x = [sympy.Symbol(name, positive=True) for name in features]
    plain = {sympy.Symbol(symbol.name): symbol for symbol in x}
    own = equation.atoms(sympy.core.function.AppliedUndef)
    # Positive, so that roots of products are products of roots.
    plain |= {f: sympy.Symbol(f"_{f.func.__name__}", positive=True) for f in own}
    terms: dict[str, sympy.Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(equation.xreplace(plain), trig=False)):
        factor, rest = term.as_independent(*x, as_Add=False)
        form = _form(rest, x)
        terms[form] = terms.get(form, sympy.Integer(0)) + factor
    return terms


def _form(part: sympy.Expr, x: list[sympy.Symbol]) -> str:
    """A part of an equation without its constants; cos(g + c) is sin(g + c') with another c'."""
    if not part.has(*x):
        return "1"
    if isinstance(part, sympy.Add):
        return "(" + " + ".join(sorted({_form(term, x) for term in part.args})) + ")"
    if isinstance(part, sympy.Mul):
        return "*".join(sorted(_form(factor, x) for factor in part.args if factor.has(*x)))
    if isinstance(part, sympy.Pow) and not part.exp.has(*x):
        return f"{_form(part.base, x)}**{sympy.nsimplify(part.exp, rational=True)}"
    name, inside = part.func.__name__, [_form(argument, x) for argument in part.args]
    if isinstance(part, sympy.cos):
        name, inside = "sin", [_form(part.args[0] + sympy.Dummy(), x)]
    return f"{name}({', '.join(inside)})" if part.args else str(part)
