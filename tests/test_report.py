"""report.html and its figures: whatever columns are called, names are text; labels are points."""

import copy
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from small import QUICK

import peql
from peql import plots, style
from peql.analysis.verdict import trade_off, verdict
from peql.cli import report
from peql.cli.files import to_csv
from peql.cli.fit import write

HOSTILE = [
    "<img src=x onerror='window.ran=1'>",
    "</math><script>window.ran=1</script>",
    r"\input{/etc/passwd} $x$",
    "=cmd()",
    "a$b$c",
    'x" onmouseover="window.ran=1',
    "\x1b[31mred",
    "&lt;b&gt;",
]


def run(**changed):
    told = {"file": HOSTILE[0], "command": HOSTILE[1], "seed": 0, "version": "0", "date": "today"}
    return report.Run(**{**told, "rows": 512, "notes": HOSTILE, **changed})


def renamed(data, x, t):
    return data.X_train.rename(columns={"x": x, "t": t})


@pytest.fixture(scope="module")
def pages(f1, tmp_path_factory):
    """A folder for each pair of hostile names, as peql fit writes it."""
    folders = []
    for k in range(0, len(HOSTILE), 2):
        x, t, target = HOSTILE[k], HOSTILE[k - 1] + "t", HOSTILE[k - 2] + "y"
        X, y = renamed(f1, x, t), f1.y_train.rename(target)
        model = peql.SEQL(**{**QUICK, "varying": t, "max_iter": 20}).fit(X, y)
        folder = tmp_path_factory.mktemp("hostile")
        judged, simpler = verdict(model, X, y), trade_off(model, y)
        write(folder, model, X, y, judged, simpler, model.jumps(), None, run())
        folders.append((folder, (x, t, target)))
    return folders


def test_no_name_becomes_markup(pages):
    for folder, _ in pages:
        page = (folder / "report.html").read_text(encoding="utf-8")
        kinds = {kind.lower() for kind in re.findall(r"<\s*([a-zA-Z]+)", page)}
        assert not kinds & {"script", "iframe", "object", "b", "a"}, kinds
        assert page.count("<img") == 4
        assert not re.search(r"<[^>]*\son\w+=", page.replace("&quot;", "").replace("&#x27;", ""))
        assert "default-src 'none'" in page


def test_no_name_is_a_command_of_tex_or_a_formula(pages):
    for folder, _ in pages:
        written = (folder / "equation.tex").read_text(encoding="utf-8")
        assert r"\input" not in written
        table = (folder / "coefficients.csv").read_text(encoding="utf-8")
        assert not re.search(r"(^|,)\"?[=+@]", table, re.MULTILINE)


def test_hostile_names_run_nothing_in_a_browser(pages):
    test_browser = pytest.importorskip("test_browser")
    path = test_browser.chromium()
    with test_browser.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=test_browser.FLAGS)
        for folder, names in pages:
            page = browser.new_page()
            wrong, asked = [], []
            page.on("console", lambda said, wrong=wrong: wrong.append(said.text))
            page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
            page.on("request", lambda r, asked=asked: asked.append(r.url))
            page.goto((folder / "report.html").as_uri())
            page.mouse.move(200, 200)
            assert page.evaluate("window.ran") is None
            assert (wrong, [url for url in asked if not url.startswith(("file:", "data:"))]) == (
                [],
                [],
            )
            assert page.locator("script").count() == 0
            shown = page.locator("math").text_content()
            for name in names:  # a reader sees the name as it is
                assert name in shown or not name.isprintable(), shown
            page.close()
        browser.close()


def test_plotly_carries_names_as_text(f1):
    pytest.importorskip("plotly")
    X, y = renamed(f1, HOSTILE[1], "t"), f1.y_train.rename(HOSTILE[0])
    model = peql.SEQL(**{**QUICK, "max_iter": 20}).fit(X, y)
    page = report.slider(model, X, y, steps=3)._repr_html_()
    assert "<script>window.ran" not in page and "<img" not in page


# --- labels ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(f1):
    """A model fitted to labels, and its data."""
    names = {t: f"run $_{k}" for k, t in enumerate(np.unique(f1.X_train["t"]))}
    X, y = f1.X_train.assign(t=f1.X_train["t"].map(names)), f1.y_train
    return peql.SEQL(**QUICK).fit(X, y), X, y


