"""The cells of a table as people write them: units, numbers, dates and times.

What is read as something else than it says is told in notes, one sentence each.
"""

from __future__ import annotations

import re
from datetime import time
from typing import Any

import pandas as pd

_NUMBER = r"[+-]?(\d+{0}?\d*|{0}\d+)([eE][+-]?\d+)?"
_WITH_COMMA = re.compile(_NUMBER.format(","))
_WITH_POINT = re.compile(_NUMBER.format(r"\."))
_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f'\u2019](?=\d{3}(?!\d))")
_FORTRAN = re.compile(r"(?<=[\d.])[dD](?=[+-]?\d+$)")
_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_NAMED_MONTH = re.compile(
    rf"(\d{{1,2}}[ -]({_MONTH})[a-z]*\.?[ -]\d{{4}}|({_MONTH})[a-z]*\.? \d{{1,2}},? \d{{4}})"
)
# Dates that pandas would guess at: two numbers and a year in either order, then perhaps a time.
_YEAR_LAST = re.compile(
    r"(?P<first>\d{1,2})(?P<sign>[/-])(?P<second>\d{1,2})(?P=sign)(\d{4})(?=$|[ T])"
)
_YEAR_FIRST = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?=$|[ T])")
_SHORT_YEAR = re.compile(r"\d{1,2}([/.-])\d{1,2}\1\d{2}(?=$|[ T])")
_ISO = {
    "year/month/day": r"\1-\2-\3",
    "month/day/year": r"\4-\1-\3",
    "day/month/year": r"\4-\3-\1",
    "text": r"\1",
}


def is_number(cell: str) -> bool:
    """Whether a cell is one number, with a decimal point or comma."""
    return bool(_WITH_POINT.fullmatch(cell) or _WITH_COMMA.fullmatch(cell))


def numerals(cells: list[str]) -> dict[str, Any]:
    """How pandas is told of a decimal comma, if that is how the numbers are written."""
    comma = [c for c in cells if "," in c and (_WITH_COMMA.fullmatch(c) or _GROUPED.fullmatch(c))]
    point = [c for c in cells if "." in c and _WITH_POINT.fullmatch(c)]
    grouped = any(map(_GROUPED.fullmatch, comma))
    english = any(_THOUSANDS.fullmatch(c) and not _WITH_COMMA.fullmatch(c) for c in cells)
    if not comma or english or (point and not grouped):
        return {}
    return {"decimal": ",", **({"thousands": "."} if grouped else {})}


