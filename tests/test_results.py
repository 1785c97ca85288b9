"""Sweeps: resumable, never half-written, redone when the code changes."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import peql
from peql import making, results

ROOT = Path(__file__).resolve().parents[1]
TASKS = [{"name": name, "seed": seed} for name in "ab" for seed in range(3)]
MADE_BY = {"engine": "0123456789ab", "numpy_version": "1"}


def sweep(path, run, tasks, **options):
    made = results.Sweep(path, run, tasks, **{"made_by": MADE_BY, **options})
    results.run_all({"table": made})
    return made.table()


def test_rows_hold_task_result_and_origin(tmp_path):
    path = tmp_path / "table.csv"
    table = sweep(path, lambda name, seed: {"value": seed / 3}, TASKS)
    assert table["value"].tolist() == [0, 1 / 3, 2 / 3] * 2
    assert set(table["engine"]) == {MADE_BY["engine"]}
    pd.testing.assert_frame_equal(pd.read_csv(path), table, check_dtype=False)


def test_rows_are_made_once_by_each_engine_and_again_if_they_failed(tmp_path):
    path, done, broken = tmp_path / "table.csv", [], {1}

    def run(name, seed):
        done.append((name, seed))
        if seed in broken:
            raise ValueError("no luck")
        return {"value": seed}

    def made(tasks, **options):
        """The tasks that were run, and the table."""
        done.clear()
        table = sweep(path, run, tasks, **options)
        return [dict(zip(("name", "seed"), each, strict=True)) for each in done], table

    ran, table = made(TASKS[:4])
    assert ran == TASKS[:4]
    assert table["failure"].dropna().tolist() == ["ValueError: no luck"]
    broken.clear()
    ran, table = made(TASKS)
    assert ran == [TASKS[1], *TASKS[4:]]
    assert table[["name", "seed"]].to_dict("records") == TASKS
    assert made(TASKS, made_by={**MADE_BY, "engine": "other"})[0] == TASKS
    # But rows by other versions of what the engine runs on stay.
    assert made(TASKS, made_by={"engine": "other", "numpy_version": "2"})[0] == []


def test_a_batch_makes_the_rows_of_its_seeds_at_once(tmp_path, monkeypatch):
    path, done, written = tmp_path / "table.csv", [], []
    tasks = [{"name": name, "seed": seed} for seed in range(5) for name in "ab"]
    whole = making.write_table
    monkeypatch.setattr(
        making, "write_table", lambda table, to: (written.append(len(table)), whole(table, to))
    )

    def run(name, seed):
        done.append((name, *seed))
        if name == "b" and 2 in seed and len(done) < 5:
            raise ValueError("no")
        return {"rows": [{"value": k / 7} for k in seed]}

    table = sweep(path, run, tasks, batch=2, finish=lambda row: {**row, "finished": 1})
    assert done == [("a", 0, 1), ("b", 0, 1), ("a", 2, 3), ("b", 2, 3), ("a", 4), ("b", 4)]
    assert written == [2, 4, 6, 8, 9, 10]
    failed = table[table["failure"].notna()]
    assert failed[["name", "seed"]].to_numpy().tolist() == [["b", 2], ["b", 3]]
    # What failed is run again, and nothing else; rows stand in the order of the tasks.
    table = sweep(path, run, tasks, batch=2, finish=lambda row: {**row, "finished": 1})
    assert done[6:] == [("b", 2, 3)]
    assert table[["name", "seed"]].to_dict("records") == tasks
    assert table["value"].tolist() == [task["seed"] / 7 for task in tasks]


# --- what identifies an engine -----------------------------------------------------------------


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package and the lists of tasks that a test may change."""
    shutil.copytree(results.PACKAGE, tmp_path / "peql", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    monkeypatch.setattr(results, "PACKAGE", tmp_path / "peql")
    return tmp_path / "peql"


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def engines():
    return {name: results.engine(name) for name in results.tables()}


def test_where_a_copy_lies_does_not_count(copied, monkeypatch):
    there = engines()
    monkeypatch.undo()
    assert engines() == there


def test_comments_docstrings_annotations_and_messages_do_not_count(copied):
    before = engines()
    gates = copied / "nn" / "gates.py"
    tree = ast.parse(gates.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.parse("'Another text.'").body[0])
            node.returns = ast.parse("Any").body[0].value
    ast.fix_missing_locations(tree)
    gates.write_text("# a comment\n" + ast.unparse(tree))
    assert engines() == before


def test_what_follows_an_interrupt_does_not_count(copied):
    before = engines()
    kept = 'warnings.warn("interrupted: what the search found is kept", stacklevel=3)'
    edit(copied / "estimators" / "tabular.py", kept, "outcomes = outcomes[:1]")
    assert engines() == before


def test_a_change_of_what_is_computed_counts_for_those_who_use_it(copied):
    before = engines()
    edit(copied / "nn" / "gates.py", "2 / 3", "1 / 3")
    assert all(engines()[name] != before[name] for name in before)
    edit(copied / "nn" / "gates.py", "1 / 3", "2 / 3")
    assert engines() == before
    edit(copied / "datasets" / "spring.py", "def draw_images(", "x = 1\n\n\ndef draw_images(")
    assert engines() == before  # nothing uses it
    edit(copied / "datasets" / "spring.py", "np.exp(", "1.01 * np.exp(")
    changed = {name for name, engine in engines().items() if engine != before[name]}
    assert "spring" in changed and "analytic" not in changed


def test_methods_count_for_those_who_use_them(copied):
    before = engines()
    edit(copied / "estimators" / "checkpoint.py", "np.savez_compressed", "np.savez")
    assert engines() == before  # no table saves a model
    edit(copied / "solution.py", "def predict(self", "def predict(self, *_")
    assert results.engine("analytic") != before["analytic"]


def test_what_is_never_entered_does_not_count_and_may_not_be_entered(copied, monkeypatch):
    before = engines()
    edit(copied / "search" / "search.py", "FINALISTS = 32", "FINALISTS = 33")
    assert results.engine("classbench") != before["classbench"]
    assert results.engine("analytic") == before["analytic"]
    monkeypatch.undo()
    tasks, entered = results.task_module("analytic"), peql.SEQL._searched
    monkeypatch.setattr(tasks, "run", lambda: peql.SEQL(method="search").fit(X, y))
    X, y = np.random.default_rng(0).uniform(size=(24, 2)).round(), np.arange(24.0)
    with pytest.raises(RuntimeError, match="but a run entered it"):
        results.run_task("analytic", results.engine("analytic"))
    assert peql.SEQL._searched is entered


def test_a_list_of_tasks_counts_by_what_it_runs(copied):
    before = results.engine("analytic")
    tasks = copied.parent / "benchmarks" / "tasks" / "analytic.py"
    edit(tasks, "range(40)", "range(50)")
    assert results.engine("analytic") == before
    edit(tasks, "error**2", "error**4")
    assert results.engine("analytic") != before


def test_moving_a_function_to_another_module_does_not_count(copied):
    """And neither does its new name, or the way in which it is imported."""
    before = engines()
    source = copied / "datasets" / "analytic.py"
    tree = ast.parse(source.read_text())
    [moved] = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "paper_grid"]
    tree.body.remove(moved)
    moved.name = "grid_of_t"
    (copied / "grids.py").write_text(
        "from __future__ import annotations\nimport numpy as np\n" + ast.unparse(moved)
    )
    source.write_text(
        ast.unparse(tree)
        .replace("import sympy\n", "import sympy\nfrom .. import grids as elsewhere\n", 1)
        .replace("paper_grid(", "elsewhere.grid_of_t(")
        + "\nfrom ..grids import grid_of_t as paper_grid"
    )
    assert "elsewhere.grid_of_t(" in source.read_text()
    assert engines() == before
    edit(copied / "grids.py", "-3", "-4")
    assert results.engine("analytic") != before["analytic"]


