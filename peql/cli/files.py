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
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import mode
from typing import Any

import pandas as pd
from pandas.errors import ParserError

from .cells import dated, is_number, numerals, respelled, without_units

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
    table = without_units(unguarded(table.loc[:, ~unnamed]), notes)
    return dated(respelled(table, notes, decimal_comma=decimal_comma), notes)


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


@dataclass(frozen=True)
class _Layout:
    """How a CSV file is laid out: ``begins`` lines stand above its header.

    A header ``in_comment`` stands behind the sign of a comment, and is one of those lines. ``rows``
    are the cells of the first rows.
    """

    separator: str
    begins: int
    header: list[str]
    rows: list[list[str]]
    in_comment: bool


def _read_delimited(path: Path, notes: list[str]) -> tuple[pd.DataFrame, bool]:
    """The table, and whether its numbers have a decimal comma."""
    content = _content(path, notes)
    layout = _layout(path, content, notes)
    header, rows = layout.header, layout.rows
    _no_duplicates(header)
    options = numerals([cell for row in rows for cell in row]) if layout.separator != "," else {}
    if options:
        notes.append(f"{path.name}: numbers are read with a decimal comma")
    names_rows = {len(row) for row in rows} == {len(header) + 1}
    if names_rows and header[-1] and not any(row[-1] for row in rows):
        options |= {"usecols": range(len(header)), "index_col": False}  # each row ends in a comma
    table = _parsed(_without_comments(content, layout.begins), layout, options)
    if rows and len(rows[0]) == len(header) + 1 and "usecols" not in options:  # as R names rows
        notes.append(f"{path.name}: its first column has no name and is left out")
        table = table.reset_index(drop=True)
    table = table.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)
    return table, "decimal" in options


def _content(path: Path, notes: list[str]) -> str:
    encoding = _encoding(path)
    if encoding == "cp1252":
        notes.append(f"{path.name} is not UTF-8: read as Latin-1")
    with open(path, encoding=encoding, errors="replace", newline="") as file:
        content = file.read()
    if "\0" in content[:4096]:
        raise ValueError("it holds zero bytes, as no text does")
    return content


def _layout(path: Path, content: str, notes: list[str]) -> _Layout:
    """How the file is laid out, as its first lines show."""
    written = content[:START].splitlines(keepends=True)
    if len(content) > START:
        written.pop()  # a part of a line
    told = (k for k, line in enumerate(written) if line.strip() and not line.startswith(COMMENT))
    places = list(islice(told, LINES))
    if not places:
        raise ValueError("it is empty")
    known = "\t" if path.suffix.lower() == ".tsv" else None
    if sep := re.fullmatch(r'"?sep=(.)"?', written[places[0]].strip()):  # Excel's own
        known = sep[1]
        del places[0]
    separator, n_above = _separator([written[k] for k in places], known)
    if n_above:
        notes.append(f"{path.name}: lines above its header are left out, {n_above} of them")
    rows = [_fields(written[k], separator) for k in places[n_above:]]
    begins = places[n_above] if rows else len(written)
    commented = next((o for o in reversed(written[:begins]) if o.startswith(COMMENT)), "")
    header, first = _fields(commented.lstrip("#% "), separator), rows[0] if rows else []
    if len(header) == len(first) > 1 and all(map(is_number, first)):
        return _Layout(separator, begins, header, rows, in_comment=True)
    if len(rows) > 1 and any(map(is_number, first)):
        raise ValueError(
            f"its first row is {first[:4]}: expected a header with names, and nothing above it"
        )
    return _Layout(separator, begins, first, rows[1:], in_comment=False)


def _without_comments(content: str, begins: int) -> str:
    """Blank lines instead, so that the number of a line that is wrong is that in the file."""
    if not (begins or content.startswith(COMMENT) or "\n#" in content or "\n%" in content):
        return content
    lines = enumerate(content.splitlines(keepends=True))
    return "".join("\n" if k < begins or line.startswith(COMMENT) else line for k, line in lines)


def _parsed(content: str, layout: _Layout, options: dict[str, Any]) -> pd.DataFrame:
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        try:
            table = pd.read_csv(
                io.StringIO(content),
                sep=r"\s+" if layout.separator == " " else layout.separator,
                skipinitialspace=True,
                header=None if layout.in_comment else 0,
                low_memory=False,
                **options,
            )
        except (pd.errors.ParserWarning, ParserError) as error:
            wrong = str(error).rpartition("C error: ")[2].strip()
            raise ValueError(f"{wrong} (its header is taken to be {layout.header[:4]})") from None
    return table.set_axis(layout.header, axis=1) if layout.in_comment else table


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
            short = len(row) < usual and not any(map(is_number, below))
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