def test_labels_are_points_with_bars_not_lines(labelled):
    model, X, y = labelled
    assert plots.has_labels(model)
    figure, n = plots.coefficient_functions(model), len(model.coefficients_)
    for ax in figure.axes:
        assert len(ax.containers) == 1  # error bars
        points = next(line for line in ax.lines if len(line.get_xdata()) == n)
        assert points.get_linestyle() == "None"
        assert len(ax.get_xticklabels()) == n
    figure.canvas.draw()
    for other in (plots.fits(model, X, y), plots.residuals(model, X, y)):
        other.canvas.draw()
    assert model.jumps().empty and model.explain().empty
    assert report.summary(model, X, y).loc["t", "smallest"] == ""


def test_the_page_of_labels_leaves_out_what_needs_an_order(labelled, seql, f1):
    for model, y, ordered in ((labelled[0], labelled[2], False), (seql, f1.y_train, True)):
        X = labelled[1] if model is labelled[0] else f1.X_train
        judged, explained = verdict(model, X, y, repeats=0), model.explain()
        simpler = trade_off(model, y)
        page = report.page(model, y, judged, model.jumps(), simpler, {}, explained=explained)
        assert ("Jumps and corners" in page) == ordered
        assert ("What the coefficients are" in page) == ordered
        assert "standard error of a" in page and "_error" not in page
        assert "<td>yes</td>" in page and "True" not in page and "None<" not in page


def test_the_table_of_labels_is_safe_for_a_spreadsheet(labelled):
    model, _, _ = labelled
    table = report.coefficients_with_errors(model)
    table.index = pd.Index(["=cmd()", *table.index[1:]], name="t")
    assert "'=cmd()" in to_csv(table, index=True)


# --- what the model may bring ----------------------------------------------------------------


def test_constants_and_runners_up_are_shown(seql, f1, monkeypatch):
    model = copy.copy(seql)
    constants = pd.DataFrame({"before": ["<c>"], "value": [1.5], "standard_error": [0.25]})
    monkeypatch.setattr(type(model), "constants_", constants)
    best = seql.trials_.loc[[seql.best_trial_]]
    other = best.assign(equation="x*a(t) + <b>", criterion=best["criterion"] + 12.5)
    model.trials_ = pd.concat([seql.trials_, other], ignore_index=True)
    X, y = f1.X_train, f1.y_train
    for agrees, rivals in (("yes", ["x*a(t) + <b>"]), ("no", [])):
        model.alternatives_ = pd.DataFrame({"equation": rivals, "difference": [12.5] * len(rivals)})
        told = report.runners_up(model).iloc[-1]
        assert told["agrees_with_the_rows"] == agrees and told["worse_by"] == 12.5
    page = report.page(model, y, verdict(model, X, y), model.jumps(), trade_off(model, y), {})
    assert "<th>stands before</th>" in page and "<td>&lt;c&gt;</td>" in page and "0.25" in page
    assert "x*a(t) + &lt;b&gt;" in page and "12.5" in page


def test_a_picture_that_fails_loses_no_result(seql, f1, tmp_path, monkeypatch):
    X, y = f1.X_train, f1.y_train
    monkeypatch.setattr(report, "residuals", lambda *_: 1 / 0)
    judged, simpler = verdict(seql, X, y), trade_off(seql, y)
    write(tmp_path, seql, X, y, judged, simpler, seql.jumps(), None, run())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "It could not be drawn (ZeroDivisionError" in page and page.count("<img") == 3
    assert (tmp_path / "model.npz").exists() and not (tmp_path / "residuals.png").exists()


# --- figures ---------------------------------------------------------------------------------


def test_colours_differ_in_grey():
    def grey(colour):
        return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))

    looks = [*style.FOUND.values(), style.OTHER]
    for i, one in enumerate(looks):
        for other in looks[i + 1 :]:
            apart = abs(grey(one["color"]) - grey(other["color"]))
            assert apart > 0.1 or one["linestyle"] != other["linestyle"]


def test_many_rows_are_thinned_and_found_by_their_t():
    values = pd.Series(np.repeat(np.linspace(0, 1, 10), 10_000))
    assert len(plots._thin(np.arange(10**6))) <= plots.MOST_ROWS
    assert plots.steps_to_show(values)[0] > 0
    alone = pd.Series(np.linspace(0, 1, 1000))
    near = plots._near(alone, alone[500])
    assert len(near) == plots.NEIGHBOURS and abs(alone[near] - alone[500]).max() < 0.02
