"""Primitives beyond the paper's five, and sets of them that have a name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import Tensor

from .primitives import FREQUENCY, SETS, Primitive, register

register(
    Primitive("cos", lambda g: torch.cos(FREQUENCY * g), lambda g: sympy.cos(4 * sympy.pi * g))
)
register(Primitive("tanh", torch.tanh, sympy.tanh))


# The rest are guarded, so that no argument gives an infinite value or slope. The guards depend on
# the precision: in double precision they act only where nobody looks, beyond exp(177) and nearer
# to 0 than 2e-16 (1/g: 2e-8). At exactly 0, the argument of a unit nothing leads to, logarithm and
# reciprocal are 0 in both forms. Logarithm and root take the magnitude, and say so.


def _exp(g: Tensor) -> Tensor:
    return torch.exp(g.clamp(max=math.log(torch.finfo(g.dtype).max) / 4))


def _log(g: Tensor) -> Tensor:
    return torch.log(g.abs().clamp(min=torch.finfo(g.dtype).eps)) * (g != 0)


def _sqrt(g: Tensor) -> Tensor:
    return torch.sqrt(g.abs().clamp(min=torch.finfo(g.dtype).eps)) * (g != 0)


def _reciprocal(g: Tensor) -> Tensor:
    return g.sign() / g.abs().clamp(min=torch.finfo(g.dtype).eps ** 0.5)


def _unless_zero(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g: sympy.Integer(0) if sympy.sympify(g).is_zero else function(g)


register(Primitive("exp", _exp, sympy.exp))
register(Primitive("log", _log, _unless_zero(lambda g: sympy.log(sympy.Abs(g)))))
register(Primitive("sqrt", _sqrt, lambda g: sympy.sqrt(sympy.Abs(g))))
register(Primitive("reciprocal", _reciprocal, _unless_zero(lambda g: 1 / g)))

SETS["trig"] = {"one": 1, "identity": 2, "square": 2, "sin": 2}
SETS["growth"] = {"one": 2, "identity": 2, "square": 2, "exp": 2, "log": 1, "product": 2}
