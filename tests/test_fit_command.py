"""The command line on a reader's own data."""

import re
import warnings
from argparse import Namespace
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sympy

import peql
from peql.cli import fit as fit_command
from peql.cli import main, parser, report, working

SMALL = {"primitives": ["one", "identity", "square"], "method": "network"}
OPTIONS = ["--target", "y", "--varying", "t", "--method", "network"]
OPTIONS += ["--primitives", "one", "identity", "square"]


def run(*arguments):
    given = [str(a) for a in arguments]
    parsed = parser().parse_args(given)
    parsed.command_line = "peql " + " ".join(given)
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
    assert (folder / "o" / "equation.txt").read_text().startswith("y = a(t)*x**2 + b(t)*x\n")


def test_coefficients_come_with_standard_errors(folder):
    table = pd.read_csv(folder / "o" / "coefficients.csv", index_col="t")
    assert list(table) == ["a", "a_standard_error", "b", "b_standard_error"]
    np.testing.assert_allclose(table["a"], table.index, atol=1e-9)


def test_the_report_needs_nothing_else(folder):
    page = (folder / "o" / "report.html").read_text()
    assert page.count(" src='data:image/png;base64,") == 4
    assert "<math" in page and "Trustworthy" in page
    assert not re.search(r"(src|href)=['\"](?!data:)", page)
    assert "Content-Security-Policy" in page


def test_the_report_says_what_was_done_and_what_the_coefficients_are(folder):
    page = (folder / "o" / "report.html").read_text()
    assert f"peql fit {folder / 'data.csv'}" in page
    assert f"<td>{peql.__version__}</td>" in page
    assert "<td>rows used</td>\n      <td>512</td>" in page
    explained = page.split("What the coefficients are</h2>")[1].split("<h2>")[0]
    assert "<td>a</td>" in explained and "<td>b</td>" in explained and "nan" not in explained
    tried = page.split("Error against complexity</h2>")[1].split("<h2>")[0]
    assert "x² a(t) + x b(t)" in tried


def test_equation_tex_is_an_equation(folder):
    written = (folder / "o" / "equation.tex").read_text()
    assert "y = a(t) \\, x^{2} + b(t) \\, x" in written
    assert written.count("\\begin{equation}") == written.count("\\end{equation}") == 1


def test_long_tables_are_cut_and_the_file_is_named():
    cut = report._table(pd.DataFrame({"a": range(1000)}), file="coefficients.csv")
    assert cut.count("<tr>") <= report.MOST_ROWS + 1
    assert "The first 200 of 1,000 rows. <a href='coefficients.csv'>" in cut


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
    with pytest.raises(ValueError, match=r"has no columns \['x'\].*uses; it has \['t', 'X'\]"):
        run("predict", folder / "o" / "model.npz", folder / "other.csv")


def test_nothing_trustworthy_is_exit_code_1(tmp_path, capsys):
    random = np.random.default_rng(0)
    columns = {"x": random.uniform(-1, 1, 128), "t": np.repeat(np.arange(4), 32)}
    table = pd.DataFrame({**columns, "y": random.standard_normal(128)})
    table.to_parquet(tmp_path / "noise.parquet")
    assert run("fit", tmp_path / "noise.parquet", *OPTIONS, "--out", tmp_path / "o") == 1
    told = capsys.readouterr()
    assert "Nothing found" in told.out or "Not certain" in told.out
    assert "--primitives default or trig" in told.out and "--trials 4" in told.out
    assert "--method search" in told.out
    assert told.out.endswith(f"report: {tmp_path / 'o' / 'report.html'}\n")
    assert "fitting 128 rows at 4 values of t …" in told.err
    assert "note: nothing found" in told.err and "Warning" not in told.err


def test_an_existing_folder_is_not_overwritten(folder):
    with pytest.raises(FileExistsError, match="name another with --out"):
        run("fit", folder / "data.csv", *OPTIONS, "--out", folder / "o")
    with pytest.raises(FileExistsError, match="name another with --out"):
        run(
            "predict", folder / "o" / "model.npz", folder / "data.csv", "--out", folder / "data.csv"
        )


