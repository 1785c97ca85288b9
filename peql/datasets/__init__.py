"""Data of the paper, each with its true equation: ``peql.datasets.load("f1")``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .._suggest import unknown_name
from ._dataset import Dataset as Dataset
from .analytic import BENCHMARKS, make_analytic
from .classbench import LAWS as CLASSBENCH
from .classbench import make_classbench
from .field import expand_cross_terms as expand_cross_terms
from .field import from_field as from_field
from .measured import Measured as Measured
from .measured import load_measured as load_measured
from .pde import TARGETS as PDES
from .pde import make_pde
from .spring import TARGETS, make_spring
from .textbook import LAWS, make_textbook

_MAKERS: dict[str, Callable[..., Dataset]] = {
    **{name: partial(make_analytic, name) for name in BENCHMARKS},
    **{name: partial(make_pde, name) for name in PDES},
    **{name: partial(make_spring, name) for name in TARGETS},
    **{name: partial(make_textbook, name) for name in LAWS},
    **{name: partial(make_classbench, name) for name in CLASSBENCH},
}


def names() -> list[str]:
    """The names that ``load`` knows.

    >>> names()[:6]
    ['f1', 'f2', 'f3', 'f4', 'f5', 'advection_diffusion']
    """
    return list(_MAKERS)


def load(name: str, *, random_state: int | None = 0, **options: Any) -> Dataset:
    """Make the dataset ``name``; the same ``random_state`` gives the same rows.

    >>> data = load("f1", n_t=8, n_train=16)
    >>> data.equation, data.X_train.shape
    (x**2*a(t) + x*b(t), (128, 2))
    """
    if name not in _MAKERS:
        raise unknown_name("dataset", name, _MAKERS)
    return _MAKERS[name](random_state=random_state, **options)
