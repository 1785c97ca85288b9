"""``peql sweep``: a notebook executed for every combination of its parameters."""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd

from . import results
from ._suggest import unknown_name

OWN_COLUMNS = ("status", "seconds", "failure", "notebook", "hash")
RECORD = "text/plain"  # how glue stores a number or a string, after the prefix that it names
# The surroundings in which the stored outputs were made: one thread, no progress bars in outputs.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "JUPYTER_PREFER_ENV_PATH": "1"}

EXAMPLES = """\
examples:
  peql sweep notebooks/02_analytic.ipynb -p models SEQL HEQL -p seed 0:40 --jobs 2
      80 runs: each model with each of the seeds 0 to 39
  peql sweep notebooks/02_analytic.ipynb -p functions f1,f2 -p seed 0
      one run: functions = ["f1", "f2"]
  peql sweep notebooks/03_pdes.ipynb -p noise 0 0.01 --dask tcp://node7:8786

values:
  A value takes the type of the parameter's default. Where that is an integer, 0:40 stands for
  0, 1, ..., 39 and 0:40:10 for 0, 10, 20, 30. Where it is a list, each value is a list of its own:
  -p models SEQL HEQL runs once with ["SEQL"] and once with ["HEQL"], and commas make a longer
  list: -p models SEQL,HEQL runs once with both.

The folder gets each executed notebook and results.csv, one row a run: the parameters, how it ended,
the seconds it took and every number or string that the notebook recorded with glue. Killed or
interrupted, the same command goes on where it stopped; runs made by another notebook, package or
parameters are made anew. A notebook runs in its own folder, as in the book.
"""


def add_parser(subparsers: Any) -> None:
    """Register ``peql sweep``."""
    parser = subparsers.add_parser(
        "sweep",
        help="execute a notebook for every combination of parameters",
        description="Execute a notebook for every combination of parameters.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebook", type=Path, help="a notebook with a cell tagged parameters")
    parser.add_argument(
        "-p",
        "--parameter",
        dest="parameters",
        action="append",
        default=[],
        nargs="+",
        metavar=("NAME", "VALUE"),
        help="a parameter and the values to run it with; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes on this machine (default 1)")
    parser.add_argument("--dask", metavar="ADDRESS", help="send the runs to this Dask scheduler")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="default: sweeps/<name of the notebook>"
    )
    parser.set_defaults(run=command)


def command(arguments: argparse.Namespace) -> int:
    """Run ``peql sweep``; 1 if a run failed."""
    notebook = Notebook.read(arguments.notebook)
    swept = notebook.values(arguments.parameters)
    if arguments.jobs < 1:
        raise ValueError(f"--jobs {arguments.jobs}: expected at least 1 process")
    folder = arguments.out or Path("sweeps") / arguments.notebook.stem
    n_runs = prod(len(values) for values in swept.values())
    print(f"{notebook.name}: {n_runs} runs into {folder}", flush=True)
    if arguments.dask:
        with _connect(arguments.dask) as client:
            table, n_found = sweep(notebook, swept, folder, cluster=client)
    else:
        table, n_found = sweep(notebook, swept, folder, jobs=arguments.jobs)
    n_failed = int((table["status"] == "failed").sum())
    print(f"{n_runs - n_found - n_failed} done, {n_found} found from before, {n_failed} failed")
    print(f"table: {folder / 'results.csv'}")
    return 1 if n_failed else 0


def sweep(
    notebook: Notebook,
    swept: dict[str, list[Any]],
    folder: Path,
    *,
    jobs: int = 1,
    cluster: Any = None,
) -> tuple[pd.DataFrame, int]:
    """Execute every combination that ``folder`` has no row of: its rows, and how many it had."""
    _require("papermill", extra="book")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.csv"
    made_by = {
        "notebook_name": notebook.name,
        "notebook_hash": notebook.fingerprint(),
        **results.package_origin(),
    }
    tasks = [
        _task(dict(zip(swept, values, strict=True)), made_by) for values in product(*swept.values())
    ]
    hashes = [task["hash"] for task in tasks]
    before = pd.read_csv(path) if path.exists() else pd.DataFrame({"hash": [], "status": []})
    n_found = int((before["hash"].isin(hashes) & (before["status"] == "done")).sum())
    table = results.run_sweep(
        path,
        partial(execute, notebook, made_by["source_hash"]),
        tasks,
        jobs=jobs,
        made_by=made_by,
        key=["hash"],
        finish=partial(_store, folder),
        cluster=cluster,
    )
    return table[table["hash"].isin(hashes)], n_found


def _task(parameters: dict[str, Any], made_by: dict[str, str]) -> dict[str, Any]:
    """The columns that say what a run is; its hash covers notebook, package and parameters."""
    content = json.dumps([sorted(parameters.items()), sorted(made_by.items())])
    return {**parameters, "hash": hashlib.sha256(content.encode()).hexdigest()[:12]}