def test_a_data_file_counts_where_its_name_is_used(copied):
    source = copied / "datasets" / "analytic.py"
    edit(
        source, "def make_analytic(", "def _rows():\n    return 'rows.csv'\n\n\ndef make_analytic("
    )
    edit(source, "    grid = paper_grid(n_t)", "    _rows()\n    grid = paper_grid(n_t)")
    (copied / "datasets" / "rows.csv").write_text("x\n1\n")
    before = engines()
    (copied / "datasets" / "rows.csv").write_text("x\n2\n")
    assert results.engine("analytic") != before["analytic"]
    assert results.engine("textbook") == before["textbook"]


# --- what the book and the commands say ---------------------------------------------------------


def table_of(engine, seeds=range(40)):
    rows = [dict.fromkeys(("equation",), "x") | task for task in results.tasks("analytic")]
    frame = pd.DataFrame([row for row in rows if row["seed"] in seeds])
    return frame.assign(n_trials=1, made_on="2026-01-02", engine=engine)


def test_a_caption_says_when_another_engine_made_the_table():
    present = results.engine("analytic")
    told = results.caption("analytic", table_of(present))
    assert told.startswith(f"Made by engine `{present}`: seeds 0–39, one trial each, on 2026-01-02")
    assert "not the present engine" not in told
    assert "(../results/analytic.csv)" in told
    stale = results.caption("analytic", table_of("0" * 12))
    assert f"**This is not the present engine** (`{present}`)" in stale


