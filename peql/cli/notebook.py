"""A notebook with parameters: reading it, running it once, and reading what it recorded."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import results
from .._suggest import unknown_name
from ..running import check_source, require
from . import kernel

OWN_COLUMNS = ("status", "seconds", "failure", "notebook", "hash")
PYTHON = {"display_name": "Python 3", "language": "python", "name": "python3"}
KEY = "peql_record"  # where peql.chapters.record leaves what a run found
MOST_VALUES = 100_000  # that a range may stand for


@dataclass(frozen=True)
class Notebook:
    """A notebook's text, and the defaults in its cell tagged ``parameters``."""

    name: str
    folder: str
    text: str
    defaults: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Notebook:
        """The notebook at ``path``; an error that says so if it has no parameters."""
        try:
            content = path.read_text(encoding="utf-8")
            cells = json.loads(content)["cells"]
        except FileNotFoundError:
            raise FileNotFoundError(f"no notebook at {path}") from None
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(f"{path} is not a notebook: expected JSON with cells") from None
        tagged = [c for c in cells if "parameters" in c.get("metadata", {}).get("tags", [])]
        if len(tagged) != 1:
            raise ValueError(
                f"{path} has {len(tagged)} cells tagged 'parameters', expected one: "
                "the cell that gives each parameter its default"
            )
        return cls(path.name, str(path.resolve().parent), content, parameters_of(path))

    def fingerprint(self) -> str:
        """A hash of the code cells; prose and stored outputs do not count."""
        cells = json.loads(self.text)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:12]

    def values(self, given: list[list[str]]) -> dict[str, list[Any]]:
        """The values of each parameter, from lists of a name and its values as text."""
        swept: dict[str, list[Any]] = {}
        for name, *texts in given:
            if name not in self.defaults:
                raise unknown_name(f"parameter of {self.name}", name, self.defaults)
            if name in swept:
                raise ValueError(f"parameter {name!r} is given twice: name all its values at once")
            if name in OWN_COLUMNS:
                raise ValueError(f"parameter {name!r} has the name of a column of the results")
            if not texts:
                raise ValueError(f"parameter {name!r} has no value: -p {name} VALUE ...")
            swept[name] = [value for text in texts for value in self._parse(name, text)]
            repeated = {str(v) for v in swept[name] if swept[name].count(v) > 1}
            if repeated:
                raise ValueError(f"parameter {name!r} has {', '.join(sorted(repeated))} twice")
        return swept

    def _parse(self, name: str, text: str) -> list[Any]:
        default = self.defaults[name]
        try:
            if isinstance(default, list):
                _elements(default, text)  # checked now, made when it runs
                return [text]
            if isinstance(default, int) and not isinstance(default, bool) and ":" in text:
                values = range(*(_typed(default, part) for part in text.split(":")))
                if not values:
                    raise ValueError(f"{text} holds no number")
                if values[:MOST_VALUES] != values:
                    raise ValueError(f"expected at most {MOST_VALUES:,} values")
                return list(values)
            if is_path(default):
                return [find(text, self.folder)]
            return [_typed(default, text)]
        except (ValueError, TypeError, FileNotFoundError) as error:
            raise ValueError(f"parameter {name!r}, value {text!r}: {error}") from None

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values as the notebook takes them: a list where its default is one."""
        return {
            name: _elements(self.defaults[name], str(value))
            if isinstance(self.defaults[name], list)
            else value
            for name, value in values.items()
        }


# --- parameters ------------------------------------------------------------------------------


def parameters_of(path: Path) -> dict[str, Any]:
    """The names that a notebook's parameters cell assigns, with their defaults."""
    papermill = require("papermill", extra="book")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["metadata"]["kernelspec"] = PYTHON  # papermill wants it named, and runs it so
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(json.dumps(content), encoding="utf-8")
        told_of = papermill.inspect_notebook(str(copy))
    defaults = {}
    for name, told in told_of.items():
        try:
            defaults[name] = ast.literal_eval(told["default"])
        except (ValueError, SyntaxError):
            raise ValueError(
                f"parameter {name!r} has the default {told['default']}: expected a number, a "
                "text or a list of them; what is computed belongs in the next cell"
            ) from None
    return defaults


def is_path(default: Any) -> bool:
    """Whether a parameter with this default takes the path of a file.

    >>> is_path("data/drag.csv"), is_path("SEQL"), is_path("0.5")
    (True, False, False)
    """
    return isinstance(default, str) and bool(re.search(r"/|\\|\.[A-Za-z]\w*$", default))


