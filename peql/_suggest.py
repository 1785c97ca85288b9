"""One way of saying "no such name"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown_name(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The error for a mistyped name: what was passed, the nearest known name, all known names.

    >>> print(unknown_name("dataset", "f6", ["f1", "f5"]))
    unknown dataset 'f6': did you mean 'f5' or 'f1'? Known: f1, f5.
    """
    known = list(known)
    close = get_close_matches(str(name), known, n=2, cutoff=0.5)
    hint = f" did you mean {' or '.join(map(repr, close))}?" if close else ""
    return ValueError(f"unknown {kind} {name!r}:{hint} Known: {', '.join(known)}.")
