"""peql: one equation, coefficients that vary with t. EQL, SEQL and HEQL in torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import nn as nn
    from . import primitives as primitives
    from .estimators.encoded import EncodedHEQL as EncodedHEQL
    from .estimators.encoded import EncodedSEQL as EncodedSEQL
    from .estimators.loading import load as load
    from .estimators.tabular import EQL as EQL
    from .estimators.tabular import HEQL as HEQL
    from .estimators.tabular import SEQL as SEQL
    from .solution import Solution as Solution

__version__ = "0.1.0"

# Imported when first used: the command line and the processes of a sweep need not wait for torch.
_MODULES = ("datasets", "nn", "primitives")
_MEMBERS = {
    **dict.fromkeys(("EQL", "SEQL", "HEQL"), "estimators.tabular"),
    **dict.fromkeys(("EncodedSEQL", "EncodedHEQL"), "estimators.encoded"),
    "load": "estimators.loading",
    "Solution": "solution",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _MEMBERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    return getattr(import_module(f".{_MEMBERS[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_MEMBERS])
