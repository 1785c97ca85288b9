"""Sweeps: resumable, never half-written, redone when the code changes."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from peql import results

TASKS = [{"name": name, "seed": seed} for name in "ab" for seed in range(3)]

SLOW_SWEEP = """
import sys, time
from pathlib import Path
from peql import results

def run(seed):
    time.sleep(0.05)
    return {"value": seed / 7}

results.run_sweep(Path(sys.argv[1]), run, [{"seed": k} for k in range(400)], jobs=1)
"""


def test_rows_hold_task_result_and_origin(tmp_path):
    path = tmp_path / "table.csv"
    table = results.run_sweep(path, lambda name, seed: {"value": seed / 3}, TASKS, jobs=1)
    assert table["value"].tolist() == [0, 1 / 3, 2 / 3] * 2
    assert set(table["source_hash"]) == {results.source_hash()}
    pd.testing.assert_frame_equal(pd.read_csv(path), table, check_dtype=False)


def test_a_second_run_does_only_what_is_missing(tmp_path):
    path, done = tmp_path / "table.csv", []

    def run(name, seed):
        done.append((name, seed))
        return {"value": seed}

    results.run_sweep(path, run, TASKS[:4], jobs=1)
    table = results.run_sweep(path, run, TASKS, jobs=1)
    assert done == [tuple(task.values()) for task in TASKS]
    assert len(table) == len(TASKS)


def test_rows_of_other_code_are_redone(tmp_path, monkeypatch):
    path, done = tmp_path / "table.csv", []

    def run(name, seed):
        done.append(seed)
        return {"value": seed}

    results.run_sweep(path, run, TASKS[:2], jobs=1)
    monkeypatch.setattr(results, "source_hash", lambda *others: "other")
    results.run_sweep(path, run, TASKS[:2], jobs=1)
    assert done == [0, 1, 0, 1]


def test_a_killed_sweep_leaves_whole_rows_and_goes_on(tmp_path):
    path = tmp_path / "table.csv"
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    sweep = subprocess.Popen([sys.executable, "-c", SLOW_SWEEP, str(path)], env=environment)
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    kept = pd.read_csv(path)
    assert 1 <= len(kept) < 400
    assert kept["value"].tolist() == [k / 7 for k in range(len(kept))]
    table = results.run_sweep(
        path, lambda seed: {"value": seed / 7}, [{"seed": k} for k in range(400)], jobs=1
    )
    assert len(table) == 400


def test_the_hash_sees_code_and_not_comments(tmp_path, monkeypatch):
    for name in results.ENGINE:
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text((results.PACKAGE / name).read_text())
    before = results.source_hash()
    monkeypatch.setattr(results, "PACKAGE", tmp_path)
    file = tmp_path / "gates.py"
    file.write_text(file.read_text() + "\n# a comment\n")
    assert results.source_hash() == before
    file.write_text(file.read_text().replace("2 / 3", "1 / 3"))
    assert results.source_hash() != before


def test_a_missing_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "PACKAGE", tmp_path / "peql")
    with pytest.raises(FileNotFoundError, match="results/"):
        results.folder()


def test_the_stored_sweep_counts_every_seed():
    table = results.load("analytic")
    counts = table.groupby(["function", "model"])["seed"].agg(["nunique", "size"])
    assert len(counts) == 10
    assert (counts == 40).all().all()


def test_a_failing_run_is_reported_and_tried_again(tmp_path):
    path, broken = tmp_path / "table.csv", {1}

    def run(seed):
        if seed in broken:
            raise ValueError("no luck")
        return {"value": seed}

    tasks = [{"seed": k} for k in range(3)]
    first = results.run_sweep(path, run, tasks, jobs=1)
    assert first["failure"].dropna().tolist() == ["ValueError: no luck"]
    broken.clear()
    second = results.run_sweep(path, run, tasks, jobs=1)
    assert second["value"].tolist() == [0, 1, 2]


THREADS = """
from pathlib import Path
from peql import results

def run(seed):
    imported = "torch" in __import__("sys").modules
    import torch
    return {"threads": torch.get_num_threads(), "imported": imported}

print(results.run_sweep(Path("table.csv"), run, [{"seed": k} for k in range(2)], jobs=2))
"""


def test_runs_have_one_thread_and_do_not_wait_for_torch(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", THREADS], cwd=tmp_path, env=environment, check=True)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["threads"].tolist() == [1, 1]
    assert not table["imported"].any()


def test_a_result_that_would_hide_the_task_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\['seed'\]"):
        results.run_sweep(tmp_path / "table.csv", lambda seed: {"seed": 1}, [{"seed": 0}], jobs=1)
