"""Laws of what the chapters are made of: the protocol, its failures by name, the scrubber."""

import json
import re
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import sympy
import torch

from peql import datasets, results
from peql.chapters import analytic, claims, fields, future, paper, protocol, robustness, scrub
from peql.engine.training import PAPER, Table, batches
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


@pytest.mark.parametrize(
    ("found", "bold"),
    [
        ("-2.62*x**2 - 1.5*x", []),
        ("-2.6*x**2 - 1.5*x", []),  # -2.6 may be -2.62, rounded
        ("-2.63*x**2 - 1.5*x", ["2.63"]),
        ("2.62*x**2 - 1.5*x", ["2.62"]),
        ("-2.62*x**2 - 1.5*x - 0.02", ["0.02"]),
        ("-2.62*x**2 - 0.7*sin(2.1*x)", ["0.7", "2.1"]),
        (-2.6249 * x**2 - 1.5 * x, []),
        (-2.6251 * x**2 - 1.5 * x, ["2.63"]),
    ],
)
def test_bold_are_the_numbers_that_rounding_does_not_explain(found: Any, bold: list[str]) -> None:
    written = analytic.in_terms(found, -2.62 * x**2 - 1.5 * x, ".2f")
    assert re.findall(r"mathbf\{([\d.]+)", written) == bold


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


@pytest.mark.parametrize("model", protocol.SOURCES)
def test_trials_trained_together_are_told_like_one_alone(model: str) -> None:
    def leave_a_line(network: SymbolicNetwork) -> None:
        network.gates.log_alpha.data[:, :-1] = -20.0  # so short a training closes no gates

    data = [datasets.load("f1", n_t=8, n_train=64, random_state=seed) for seed in (300, 301)]
    short: dict[str, Any] = {"n_steps": 20, "n_watched": 4, "prepare": leave_a_line}
    alone = [protocol.fit(model, data[k], 300 + k, **short) for k in range(2)]
    both = protocol.fit_together(model, data, (300, 301), **short)
    for one, other in zip(alone, both, strict=True):
        assert other.curve["step"].tolist() == one.curve["step"].tolist()
        # Its own weights and its own held-out rows at first, its own draws from then on.
        assert other.curve["error"][0] == pytest.approx(one.curve["error"][0], rel=1e-5)
        assert np.isfinite(other.curve["error"]).all()
        told, expected = protocol.measure(other), protocol.measure(one)
        assert told.keys() == expected.keys()
        assert told["equation"] == expected["equation"] == "x*a(t)"
        assert told["printed"].count(" | ") == 3
        # NaN only where a model or function has no such number.
        assert {k for k, v in told.items() if v != v} == {k for k, v in expected.items() if v != v}
        assert np.isfinite([told["test_mse_scaled"], told["test_mse_raw"], told["jump"]]).all()
        assert (told["trained_together"], expected["trained_together"]) == (2, 1)
        parameters = zip(other.network.parameters(), one.network.parameters(), strict=True)
        assert all(mine.shape == theirs.shape for mine, theirs in parameters)
    assert not torch.equal(both[0].weights, both[1].weights)


def test_each_trial_draws_rows_of_its_own_table() -> None:
    tables = [
        Table(torch.full((4, 6, 1), k), torch.full((4, 6, 1), -k), torch.rand(4, 1), torch.ones(4))
        for k in (1.0, 2.0)
    ]
    tables[1] = replace(tables[1], t=tables[0].t)
    schedule = replace(PAPER["meta"], steps_per_batch=3, points=5)
    drawn = batches(protocol.stacked(tables), schedule, 2, 7, torch.Generator().manual_seed(0))
    _, rows, targets, _ = next(drawn)
    assert rows.shape == (2, 3, 5, 1)
    assert (rows[0] == 1).all() and (rows[1] == 2).all() and torch.equal(targets, -rows)
    with pytest.raises(ValueError, match="differ in t"):
        protocol.stacked([tables[0], replace(tables[1], t=tables[1].t + 1)])


@pytest.mark.parametrize("model", protocol.SOURCES)
def test_a_trial_that_blows_up_spoils_no_other(model: str) -> None:
    data = [datasets.load("f1", n_t=8, n_train=64, random_state=seed) for seed in (300, 301)]
    short: dict[str, Any] = {"n_steps": 20, "n_watched": 4}
    sound = protocol.fit_together(model, data, (300, 301), **short)
    made: list[SymbolicNetwork] = []

    def spoil_the_second(network: SymbolicNetwork) -> None:
        made.append(network)
        if len(made) == 2:
            for parameter in network.weights.parameters():
                parameter.data.fill_(torch.inf)

    fitted = protocol.fit_together(model, data, (300, 301), prepare=spoil_the_second, **short)
    pd.testing.assert_frame_equal(fitted[0].curve, sound[0].curve)
    assert torch.equal(fitted[0].weights, sound[0].weights)
    first, second = (protocol.measure(each) for each in fitted)
    assert np.isfinite(first["test_mse_scaled"]) and np.isnan(second["test_mse_scaled"])
    assert second["equation"] == "" and not second["true_terms"]


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


# --- noise and few data ---------------------------------------------------------------------------


