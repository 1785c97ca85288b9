"""The command ``peql``: help, exit codes, and the tables it prints and exports."""

import importlib
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

import peql
from peql import cli, results
from peql.cli import table as table_command

ROOT = Path(__file__).resolve().parents[1]


def test_the_installed_command_is_this_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, function = project["scripts"]["peql"].split(":")
    assert getattr(importlib.import_module(module), function) is cli.main


def test_python_m_peql_is_the_command():
    arguments = [sys.executable, "-m", "peql", "--version"]
    shown = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert shown.stdout == f"peql {peql.__version__}\n"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"peql {command} " in capsys.readouterr().out.split("examples:")[1]


def test_no_command_and_a_wrong_one_are_refused(capsys):
    for arguments in ([], ["swep"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 2
    assert "sweep" in capsys.readouterr().err


def test_an_error_is_one_line_unless_the_traceback_is_asked_for(capsys):
    assert cli.main(["table", "analitic"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("peql: unknown table 'analitic': did you mean 'analytic'?")
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match="analitic"):
        cli.main(["--traceback", "table", "analitic"])


def test_an_interrupt_ends_with_130(monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(table_command, "read", interrupted)
    assert cli.main(["table", "analytic"]) == 130


# --- peql table ------------------------------------------------------------------------------


def test_every_stored_table_is_listed_and_can_be_summarised(capsys):
    assert cli.main(["table"]) == 0
    overview = capsys.readouterr().out
    for name in table_command.stored():
        assert name in overview
        assert cli.main(["table", name]) == 0
        assert capsys.readouterr().out.count("\n") > 1


def test_every_stored_table_says_what_makes_it():
    assert set(table_command.stored()) <= {*results.tables(), *results.beside()}
    script = results.maker("analytic").split()[1]
    assert (ROOT / script).is_file(), script


def test_the_summary_of_the_analytic_sweep_counts_every_trial():
    trials = results.load("analytic")
    summary = table_command.stored_summary("analytic", trials)
    assert summary["trials"].sum() == len(trials)
    for row in summary.to_dict("records"):
        mine = trials[(trials["function"] == row["function"]) & (trials["model"] == row["model"])]
        assert row["true_terms"] == f"{mine['true_terms'].sum()} of {len(mine)}"
        assert row["worst test_mse_scaled"] == mine["test_mse_scaled"].max()
        assert row["median test_mse_scaled"] == mine["test_mse_scaled"].median()
        assert row["median cpu_seconds"] == mine["cpu_seconds"].median()


def test_exports_hold_what_is_printed(tmp_path, capsys):
    assert cli.main(["table", "analytic", "--format", "csv"]) == 0
    printed = capsys.readouterr().out
    out = tmp_path / "table.csv"
    assert cli.main(["table", "analytic", "--format", "csv", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text() == printed
    assert len(pd.read_csv(StringIO(printed))) == 10


def test_latex_is_a_tabular_with_every_name_escaped(capsys):
    assert cli.main(["table", "analytic", "--format", "latex"]) == 0
    tabular = capsys.readouterr().out
    assert tabular.startswith(r"\begin{tabular}")
    assert tabular.strip().endswith(r"\end{tabular}")
    assert "_" not in tabular.replace(r"\_", "")


def test_rows_are_the_stored_ones(capsys):
    assert cli.main(["table", "analytic", "--rows", "--format", "csv"]) == 0
    printed = pd.read_csv(StringIO(capsys.readouterr().out))
    pd.testing.assert_frame_equal(printed, results.load("analytic"))


def test_an_absent_table_names_the_command_that_makes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "folder", lambda: tmp_path)
    for name in results.tables():
        assert cli.main(["table", name]) == 2
        assert results.maker(name) in capsys.readouterr().err
    assert cli.main(["table"]) == 0
    assert capsys.readouterr().out.count("absent") == len(results.tables())
    assert cli.main(["table", "nowhere/results.csv"]) == 2
    assert "no table at nowhere/results.csv" in capsys.readouterr().err


def test_a_sweep_with_failures_counts_them():
    table = pd.DataFrame(
        {
            "models": ["SEQL", "HEQL", "SEQL"],
            "seed": [0, 0, 1],
            "hash": list("abc"),
            "status": ["done", "done", "failed"],
            "seconds": [1.0, 2.0, 4.0],
            "failure": [None, None, "ValueError: no"],
            "mse": [1e-3, 1e-4, None],
        }
    )
    summary = table_command.summary(table).set_index("models")
    assert summary.loc["SEQL", ["trials", "failed", "longest seconds"]].tolist() == [2, 1, 4.0]
    assert summary.loc["HEQL", "worst mse"] == 1e-4


def test_what_is_no_sweep_is_refused(tmp_path, capsys):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    assert cli.main(["table", str(path)]) == 2
    assert "the columns a, b are not a sweep's" in capsys.readouterr().err
