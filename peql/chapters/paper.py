"""The numbers and equations that the paper prints, so that no chapter types them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import sympy

from .._suggest import unknown_name


@cache
def _tables() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("paper_tables.json").read_text(encoding="utf-8"))


def table(name: str, *keys: str) -> Any:
    """A table of the paper, or the part of it that ``keys`` lead to.

    >>> table("analytic_mse", "best", "f1", "SEQL")
    6.97e-06
    """
    part: Any = _tables()
    for key in (name, *keys):
        if not isinstance(part, dict) or key not in part:
            known = part if isinstance(part, dict) else ()
            raise unknown_name("entry of the paper's tables", key, known)
        part = part[key]
    return part


def equation(name: str, *keys: str, index: int | None = None) -> sympy.Expr:
    """A printed equation as SymPy; ``index`` picks one where an entry lists several.

    >>> equation("eql_failure", "f2", "learned")
    0.72*sin(2.05*x)
    """
    text = table(name, *keys)
    return sympy.parse_expr(text if index is None else text[index])