def without_units(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Without a first row that has no number, but text where the second row has numbers."""
    if len(table) < 2:
        return table
    first, second = table.head(2).to_numpy(dtype=object)
    numbers = [is_number(str(value).strip()) for value in second]
    texts = [value for value, number in zip(first, numbers, strict=True) if number]
    units = any(isinstance(value, str) for value in texts)
    if not units or any(is_number(str(value).strip()) for value in first):
        return table
    shown = ", ".join(repr(value) for value in texts[:4] if isinstance(value, str))
    notes.append(f"the row below the header has no number ({shown}): left out")
    return table.iloc[1:].reset_index(drop=True)


def respelled(
    table: pd.DataFrame, notes: list[str], *, decimal_comma: bool = False
) -> pd.DataFrame:
    """With numbers in place of text such as "1 234,5", "1,234.5", "−2" or "1.5D+02".

    "1,234" alone may be either of two numbers, and stays text unless ``decimal_comma`` is known.

    >>> table = pd.DataFrame({"p": ["1,234.5", "2,500"], "q": ["−1,5", "10,125"], "r": "1,234"})
    >>> notes = []
    >>> respelled(table, notes).to_numpy().tolist()
    [[1234.5, -1.5, '1,234'], [2500.0, 10.125, '1,234']]
    >>> print(*notes, sep="\\n")
    'p' holds numbers as text: '1,234.5' is read as 1234.5
    'q' holds numbers as text: '−1,5' is read as -1.5
    'r' has '1,234', which may be 1.234 or 1234: it stays text; write it with a decimal point
    """
    read = table.copy()
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        texts = [value for value in column.dropna().unique() if isinstance(value, str)]
        plain = {text: _BETWEEN_THOUSANDS.sub("", text.strip()) for text in texts}
        plain = {text: _FORTRAN.sub("e", one.replace("−", "-")) for text, one in plain.items()}
        commas = [one for one in plain.values() if "," in one]
        groups = [one for one in commas if _THOUSANDS.fullmatch(one)]
        if decimal_comma or any(_WITH_COMMA.fullmatch(one) for one in set(commas) - set(groups)):
            known = {text: _with_point(one) for text, one in plain.items()}
        elif any(one.count(",") > 1 or "." in one for one in groups):
            known = {t: one.replace(",", "") if one in groups else one for t, one in plain.items()}
        else:
            known = plain
            if groups:
                text = next(text for text, one in plain.items() if one == groups[0])
                notes.append(
                    f"{name!r} has {text!r}, which may be {groups[0].replace(',', '.')} or "
                    f"{groups[0].replace(',', '')}: it stays text; write it with a decimal point"
                )
        known = {text: one for text, one in known.items() if _WITH_POINT.fullmatch(one)}
        changed = [text for text, one in known.items() if text != one]
        if changed:
            if not decimal_comma:  # which was said already
                example = f"{changed[0]!r} is read as {float(known[changed[0]]):g}"
                notes.append(f"{name!r} holds numbers as text: {example}")
            read[name] = column.map(lambda value, known=known: known.get(value, value))
            if len(known) == len(texts):
                read[name] = pd.to_numeric(read[name])
    return read


def _with_point(text: str) -> str:
    """A number with a decimal comma as Python writes it."""
    if _GROUPED.fullmatch(text):
        text = text.replace(".", "")
    return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else text


def dated(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """With moments in place of text such as 12/31/2024, or 31/12/2024, if a column has only such.

    Which number is the month must be seen: one of the dates has a day after the 12th. Else the
    column stays text, and ``notes`` say what to do. Times such as 10:30 become hours.

    >>> notes = []
    >>> dated(pd.DataFrame({"day": ["03/14/2024", "04/01/2024"]}), notes)["day"].dt.day.tolist()
    [14, 1]
    >>> _ = dated(pd.DataFrame({"day": ["03/04/2024", "04/01/2024"]}), notes)
    >>> print(*notes, sep="\\n")
    'day' holds dates as month/day/year, '03/14/2024' for one
    'day' looks like dates, but '03/04/2024' is not clear: it stays text; write dates as 2024-12-31
    """
    read = table.copy()
    for name, column in table.items():
        texts = column.dropna()
        hours = _hours(texts)
        if hours is not None:
            read[name] = hours.reindex(column.index)
            first = f"{str(texts.iloc[0])!r} is read as {hours.iloc[0]:.6g} hours"
            notes.append(f"{name!r} holds times: {first}")
        elif len(texts) and all(isinstance(value, str) for value in texts):
            moments, note = _moments(column.str.strip())
            notes += [f"{name!r} {note}"] * bool(note)
            if moments is not None:
                read[name] = moments
    return read


def _hours(texts: pd.Series) -> pd.Series | None:
    """Times of day, as text or as Excel has them, and durations, as hours."""
    if pd.api.types.is_timedelta64_dtype(texts.dtype):
        return texts.dt.total_seconds() / 3600
    written = texts.astype(str).str.strip()
    kind = len(texts) and all(isinstance(value, str | time) for value in texts)
    if not kind or not written.str.fullmatch(_TIME).all():
        return None
    full = written.where(written.str.count(":") > 1, written + ":00")
    return pd.to_timedelta(full).dt.total_seconds() / 3600


def _moments(column: pd.Series) -> tuple[pd.Series | None, str]:
    """The moments that all texts are, in one known order, and what is to be said of them."""
    texts = column.dropna()
    unclear = (
        f"looks like dates, but {texts.iloc[0]!r} is not clear: it stays text; write dates as "
        "2024-12-31"
    )
    if texts.str.match(_YEAR_FIRST).all():
        layout, order, shown = _YEAR_FIRST, "year/month/day", texts.iloc[0]
    elif texts.str.match(_YEAR_LAST).all():
        layout, parts = _YEAR_LAST, texts.str.extract(_YEAR_LAST)
        late = {
            "day/month/year": parts["first"].astype(int) > 12,
            "month/day/year": parts["second"].astype(int) > 12,
        }
        seen = [order for order in late if late[order].any()]
        if len(seen) != 1:
            return None, unclear
        order = seen[0]
        shown = texts[late[order].to_numpy()].iloc[0]
    elif texts.str.fullmatch(_NAMED_MONTH).all():
        layout, order, shown = _NAMED_MONTH, "text", texts.iloc[0]
    else:
        return None, unclear if texts.str.match(_SHORT_YEAR).all() else ""
    iso = column.str.replace(layout, _ISO[order], regex=True)
    try:
        moments = pd.to_datetime(iso, format="mixed", utc=True).dt.tz_localize(None)
    except (ValueError, OverflowError):  # there is no such day, or time
        return None, unclear
    return moments, f"holds dates as {order}, {shown!r} for one"