def test_problems_name_what_is_stale_and_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "folder", lambda: tmp_path)
    path, present = tmp_path / "analytic.csv", results.engine("analytic")
    assert results.problems("analytic") == ["there is no table"]
    table_of(present).to_csv(path, index=False)
    assert results.problems("analytic") == []
    table_of("0" * 12, range(39)).to_csv(path, index=False)
    stale, missing = results.problems("analytic")
    assert stale == "390 of 390 rows by engine 000000000000"
    assert missing == "10 of 400 rows are missing"
    (tmp_path / "alone.csv").write_text("a\n1\n")
    assert results.problems("alone") == ["no list of tasks makes it"]


@pytest.mark.parametrize("name", results.tables())
def test_every_list_has_tasks_that_run_takes_and_reported_seeds(name):
    tasks = results.tasks(name)
    signature = inspect.signature(results.task_module(name).run)
    assert tasks and all(signature.bind(**task) for task in tasks)
    assert {task.get("seed", 0) for task in tasks} <= set(range(40))  # from 300 on is for tuning
    keys = [tuple(task.items()) for task in tasks]
    assert len(set(keys)) == len(keys)


# --- the runner ------------------------------------------------------------------------------

TINY = """
import time

SECONDS = 600
N_TRIALS = 3

def TASKS():
    for seed in range(6):
        yield {"model": "a", "seed": seed}

def run(model, seed):
    time.sleep(0.3)
    return {"true_terms": True, "value": seed / 7}
"""


def runner(copied, *arguments, **options):
    command = [sys.executable, str(copied.parent / "benchmarks" / "run.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(copied.parent), "TQDM_DISABLE": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def said(process, code=0):
    told, _ = process.communicate(timeout=120)
    assert process.returncode == code, told
    return told


def test_the_runner_announces_makes_resumes_and_checks(copied):
    tasks, stored = copied.parent / "benchmarks" / "tasks", copied.parent / "results"
    for path in tasks.glob("*.py"):
        path.unlink()
    for name in ("tiny", "other"):
        (tasks / f"{name}.py").write_text(TINY)
    stored.mkdir()
    assert "there is no table" in said(runner(copied, "--check"), 1)
    told = said(runner(copied, "tiny", "--jobs", "1", "--plan"))
    assert "6 of    6 rows to make, 60 min" in told
    assert not any(stored.iterdir())
    # Killed after some rows, it goes on with the others.
    process = runner(copied, "--jobs", "1")
    deadline = time.monotonic() + 60
    while len(list(stored.glob("*.csv"))) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    kept = pd.concat(map(pd.read_csv, stored.glob("*.csv")))
    assert len(kept) and (kept["value"] == kept["seed"] / 7).all()
    told = said(runner(copied, "--jobs", "1"))
    assert 12 - sum(int(n) for n in re.findall(r"(\d+) of +6 rows to make", told)) >= 1
    for name in ("tiny", "other"):
        rows = pd.read_csv(stored / f"{name}.csv")
        assert rows["seed"].tolist() == list(range(6))
        assert set(rows["n_trials"]) == {3} and rows["made_on"].notna().all()
        assert (stored / f"{name}.json").is_file()
    assert said(runner(copied, "--check")).count("made by the present engine") == 2
    # What is computed changes: the tables are stale, and say so.
    edit(tasks / "tiny.py", "seed / 7", "seed / 8")
    told = said(runner(copied, "--check"), 1)
    assert "1 of 2 tables are not what the present code makes" in told
    # Other seeds go elsewhere.
    assert "needs --out" in said(runner(copied, "tiny", "--seeds", "300:302"), 2)
    elsewhere = copied.parent / "tuning"
    said(runner(copied, "tiny", "--seeds", "300:302", "--out", str(elsewhere), "--jobs", "1"))
    assert pd.read_csv(elsewhere / "tiny.csv")["seed"].tolist() == [300, 301]


def test_a_missing_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "PACKAGE", tmp_path / "peql")
    with pytest.raises(FileNotFoundError, match="results/"):
        results.folder()


THREADS = """
from pathlib import Path
import peql
from peql import results

def run(seed):
    imported = "torch" in __import__("sys").modules
    import torch
    return {"threads": torch.get_num_threads(), "imported": imported}

tasks = [{"seed": k} for k in range(2)]
sweep = results.Sweep(Path("table.csv"), run, tasks, made_by={"engine": "e"})
results.run_all({"table": sweep}, jobs=2)
"""


def test_runs_have_one_thread_and_do_not_wait_for_torch(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", THREADS], cwd=tmp_path, env=environment, check=True)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["threads"].tolist() == [1, 1]
    assert not table["imported"].any()


def test_a_result_that_would_hide_the_task_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\['seed'\]"):
        sweep(tmp_path / "table.csv", lambda seed: {"seed": 1}, [{"seed": 0}])
