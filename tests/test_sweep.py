"""``peql sweep``: names checked first, every run a row and a notebook, nothing half-written."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from peql import results
from peql.cli import main
from peql.sweep import Notebook, recorded

ROOT = Path(__file__).resolve().parents[1]
PARAMETERS = """
seed = 0  # which run
models = ["SEQL", "HEQL"]  # what to fit
scale = 1.5  # of the value
exact = False
"""
WORK = """
import os, sys, time
from pathlib import Path
from IPython.display import display

def glue(name, value):
    prefix = "application/papermill.record/"
    metadata = {"scrapbook": {"name": name, "mime_prefix": prefix}}
    display({prefix + "text/plain": repr(value)}, raw=True, metadata=metadata)

with open("log.txt", "a") as log:
    log.write(f"{models} {seed}\\n")
if seed == 2 and not Path("mended").exists():
    raise ValueError("seed 2 is broken\\nand that is all")
time.sleep(0.1)
glue("value", scale * seed)
glue("fitted", " and ".join(models))
glue("exact", exact)
glue("python", sys.executable)
glue("threads", os.environ["OMP_NUM_THREADS"])
glue("process", os.getppid())
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook that leaves a line in log.txt beside it each time it runs."""
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(WORK)]
    path = tmp_path / "tiny.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def runs(notebook: Path) -> list[str]:
    log = notebook.with_name("log.txt")
    return log.read_text().splitlines() if log.exists() else []


def run(notebook: Path, *options: str) -> tuple[int, pd.DataFrame]:
    out = notebook.with_name("out")
    code = main(["sweep", str(notebook), "--out", str(out), *options])
    assert code in (0, 1)
    return code, pd.read_csv(out / "results.csv")


def test_every_combination_is_a_row_and_a_notebook(notebook):
    code, table = run(notebook, "-p", "models", "SEQL", "HEQL", "-p", "seed", "0:2")
    assert code == 0
    assert list(zip(table["models"], table["seed"], strict=True)) == [
        ("SEQL", 0),
        ("SEQL", 1),
        ("HEQL", 0),
        ("HEQL", 1),
    ]
    assert table["status"].tolist() == ["done"] * 4
    assert table["value"].tolist() == [0, 1.5] * 2
    assert table["fitted"].tolist() == ["SEQL", "SEQL", "HEQL", "HEQL"]  # lists of one
    assert set(table["python"]) == {sys.executable}
    assert set(table["threads"]) == {1}
    for row in table.itertuples():
        executed = nbformat.read(notebook.with_name("out") / row.notebook, as_version=4)
        assert recorded(executed)["value"] == row.value


def test_a_failed_run_is_told_and_stops_no_other_and_is_tried_again(notebook, capfd):
    code, table = run(notebook, "-p", "seed", "1:4")
    assert code == 1
    assert table["status"].tolist() == ["done", "failed", "done"]
    assert table["failure"].dropna().tolist() == ["ValueError: seed 2 is broken"]
    told = capfd.readouterr()
    assert "ValueError: seed 2 is broken" in told.out + told.err
    assert "2 done, 0 found from before, 1 failed" in told.out
    failed = notebook.with_name("out") / table["notebook"][1]
    assert "seed 2 is broken" in failed.read_text()

    notebook.with_name("mended").touch()
    code, table = run(notebook, "-p", "seed", "1:4")
    assert code == 0
    assert table["status"].tolist() == ["done"] * 3
    assert [line.split()[-1] for line in runs(notebook)] == ["1", "2", "3", "2"]


def test_runs_are_found_again_unless_notebook_package_or_parameters_changed(notebook, monkeypatch):
    run(notebook, "-p", "seed", "0")
    run(notebook, "-p", "seed", "0")
    assert len(runs(notebook)) == 1
    run(notebook, "-p", "seed", "0", "-p", "scale", "2")
    assert len(runs(notebook)) == 2

    changed = nbformat.read(notebook, as_version=4)
    changed.cells.append(new_markdown_cell("Prose does not count."))
    nbformat.write(changed, notebook)
    run(notebook, "-p", "seed", "0")
    assert len(runs(notebook)) == 2
    changed.cells.append(new_code_cell("1 + 1"))
    nbformat.write(changed, notebook)
    _, table = run(notebook, "-p", "seed", "0")
    assert len(runs(notebook)) == 3
    assert table["notebook_hash"].nunique() == 1  # a table never mixes two codes

    monkeypatch.setattr(results, "package_hash", lambda: "another")
    run(notebook, "-p", "seed", "0")
    assert len(runs(notebook)) == 4


def test_the_package_hash_sees_every_file(tmp_path, monkeypatch):
    before = results.package_hash()
    for source in results.PACKAGE.rglob("*"):
        if source.is_file() and "__pycache__" not in source.parts:
            copy = tmp_path / source.relative_to(results.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    assert results.package_hash() == before
    plots = tmp_path / "plots.py"
    plots.write_text(plots.read_text() + "\nCHANGED = True\n")
    assert results.package_hash() != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-p", "modles", "SEQL"], "unknown parameter .*'modles': did you mean 'models'"),
        (["-p", "seed", "one"], "'seed', value 'one'"),
        (["-p", "seed", "3:3"], "3:3 holds no number"),
        (["-p", "seed", "0", "0"], "'seed' has 0 twice"),
        (["-p", "seed", "0", "-p", "seed", "1"], "'seed' is given twice"),
        (["-p", "seed"], "'seed' has no value"),
        (["-p", "exact", "maybe"], "expected true or false"),
        (["--jobs", "0"], "--jobs 0"),
    ],
)
def test_bad_parameters_are_refused_before_anything_starts(notebook, capsys, options, message):
    out = notebook.with_name("out")
    assert main(["sweep", str(notebook), "--out", str(out), *options]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not out.exists()
    assert runs(notebook) == []


def test_what_is_no_notebook_with_parameters_is_refused(tmp_path, capsys):
    assert main(["sweep", str(tmp_path / "absent.ipynb")]) == 2
    assert "no notebook at" in capsys.readouterr().err
    (tmp_path / "text.ipynb").write_text("not JSON")
    assert main(["sweep", str(tmp_path / "text.ipynb")]) == 2
    assert "is not a notebook" in capsys.readouterr().err
    nbformat.write(new_notebook(cells=[new_code_cell("a = 1")]), tmp_path / "plain.ipynb")
    assert main(["sweep", str(tmp_path / "plain.ipynb")]) == 2
    assert "0 cells tagged 'parameters'" in capsys.readouterr().err


def test_values_take_the_type_of_the_default(notebook):
    read = Notebook.read(notebook)
    given = [["seed", "0:6:2", "9"], ["models", "A,B", "C"], ["scale", "1"], ["exact", "True"]]
    swept = read.values(given)
    assert swept["seed"] == [0, 2, 4, 9]
    assert swept["scale"] == [1.0]
    assert swept["exact"] == [True]
    assert [read.arguments({"models": v}) for v in swept["models"]] == [
        {"models": ["A", "B"]},
        {"models": ["C"]},
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
def test_every_chapter_can_be_swept(path):
    defaults = Notebook.read(path).defaults
    assert "seed" in defaults


def test_records_of_a_chapter_are_read_as_glue_stores_them():
    chapter = json.loads((ROOT / "notebooks" / "02_analytic.ipynb").read_text())
    records = recorded(chapter)
    assert records["SEQL_right"].endswith(" of 200")
    assert isinstance(records["steps"], int)


def test_kill_9_loses_only_the_runs_under_way(notebook):
    """The table is whole at the moment of the kill, and the next start runs what is missing."""
    path = notebook.with_name("out") / "results.csv"
    arguments = ["sweep", notebook, "--out", path.parent, "-p", "seed", "3:9", "--jobs", "2"]
    sweep = subprocess.Popen([sys.executable, "-m", "peql", *map(str, arguments)])
    deadline = time.monotonic() + 240
    while not path.exists() and time.monotonic() < deadline and sweep.poll() is None:
        time.sleep(0.01)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    kept = pd.read_csv(path)
    assert 1 <= len(kept) < 6
    assert (kept["value"] == 1.5 * kept["seed"]).all()
    assert set(kept["status"]) == {"done"}
    at_kill = path.read_text().splitlines()

    code, table = run(notebook, "-p", "seed", "3:9")
    assert code == 0
    assert table["seed"].tolist() == [3, 4, 5, 6, 7, 8]
    assert (table["value"] == 1.5 * table["seed"]).all()
    assert set(at_kill) <= set(path.read_text().splitlines())  # kept as they were written
    # Only the two under way at the kill, and what their orphans had begun, may have run twice.
    finished = [line for line in runs(notebook) if int(line.split()[-1]) in set(kept["seed"])]
    assert len(finished) == len(kept)


def test_dask_workers_in_other_processes_run_the_same(notebook, capsys):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        code, table = run(notebook, "-p", "seed", "0:4", "--dask", cluster.scheduler_address)
        workers = {worker.pid for worker in cluster.workers.values()}
        assert len(workers) == 2
        again, _ = run(notebook, "-p", "seed", "0:4", "--dask", cluster.scheduler_address)
    assert (code, again) == (1, 1)  # seed 2 fails there too, and stops no other
    assert table["status"].tolist() == ["done", "done", "failed", "done"]
    assert table["value"].dropna().tolist() == [0, 1.5, 4.5]
    assert "0 done, 3 found from before, 1 failed" in capsys.readouterr().out
    # The kernels' parents were the two workers, not this process.
    assert os.getpid() not in set(table["process"].dropna())
    assert table["process"].dropna().nunique() == 2


def test_a_scheduler_that_does_not_answer_is_named(notebook, capsys, monkeypatch):
    distributed = pytest.importorskip("distributed")

    def no_answer(*args, **kwargs):
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", no_answer)
    assert main(["sweep", str(notebook), "--dask", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in capsys.readouterr().err
