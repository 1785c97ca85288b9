"""``peql sweep``: names checked first, every run a row and a notebook, nothing half-written."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from peql import results
from peql.cli import main
from peql.cli.notebook import Notebook, find, recorded
from peql.cli.sweep import read_results

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

def record(**found):  # as peql.chapters does, which takes seconds to load
    metadata = {"peql_record": {"case": {}, "found": found}}
    display({"application/papermill.record/text/plain": ""}, raw=True, metadata=metadata)

with open("log.txt", "a") as log:
    log.write(f"{models} {seed}\\n")
if seed == 2 and not Path("mended").exists():
    raise ValueError("seed 2 is broken\\nand that is all")
time.sleep(0.1)
record(
    value=scale * seed, fitted=" and ".join(models), exact=exact, python=sys.executable,
    threads=os.environ["OMP_NUM_THREADS"], process=os.getppid(),
)
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
        [record] = recorded(executed)
        assert record["found"]["value"] == row.value


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
        (["-p", "seed", "one"], "'seed', value 'one': expected a whole number"),
        (["-p", "seed", "0:9000000000"], "expected at most 100,000 values"),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no notebook at"),
        ("not JSON", "is not a notebook"),
        (nbformat.writes(new_notebook(cells=[new_code_cell("a = 1")])), "0 cells tagged"),
    ],
)
def test_what_is_no_notebook_with_parameters_is_refused(tmp_path, capsys, content, message):
    path = tmp_path / "n.ipynb"
    if content:
        path.write_text(content)
    assert main(["sweep", str(path)]) == 2
    assert message in capsys.readouterr().err


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


@pytest.mark.parametrize("content", ['{"task": {"ha', "{}", "[1]"])
def test_a_damaged_run_is_named_and_made_anew_once_removed(notebook, capsys, content):
    run(notebook, "-p", "seed", "3")
    [path] = (notebook.with_name("out") / "runs").glob("*.json")
    path.write_text(content)
    assert main(["sweep", str(notebook), "--out", str(path.parents[1]), "-p", "seed", "3"]) == 2
    assert f"{path} is damaged: remove it" in capsys.readouterr().err
    path.unlink()
    code, table = run(notebook, "-p", "seed", "3")
    assert (code, table["value"].tolist()) == (0, [4.5])


# --- what a run recorded ---------------------------------------------------------------------

RECORDS = """
from peql.chapters import record
from myst_nb import glue

glue("HEQL_right", "199 of 200", display=False)  # of a stored table
for model in models:
    record({"model": model}, equation=f"-{seed}*x", true_terms=seed > 0, mse=float(seed), seed=seed)