@pytest.mark.parametrize("out", ["/proc/peql", "/dev/null/o", "absent/o"])
def test_where_nothing_can_be_written_nothing_is_fitted(folder, monkeypatch, capsys, out):
    monkeypatch.setattr(fit_command, "read_table", lambda *_: pytest.fail("work was begun"))
    assert main(["fit", str(folder / "data.csv"), *OPTIONS, "--out", out]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_appears_meanwhile_loses_no_result(tmp_path):
    out = tmp_path / "o"
    with (
        pytest.raises(FileExistsError, match="the result is in") as raised,
        working.made_whole(out) as part,
    ):
        (part / "result").touch()
        (out / "other").mkdir(parents=True)
    kept = str(raised.value).split("is in ")[1]
    assert (tmp_path / kept / "result").exists()


def test_predict_asks_only_for_what_the_equation_uses(tmp_path):
    data = peql.datasets.load("f1", n_t=8, n_train=64)
    spare = np.random.default_rng(0).uniform(size=len(data.X_train))
    X = data.X_train.assign(spare=spare)
    model = peql.SEQL(varying="t", random_state=0, **SMALL).fit(X, data.y_train)
    assert "spare" not in str(model.equation_)
    model.save(tmp_path / "m.npz")
    data.X_test[:3].to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "p.csv"
    assert run("predict", tmp_path / "m.npz", tmp_path / "new.csv", "--out", out) == 0
    np.testing.assert_allclose(pd.read_csv(out)["predicted"], data.y_test[:3], rtol=1e-6)


def test_a_target_named_like_a_coefficient_is_told_apart(folder, tmp_path, capsys):
    table = pd.read_csv(folder / "data.csv").rename(columns={"y": "a"}).drop(columns="note")
    table.to_csv(tmp_path / "a.csv", index=False)
    options = ["--target", "a", *OPTIONS[2:], "--out", tmp_path / "o"]
    assert run("fit", tmp_path / "a.csv", *options) == 0
    left, _, right = capsys.readouterr().out.splitlines()[0].partition(" = ")
    assert f"{left}(" not in right


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_fit_leaves_nothing(folder, tmp_path, monkeypatch, error):
    def interrupted(part, *_args):
        (part / "equation.txt").write_text("half")
        raise error

    monkeypatch.setattr(fit_command, "write", interrupted)
    monkeypatch.setattr("peql.SEQL", partial(peql.SEQL, max_iter=5))
    arguments = ["fit", folder / "data.csv", *OPTIONS, "--features", "x", "--out", tmp_path / "o"]
    with pytest.raises(error):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_error_comes_with_the_notes_that_explain_it(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("x;t;y\n1,5;0;1\nn.d.;0;2\n3,5;0;3\n")
    assert main(["fit", str(tmp_path / "a.csv"), "--target", "y", "--varying", "t"]) == 2
    told = capsys.readouterr().err
    assert "decimal comma" in told and "('n.d.'): they count as gaps" in told
    assert told.endswith("leave the rows out with --drop-missing\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--trials", "0"], "'0': expected a whole number of at least 1"),
        (["--seed", "-1"], "'-1': expected a whole number of at least 0"),
        (["--primitives", "trigg"], "unknown primitive or set 'trigg': did you mean 'trig'"),
        (["--primitives", "trig", "sin"], "unknown primitive or set 'trig'"),
    ],
)
def test_options_are_checked_before_the_table_is_read(given, message, capsys):
    arguments = ["fit", "none.csv", "--target", "y", "--varying", "t", *given]
    with suppress(SystemExit):
        assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_warnings_are_told_as_notes_without_the_line_of_code(capsys):
    notes = []
    with working.noted(notes):
        for _ in range(2):
            warnings.warn("1 of 2 rows have t outside the fitted range", stacklevel=1)
    assert notes == ["1 of 2 rows have t outside the fitted range"]
    assert capsys.readouterr().err == f"note: {notes[0]}\n"


@pytest.mark.parametrize(
    ("method", "labels", "search", "heql"),
    [
        ("auto", False, False, True),
        ("network", False, True, True),
        ("auto", True, False, False),
        ("search", False, False, True),
    ],
)
def test_what_was_tried_or_cannot_work_is_not_advised(method, labels, search, heql):
    """ "auto" searches already, and HEQL refuses labels."""
    arguments = Namespace(method=method, model="seql", primitives=["default"], trials=1)
    told = fit_command.advice(arguments, labels)
    assert ("--method search" in told, "--model heql" in told) == (search, heql)
    assert "--features" in told and "--features" not in fit_command.advice(arguments, n_features=1)
    assert ("--primitives" in told) == (method == "network")  # the search tries them all
    assert ("--trials" in told, "--method auto" in told) == (method != "search", method == "search")
