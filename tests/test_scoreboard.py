"""Laws of the scoreboard: no cell of the paper is left out, and no sweep is needed to show it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy

from peql import results
from peql.chapters import paper, pdes, scoreboard


@pytest.fixture(scope="module")
def cells() -> pd.DataFrame:
    return pd.DataFrame(scoreboard.cells())


def printed_numbers(part: object) -> Iterator[float]:
    if isinstance(part, dict):
        for value in part.values():
            yield from printed_numbers(value)
    elif isinstance(part, float):
        yield part


@pytest.mark.parametrize("table", ["analytic_mse", "pde_mse"])
def test_every_printed_error_is_a_cell(cells: pd.DataFrame, table: str) -> None:
    printed = sorted(printed_numbers(paper.table(table)))
    assert sorted(cells.loc[cells["table"] == table, "paper"]) == printed


@pytest.mark.parametrize("table", ["analytic_equations", "pde_equations", "spring_equations"])
def test_every_printed_equation_is_a_cell(cells: pd.DataFrame, table: str) -> None:
    part = paper.table(table)
    names = ("SEQL", "HEQL", "transformed")
    rows = [row for row in part.values() if isinstance(row, dict)]
    printed = [equation for row in rows for name in names for equation in row.get(name, [])]
    assert sorted(cells.loc[cells["table"] == table, "printed"]) == sorted(printed)


def test_the_truth_is_the_papers_own_to_its_digits(cells: pd.DataFrame) -> None:
    for table in ("analytic_equations", "pde_equations"):
        for case, row in paper.table(table).items():
            if not isinstance(row, dict):
                continue
            title = pdes.title(case)
            chosen = cells[(cells["table"] == table) & (cells["where"] == title)]
            true = chosen[chosen["model"] == "SEQL"]["true"]
            for ours, theirs in zip(true, row["true"], strict=True):
                errors = scoreboard.number_errors(*map(sympy.parse_expr, (ours, theirs)))
                assert np.abs(errors).max() < 0.0055


def test_without_sweeps_nothing_is_measured_and_everything_is_shown(tmp_path: Path) -> None:
    empty = scoreboard.cells(tmp_path)
    assert all(np.isnan(cell.ours) and cell.paper > 0 for cell in empty)
    for name in {cell.table for cell in empty}:
        assert (scoreboard.shown(empty, name) == "not measured").any(axis=None)
    assert scoreboard.worse(empty).empty
    assert len(scoreboard.recovered(tmp_path)) == len(scoreboard.SWEEPS)


def test_a_worse_trial_is_named_and_a_lost_one_counted(tmp_path: Path) -> None:
    trials = results.load("analytic")
    chosen = (trials["function"] == "f3") & (trials["model"] == "SEQL")
    trials.loc[chosen, "test_mse_scaled"] = 1.0
    trials.loc[trials.index[chosen][0], "true_terms"] = False
    trials.to_csv(tmp_path / "analytic.csv", index=False)
    worse = scoreboard.worse(scoreboard.cells(tmp_path))
    assert [*worse["model"]] == ["SEQL", "SEQL"]  # best and mean; their spread is 0
    counted = scoreboard.recovered(tmp_path)["true terms"]
    n = int(chosen.sum())
    assert [*counted].count(f"{n - 1} of {n}") == 1 + [*scoreboard.recovered()["true terms"]].count(
        f"{n - 1} of {n}"
    )


def test_springs_and_a_network_without_terms(tmp_path: Path) -> None:
    rows = [
        {"target": "spring_force", "model": "SEQL", "true_terms": True, "k_error": 1e-4},
        {"target": "spring_force", "model": "SEQL", "true_terms": False, "k_error": np.nan},
        {"target": "spring_force", "model": "ReLU", "true_terms": np.nan, "k_error": np.nan},
    ]
    table = pd.DataFrame(rows).assign(seed=0, cpu_seconds=1.0)
    table.to_csv(tmp_path / "spring.csv", index=False)
    force = [cell for cell in scoreboard.cells(tmp_path) if cell.where == "force"]
    assert {cell.ours for cell in force} == {1e-4}
    counted = scoreboard.recovered(tmp_path).loc["spring", "true terms"]
    assert dict(counted) == {("spring force", "ReLU"): "–", ("spring force", "SEQL"): "1 of 2"}


def test_pdes_are_picked_by_training_error(tmp_path: Path) -> None:
    case = {"equation": "burgers", "cross_terms": True, "model": "SEQL", "true_terms": True}
    rows = [
        {**case, "u_t_mse": 2e-9, "coefficient_mse": 1e-9},
        {**case, "u_t_mse": 1e-9, "coefficient_mse": 1.0},
    ]
    pd.DataFrame(rows).assign(seed=0, cpu_seconds=1.0).to_csv(tmp_path / "pde.csv", index=False)
    worse = scoreboard.worse(scoreboard.cells(tmp_path))
    assert [*worse["where"]] == ["Burgers', with cross terms, coefficient MSE"]


def test_numbers_inside_functions_count() -> None:
    printed, true = sympy.parse_expr("sin(1.2*x)"), sympy.parse_expr("sin(1.0*x) + 0.5*x")
    assert np.abs(scoreboard.number_errors(printed, true)).max() == 0.5


def cell(paper_error: float, ours: float, **others: object) -> scoreboard.Cell:
    return scoreboard.Cell("analytic_mse", "f1", "best", "SEQL", paper_error, ours, **others)


def test_what_the_papers_digits_cannot_tell_apart_is_a_tie() -> None:
    assert cell(2.30e-4, 2.304e-4).outcome == scoreboard.TIE
    assert cell(4e-4, 1e-12, rounding=5e-4).outcome == scoreboard.TIE
    assert cell(6e-4, 1e-12, rounding=5e-4).outcome == scoreboard.AHEAD
    assert cell(1e-9, 2e-9).outcome == scoreboard.BEHIND


def test_what_is_not_measured_or_means_something_else_is_not_compared() -> None:
    assert cell(1.0, np.nan).outcome == scoreboard.APART
    assert cell(1.0, 0.1, apart="a GPU there").outcome == scoreboard.APART


def test_spreads_seconds_and_sindys_coefficients_are_no_wins(cells: pd.DataFrame) -> None:
    aside = cells[cells["apart"] != ""]
    assert set(aside["what"]) == {"std", "seconds a trial", "coefficient MSE"}
    assert set(aside[aside["what"] == "coefficient MSE"]["model"]) == {"SINDy"}


def test_sindy_is_compared_like_with_like(cells: pd.DataFrame) -> None:
    rows = cells[(cells["model"] == "SINDy") & (cells["what"] == "u_t MSE")]
    assert len(rows) == 4
    assert np.allclose(rows["ours"], rows["paper"], rtol=0.005)