def trials(noise: float, n_t: int, n_train: int, right: int, of: int = 10) -> list[dict]:
    """Made-up rows of the sweep: ``right`` have the true terms, the rest found nothing."""
    size = {"model": "SEQL", "function": "f1", "noise": noise, "n_t": n_t, "n_train": n_train}
    found = {True: "x**2*a(t) + x*b(t)", False: "0.1"}
    return [
        {
            **size,
            "seed": seed,
            "true_terms": seed < right,
            "extra_terms": 0,
            "missing_terms": 0 if seed < right else 2,
            "equation": found[seed < right],
            "test_mse_scaled": 1e-3,
            "error_in_standard_errors": 1.0,
        }
        for seed in range(of)
    ]


SWEPT = pd.DataFrame(
    trials(0.1, 128, 512, 10)
    + trials(0.3, 128, 512, 9)
    + trials(1.0, 128, 512, 0)
    + trials(0.3, 128, 32, 10)
    + trials(0.3, 128, 4, 4)
    + trials(0.3, 3, 32, 10)
)


def test_how_far_it_goes_is_read_off_the_sweep() -> None:
    assert robustness.limits(SWEPT) == {
        "noise": ("30\xa0%", "100\xa0%"),
        "n_train": ("32", "4"),
        "n_t": ("3", ""),
    }
    told = robustness.summary(SWEPT)
    assert "up to 30\xa0%" in told and "100\xa0% noise" in told and "3 values of t" in told
    assert "Of 17 misses, 17 report no law" in told
    assert "None of the 10 trials" in robustness.summary(SWEPT[SWEPT["noise"] == 0.1])


def test_the_whole_sweep_and_the_first_rows_of_it_can_be_shown() -> None:
    for table in (SWEPT, SWEPT.head(3), SWEPT[SWEPT["noise"] == 1.0]):
        assert len(robustness.figure(table).axes) == 3
        shown = robustness.outcomes(table)[list(robustness.OUTCOMES)].astype(int)
        assert shown.to_numpy().sum() == len(table)
        robustness.by_noise(table), robustness.error_ratios(table)
        assert robustness.summary(table)
        assert robustness.misses(table)["trials"].sum() == (~table["true_terms"]).sum()


@pytest.mark.parametrize(
    ("found", "extra", "missing", "word"),
    [
        ("x*a(t) + x**2*b(t) + x**3*c(t)", 1, 0, "terms too many"),
        ("x*a(t)", 0, 1, "terms missing"),
        ("a(t)*sin(x)", 1, 2, "other terms"),
        ("a(t)*sin(x*b(t))", 0, 0, "a number varies"),
        ("a(t)", 1, 2, "nothing"),
        ("0", 0, 2, "nothing"),
    ],
)
def test_a_miss_is_named_by_what_it_misses(found: str, extra: int, missing: int, word: str) -> None:
    row = trials(0.1, 128, 512, 0, of=1)[0]
    row |= {"equation": found, "extra_terms": extra, "missing_terms": missing}
    assert robustness.outcome(pd.DataFrame([row])).tolist() == [word]


def test_the_sweep_goes_as_far_as_the_chapter_says() -> None:
    cases = results.tasks("robustness")
    assert {case["model"] for case in cases} == {"SEQL", "HEQL"}
    assert max(case["noise"] for case in cases) == 1
    assert min(case["n_train"] for case in cases) == 4
    assert min(case["n_t"] for case in cases) == 3


# --- partial tables -------------------------------------------------------------------------------


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch):
    """Put the first ``n`` rows of a table in place of the whole of it."""
    cached = [f for f in vars(claims).values() if hasattr(f, "cache_clear")]
    load = results.load

    def cut(name: str, n: int) -> None:
        whole = results.load
        monkeypatch.setattr(results, "load", lambda t: whole(t).head(n) if t == name else whole(t))
        for function in cached:
            function.cache_clear()

    yield cut
    monkeypatch.setattr(results, "load", load)
    for function in cached:
        function.cache_clear()


@pytest.mark.parametrize("n", [0, 1, 12, 30])
def test_future_work_is_told_from_as_many_rows_as_there_are(stored, n: int) -> None:
    stored("future_work", n)
    told = claims.future_table()
    assert len(told) == len(claims.FUTURE)
    if n == 0:
        assert (told["verdict"] == claims.UNDECIDED).sum() == len(claims.FUTURE) - 1
    assert claims.duplicates().word in (claims.UNDECIDED, claims.CONFIRMED, claims.CONTRADICTED)
    claims.rank_table(), claims.primitives_table(), claims.smoothness_figure()


@pytest.mark.parametrize("n", [1, 3, 11])
def test_the_protocol_is_told_from_as_many_trials_as_there_are(stored, n: int) -> None:
    stored("paper_protocol", n)
    assert claims.n_seeds() == 0 or n > 10
    for test in claims.CLAIMS:
        if test not in (*claims.LIVE, claims.cross_terms):
            assert claims.judge(test).because
    table = results.load("paper_protocol")
    assert len(analytic.compared(table, results.load("analytic"))) == 10
    assert analytic.nearness(table).shape[1] == 2
    functions = paper.table("analytic_mse", "best")
    assert all(len(analytic.best_printed(table, f, "HEQL")) in (0, 4) for f in functions)


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
