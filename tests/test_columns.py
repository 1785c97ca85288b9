"""Which columns of a reader's table an equation can use, and as what."""

import datetime

import numpy as np
import pandas as pd
import pytest

from peql.columns import as_fitted, days, leave_out, numbers, select

GOOD = pd.DataFrame({"speed": [1.0, 2, 3], "time": [0.0, 0, 1], "force": [2.0, 4, 6]})


@pytest.fixture
def subjects():
    """Three subjects, ten rows each, with a weight each."""
    random = np.random.default_rng(0)
    who = np.repeat(["ann", "bob", "cy"], 10)
    x = random.uniform(1, 2, 30)
    return pd.DataFrame({"who": who, "x": x, "weight": np.repeat([60.0, 80, 70], 10), "y": x**2})


# --- what is left out ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "note"),
    [
        (lambda d: 9.81, "'new' is 9.81 in every row"),
        (lambda d: np.arange(len(d)), "'new' numbers the rows"),
        (lambda d: np.arange(len(d))[::-1] + 1, "'new' numbers the rows"),
        (lambda d: d["x"], "'new' is 'x' in every row"),
        (lambda d: 1000 * d["x"], "'new' is 1000 times 'x' in every row"),
        (lambda d: -d["x"] / 3.6, "'new' is -0.277778 times 'x'"),
        (lambda d: d["x"] + 273.15, "'new' is 'x' + 273.15 in every row"),
        (lambda d: 32 - 1.8 * d["x"], "'new' is -1.8 times 'x' + 32 in every row"),
        (lambda d: d["who"].map({"ann": 1, "bob": 5, "cy": 2}), "same in all rows of a 'who'"),
    ],
)
def test_a_column_that_can_be_no_term_is_left_out_and_said(subjects, column, note):
    table = subjects.drop(columns="weight").assign(new=column)
    kept, notes = leave_out(table, "y", "who")
    assert list(kept) == ["who", "x", "y"]
    [said] = notes
    assert note in said


def test_useful_columns_stay(subjects):
    random = np.random.default_rng(1)
    useful = subjects.drop(columns="weight").assign(
        step=np.tile(np.arange(10), 3),  # begins again in each group
        almost=lambda d: d["x"] + 1e-6 * random.standard_normal(30),
        binary=np.tile([0, 1], 15),
        whole=random.permutation(30) * 2,
    )
    kept, notes = leave_out(useful, "y", "who")
    assert (list(kept), notes) == (list(useful), [])


def test_an_index_with_gaps_is_known_by_its_name(subjects):
    for name in ("Unnamed: 0", "ID", "sample_id", "Nr."):
        table = subjects.drop(columns="weight").assign(**{name: np.arange(30) * 7 + 3})
        assert leave_out(table, "y", "who")[1] == [f"{name!r} numbers the rows: left out"]


def test_where_every_t_is_its_own_nothing_is_a_property_of_a_group():
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(size=(50, 3)), columns=["x", "t", "y"])
    assert leave_out(table, "y", "t")[1] == []


def test_what_is_asked_for_by_name_stays_unless_it_says_nothing(subjects):
    kept, notes = leave_out(subjects.assign(g=1), "y", "who", asked=["weight", "x", "g"])
    assert (list(kept), len(notes)) == (["who", "x", "weight", "y"], 1)
    assert leave_out(subjects, "y", "who", grouped=False)[1] == []


def test_the_only_feature_stays():
    table = pd.DataFrame({"x": [0, 1, 2, 3], "t": [0, 0, 1, 1], "y": [0.0, 1, 2, 3]})
    assert leave_out(table, "y", "t")[1] == []


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="no column is left to explain 'force' by: 'speed' is 1"):
        select(GOOD.assign(speed=1), "force", "time")


# --- dates and labels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        ["2024-01-01", "2024-01-02"],
        ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"],
        ["01.01.2024", "02.01.2024"],
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[s]"),
        pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC"),
    ],
)
def test_dates_are_days_since_an_origin_that_is_said(written):
    table = pd.DataFrame({"x": [1.0, 2], "when": written, "y": [1.0, 2]})
    notes = []
    X, _ = select(table, "y", "when", notes=notes)
    assert X["when"].tolist() == [8766, 8767]
    assert notes == ["'when' holds dates: its numbers are days since 2000-01-01"]
    assert as_fitted(table, ["x", "when"])["when"].tolist() == [8766, 8767]


def test_text_to_vary_along_is_a_label_each(subjects):
    notes = []
    X, _ = select(subjects, "y", "who", notes=notes)
    assert X["who"].tolist() == subjects["who"].tolist()
    assert list(X) == ["x", "who"]
    assert notes[0] == "'who' holds text: each of its 3 values is a label"
    assert "'weight' is the same in all rows" in notes[1]


