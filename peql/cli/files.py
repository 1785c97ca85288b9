"""Tables in files: reading what people have, and writing CSV that runs nothing in a spreadsheet.

CSV is read with whatever separates its columns (comma, semicolon, tab, bar or blanks), a decimal
comma or point, UTF-8, UTF-16 or Latin-1, lines of comment that begin with ``#`` or ``%``, and lines
of text above the header, as instruments write them.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from datetime import time
from itertools import islice, pairwise
from pathlib import Path
from statistics import mode
from typing import Any

import pandas as pd
from pandas.errors import ParserError

DELIMITED = (".csv", ".tsv", ".txt", ".dat")
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
_FIELD = "; peql.datasets.from_field makes a table of a field, see the README"
INSTEAD = {
    ".npy": _FIELD,
    ".npz": _FIELD,
    ".xls": "; save it as .xlsx",
    ".ods": "; save it as .xlsx",
}
COMMENT = ("#", "%")
LINES = 50  # from which the layout of a CSV file is seen
START = 2**22  # characters among which they are
# What a spreadsheet takes for a formula: a text that begins so, also after what separates the
# cells in other countries, where quotes do not help.
_FORMULA = r"(?:^|(?<=[;|\t])){}(?=[=+\-@\t\r\n＝＋－＠])"
_UNGUARDED, _GUARDED = re.compile(_FORMULA.format("")), re.compile(_FORMULA.format("'"))
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


# --- reading ---------------------------------------------------------------------------------


def read_table(path: Path, notes: list[str] | None = None) -> pd.DataFrame:
    """The table in a CSV, Parquet or spreadsheet file; what is wrong is said in one sentence.

    What had to be guessed is appended to ``notes``.
    """
    notes = [] if notes is None else notes
    kind = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or device"
        raise ValueError(f"{path} is {what}: save the table to a file and pass that")
    if kind not in (*DELIMITED, *PARQUET, *EXCEL):
        known = ", ".join((*DELIMITED, *PARQUET, *EXCEL))
        instead = INSTEAD.get(kind, "")
        raise ValueError(f"{path}: files that end in {kind!r} are not read, only {known}{instead}")
    decimal_comma = False
    try:
        if kind in PARQUET:
            table = _with_extra(path, "parquet", pd.read_parquet)
        elif kind in EXCEL:
            table = _with_extra(path, "excel", lambda p: _read_sheet(p, notes))
        else:
            table, decimal_comma = _read_delimited(path, notes)
    except ImportError:
        raise
    except (ParserError, ValueError, OSError) as error:  # of pandas and pyarrow, in many kinds
        first = next(iter(str(error).splitlines()), "")
        raise ValueError(f"{path} cannot be read as a table: {first}") from error
    except Exception as error:  # a broken workbook: zipfile, XML and more
        raise ValueError(
            f"{path} cannot be read as a table: it is damaged, or not what its name says "
            f"({type(error).__name__})"
        ) from error
    if table.empty:
        raise ValueError(f"{path} has no rows: expected a header and at least two rows")
    if table.isna().all(axis=1).any():
        table = table.dropna(how="all").reset_index(drop=True)
    unnamed = table.columns.astype(str).str.match(r"Unnamed: \d+$") & table.isna().all().to_numpy()
    table = _without_units(unguarded(table.loc[:, ~unnamed]), notes)
    return dated(respelled(table, notes, decimal_comma=decimal_comma), notes)


def _without_units(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Without a first row that has no number, but text where the second row has numbers."""
    if len(table) < 2:
        return table
    first, second = table.head(2).to_numpy(dtype=object)
    numbers = [_is_number(str(value).strip()) for value in second]
    texts = [value for value, number in zip(first, numbers, strict=True) if number]
    units = any(isinstance(value, str) for value in texts)
    if not units or any(_is_number(str(value).strip()) for value in first):
        return table
    shown = ", ".join(repr(value) for value in texts[:4] if isinstance(value, str))
    notes.append(f"the row below the header has no number ({shown}): left out")
    return table.iloc[1:].reset_index(drop=True)


