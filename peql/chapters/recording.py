"""Recording what a run of a chapter found, for the rows of ``peql sweep``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

# As myst-nb's glue stores what it does not show: so the book shows nothing either.
PREFIX = "application/papermill.record/"
KEY = "peql_record"  # of the output's metadata, which nbval does not compare
_numbers = count(1)


def record(case: Mapping[str, Any] | None = None, /, **found: Any) -> None:
    """Leave in the executed notebook what this run ``found``: a row for ``peql sweep``.

    Call it once for each thing that was fitted. ``case`` says which it is, ``found`` what came out;
    in the table of a sweep the case stands beside the parameters, and ``peql table`` groups by it.
    Numbers, truth values, texts and None are kept; anything else as its text. Outside a notebook
    nothing happens.

    >>> record({"function": "f1", "model": "SEQL"}, equation="x*a(t)", true_terms=True, mse=1e-30)
    """
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is None:
        return
    content = {"case": _plain(case or {}), "found": _plain(found)}
    scrapbook = {"name": f"{KEY}_{next(_numbers)}", "mime_prefix": PREFIX}
    display({f"{PREFIX}text/plain": ""}, raw=True, metadata={"scrapbook": scrapbook, KEY: content})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): _scalar(value) for name, value in values.items()}


def _scalar(value: Any) -> Any:
    """A value that JSON can hold.

    >>> import numpy as np, sympy
    >>> _scalar(np.float64(0.5)), _scalar(np.bool_(True)), _scalar(sympy.Symbol("x") ** 2)
    (0.5, True, 'x**2')
    """
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return str(value)