def _store(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Write the executed notebook, which the row then only names."""
    executed = result.pop("executed", None)
    if executed is not None:
        results.write_whole(folder / result["notebook"], executed)
    return {"status": "failed" if result.get("failure") else "done", **result}


# --- the notebook ----------------------------------------------------------------------------


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
        defaults = parameters_of("".join(tagged[0]["source"]))
        return cls(path.name, str(path.resolve().parent), content, defaults)

    def fingerprint(self) -> str:
        """A hash of the code cells; prose and stored outputs do not count."""
        cells = json.loads(self.text)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:12]

    def values(self, given: list[list[str]]) -> dict[str, list[Any]]:
        """What to run each parameter with, from lists of a name and its values as text."""
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
                values = list(range(*map(int, text.split(":"))))
                if not values:
                    raise ValueError(f"{text} holds no number")
                return values
            return [_typed(default, text)]
        except (ValueError, TypeError) as error:
            raise ValueError(f"parameter {name!r}, value {text!r}: {error}") from None

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values as the notebook takes them: a list where its default is one."""
        return {
            name: _elements(self.defaults[name], str(value))
            if isinstance(self.defaults[name], list)
            else value
            for name, value in values.items()
        }


def parameters_of(source: str) -> dict[str, Any]:
    """The names that a parameters cell assigns, with their defaults.

    >>> parameters_of('seed = 0  # starts the training\\nmodels = ["SEQL", "HEQL"]')
    {'seed': 0, 'models': ['SEQL', 'HEQL']}
    """
    defaults = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            defaults[name] = ast.literal_eval(value)
        except ValueError:
            raise ValueError(
                f"parameter {name!r} has the default {ast.unparse(value)}: expected a number, a "
                "text or a list of them; what is computed belongs in the next cell"
            ) from None
    return defaults


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
        case int():
            return int(text)
        case float():
            return float(text)
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


def execute(notebook: Notebook, package: str, *, hash: str, **values: Any) -> dict[str, Any]:
    """Execute the notebook with these parameters: how it ended, its records, and its text.

    ``package`` is the fingerprint that the code must have where this runs.
    """
    papermill = _require("papermill", extra="book")
    here = results.package_hash()
    if here != package:
        raise RuntimeError(
            f"this worker's peql ({here}) is not the one the sweep was started with ({package}): "
            "install the same source on both"
        )
    os.environ.update(ENVIRONMENT)
    os.environ.pop("MPLBACKEND", None)  # kernels then choose the inline backend
    started = time.perf_counter()
    result: dict[str, Any] = {"failure": ""}
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
            )
        except papermill.PapermillExecutionError as error:
            first = next(iter(str(error.evalue).splitlines()), "")
            result["failure"] = f"{error.ename}: {first}"
        text = executed.read_text(encoding="utf-8")
    records = recorded(json.loads(text))
    taken = {*OWN_COLUMNS, *values, "notebook_name", "notebook_hash"}
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "notebook": file_name(values, hash),
        **result,
        **{f"glued_{name}" if name in taken else name: value for name, value in records.items()},
        "executed": text,
    }


def recorded(notebook: dict[str, Any]) -> dict[str, Any]:
    """The numbers and strings that an executed notebook recorded with glue, by name."""
    outputs = [out for cell in notebook["cells"] for out in cell.get("outputs", [])]
    records = {}
    for output in outputs:
        glued = output.get("metadata", {}).get("scrapbook")
        if glued is None:
            continue
        stored = output["data"].get(glued.get("mime_prefix", "") + RECORD)
        value = scalar("".join(stored)) if stored is not None else None
        if value is not None:
            records[glued["name"]] = value
    return records


def scalar(shown: str) -> str | int | float | bool | None:
    """The number or string whose repr this is, numpy's too; None if it is neither.

    >>> scalar("'39 of 40'"), scalar("np.float64(0.5)"), scalar("<Figure size 640x480>")
    ('39 of 40', 0.5, None)
    """
    numpy_scalar = re.fullmatch(r"np\.\w+\((.*)\)", shown)
    text = numpy_scalar.group(1) if numpy_scalar else shown
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, str | int | float) else None


def file_name(values: dict[str, Any], hash: str) -> str:
    """A name for the executed notebook that a reader can tell, made unique by the hash.

    >>> file_name({"models": "SEQL", "seed": 3}, "0123456789ab")
    'models-SEQL_seed-3_0123456789ab.ipynb'
    """
    told = "_".join(f"{name}-{value}" for name, value in values.items())
    told = re.sub(r"[^\w.,+-]+", "-", told)[:80]
    return f"{told}_{hash}.ipynb" if told else f"{hash}.ipynb"


def _require(module: str, *, extra: str) -> Any:
    try:
        return __import__(module)
    except ImportError:
        raise ImportError(
            f"this needs {module}, which is not installed: pip install 'peql[{extra}]'"
        ) from None


def _connect(address: str) -> Any:
    """A client of the Dask scheduler at ``address``."""
    distributed = _require("distributed", extra="cluster")
    try:
        return distributed.Client(address, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from None