"""


@pytest.fixture
def recording(notebook: Path) -> Path:
    cells = [
        new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        new_code_cell(RECORDS),
        new_code_cell("if seed == 2: raise ValueError('after one record')"),
    ]
    nbformat.write(new_notebook(cells=cells), notebook)
    return notebook


def test_rows_hold_what_the_run_found_not_what_a_table_says(recording, capsys):
    code, _ = run(recording, "-p", "seed", "0:3")
    path = recording.with_name("out") / "results.csv"
    table = read_results(path)
    assert code == 1
    assert table["seed"].tolist() == [0, 0, 1, 1, 2, 2]
    assert table["model"].tolist() == ["SEQL", "HEQL"] * 3
    assert table["equation"].tolist() == [f"-{s}*x" for s in table["seed"]]
    assert "'-1*x" in path.read_text()  # no formula of a spreadsheet
    assert "HEQL_right" not in table
    assert (table["recorded_seed"] == table["seed"]).all()
    capsys.readouterr()
    assert main(["table", str(path)]) == 0
    summary = capsys.readouterr().out
    assert "2 of 3" in summary and "worst mse" in summary and "-0*x (1 of 3)" in summary


def test_records_do_not_make_a_chapter_differ(recording):
    """nbval compares data, not metadata; the book shows neither."""
    run(recording, "-p", "seed", "1")
    [path] = recording.with_name("out").glob("seed-1*.ipynb")
    outputs = [out for cell in nbformat.read(path, as_version=4).cells for out in cell.outputs]
    records = [out for out in outputs if "peql_record" in out.metadata]
    assert [out.data for out in records] == [{"application/papermill.record/text/plain": ""}] * 2
    assert len({out.metadata["scrapbook"]["name"] for out in records}) == 2


# --- paths -----------------------------------------------------------------------------------


def test_a_path_means_the_file_where_one_is(tmp_path, monkeypatch, capsys):
    cells = [
        new_code_cell('data = "data/a.csv"', metadata={"tags": ["parameters"]}),
        new_code_cell("from peql.chapters import record\nrecord(read=open(data).read())"),
    ]
    folder, here = tmp_path / "notebooks", tmp_path / "here"
    (folder / "data").mkdir(parents=True)
    here.mkdir()
    nbformat.write(new_notebook(cells=cells), folder / "n.ipynb")
    (folder / "data" / "a.csv").write_text("beside")
    (here / "mine.csv").write_text("mine")
    monkeypatch.chdir(here)
    arguments = ["sweep", "../notebooks/n.ipynb", "--out", "out"]
    assert main([*arguments, "-p", "data", "mine.csv", "data/a.csv"]) == 0
    table = read_results(here / "out" / "results.csv")
    assert table["read"].tolist() == ["mine", "beside"]
    assert find("mine.csv") == str(here / "mine.csv")  # what a chapter does under papermill
    (here / "mine.csv").write_text("changed")
    assert main([*arguments, "-p", "data", "mine.csv"]) == 0
    assert "changed" in set(read_results(here / "out" / "results.csv")["read"])
    assert main([*arguments, "-p", "data", "none.csv"]) == 2
    assert "there is no such file" in capsys.readouterr().err


# --- two at once, one that hangs, and one that is killed -------------------------------------


def start(*arguments) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "peql", "sweep", *map(str, arguments)])


def test_two_sweeps_into_one_folder_lose_no_row(notebook):
    out = notebook.with_name("out")
    two = [start(notebook, "--out", out, "-p", "seed", seeds) for seeds in ("3:7", "7:11")]
    assert [sweep.wait(timeout=240) for sweep in two] == [0, 0]
    table = pd.read_csv(out / "results.csv")
    assert sorted(table["seed"]) == list(range(3, 11))
    assert (table["value"] == 1.5 * table["seed"]).all()


HANGS = """
import os, time
from pathlib import Path
Path(f"kernel-{seed}").write_text(str(os.getpid()))
time.sleep(1000 if seed == 1 else 0)
"""


@pytest.fixture
def hanging(notebook: Path) -> Path:
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(HANGS)]
    nbformat.write(new_notebook(cells=cells), notebook)
    return notebook


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(process: int, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not is_alive(process)


def test_a_run_that_hangs_is_ended_and_stops_no_other(hanging):
    code, table = run(hanging, "-p", "seed", "0:3", "--timeout", "8")
    assert code == 1
    assert table["status"].tolist() == ["done", "failed", "done"]
    assert table["failure"].dropna().tolist() == ["TimeoutError: it took more than 8 s"]
    assert gone(int(hanging.with_name("kernel-1").read_text()))


@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_and_kernels_end_with_a_killed_sweep(hanging, jobs):
    sweep = start(
        hanging, "--out", hanging.with_name("out"), "-p", "seed", "1", "2", "--jobs", jobs
    )
    written = hanging.with_name("kernel-1")
    deadline = time.monotonic() + 240
    while not (written.exists() and written.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    kernel = int(written.read_text())
    parent = int(Path(f"/proc/{kernel}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert is_alive(kernel)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    assert gone(parent)
    assert gone(kernel)


def test_a_lost_scheduler_is_told_with_the_line_to_go_on(hanging, capsys):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    )
    written = hanging.with_name("kernel-1")

    def lose() -> None:
        while not written.exists():
            time.sleep(0.1)
        cluster.close()

    thread = threading.Thread(target=lose)
    thread.start()
    out = str(hanging.with_name("out"))
    arguments = ["sweep", str(hanging), "--out", out, "-p", "seed", "0", "1"]
    try:
        code = main([*arguments, "--dask", cluster.scheduler_address])
    finally:
        thread.join()
        cluster.close()
    error = capsys.readouterr().err
    assert code == 2
    assert "the Dask scheduler was lost" in error
    assert f"to go on: peql {' '.join(arguments)} --dask" in error
    assert "Traceback" not in error
    assert gone(int(written.read_text()))
