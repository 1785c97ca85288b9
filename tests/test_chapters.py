"""Laws of what the chapters are made of: the protocol, its failures by name, the scrubber."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import sympy
import torch

from peql import datasets
from peql.chapters import fields, future, protocol, scrub
from peql.engine.training import PAPER
from peql.nn import SymbolicNetwork

x = sympy.Symbol("x")
LINE = datasets.load("f4", n_t=4, n_train=8)
SINE = datasets.load("f5", n_t=4, n_train=8)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ("-2.6*x**2 - 1.5*x", "true"),
        ("-2.6*x**2 - 1.5*x + 0.02", "true and a constant"),
        ("-2.6*x**2 - 1.1*x + 0.9*sin(0.4*x + 0.1)", "a slow sine besides"),
        ("-2.6*x**2", "other"),
    ],
)
def test_failures_of_a_line_are_told_apart(found: str, kind: str) -> None:
    assert protocol.kind(sympy.parse_expr(found), -2.6 * x**2 - 1.5 * x, LINE) == kind


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ("1.0*sin(1.2*x)", "true"),
        ("0.4*sin(1.1*x) + 0.6*sin(1.25*x) - 0.05*sin(0.1*x)", "several sines"),
        ("0.5*sin(1.2*x) + 0.5*sin(3.0*x)", "other"),
        ("0.5*x", "other"),
    ],
)
def test_failures_of_a_sine_are_told_apart(found: str, kind: str) -> None:
    assert protocol.kind(sympy.parse_expr(found), sympy.sin(1.2 * x), SINE) == kind


def test_the_protocol_is_the_papers() -> None:
    assert {schedule.n_steps for schedule in PAPER.values()} == {34_800}
    for schedule in PAPER.values():
        assert schedule.learning_rate == schedule.gate_learning_rate


def test_a_trial_is_measured_and_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "READABLE", 0)  # so short a training leaves much to read
    data = datasets.load("f1", n_t=8, n_train=32)
    for model in protocol.SOURCES:
        fitted = protocol.fit(model, data, 0, n_steps=20, n_watched=4)
        assert fitted.curve["step"].tolist() == [0, 5, 10, 15, 20]
        measured = protocol.measure(fitted)
        assert measured["test_mse_scaled"] > 0
        assert len(measured["curve_error"].split()) == 5


@pytest.mark.parametrize("rank", [1, 2, 14])
def test_weights_of_low_rank_have_it(rank: int) -> None:
    network = SymbolicNetwork(1, weights="meta")
    full = future.n_parameters(network)
    future.low_rank(network, rank)
    weights = network.weights(torch.linspace(-1, 1, 3)[:, None])
    assert weights.shape == (1, 3, network.n_weights)
    sizes = network.layer_sizes
    matrix = weights[0, 0].split(sizes)[1].reshape(14, 15)
    assert torch.linalg.matrix_rank(matrix) == rank
    assert (future.n_parameters(network) < full) == (rank < 8)


def test_the_scrubber_shows_the_end_without_scripts() -> None:
    page = scrub.show()._repr_html_()
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    run = scrub.stored()["runs"]["f1 SEQL 0.003"]
    assert run["formula"][-1] in shown
    assert shown.count("<rect") == len(run["gates"][-1])
    assert re.search(r"<form[^>]* hidden>", shown)


def test_every_setting_of_the_scrubber_was_recorded() -> None:
    recorded = scrub.stored()
    frames = len(recorded["steps"])
    for function in scrub.FUNCTIONS:
        for model in scrub.MODELS:
            for price in scrub.PRICES:
                run = recorded["runs"][f"{function} {model} {price:g}"]
                assert {len(column) for column in run.values()} == {frames}
    [inside] = re.findall(
        r'<script type="application/json">(.*?)</script>', scrub.show()._repr_html_(), re.DOTALL
    )
    assert json.loads(inside.replace("&lt;", "<")) == recorded


def field_rows(n):
    """The first rows of a study of noisy fields."""
    cases = [
        ("burgers", 0.01, "SEQL", "series", True, 1e-6),
        ("burgers", 0.0, "SINDy", "series", True, 1e-17),
        ("kuramoto_sivashinsky", 0.05, "SEQL", "series", False, 1.0),
        ("kuramoto_sivashinsky", 0.05, "SEQL", "weak", True, 2e-3),
        ("fitzhugh_nagumo_u", 0.2, "SEQL", "series", False, np.nan),
    ]
    names = ["equation", "noise", "method", "derivatives", "true_terms", "coefficient_mse"]
    rows = pd.DataFrame(cases[:n], columns=names).astype({"true_terms": bool})
    return rows.assign(
        seed=0, found="u*u_x*a(t) + u_xx", limit_coefficient_mse=1e-6, cpu_seconds=2.0
    )


@pytest.mark.parametrize("n", range(6))
def test_the_study_of_noisy_fields_is_shown_however_far_it_got(n):
    rows = field_rows(n)
    shown = ["advection_diffusion", "burgers", "kuramoto_sivashinsky"]
    assert ("not been run" in fields.summary(rows)) == (n == 0)
    assert len(fields.recovery(rows, shown)) == min(n, 4)
    assert len(fields.errors(rows, shown)) == rows["true_terms"].sum()
    assert len(fields.missed(rows)) == (~rows["true_terms"]).sum()
    drawn = fields.figure(rows, shown)
    drawn.canvas.draw()
    plt.close(drawn)
