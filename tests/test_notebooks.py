"""The chapters: nbval compares real outputs, and what they print does not hang on chance."""

import copy
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from peql.chapters.recording import KEY
from peql.cli.notebook import Notebook

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
IGNORING = re.compile(r"nbval[-_](ignore[-_]output|skip)", re.IGNORECASE)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def ignores_output(cell: nbformat.NotebookNode) -> bool:
    return bool(IGNORING.search(" ".join([cell.source, *cell.metadata.get("tags", [])])))


@each_notebook
def test_a_chapter_records_what_it_fitted(path):
    """A row of ``peql sweep`` has nothing else to say."""
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    found = [o.metadata[KEY]["found"] for o in outputs if KEY in o.get("metadata", {})]
    assert found
    assert all(row["equation"] or row.get("true_terms") is None for row in found)


@each_notebook
def test_notebook_was_stored_after_one_run_from_top_to_bottom(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(out.output_type == "error" for cell in cells for out in cell.outputs)


def texts(value: object, key: str = "") -> Iterator[str]:
    """The strings of an output, without pictures (whose base64 can spell anything)."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from texts(v, k)
    elif isinstance(value, list):
        for v in value:
            yield from texts(v, key)
    elif isinstance(value, str) and "image/" not in key:
        yield value


MACHINE_PATH = re.compile(
    r"(?<![\w./])/(?:work|tmp|root|opt|home|Users|var|usr|private|mnt)/\S*|\b[A-Z]:\\Users\b\S*"
)


def test_machine_paths_are_recognised() -> None:
    folders = [f"/{name}/" for name in ("home", "tmp", "root")]
    assert all(MACHINE_PATH.search(f"saved to '{folder}x.csv'") for folder in folders)
    assert not MACHINE_PATH.search("a/tmp/b https://example.org/home/x results/table.csv 1/2")


@each_notebook
def test_notebook_outputs_name_no_path_of_a_machine(path: Path) -> None:
    stored = (text for cell in code_cells(path) for out in cell.outputs for text in texts(out))
    found = [match.group() for text in stored for match in MACHINE_PATH.finditer(text)]
    assert found == []


# --- nbval -----------------------------------------------------------------------------------


def changed(cell: nbformat.NotebookNode, mime: str) -> nbformat.NotebookNode:
    """The cell with one digit changed in its first stored output of this kind."""
    cell = copy.deepcopy(cell)
    for output in cell.outputs:
        holder, key = (output, "text") if mime == "stream" else (output.get("data", {}), mime)
        digit = re.search(r"\d", holder.get(key, ""))
        if digit:
            other = str((int(digit.group()) + 1) % 10)
            holder[key] = re.sub(r"\d", other, holder[key], count=1)
            return cell
    raise AssertionError(f"no stored output of kind {mime} has a digit")


def test_nbval_fails_when_one_stored_digit_differs(tmp_path):
    """The quick cells of chapter 2, which show the stored sweep: as they are, then changed."""
    cells = code_cells(ROOT / "notebooks" / "02_analytic.ipynb")
    [table] = [c for c in cells if "chapters.statistics(" in c.source]
    [prints] = [c for c in cells if "glue(f" in c.source and "trials.groupby" in c.source]
    falsified = [
        changed(table, "text/html"),
        changed(prints, "stream"),
        changed(prints, "application/papermill.record/text/plain"),
    ]
    shown = [cells[0], table, prints, *falsified]
    for number, cell in enumerate(shown):
        cell.id = f"cell-{number}"
    notebook = nbformat.v4.new_notebook(cells=shown)
    nbformat.write(notebook, tmp_path / "chapter.ipynb")
    # The settings of the bare command are those that the root's conftest.py makes.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["--nbval", "-p", "conftest", "-c", "pytest.ini", "--junit-xml=report.xml"]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "chapter.ipynb"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=ROOT),
        capture_output=True,
        text=True,
    )
    report = ElementTree.parse(tmp_path / "report.xml")
    passed = [case.find("failure") is None for case in report.iter("testcase")]
    assert passed == [True] * 3 + [False] * 3, told.stdout


def environment(*, PYTHONPATH: Path, **others: str) -> dict[str, str]:
    """This process's, with one more folder to import from."""
    paths = [str(PYTHONPATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **others, "PYTHONPATH": os.pathsep.join(paths)}


def test_few_cells_ignore_their_output_and_only_with_a_reason():
    cells = [cell for path in NOTEBOOKS for cell in code_cells(path)]
    ignoring = [cell for cell in cells if ignores_output(cell)]
    assert len(ignoring) <= len(cells) / 20
    for cell in ignoring:
        kinds = {key for out in cell.outputs for key in out.get("data", {"stream": ""})}
        is_figure = any(kind.startswith("image/") for kind in kinds)
        says_why = "second" in cell.source or "depend on the processor" in cell.source
        assert is_figure or says_why, f"compared or not? {cell.source}"


def test_an_ignoring_cell_is_recognised():
    for cell in (
        nbformat.v4.new_code_cell("# NBVAL_IGNORE_OUTPUT\n1"),
        nbformat.v4.new_code_cell("1", metadata={"tags": ["nbval-skip"]}),
    ):
        assert ignores_output(cell)
    assert not ignores_output(nbformat.v4.new_code_cell("1"))


# --- papermill -------------------------------------------------------------------------------


@each_notebook
def test_every_parameter_has_a_default_and_a_comment(path):
    [cell] = [c for c in code_cells(path) if "parameters" in c.metadata.get("tags", [])]
    defaults = Notebook.read(path).defaults
    assert "seed" in defaults
    lines = [line for line in cell.source.splitlines() if line.strip()]
    assert len(defaults) == len(lines), "one line for each parameter"
    assert [line for line in lines if "  # " not in line] == []


# --- threads and seeds -----------------------------------------------------------------------

EQUATIONS = """
import sys
import torch
from small import QUICK
import peql
from peql.equation.writing import text

torch.set_num_threads(int(sys.argv[1]))
assert torch.get_num_threads() == int(sys.argv[1])
for model in (peql.SEQL, peql.HEQL):
    for seed in map(int, sys.argv[2:]):
        data = peql.datasets.load("f1", n_t=8, n_train=64, random_state=seed)
        fitted = model(**QUICK | {"random_state": seed}).fit(data.X_train, data.y_train)
        t = data.coefficients.index[5]
        print(model.__name__, text(fitted.equation_), text(fitted.equation(t=t)))
"""


def equations(threads: int, *seeds: int) -> list[str]:
    settings = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",  # threads that wait leave the cores to the other tests
    }
    shown = subprocess.run(
        [sys.executable, "-c", EQUATIONS, *map(str, (threads, *seeds))],
        env=environment(PYTHONPATH=ROOT / "tests", **settings),
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.splitlines()


def test_the_equations_are_the_same_for_any_threads_and_three_seeds():
    one = equations(1, 0, 1, 2)
    assert equations(2, 0) == one[::3]
    # Three seeds draw other data and start elsewhere; the equation of each model is one.
    assert len(one) == 6
    assert one[::3] == one[1::3] == one[2::3]
