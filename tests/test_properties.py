"""Any table gives a clear error or a finite answer: never a crash, never a silent NaN."""

import warnings

import numpy as np
import pandas as pd
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import peql

FAST = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCALES = st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e12])
MODELS = st.sampled_from([peql.EQL, peql.SEQL, peql.HEQL])


@st.composite
def tables(draw):
    """A random table: ragged t, any scale, duplicate rows, unsorted; a formula or noise as y."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    t = np.repeat(random.uniform(-1, 1, len(counts)) * draw(SCALES), counts)
    n_features = draw(st.integers(1, 3))
    X = {f"x{k}": random.uniform(-1, 1, len(t)) * draw(SCALES) for k in range(n_features)}
    if draw(st.booleans()):
        X["x0"] = np.round(X["x0"] / np.abs(X["x0"]).max())  # few distinct values, some 0
    kind = draw(st.sampled_from(["noise", "formula", "constant", "zero"]))
    unit = {k: v / max(np.abs(v).max(), 1e-300) for k, v in {**X, "t": t}.items()}
    y = {
        "noise": random.standard_normal(len(t)),
        "formula": unit["t"] * unit["x0"] ** 2 + unit["x0"],
        "constant": np.full(len(t), 3.0),
        "zero": np.zeros(len(t)),
    }[kind] * draw(SCALES)
    table = pd.DataFrame({**X, "t": t, "y": y})
    if draw(st.booleans()):
        table = pd.concat([table, table.iloc[: draw(st.integers(1, 3))]])  # duplicate rows
    table = table.sample(frac=1, random_state=draw(st.integers(0, 99)))
    if draw(st.integers(0, 5)) == 0:
        table.iloc[draw(st.integers(0, len(table) - 1)), draw(st.integers(0, n_features + 1))] = (
            draw(st.sampled_from([np.nan, np.inf, -np.inf]))
        )
    return table


@FAST
@given(table=tables(), cls=MODELS, refine=st.booleans())
def test_any_table_gives_an_error_or_a_finite_answer(table, cls, refine):
    X, y = table.drop(columns="y"), table["y"]
    model = cls(
        varying="t",
        max_iter=10,
        n_layers=1,
        primitives=["one", "identity", "square", "sin"],
        refine=refine,
        random_state=0,
        verbose=False,
    )
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            model.fit(X, y)
    except ValueError as error:
        assert len(str(error)) > 20  # it says what is wrong
        return
    assert np.isfinite(table.to_numpy()).all(), "a table with gaps was taken"
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.coefficients_.to_numpy()).all()
    assert not model.equation_.has(sympy.nan, sympy.zoo, sympy.oo)
    if refine:
        assert np.isfinite(model.coefficient_errors_.to_numpy()).all()
        model.jumps()


@FAST
@given(
    n=st.integers(3, 40),
    scale=SCALES,
    t_scale=SCALES,
    error=st.sampled_from([0.0, 1e-9, 0.1, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_curve_has_finite_breaks(n, scale, t_scale, error, seed):
    from peql.analysis.breaks import _describe, find_breaks

    random = np.random.default_rng(seed)
    t = np.unique(random.uniform(-1, 1, n)) * t_scale
    values = np.where(random.random(len(t)) < 0.5, 1.0, random.standard_normal(len(t))) * scale
    for b in find_breaks(t, values, np.full(len(t), error * scale)):
        described = _describe(b, t)
        assert t[0] <= described["low"] < described["high"] <= t[-1]
        assert np.isfinite([described["t"], described["size"]]).all()