def test_numbers_written_as_text_are_no_dates_and_no_labels():
    assert days(pd.Series(["1.5", "2.5"])) is None
    assert days(pd.Series(["202401", "202402"])) is None
    table = pd.DataFrame({"x": ["1.5", "2.5"], "t": ["0", "1"], "y": [1.0, 2]})
    X, _ = select(table, "y", "t")
    assert X.to_numpy().tolist() == [[1.5, 0], [2.5, 1]]


# --- values ----------------------------------------------------------------------------------


def test_a_number_beyond_floating_point_is_named():
    huge = GOOD.astype(object)
    huge.loc[1, "speed"] = 10**400
    with pytest.raises(ValueError, match=r"column 'speed', row 2: 100000000000… is too large"):
        select(huge, "force", "time")


def test_masked_values_are_gaps():
    masked = np.ma.masked_array([1.0, 2, 3], [False, True, False])
    assert numbers(pd.Series(masked)).isna().tolist() == [False, True, False]
    assert numbers(pd.Series([1, None, 3], dtype="Int64")).isna().tolist() == [False, True, False]


def test_words_among_numbers_are_gaps_but_numbers_with_signs_are_not():
    notes = []
    marked = pd.concat([GOOD, GOOD]).assign(speed=[1, "n.d.", 3, "-", 5, 6])
    X, _ = select(marked, "force", "time", drop_missing=True, notes=notes)
    assert X["speed"].tolist() == [1, 3, 5, 6]
    assert notes[0] == "'speed' has text in 2 rows ('n.d.', '-'): they count as gaps"
    with pytest.raises(ValueError, match=r"'speed' has 2 \(data rows 2, 4\).*--drop-missing"):
        select(marked, "force", "time")
    marked = marked.assign(speed=[1, "n.d.", 3, "<0.5", 5, 6])
    with pytest.raises(ValueError, match=r"row 4 has '<0\.5'"):
        select(marked, "force", "time", drop_missing=True)


def test_gaps_in_a_column_of_no_use_cost_no_rows(subjects):
    notes = []
    holes = subjects.assign(empty=np.nan, weight=subjects["weight"].mask(subjects.index % 7 == 0))
    X, _ = select(holes, "y", "who", notes=notes)
    assert (len(X), list(X)) == (30, ["x", "who"])
    assert "'empty' is empty: left out" in notes


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda d: d, ("forze", "time"), "unknown target column 'forze': did you mean 'force'"),
        (lambda d: d, ("force", "tim"), "unknown varying column 'tim': did you mean 'time'"),
        (lambda d: d, ("force", "time", ["sped"]), "unknown feature column 'sped'.*'speed'"),
        (lambda d: d, ("force", "force"), r"\['force'\] are asked for twice"),
        (lambda d: d, ("force", "time", ["time"]), r"\['time'\] are asked for twice"),
        (lambda d: d[["time", "force"]], ("force", "time"), "no column of numbers besides"),
        (
            lambda d: d.assign(n="north"),
            ("force", "time", ["speed", "n"]),
            r"column 'n' holds no numbers \(row 1 has 'north'\)",
        ),
        (
            lambda d: d.assign(n=["1", "2", "3,5"]),
            ("force", "time"),
            r"column 'n' holds numbers and text \(row 3 has '3,5'\).*--features",
        ),
        (lambda d: d.assign(force="much"), ("force", "time"), "'force' holds no numbers"),
        (lambda d: d.assign(force="2020-01-01"), ("force", "time"), "'force' holds dates"),
        (lambda d: d.assign(force=7.5), ("force", "time"), "'force' is 7.5 in every row"),
        (lambda d: d.assign(speed=1j), ("force", "time"), "complex"),
        (
            lambda d: d.mask(d == 3),
            ("force", "time"),
            r"missing or infinite: 'speed' has 1 \(data rows 3\).*--drop-missing",
        ),
        (lambda d: d.replace(6, np.inf), ("force", "time"), "'force' has 1"),
        (
            lambda d: d.assign(time=["a", None, "b"]),
            ("force", "time"),
            r"'time' has 1 \(data rows 2\)",
        ),
    ],
)
def test_bad_tables_are_explained(change, arguments, message):
    with pytest.raises(ValueError, match=message):
        select(change(GOOD), *arguments)


def test_incomplete_rows_are_left_out_on_request_and_counted():
    notes = []
    X, y = select(GOOD.mask(GOOD == 3), "force", "time", drop_missing=True, notes=notes)
    assert X["speed"].tolist() == [1, 2]
    assert len(y) == 2
    assert notes == ["1 of 3 rows have gaps: left out"]
    with pytest.raises(ValueError, match="0 complete rows are left"):
        select(GOOD.mask(GOOD >= 2), "force", "time", drop_missing=True)