def find(path: str, beside: str | None = None) -> str:
    """A file named from where one is, or else from the notebook's folder ``beside``; absolute.

    ``peql sweep`` looks so where it is called, and a chapter, whose kernel papermill starts where
    it is called: so a path means the same to both. The repository's chapters are the default.
    """
    folder = Path(beside or results.PACKAGE.parent / "notebooks")
    for start in (Path.cwd(), folder):
        if (start / path).exists():
            return str((start / path).resolve())
    raise FileNotFoundError(f"{path}: there is no such file in {Path.cwd()}, nor in {folder}")


def _typed(default: Any, text: str) -> Any:
    """The text as a value of the default's type.

    >>> _typed(0.5, "1e-3"), _typed(False, "true"), _typed("f1", "f2"), _typed(None, "3")
    (0.001, True, 'f2', 3)
    """
    match default:
        case bool():
            if text.lower() not in ("true", "false"):
                raise ValueError("expected true or false")
            return text.lower() == "true"
        case int() | float():
            kind = type(default)
            try:
                return kind(text)
            except ValueError:
                expected = "a whole number" if kind is int else "a number"
                raise ValueError(f"expected {expected}") from None
        case str():
            return text
        case None:
            try:
                return ast.literal_eval(text)
            except (ValueError, SyntaxError):
                return text
    raise ValueError(f"a {type(default).__name__} as {default!r} cannot be given as text")


def _elements(default: list[Any], text: str) -> list[Any]:
    """The list that a text such as ``f1,f2`` stands for, its type that of the default's first."""
    return [_typed(default[0] if default else None, part) for part in text.split(",")]


# --- one run, in whatever process ------------------------------------------------------------


def execute(
    notebook: Notebook, package: str, timeout: float | None, *, hash: str, **values: Any
) -> dict[str, Any]:
    """Execute the notebook with these parameters: how it ended, its records, and its text.

    ``package`` is the fingerprint that the code must have where this runs; ``timeout`` the seconds
    that the run may take in all.
    """
    papermill = require("papermill", extra="book")
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    check_source(results.package_hash(), package)
    kernel.prepare()
    started = time.perf_counter()

    def left(cell: Any) -> int | None:
        """Whole seconds for a cell: what the run has not used yet; None is no limit."""
        return None if timeout is None else max(1, round(started + timeout - time.perf_counter()))

    failure = ""
    with tempfile.TemporaryDirectory() as temporary:
        source, executed = Path(temporary) / "source.ipynb", Path(temporary) / "executed.ipynb"
        source.write_text(notebook.text, encoding="utf-8")
        try:
            papermill.execute_notebook(
                source,
                executed,
                notebook.arguments(values),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=notebook.folder if Path(notebook.folder).is_dir() else temporary,
                timeout_func=left,
            )
        except papermill.PapermillExecutionError as error:
            first = next(iter(str(error.evalue).splitlines()), "")
            failure = f"{error.ename}: {first}"
        except CellTimeoutError:
            failure = f"TimeoutError: it took more than {timeout:g} s"
        except DeadKernelError:
            failure = "DeadKernelError: the kernel died (out of memory, or killed)"
        text = executed.read_text(encoding="utf-8") if executed.exists() else ""
    return {
        "status": "failed" if failure else "done",
        "seconds": round(time.perf_counter() - started, 2),
        "failure": failure,
        "notebook": file_name(values, hash),
        "found": recorded(json.loads(text)) if text else [],
        "executed": text,
    }


def recorded(notebook: dict[str, Any]) -> list[dict[str, dict[str, Any]]]:
    """What an executed notebook recorded: a ``case`` and what was ``found``, in order.

    These are the calls of ``peql.chapters.record``. What a notebook glues does not count: it is
    for the prose, and may be from a stored table.
    """
    outputs = [out for cell in notebook["cells"] for out in cell.get("outputs", [])]
    return [out["metadata"][KEY] for out in outputs if KEY in out.get("metadata", {})]


def file_name(values: dict[str, Any], hash: str) -> str:
    """A readable name for the executed notebook, unique by its hash.

    >>> file_name({"models": "SEQL", "seed": 3}, "0123456789ab")
    'models-SEQL_seed-3_0123456789ab.ipynb'
    """
    told = "_".join(f"{name}-{value}" for name, value in values.items())
    told = re.sub(r"[^\w.,+-]+", "-", told, flags=re.ASCII)[:80]
    return f"{told}_{hash}.ipynb" if told else f"{hash}.ipynb"
