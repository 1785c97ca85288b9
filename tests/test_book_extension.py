"""What the book asks of Sphinx: tables as CSV, figures and their code, buttons, panels."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from peql.style import legend, styled

ROOT = Path(__file__).resolve().parents[1]


def extension(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "book" / "_ext" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def book():
    return extension("peql_book")


def test_a_table_is_whole_as_csv(book) -> None:
    columns = pd.MultiIndex.from_tuples([("paper", "best"), ("paper", "mean"), ("here", "best")])
    index = pd.MultiIndex.from_tuples([(r"\(f_1\)", "SEQL"), (r"\(f_1\)", "HEQL")])
    table = pd.DataFrame([["1", "2, 3", "4"], ["5", "6", "7"]], index=index, columns=columns)
    assert book.as_csv(table.to_html()).splitlines() == [
        ',,"paper, best","paper, mean","here, best"',
        'f_1,SEQL,1,"2, 3",4',
        "f_1,HEQL,5,6,7",
    ]


def test_a_bold_number_is_a_number_as_csv(book) -> None:
    table = pd.DataFrame({"paper": [r"\(-\mathbf{2.62}\)"]})
    assert book.as_csv(table.to_html(index=False)).splitlines() == ["paper", "-2.62"]


def test_the_names_of_an_index_stand_in_the_head_above_them(book) -> None:
    index = pd.MultiIndex.from_tuples([("noise", 1)], names=["check", "limit"])
    named = pd.DataFrame([[2, 3]], index=index, columns=["a", "b"])
    both = named.rename_axis(columns="c").to_html()
    shown = book.one_head(named.to_html())
    assert book.as_csv(shown) == book.as_csv(named.to_html())
    assert (shown.count("<tr"), named.to_html().count("<tr")) == (2, 3)
    assert book.one_head(both) == both


@pytest.mark.parametrize("address", ["", "https://example.org/a/b"])
def test_one_address_decides_about_all_buttons(book, address: str) -> None:
    config = SimpleNamespace(html_theme_options={"repository_url": address, "launch_buttons": {}})
    book.set_buttons(None, config)
    options = config.html_theme_options
    assert options["use_repository_button"] == options["use_source_button"] == bool(address)
    assert ("binderhub_url" in options["launch_buttons"]) == bool(address)
    assert ("colab_url" in options["launch_buttons"]) == bool(address)


def test_the_function_behind_a_figure_is_found(book) -> None:
    found = book.painters(str(ROOT / "notebooks" / "01_eql_failure.ipynb"))
    module, function, line = found["fig-eql-predictions"]
    assert (module, function) == ("peql.chapters.figures", "figures.predictions")
    source = (ROOT / "peql" / "chapters" / "figures.py").read_text(encoding="utf-8").splitlines()
    assert "predictions" in "".join(source[line - 1 : line + 1])
    assert book.painters(str(ROOT / "book" / "index.md"))["fig-overview"][1] == "drawings.overview"


@pytest.mark.parametrize("share", [False, True])
def test_a_figure_falls_into_its_legend_and_its_panels(tmp_path: Path, share: bool) -> None:
    @styled
    def drawn():
        figure, axes = plt.subplots(2, 3, figsize=(9, 4), sharey=share, sharex="col")
        for ax in axes.flat:
            ax.plot([0, 1], [0, 1], label="true")
            ax.plot([0, 1], [1, 0], label="found")
        axes[0, 0].set_ylabel("y")
        legend(figure)
        return figure

    figure = drawn()
    figure.savefig(tmp_path / "figure.svg")
    entries, panels = extension("peql_panels").parts(tmp_path / "figure.svg")
    plt.close(figure)
    assert [len(boxes) for boxes in panels] == ([1, 2, 2] if share else [1, 1, 1])
    own = [boxes[-1] for boxes in panels]
    assert own[0].left == 0 and own[2].right == pytest.approx(9 * 72)
    assert own[0].right == own[1].left and own[1].right == own[2].left
    assert len(entries) == 2 and entries[0].right == entries[1].left
    assert all(entry.bottom <= own[0].top for entry in entries)
    if share:  # the numbers of the first column, beside the others
        assert panels[1][0].right < own[0].right / 2


def test_a_single_panel_stays_whole(tmp_path: Path) -> None:
    figure, ax = plt.subplots()
    figure.colorbar(ax.imshow([[0, 1], [1, 0]]))
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    entries, panels = extension("peql_panels").parts(tmp_path / "figure.svg")
    assert (entries, len(panels)) == ([], 1)
