"""What the book asks of Sphinx: tables as CSV, the function behind a figure, the buttons."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def book():
    spec = importlib.util.spec_from_file_location("peql_book", ROOT / "book/_ext/peql_book.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_table_is_whole_as_csv(book) -> None:
    columns = pd.MultiIndex.from_tuples([("paper", "best"), ("paper", "mean"), ("here", "best")])
    index = pd.MultiIndex.from_tuples([(r"\(f_1\)", "SEQL"), (r"\(f_1\)", "HEQL")])
    table = pd.DataFrame([["1", "2, 3", "4"], ["5", "6", "7"]], index=index, columns=columns)
    assert book.as_csv(table.to_html()).splitlines() == [
        ',,"paper, best","paper, mean","here, best"',
        'f_1,SEQL,1,"2, 3",4',
        "f_1,HEQL,5,6,7",
    ]


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
