"""The primitives: each one once, with its torch form, its SymPy form and its number of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import sympy
import torch
from torch import Tensor

from ._suggest import unknown_name


@dataclass(frozen=True)
class Primitive:
    """A function a network may use: ``torch`` computes it, ``sympy`` writes it down.

    Both take ``arity`` arguments and must agree. Arity 0 is a constant.

    The rest helps the search and may be left out. ``domain`` is "real", or "one sign" where the
    argument must not pass zero. ``redundant_scale``: f(w g) follows from f(g) by a factor or an
    added constant; ``redundant_shift``: so does f(g + b), or, with a ``partner``, from both.
    ``slope`` is df/dg from g and f, for NumPy arrays; by default SymPy's derivative.

    >>> cube = Primitive("cube", lambda g: g**3, lambda g: g**3)
    >>> cube.sympy(sympy.Symbol("x"))
    x**3
    """

    name: str
    torch: Callable[..., Any]
    sympy: Callable[..., Any]
    arity: int = 1
    domain: str = "real"
    redundant_scale: bool = False
    redundant_shift: bool = False
    partner: str | None = None
    slope: Callable[..., Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a registered primitive by its name: functions may be lambdas."""
        if _REGISTRY.get(self.name) == self:
            return get, (self.name,)
        return Primitive, tuple(getattr(self, f.name) for f in fields(self))


# Inputs are scaled to [-1, 1]; the factor lets a weight of order one reach two full periods there.
FREQUENCY = 4 * math.pi

_REGISTRY: dict[str, Primitive] = {}


def register(primitive: Primitive) -> Primitive:
    """Make ``primitive`` known by its name, so that saved models that use it can be loaded.

    >>> bell = Primitive("bell", lambda g: torch.exp(-g * g), lambda g: sympy.exp(-(g**2)))
    >>> register(bell) is get("bell")
    True
    >>> del _REGISTRY["bell"]
    """
    _REGISTRY[primitive.name] = primitive
    return primitive


register(Primitive("one", lambda: 1.0, lambda: sympy.Integer(1), arity=0))
register(
    Primitive(
        "identity",
        lambda g: g,
        lambda g: g,
        redundant_scale=True,
        redundant_shift=True,
        slope=lambda g, f: 0 * g + 1,
    )
)
register(
    Primitive(
        "square",
        lambda g: g * g,
        lambda g: g**2,
        redundant_scale=True,
        slope=lambda g, f: 2 * g,
    )
)
register(
    Primitive(
        "sin",
        lambda g: torch.sin(FREQUENCY * g),
        lambda g: sympy.sin(4 * sympy.pi * g),
        redundant_shift=True,
        partner="cos",
    )
)
register(Primitive("product", lambda g1, g2: g1 * g2, lambda g1, g2: g1 * g2, arity=2))

# Beyond the paper's five.
register(
    Primitive(
        "cos",
        lambda g: torch.cos(FREQUENCY * g),
        lambda g: sympy.cos(4 * sympy.pi * g),
        redundant_shift=True,
        partner="sin",
    )
)
register(Primitive("tanh", torch.tanh, sympy.tanh, slope=lambda g, f: 1 - f * f))


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


register(Primitive("exp", _exp, sympy.exp, redundant_shift=True, slope=lambda g, f: f))
register(
    Primitive(
        "log",
        _log,
        _unless_zero(lambda g: sympy.log(sympy.Abs(g))),
        domain="one sign",
        redundant_scale=True,
        slope=lambda g, f: 1 / g,
    )
)
register(
    Primitive(
        "sqrt",
        _sqrt,
        lambda g: sympy.sqrt(sympy.Abs(g)),
        domain="one sign",
        redundant_scale=True,
        slope=lambda g, f: f / (2 * g),
    )
)
register(
    Primitive(
        "reciprocal",
        _reciprocal,
        _unless_zero(lambda g: 1 / g),
        domain="one sign",
        redundant_scale=True,
        slope=lambda g, f: -f * f,
    )
)

