"""What the columns of a reader's own table are: numbers, dates, labels, or no use to an equation.

Nothing here knows of files or models. What is changed or left out is said in notes, one sentence
each, for the caller to show.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_datetime64_any_dtype
from pandas.api.types import is_numeric_dtype as is_numeric

from ._suggest import unknown_name

SHOWN = 5  # rows with missing values, or names, that a sentence lists
ORIGIN = pd.Timestamp("2000-01-01")  # dates become days since this one, in every table alike
DAY = pd.Timedelta(days=1)
SAME = 1e-12  # relative difference of two columns that are one quantity in two units
_GERMAN_DATE = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")
_INDEX_NAME = re.compile(
    r"Unnamed: \d+|index|level_0|row|row_?(number|id)|\.rownames|(\w+[ _])?id|no\.?|nr\.?|#", re.I
)


# --- one column ------------------------------------------------------------------------------


def numbers(column: pd.Series) -> pd.Series:
    """The column as float64, gaps as NaN; a clear error if it holds anything else.

    >>> numbers(pd.Series([1, None, 2.5], dtype=object)).tolist()
    [1.0, nan, 2.5]
    >>> numbers(pd.Series([1, 10**400], dtype=object, name="x"))
    Traceback (most recent call last):
    ValueError: column 'x', row 2: 100000000000… is too large for a floating-point number (1.8e308)
    """
    if is_complex_dtype(column.dtype):
        raise ValueError(f"column {column.name!r} holds complex numbers: pass real ones")
    if is_numeric(column.dtype):
        values: Any = column.to_numpy(dtype=float, na_value=np.nan)
        return pd.Series(values, index=column.index, name=column.name)
    values = []
    for row, value in enumerate(column, start=1):
        try:
            values.append(np.nan if pd.isna(value) or value is np.ma.masked else float(value))
        except OverflowError:
            raise ValueError(
                f"column {column.name!r}, row {row}: {str(value)[:12]}… is too large for a "
                "floating-point number (1.8e308)"
            ) from None
        except (TypeError, ValueError):
            raise ValueError(
                f"column {column.name!r}, row {row}: {str(value)!r} is no number"
            ) from None
    return pd.Series(values, index=column.index, name=column.name, dtype=float)


def days(column: pd.Series) -> pd.Series | None:
    """Dates as days since 2000-01-01 (UTC), gaps as NaN; None if the column holds no dates.

    Text counts as dates if all of it is ISO 8601 or day.month.year.

    >>> days(pd.Series(["2000-01-02", "2000-01-03 12:00"])).tolist()
    [1.0, 2.5]
    >>> days(pd.Series(["north", "south"])) is None
    True
    """
    if not is_datetime64_any_dtype(column.dtype):
        if is_numeric(column.dtype) or column.isna().all():
            return None
        given = column.dropna()
        if all(isinstance(value, str) for value in given):
            dotted = given.str.match(_GERMAN_DATE).all()
            written = {"dayfirst": True, "format": "mixed"} if dotted else {"format": "ISO8601"}
            if not dotted and not given.str.match(r"\d{4}-?\d{2}").all():
                return None
            if all(map(_is_number, given)):  # 202401 is more likely that than a month
                return None
        else:
            written = {"format": "ISO8601"}
            if not all(hasattr(value, "year") for value in given):
                return None
        try:
            column = pd.to_datetime(column, utc=True, **written)
        except (ValueError, OverflowError):
            return None
    moments = pd.DatetimeIndex(column)
    if moments.tz is not None:
        moments = moments.tz_convert("UTC").tz_localize(None)
    return pd.Series((moments - ORIGIN) / DAY, index=column.index, name=column.name)


def _is_number(value: Any) -> bool:
    """Also of one that is too large, and of text that writes one."""
    try:
        return not pd.isna(float(value))
    except (TypeError, ValueError):
        return False
    except OverflowError:
        return True


# --- the columns of a table ------------------------------------------------------------------


def leave_out(
    frame: pd.DataFrame,
    target: str | None,
    varying: str | None,
    *,
    asked: Collection[str] = (),
    grouped: bool = True,
) -> tuple[pd.DataFrame, list[str]]:
    """The table without columns that can be no term of a law, and a note on each.

    Of the columns besides ``target`` and ``varying``: a constant, and one that is another in other
    units, go always; the number of the row, and (if ``grouped``) what is constant at each value of
    ``varying`` but differs between them, a property of the group that belongs into the
    coefficients, go unless they are ``asked`` for by name or nothing else is left.

    >>> table = pd.DataFrame({
    ...     "Unnamed: 0": [0, 1, 2, 3], "g": 9.81, "x": [1.0, 2.0, 4.0, 7.0],
    ...     "weight": [70, 70, 80, 80], "who": ["p", "p", "q", "q"], "y": [1.0, 2.0, 3.0, 4.0]})
    >>> kept, notes = leave_out(table, "y", "who")
    >>> list(kept)
    ['x', 'who', 'y']
    >>> print(*notes, sep="\\n")
    'g' is 9.81 in every row: left out
    'Unnamed: 0' numbers the rows: left out
    'weight' is the same in all rows of a 'who': left out, the coefficients of each 'who' hold it
    """
    features = [c for c in frame.columns if c not in (target, varying)]
    kept, notes = list(features), []

    def drop(name: Any, why: str) -> None:
        kept.remove(name)
        notes.append(f"{name!r} {why}")

    for name in features:
        if len(frame) > 1 and frame[name].nunique(dropna=False) == 1:
            drop(name, f"is {_shown(frame[name].iloc[0])} in every row: left out")
    for name, other, factor, more in _repeated(frame[kept]):
        times = "" if f"{factor:.6g}" == "1" else f"{factor:.6g} times "
        plus = "" if not more else f" {'+' if more > 0 else '-'} {abs(more):.6g}"
        drop(name, f"is {times}{other!r}{plus} in every row: left out")
    tests = [(_numbers_rows, "numbers the rows: left out")]
    if grouped and varying in frame.columns:
        sizes = frame[varying].value_counts()
        if len(sizes) > 1 and sizes[sizes > 1].sum() >= len(frame) / 2:
            codes = pd.factorize(frame[varying])[0]
            why = (
                f"is the same in all rows of a {varying!r}: left out, the coefficients of each "
                f"{varying!r} hold it"
            )
            tests.append((lambda column: _same_within(column, codes), why))
    doubtful = [
        (name, why)
        for test, why in tests
        for name in kept
        if name not in asked and test(frame[name])
    ]
    if len({name for name, _ in doubtful}) < len(kept):  # else these are all there is
        for name, why in doubtful:
            if name in kept:
                drop(name, why)
    return frame[[c for c in frame.columns if c in kept or c in (target, varying)]], notes


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else repr(value)


def _numbers_rows(column: pd.Series) -> bool:
    """0 to n - 1 or 1 to n in any order; under a name for it, any different whole numbers."""
    if not is_numeric(column.dtype) or is_bool_dtype(column.dtype) or column.hasnans:
        return False
    values = np.sort(column.to_numpy(dtype=float))
    whole = len(values) > 2 and bool((values == np.round(values)).all())
    steps = np.diff(values)
    if _INDEX_NAME.fullmatch(str(column.name)):
        return whole and bool((steps > 0).all())
    return whole and values[0] in (0, 1) and bool((steps == 1).all())


def _same_within(column: pd.Series, codes: np.ndarray) -> bool:
    return bool((column.groupby(codes).nunique() <= 1).all())


def _repeated(frame: pd.DataFrame) -> list[tuple[Any, Any, float, float]]:
    """Columns that are an earlier one times a number plus a number: both names and the numbers.

    Two values of a column are always on a line with two of another: there nothing may be added.
    """
    repeated = []
    seen: dict[bytes, tuple[Any, np.ndarray, float, float]] = {}
    for name in frame.columns:
        if not is_numeric(frame[name].dtype):
            continue
        values = frame[name].to_numpy(dtype=float, na_value=np.nan)
        finite = np.unique(values[np.isfinite(values)])
        middle = (finite[0] + finite[-1]) / 2 if len(finite) > 2 else 0.0
        size = np.abs(finite - middle).max(initial=0.0)
        if not size:
            continue
        exact = (values - middle) / size
        sign = np.sign(exact[np.argmax(np.abs(exact) > 0.5)])
        exact, size = sign * exact, sign * size
        # Compared by a few digits first: rounding may fall on either side, so in two grids.
        for grid in (0.0, 0.5):
            key = np.floor(exact * 1e9 + grid).tobytes()
            if key in seen:
                other, first, other_middle, other_size = seen[key]
                if np.allclose(first, exact, rtol=SAME, atol=SAME, equal_nan=True):
                    factor = size / other_size
                    more = middle - factor * other_middle
                    more = more if abs(more) > SAME * (abs(middle) + abs(size)) else 0.0
                    repeated.append((name, other, factor, more))
                    break
        else:
            for grid in (0.0, 0.5):
                key = np.floor(exact * 1e9 + grid).tobytes()
                seen.setdefault(key, (name, exact, middle, size))
    return repeated


# --- what a fit takes of a table -------------------------------------------------------------


def select(
    table: pd.DataFrame,
    target: str,
    varying: str,
    features: Sequence[str] | None = None,
    *,
    drop_missing: bool = False,
    grouped: bool = True,
    notes: list[str] | None = None,
) -> tuple[pd.DataFrame, pd.Series]:
    """The features with the varying column, and the target, as numbers without gaps.

    Dates become days since 2000-01-01; a varying column of other text stays as it is, a label each.
    Without ``features``, all columns of numbers or dates that ``leave_out`` finds of use are taken.
    What was done is appended to ``notes``.

    >>> table = pd.DataFrame({"x": [1, 2], "t": [0, 0], "y": [3.0, 4.0], "note": ["p", "q"]})
    >>> notes = []
    >>> X, y = select(table, "y", "t", notes=notes)
    >>> list(X.columns), y.name, notes
    (['x', 't'], 'y', ["'note' holds text (row 1 has 'p'): left out"])
    """
    notes = [] if notes is None else notes
    table = table.set_axis([str(c) for c in table.columns], axis=1)
    known = list(table.columns)
    chosen = [c for c in known if c not in (target, varying)] if features is None else features
    _check_names(known, target, varying, chosen)
    columns = {name: table[name] for name in (*chosen, varying, target)}
    read: dict[str, pd.Series] = {}
    for name, column in columns.items():
        if features is None and name not in (target, varying) and column.isna().all():
            notes.append(f"{name!r} is empty: left out")
            continue
        made = _read(column, name == varying, name in (target, *(features or ())), notes)
        if made is None:
            continue
        if name == target and made.attrs.get("dates"):
            raise ValueError(f"the target {target!r} holds dates: it must be numbers")
        read[name] = made
    if not set(read) - {target, varying}:
        raise ValueError(
            f"the table has no column of numbers besides {target!r} and {varying!r}, and the "
            f"equation needs a feature. Of the others: {'; '.join(notes) or 'there are none'}"
        )
    frame = pd.DataFrame({name: column.to_numpy() for name, column in read.items()})

    def useful(frame: pd.DataFrame) -> pd.DataFrame:
        kept, left_out = leave_out(frame, target, varying, asked=features or (), grouped=grouped)
        notes.extend(left_out)
        if not set(kept) - {target, varying}:
            raise ValueError(f"no column is left to explain {target!r} by: {'; '.join(left_out)}")
        return kept

    frame = useful(frame)  # first, so that gaps in what is of no use cost no rows
    missing = _missing(frame)
    if missing.any() and not drop_missing:
        counts = ", ".join(
            f"{c!r} has {n}" for c, n in zip(frame, missing.sum(axis=0), strict=True) if n
        )
        rows = np.flatnonzero(missing.any(axis=1))
        shown = ", ".join(str(r + 1) for r in rows[:SHOWN]) + (" …" if len(rows) > SHOWN else "")
        raise ValueError(
            f"values are missing or infinite: {counts} (data rows {shown}). Fill them, or leave "
            "the rows out with --drop-missing"
        )
    whole = frame.iloc[np.flatnonzero(~missing.any(axis=1))].reset_index(drop=True)
    if len(whole) < len(frame):
        notes.append(f"{len(frame) - len(whole)} of {len(frame)} rows have gaps: left out")
    if len(whole) < 2:
        raise ValueError(f"{len(whole)} complete rows are left: at least two are needed")
    if len(whole) < len(frame):
        whole = useful(whole)
    if whole[target].nunique() == 1:
        value = _shown(whole[target].iloc[0])
        raise ValueError(f"the target {target!r} is {value} in every row: nothing to explain")
    kept = [c for c in whole.columns if c not in (target, varying)]
    return whole[[*kept, varying]], whole[target]


def _check_names(known: list[str], target: str, varying: str, features: Sequence[str]) -> None:
    twice = sorted({c for c in known if known.count(c) > 1})
    if twice:
        raise ValueError(f"columns {twice} are there more than once: rename or remove them")
    roles = [("target", target), ("varying", varying), *(("feature", f) for f in features)]
    for kind, name in roles:
        if name not in known:
            raise unknown_name(f"{kind} column", name, known)
    asked = [name for _, name in roles]
    twice = sorted({c for c in asked if asked.count(c) > 1})
    if twice:
        raise ValueError(
            f"columns {twice} are asked for twice: target, varying and features must differ"
        )


def _read(column: pd.Series, varies: bool, needed: bool, notes: list[str]) -> pd.Series | None:
    """Numbers; of a varying column labels; None for a feature of text that nobody asked for."""
    name = column.name
    if is_numeric(column.dtype) or column.isna().all():
        return numbers(column)
    as_days = days(column)
    if as_days is not None:
        notes.append(f"{name!r} holds dates: its numbers are days since {ORIGIN:%Y-%m-%d}")
        as_days.attrs["dates"] = True
        return as_days
    text = ~column.map(_is_number) & column.notna()
    if not text.any():
        return numbers(column)
    if varies:
        labels = column.map(lambda value: value if pd.isna(value) else str(value))
        n = labels.nunique()
        each = f"each of its {n} values is a label" if n > 1 else "one label in all rows"
        notes.append(f"{name!r} holds text: {each}")
        return labels
    some = text.sum() <= len(column) / 2
    words = column[text].astype(str)
    marked = words.str.contains(r"\d")  # "<0.5" says a number that is not known; "n.d." says none
    if some and not marked.any():
        shown = ", ".join(map(repr, words.unique()[:SHOWN]))
        notes.append(f"{name!r} has text in {len(words)} rows ({shown}): they count as gaps")
        return numbers(column.mask(text))
    place = np.flatnonzero(text)[int(np.argmax(marked)) if some else 0]
    example = f"row {place + 1} has {str(column.iloc[place])[:40]!r}"
    if some or needed:
        what = "numbers and text" if some else "no numbers"
        rather = "" if needed else ", or name the columns to explain by with --features"
        raise ValueError(f"column {name!r} holds {what} ({example}): correct it{rather}")
    notes.append(f"{name!r} holds text ({example}): left out")
    return None


def _missing(frame: pd.DataFrame) -> np.ndarray:
    """Where a value is missing or infinite (row, column)."""
    columns = [
        ~np.isfinite(frame[c].to_numpy(dtype=float))
        if is_numeric(frame[c].dtype)
        else frame[c].isna().to_numpy()
        for c in frame
    ]
    return np.column_stack(columns)


def as_fitted(table: pd.DataFrame, columns: Sequence[str], labels: bool = False) -> pd.DataFrame:
    """The named columns as ``select`` gave them to the model: dates as days, labels as text.

    ``labels`` says that the last of the ``columns`` holds labels.
    """
    made = {}
    for name in columns:
        column = table[name]
        if labels and name == columns[-1]:
            made[name] = column.astype(str)
            continue
        as_days = days(column)
        made[name] = numbers(column) if as_days is None else as_days
    return pd.DataFrame(made, index=table.index)
