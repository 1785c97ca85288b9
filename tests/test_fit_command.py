"""The command line on a reader's own data."""

import argparse
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sympy

import peql
from peql import fit_command
from peql.fit_command import read_table, select

OPTIONS = ["--target", "y", "--varying", "t", "--primitives", "one", "identity", "square"]


def run(*arguments):
    parser = argparse.ArgumentParser()
    fit_command.add_parser(parser.add_subparsers(required=True))
    parsed = parser.parse_args([str(a) for a in arguments])
    return parsed.run(parsed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, and what fit made of it."""
    folder = tmp_path_factory.mktemp("own")
    data = peql.datasets.load("f1", n_t=8, n_train=64)
    table = data.X_train.assign(y=data.y_train, note="text")
    table.to_csv(folder / "data.csv", index=False)
    assert run("fit", folder / "data.csv", *OPTIONS, "--features", "x", "--out", folder / "o") == 0
    return folder


def test_the_folder_holds_everything(folder):
    names = {path.name for path in (folder / "o").iterdir()}
    pictures = {"fits.png", "coefficients.png", "residuals.png", "trade_off.png"}
    texts = {"equation.txt", "equation.tex", "equation.srepr", "coefficients.csv", "report.html"}
    assert names == pictures | texts | {"model.npz"}
    assert [p.name for p in folder.iterdir() if p.name.endswith(".part")] == []


def test_the_equation_can_be_read_back(folder):
    written = sympy.sympify((folder / "o" / "equation.srepr").read_text())
    assert written == peql.load(folder / "o" / "model.npz").equation_
    assert (folder / "o" / "equation.txt").read_text().startswith("y = x**2*a(t) + x*b(t)\n")
    assert "x^{2}" in (folder / "o" / "equation.tex").read_text()


def test_coefficients_come_with_standard_errors(folder):
    table = pd.read_csv(folder / "o" / "coefficients.csv", index_col="t")
    assert list(table) == ["a", "a_standard_error", "b", "b_standard_error"]
    np.testing.assert_allclose(table["a"], table.index, atol=1e-9)


def test_the_report_needs_nothing_else(folder):
    page = (folder / "o" / "report.html").read_text()
    assert page.count("src='data:image/png;base64,") == 4
    assert "<math" in page and "Trustworthy" in page
    assert not re.search(r"(src|href)=['\"](?!data:)", page)


def test_predict_continues_the_table(folder, capsys):
    new = pd.DataFrame({"t": [3.0, -3.0], "x": [2.0, 1.0]})
    new.to_csv(folder / "new.csv", index=False)
    assert run("predict", folder / "o" / "model.npz", folder / "new.csv") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "t,x,predicted"
    assert [float(line.split(",")[2]) for line in printed[1:]] == pytest.approx([18, -6])
    out = folder / "predicted.csv"
    assert run("predict", folder / "o" / "model.npz", folder / "new.csv", "--out", out) == 0
    assert pd.read_csv(out)["predicted"].tolist() == pytest.approx([18, -6])


def test_predict_names_missing_columns(folder):
    pd.DataFrame({"t": [3.0], "X": [2.0]}).to_csv(folder / "other.csv", index=False)
    with pytest.raises(ValueError, match=r"has no columns \['x'\].*it has \['t', 'X'\]"):
        run("predict", folder / "o" / "model.npz", folder / "other.csv")


def test_nothing_trustworthy_is_exit_code_1(tmp_path, capsys):
    random = np.random.default_rng(0)
    columns = {"x": random.uniform(-1, 1, 128), "t": np.repeat(np.arange(4), 32)}
    table = pd.DataFrame({**columns, "y": random.standard_normal(128)})
    table.to_parquet(tmp_path / "noise.parquet")
    assert run("fit", tmp_path / "noise.parquet", *OPTIONS, "--out", tmp_path / "o") == 1
    assert "Nothing trustworthy was found" in capsys.readouterr().out


def test_an_existing_folder_is_not_overwritten(folder):
    with pytest.raises(FileExistsError, match="name another folder with --out"):
        run("fit", folder / "data.csv", *OPTIONS, "--out", folder / "o")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_fit_leaves_nothing(folder, tmp_path, monkeypatch, error):
    def interrupted(part, *_):
        (part / "equation.txt").write_text("half")
        raise error

    monkeypatch.setattr(fit_command, "write", interrupted)
    monkeypatch.setattr("peql.SEQL", partial(peql.SEQL, max_iter=5))
    arguments = ["fit", folder / "data.csv", *OPTIONS, "--features", "x", "--out", tmp_path / "o"]
    with pytest.raises(error):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


# --- bad input -------------------------------------------------------------------------------

GOOD = pd.DataFrame({"speed": [1.0, 2, 3], "time": [0.0, 0, 1], "force": [2.0, 4, 6]})


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda d: d, ("forze", "time"), "unknown target column 'forze': did you mean 'force'"),
        (lambda d: d, ("force", "tim"), "unknown varying column 'tim': did you mean 'time'"),
        (lambda d: d, ("force", "time", ["sped"]), "unknown feature column 'sped'.*'speed'"),
        (lambda d: d, ("force", "force"), r"\['force'\] are asked for twice"),
        (lambda d: d, ("force", "time", ["time"]), r"\['time'\] are asked for twice"),
        (lambda d: d[["time", "force"]], ("force", "time"), "no column besides"),
        (
            lambda d: d.assign(n="north"),
            ("force", "time"),
            "no numbers: {'n': 'north'}.*--features",
        ),
        (
            lambda d: d.mask(d == 3),
            ("force", "time"),
            r"missing or infinite: 'speed' has 1 \(data rows 3\).*--drop-missing",
        ),
        (lambda d: d.replace(6, np.inf), ("force", "time"), "'force' has 1"),
    ],
)
def test_bad_tables_are_explained(change, arguments, message):
    with pytest.raises(ValueError, match=message):
        select(change(GOOD), *arguments)


def test_incomplete_rows_are_left_out_on_request():
    X, y = select(GOOD.mask(GOOD == 3), "force", "time", drop_missing=True)
    assert X["speed"].tolist() == [1, 2]
    assert len(y) == 2
    with pytest.raises(ValueError, match="0 complete rows are left"):
        select(GOOD.mask(GOOD >= 2), "force", "time", drop_missing=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", "x", "'.xlsx' are not read, only .csv"),
        ("a.csv", "", "cannot be read as a table"),
        ("a.csv", "x,y\n", "has no rows"),
        ("a.csv", "x;y\n1;2\n", "separate columns by commas"),
        ("a.parquet", "x,y\n1,2\n", "cannot be read as a table"),
    ],
)
def test_bad_files_are_explained(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        run(command, "--help")
    assert end.value.code == 0
    assert f"peql {command} " in capsys.readouterr().out.split("example")[1]