DEFAULT = {"one": 2, "identity": 4, "square": 4, "sin": 2, "product": 2}
"""The paper's activations of one hidden layer and how often each is there."""

SETS: dict[str, Mapping[str, int]] = {
    "default": DEFAULT,
    "trig": {"one": 1, "identity": 2, "square": 2, "sin": 2},
    "growth": {"one": 2, "identity": 2, "square": 2, "exp": 2, "log": 1, "product": 2},
}
"""Sets of primitives that have a name."""


def names() -> list[str]:
    """The names of all registered primitives."""
    return list(_REGISTRY)


def get(name: str) -> Primitive:
    """The primitive registered under ``name``.

    >>> get("product").sympy(*sympy.symbols("g1 g2"))
    g1*g2
    """
    if name not in _REGISTRY:
        raise unknown_name("primitive", name, _REGISTRY)
    return _REGISTRY[name]


PrimitiveChoice = str | Mapping[Any, int] | Iterable[Any]


def resolve(choice: PrimitiveChoice) -> list[tuple[Primitive, int]]:
    """Turn what a user passes into (primitive, copies) pairs.

    A mapping gives the copies; in a list each primitive is taken as often as it is named.

    >>> [(p.name, n) for p, n in resolve(["square", "sin", "square"])]
    [('square', 2), ('sin', 1)]
    >>> len(resolve("default"))
    5
    """
    if isinstance(choice, str):
        if choice not in SETS:
            raise unknown_name("set of primitives", choice, [*SETS, f"a list like {[choice]}"])
        choice = SETS[choice]
    if not isinstance(choice, Iterable):
        raise ValueError(
            f"primitives={choice!r}: expected a set ({', '.join(SETS)}), a list, or a mapping to "
            "copies"
        )
    if not isinstance(choice, Mapping):
        items = list(choice)
        choice = {item: items.count(item) for item in items}
    pairs: list[tuple[Primitive, int]] = []
    for item, copies in choice.items():
        primitive = item if isinstance(item, Primitive) else get(item)
        if int(copies) != copies or copies < 1:
            raise ValueError(
                f"primitive {primitive.name!r} is asked for {copies!r} times: "
                "the number of copies is a whole number of at least 1"
            )
        if any(primitive.name == other.name for other, _ in pairs):
            raise ValueError(f"primitives: two different ones are called {primitive.name!r}")
        pairs.append((primitive, int(copies)))
    if not any(primitive.arity for primitive, _ in pairs):
        raise ValueError("primitives: at least one must take an input; add 'identity', for example")
    return pairs


class Layout:
    """Where the inputs and outputs of one hidden layer's primitives lie, grouped by kind.

    Pre-activations of a kind with arity k are k adjacent blocks of ``copies`` rows, so each
    kind is one call of its torch form for all copies.

    >>> layout = Layout(resolve("default"))
    >>> layout.n_in, layout.n_out
    (14, 14)
    """

    def __init__(self, kinds: list[tuple[Primitive, int]]):
        self.kinds = kinds
        self.n_in = sum(p.arity * copies for p, copies in kinds)
        self.n_out = sum(copies for _, copies in kinds)

    def activate(self, g: Tensor) -> list[Tensor]:
        """Apply every kind to its rows of ``g`` (..., n_in, point); joined (..., n_out, point)."""
        blocks, start = [], 0
        for primitive, copies in self.kinds:
            arguments = []
            for _ in range(primitive.arity):
                arguments.append(g[..., start : start + copies, :])
                start += copies
            value = primitive.torch(*arguments)
            if primitive.arity == 0:
                value = g.new_full((*g.shape[:-2], copies, g.shape[-1]), value)
            blocks.append(value)
        return blocks

    def units(self) -> list[tuple[Primitive, tuple[int, ...]]]:
        """For each output row in order: its primitive and the pre-activation rows it reads."""
        units, start = [], 0
        for primitive, copies in self.kinds:
            for copy in range(copies):
                columns = tuple(start + k * copies + copy for k in range(primitive.arity))
                units.append((primitive, columns))
            start += primitive.arity * copies
        return units