def respelled(
    table: pd.DataFrame, notes: list[str] | None = None, *, decimal_comma: bool = False
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
    notes = [] if notes is None else notes
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


def dated(table: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
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
    notes = [] if notes is None else notes
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


def _with_extra(path: Path, extra: str, read: Any) -> pd.DataFrame:
    try:
        return read(path)
    except ImportError:
        raise ImportError(
            f"{path}: to read {path.suffix} files, pip install 'peql[{extra}]'"
        ) from None


def _read_sheet(path: Path, notes: list[str]) -> pd.DataFrame:
    """The first sheet; a header that is there twice is not renamed but refused."""
    with pd.ExcelFile(path) as book:
        first, *others = book.sheet_names
        if others:
            notes.append(f"{path.name} has {len(others) + 1} sheets: {first!r}, the first, is read")
        names = pd.read_excel(book, sheet_name=first, header=None, nrows=1)
        if len(names):
            _no_duplicates([str(name) for name in names.iloc[0].dropna()])
        return pd.read_excel(book, sheet_name=first)


def _no_duplicates(names: list[str]) -> None:
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise ValueError(f"columns {twice} are there more than once: rename them in the header")


def _read_delimited(path: Path, notes: list[str]) -> tuple[pd.DataFrame, bool]:
    """The table, and whether its numbers have a decimal comma."""
    encoding = _encoding(path)
    if encoding == "cp1252":
        notes.append(f"{path.name} is not UTF-8: read as Latin-1")
    with open(path, encoding=encoding, errors="replace", newline="") as file:
        content = file.read()
    if "\0" in content[:4096]:
        raise ValueError("it holds zero bytes, as no text does")
    written = content[:START].splitlines(keepends=True)
    if len(content) > START:
        written.pop()  # a part of a line
    rows = (k for k, line in enumerate(written) if line.strip() and not line.startswith(COMMENT))
    places = list(islice(rows, LINES))
    if not places:
        raise ValueError("it is empty")
    known = "\t" if path.suffix.lower() == ".tsv" else None
    if told := re.fullmatch(r'"?sep=(.)"?', written[places[0]].strip()):  # Excel's own
        known = told[1]
        del places[0]
    separator, n_above = _separator([written[k] for k in places], known)
    if n_above:
        notes.append(f"{path.name}: lines above its header are left out, {n_above} of them")
    lines = [written[k] for k in places[n_above:]]
    begins = places[n_above] if lines else len(written)
    commented = next((o for o in reversed(written[:begins]) if o.startswith(COMMENT)), "")
    header = _fields(commented.lstrip("#% "), separator)
    first = _fields(lines[0], separator) if lines else []
    header_in_comment = len(header) == len(first) > 1 and all(map(_is_number, first))
    if not header_in_comment:
        header, lines = first, lines[1:]
        if lines and any(map(_is_number, header)):
            raise ValueError(
                f"its first row is {header[:4]}: expected a header with names, and nothing above it"
            )
    _no_duplicates(header)
    cells = [_fields(line, separator) for line in lines]
    options = _numerals([cell for row in cells for cell in row]) if separator != "," else {}
    if options:
        notes.append(f"{path.name}: numbers are read with a decimal comma")
    longer = {len(row) for row in cells} == {len(header) + 1}
    if longer and header[-1] and not any(row[-1] for row in cells):
        options |= {"usecols": range(len(header)), "index_col": False}  # each row ends in a comma
    if begins or content.startswith(COMMENT) or "\n#" in content or "\n%" in content:
        # As blank lines, so that the number of a line that is wrong is that in the file.
        kept = (
            "\n" if k < begins or line.startswith(COMMENT) else line
            for k, line in enumerate(content.splitlines(keepends=True))
        )
        content = "".join(kept)
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        try:
            table = pd.read_csv(
                io.StringIO(content),
                sep=r"\s+" if separator == " " else separator,
                skipinitialspace=True,
                header=None if header_in_comment else 0,
                low_memory=False,
                **options,
            )
        except (pd.errors.ParserWarning, ParserError) as error:
            wrong = str(error).rpartition("C error: ")[2].strip()
            raise ValueError(f"{wrong} (its header is taken to be {header[:4]})") from None
    if header_in_comment:
        table.columns = pd.Index(header)
    if cells and len(cells[0]) == len(header) + 1 and "usecols" not in options:  # as R names rows
        notes.append(f"{path.name}: its first column has no name and is left out")
        table = table.reset_index(drop=True)
    table = table.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)
    return table, "decimal" in options


def _encoding(path: Path) -> str:
    """UTF-8 or UTF-16 if it is that, else Latin-1 as Windows has it."""
    with open(path, "rb") as file:
        start = file.read(4)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(start)
            while block := file.read(2**20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


def _fields(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]


def _separator(lines: list[str], known: str | None) -> tuple[str, int]:
    """What cuts the lines into equally many fields, and most of them; a comma if nothing does.

    And how many lines above the header are none: they have fewer fields than names may be missing,
    or one less, as R's header has, and no numbers below them.
    """
    counts = {}
    for separator in [known] if known else (",", ";", "\t", "|", " "):
        cut = [_fields(line, separator) for line in lines]
        usual = mode(len(row) for row in cut)
        usual -= all(row[-1] == "" for row in cut if len(row) == usual)  # rows end in a separator
        above = 0
        for row, below in pairwise(cut):
            short = len(row) < usual and not any(map(_is_number, below))
            if len(row) - row.count("") >= usual - 1 and not short:
                break
            above += 1
        found = [len(row) for row in cut[above:]]
        # Row names may have no header, as R writes them.
        if known or (
            found[0] > 1 and set(found[1:]) <= {found[0]} | {found[0] + 1} and len(set(found)) < 3
        ):
            counts[separator] = found[0], above
    if " " in counts and len(counts) > 1:  # blanks also stand within and around other fields
        del counts[" "]
    best = max(counts, key=lambda each: (-counts[each][1], counts[each][0]), default=",")
    return best, counts.get(best, (0, 0))[1]


def _is_number(cell: str) -> bool:
    return bool(_WITH_POINT.fullmatch(cell) or _WITH_COMMA.fullmatch(cell))


def _numerals(cells: list[str]) -> dict[str, Any]:
    """How pandas is told of a decimal comma, if that is how the numbers are written."""
    comma = [c for c in cells if "," in c and (_WITH_COMMA.fullmatch(c) or _GROUPED.fullmatch(c))]
    point = [c for c in cells if "." in c and _WITH_POINT.fullmatch(c)]
    grouped = any(map(_GROUPED.fullmatch, comma))
    english = any(_THOUSANDS.fullmatch(c) and not _WITH_COMMA.fullmatch(c) for c in cells)
    if not comma or english or (point and not grouped):
        return {}
    return {"decimal": ",", **({"thousands": "."} if grouped else {})}


# --- writing ---------------------------------------------------------------------------------


def guard(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with an apostrophe before it.

    >>> guard("=cmd()"), guard("-x"), guard(-1.5), guard("north"), guard("a;=cmd()")
    ("'=cmd()", "'-x", -1.5, 'north', "a;'=cmd()")
    """
    if not isinstance(value, str):
        return value
    return _UNGUARDED.sub("'", value).replace("\r", " ")  # which would begin a row


def unguarded(table: pd.DataFrame) -> pd.DataFrame:
    """Without the apostrophes of ``guard``, so that what was written is read again as it was."""

    def plain(value: Any) -> Any:
        return _GUARDED.sub("", value) if isinstance(value, str) else value

    texts = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c].dtype)]
    table = table.rename(columns=plain)
    for name in map(plain, texts):
        table[name] = table[name].map(plain)
    return table


def to_csv(table: pd.DataFrame, *, index: bool = False) -> str:
    """The table as CSV in which no name and no text is a formula, see ``guard``."""
    safe = table.rename(columns=guard)
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, [guard(value) for value in safe.iloc[:, place]])
    if index:
        safe = safe.set_axis(table.index.map(guard)).rename_axis(guard(table.index.name))
    return safe.to_csv(index=index)
