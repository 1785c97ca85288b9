"""Tables in files: reading what people have, and writing CSV that runs nothing in a spreadsheet.

CSV is read with whatever separates its columns (comma, semicolon, tab, bar or blanks), a decimal
comma or point, UTF-8, UTF-16 or Latin-1, and lines of comment that begin with ``#`` or ``%``.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.errors import ParserError

DELIMITED = (".csv", ".tsv", ".txt", ".dat")
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
COMMENT = ("#", "%")
LINES = 50  # from which the layout of a CSV file is seen
# A text that begins so is a formula to a spreadsheet.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = r"[+-]?(\d+{0}?\d*|{0}\d+)([eE][+-]?\d+)?"
_WITH_COMMA = re.compile(_NUMBER.format(","))
_WITH_POINT = re.compile(_NUMBER.format(r"\."))
_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+")
# Dates that pandas would guess at: two numbers and a year in either order, then perhaps a time.
_YEAR_LAST = re.compile(
    r"(?P<first>\d{1,2})(?P<sign>[/-])(?P<second>\d{1,2})(?P=sign)(\d{4})(?=$|[ T])"
)
_YEAR_FIRST = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?=$|[ T])")
_SHORT_YEAR = re.compile(r"\d{1,2}([/-])\d{1,2}\1\d{2}(?=$|[ T])")
_ISO = {
    "year/month/day": r"\1-\2-\3",
    "month/day/year": r"\4-\1-\3",
    "day/month/year": r"\4-\3-\1",
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
        raise ValueError(f"{path}: files that end in {kind!r} are not read, only {known}")
    try:
        if kind in PARQUET:
            table = _with_extra(path, "parquet", pd.read_parquet)
        elif kind in EXCEL:
            table = _with_extra(path, "excel", lambda p: _read_sheet(p, notes))
        else:
            table = _read_delimited(path, notes)
    except ImportError:
        raise
    except (ParserError, ValueError, OSError) as error:  # of pandas and pyarrow, in many kinds
        first = next(iter(str(error).splitlines()), "").rpartition("C error: ")[2]
        raise ValueError(f"{path} cannot be read as a table: {first}") from error
    except Exception as error:  # a broken workbook: zipfile, XML and more
        raise ValueError(
            f"{path} cannot be read as a table: it is damaged, or not what its name says "
            f"({type(error).__name__})"
        ) from error
    if table.empty:
        raise ValueError(f"{path} has no rows: expected a header and at least two rows")
    return dated(unguarded(table), notes)


def dated(table: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
    """With moments in place of text such as 12/31/2024, or 31/12/2024, if a column has only such.

    Which number is the month must be seen: one of the dates has a day after the 12th. Else the
    column stays text, and ``notes`` say what to do.

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
        if len(texts) and all(isinstance(value, str) for value in texts):
            moments, note = _moments(column.str.strip())
            notes += [f"{name!r} {note}"] * bool(note)
            if moments is not None:
                read[name] = moments
    return read


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


def _read_delimited(path: Path, notes: list[str]) -> pd.DataFrame:
    encoding = _encoding(path)
    if encoding == "cp1252":
        notes.append(f"{path.name} is not UTF-8: read as Latin-1")
    with open(path, encoding=encoding, errors="replace", newline="") as file:
        content = file.read()
    if "\0" in content[:4096]:
        raise ValueError("it holds zero bytes, as no text does")
    lines: list[str] = []
    commented = ""
    for line in content.splitlines():
        if line.startswith(COMMENT):
            commented = line if not lines else commented
        elif line.strip():
            lines.append(line)
        if len(lines) == LINES:
            break
    if not lines:
        raise ValueError("it is empty")
    separator = _separator(lines, "\t" if path.suffix.lower() == ".tsv" else None)
    header = _fields(commented.lstrip("#% "), separator) if commented else []
    first = _fields(lines[0], separator)
    header_in_comment = len(header) == len(first) > 1 and all(map(_is_number, first))
    if not header_in_comment:
        header, lines = first, lines[1:]
        if lines and any(map(_is_number, header)):
            raise ValueError(f"its first row is {header[:4]}: expected a header with names")
    _no_duplicates(header)
    cells = [cell for line in lines for cell in _fields(line, separator)]
    options = _numerals(cells) if separator != "," else {}
    if options:
        notes.append(f"{path.name}: numbers are read with a decimal comma")
    if content.startswith(COMMENT) or "\n#" in content or "\n%" in content:
        # As blank lines, so that the number of a line that is wrong is that in the file.
        kept = ["\n" if line.startswith(COMMENT) else line for line in content.splitlines(True)]
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
        except pd.errors.ParserWarning as error:
            raise ValueError(str(error)) from None
    if header_in_comment:
        table.columns = pd.Index(header)
    if lines and len(_fields(lines[0], separator)) == len(header) + 1:  # as R names rows
        notes.append(f"{path.name}: its first column has no name and is left out")
        table = table.reset_index(drop=True)
    return table.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)


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


def _separator(lines: list[str], known: str | None) -> str:
    """What cuts every line into equally many fields, and most of them; a comma if nothing does."""
    if known:
        return known
    counts = {}
    for separator in (",", ";", "\t", "|", " "):
        found = [len(_fields(line, separator)) for line in lines]
        # Row names may have no header, as R writes them.
        if found[0] > 1 and set(found[1:]) <= {found[0]} | {found[0] + 1} and len(set(found)) < 3:
            counts[separator] = found[0]
    if " " in counts and len(counts) > 1:  # blanks also stand within and around other fields
        del counts[" "]
    return max(counts, key=counts.__getitem__, default=",")


def _is_number(cell: str) -> bool:
    return bool(_WITH_POINT.fullmatch(cell) or _WITH_COMMA.fullmatch(cell))


def _numerals(cells: list[str]) -> dict[str, Any]:
    """How pandas is told of a decimal comma, if that is how the numbers are written."""
    comma = [c for c in cells if "," in c and (_WITH_COMMA.fullmatch(c) or _GROUPED.fullmatch(c))]
    point = [c for c in cells if "." in c and _WITH_POINT.fullmatch(c)]
    grouped = any(map(_GROUPED.fullmatch, comma))
    if not comma or (point and not grouped):
        return {}
    return {"decimal": ",", **({"thousands": "."} if grouped else {})}


# --- writing ---------------------------------------------------------------------------------


def guard(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with an apostrophe before it.

    >>> guard("=cmd()"), guard("-x"), guard(-1.5), guard("north")
    ("'=cmd()", "'-x", -1.5, 'north')
    """
    if not isinstance(value, str):
        return value
    plain = value.replace("\r", " ")  # which would begin a row
    return f"'{plain}" if value.startswith(FORMULA) else plain


def unguarded(table: pd.DataFrame) -> pd.DataFrame:
    """Without the apostrophes of ``guard``, so that what was written is read again as it was."""

    def plain(value: Any) -> Any:
        guarded = isinstance(value, str) and value[:1] == "'" and value[1:].startswith(FORMULA)
        return value[1:] if guarded else value

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
