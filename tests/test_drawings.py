"""The drawings show what the code has."""

import matplotlib.pyplot as plt
import pytest

from peql.chapters import drawings
from peql.nn.weights import HIDDEN
from peql.primitives import DEFAULT


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("model", ["EQL", "SEQL", "HEQL"])
def test_an_architecture_has_the_default_primitives(model: str) -> None:
    texts = [text.get_text() for text in drawings.architecture(model).axes[0].texts]
    for copies in DEFAULT.values():
        assert any(text.endswith(f"×{copies}") for text in texts)
    widths = [text for text in texts if text in map(str, HIDDEN)]
    assert len(widths) == (3 * len(HIDDEN) if model == "HEQL" else 0)


def test_an_unknown_architecture_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="SEQL"):
        drawings.architecture("SEQ")


def test_the_overview_shows_curves_and_the_slope(f1, seql) -> None:
    figure = drawings.overview(f1, {"SEQL": seql}, (-3.0, 3.0))
    assert [len(ax.lines) for ax in figure.axes] == [2, 2, 2]
