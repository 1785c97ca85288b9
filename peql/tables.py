"""From a user's table to steps of t in scaled units: checking, scaling, splitting, sorting."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_complex_dtype, is_numeric_dtype

from ._suggest import unknown_name
from .refinement import Points
from .training import Table
from .weights import HIDDEN

ROWS_PER_STEP = 4096  # more rows at one t are thinned to this many
SHORT = 5  # a step with fewer rows keeps all of them for the fit
POOL_ROWS = 32  # rows in a range of t that stands for a step where t lies on no grid
MOST_POOLS = HIDDEN[-1] - 2  # a kink of the meta-weight unit for each, and for both ends of t


def column_indices(
    columns: Sequence[str], varying: str | int | Sequence[str | int], named: bool = True
) -> list[int]:
    """Where the varying columns are; ``varying`` is a name, a position, or a list of them."""
    several = isinstance(varying, Sequence) and not isinstance(varying, str)
    indices = [
        _column_index(columns, one, named)  # type: ignore[arg-type]
        for one in (varying if several else [varying])  # type: ignore[union-attr]
    ]
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(f"varying={varying!r}: expected different columns, at least one")
    return indices


def _column_index(columns: Sequence[str], varying: str | int, named: bool) -> int:
    n = len(columns)
    if isinstance(varying, str):
        if not named:
            raise ValueError(
                f"varying={varying!r}, but X has no column names: pass a DataFrame, or the "
                f"position of the column, 0 to {n - 1}"
            )
        if varying not in columns:
            raise unknown_name("varying column", varying, columns)
        return list(columns).index(varying)
    try:
        position = operator.index(varying)  # any kind of integer
    except TypeError as error:
        raise ValueError(f"varying={varying!r}: expected a column's name or position") from error
    if not -n <= position < n:
        raise ValueError(f"varying={varying}: X has {n} columns, numbered 0 to {n - 1}")
    return position % n


def check_table(X: Any) -> Any:
    """Say what is wrong with a table before anything is computed from it; returns it."""
    if isinstance(X, pd.DataFrame):
        X = _check_frame(X)
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
        _check_finite(X, [f"number {k}" for k in range(X.shape[1])])
    shape = _shape(X)
    if len(shape) == 2 and shape[0] == 0:
        raise ValueError("X is empty (0 sample(s)), while a minimum of 1 is required: pass rows")
    return X


def _shape(values: Any) -> tuple[int, ...]:
    return values.shape if hasattr(values, "shape") else np.asarray(values).shape


def check_target(y: Any, X: Any) -> Any:
    """Say what is wrong with ``y``; returns it."""
    rows = [shape[0] for shape in (_shape(X), _shape(y)) if shape]
    if len(set(rows)) > 1:
        raise ValueError(f"X has {rows[0]} rows and y has {rows[1]}: each row of X needs one y")
    column = y if isinstance(y, pd.Series) else pd.Series(np.asarray(y).ravel())
    if is_complex_dtype(column.dtype):
        raise ValueError("Complex data not supported: y holds complex numbers")
    if not (is_numeric_dtype(column.dtype) or _holds_numbers(column)):
        raise ValueError(f"y holds no numbers but {column.dtype}: pass a numeric column")
    values = column.to_numpy(dtype=float, na_value=np.nan)
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise ValueError(
            f"y has {bad} values that are NaN or infinity: drop those rows or fill them"
        )
    return values if isinstance(y, pd.Series) else y


def _check_frame(frame: pd.DataFrame) -> pd.DataFrame:
    if not len(frame.columns):
        raise ValueError("X has 0 feature(s) (no columns) while a minimum of 1 is required")
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice:
        raise ValueError(f"columns {twice} of X are there more than once: rename or drop them")
    frame = frame.astype({c: float for c in frame if _holds_numbers(frame[c])})
    other = {
        str(c): str(kind)
        for c, kind in frame.dtypes.items()
        if not is_numeric_dtype(kind) or is_complex_dtype(kind)
    }
    if other:
        raise ValueError(
            f"columns of X that hold no numbers: {other}. Drop them, or encode them as numbers"
        )
    _check_finite(frame.to_numpy(dtype=float, na_value=np.nan), [repr(c) for c in frame])
    return frame


def _holds_numbers(column: pd.Series) -> bool:
    """Whether a column of Python objects has numbers only."""
    return column.dtype == object and all(isinstance(value, Real) for value in column)


def _check_finite(values: np.ndarray, names: Sequence[str]) -> None:
    counts = np.sum(~np.isfinite(values), axis=0)
    bad = [f"column {name} has {n}" for name, n in zip(names, counts, strict=True) if n]
    if bad:
        raise ValueError(
            f"X has values that are NaN or infinity: {', '.join(bad)}. Drop those rows or fill them"
        )


@dataclass(frozen=True)
class Scales:
    """Factors between raw and scaled units; one for y at all t: coefficients stay smooth in t."""

    x: np.ndarray
    y: float
    t_centre: np.ndarray
    t_half: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, t: np.ndarray) -> Scales:
        """Largest magnitude of each feature (outliers aside), root mean square of y, range of t."""
        largest = np.abs(x).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        spread = np.sqrt(np.mean((x / unit) ** 2, axis=0))
        unit = unit * np.where(spread > 0, np.minimum(1.0, 3 * spread), 1.0)
        size = np.abs(y).max(initial=0.0)
        rms = size * np.sqrt(np.mean((y / size) ** 2)) if size > 0 else 1.0
        low, high = t.min(axis=0), t.max(axis=0)
        half = (high - low) / 2
        return cls(
            unit,
            float(rms),
            (low + high) / 2,
            np.where(half > 0, half, 1.0),
        )

    def t(self, t: np.ndarray) -> np.ndarray:
        return (t - self.t_centre) / self.t_half


@dataclass(frozen=True)
class Arranged:
    """A table sorted into steps of t, in scaled units."""

    t: np.ndarray  # (step, varying), raw, ascending: a step's t, or the centre of its range
    points: Points  # rows to fit, float64
    held_out: Points  # rows to validate on
    table: Table  # rows to train on, float32, by distinct t
    scales: Scales


def arrange(
    x: np.ndarray,
    t: np.ndarray,
    y: np.ndarray,
    *,
    validation_fraction: float,
    pool_below: int,
    random: np.random.Generator,
    device: str = "cpu",
) -> Arranged:
    """Sort rows (any order, any number per t) into steps and hold some of each out.

    Where some t has fewer than ``pool_below`` rows, neighbouring t are pooled for refinement.
    Shapes: x (row, feature), t (row, varying), y (row,).
    """
    scales = Scales.of(x, y, t)
    values, step = np.unique(t, axis=0, return_inverse=True)
    step = step.reshape(-1)
    pooled = np.bincount(step).min() < pool_below
    shuffled = random.permutation(len(y))
    held = _held_out(step[shuffled], validation_fraction, spare_short=not pooled)
    fitted_rows, held_rows = shuffled[~held], shuffled[held]
    x, y, scaled_t = x / scales.x, y / scales.y, scales.t(t)

    trained = _padded(step, len(values), fitted_rows, x, y)
    filled = trained.mask.any(-1)  # a t whose only row is held out is not trained on
    columns = trained.x, trained.y[..., None], torch.as_tensor(scales.t(values)), trained.count
    table = Table(*(a[filled].to(device, torch.float32) for a in columns))
    if not pooled:
        points, held_out = trained, _padded(step, len(values), held_rows, x, y)
        return Arranged(values, points, held_out, table, scales)
    if t.shape[1] == 1:
        step, centres = _pools(scaled_t[:, 0], pool_below)
    else:
        step, centres = _boxes(scaled_t)
    offset = (scaled_t - centres[step]).round(12)  # exactly 0 where a range is one t
    points = _padded(step, len(centres), fitted_rows, x, y, offset)
    held_out = _padded(step, len(centres), held_rows, x, y, offset)
    raw = centres * scales.t_half + scales.t_centre
    return Arranged(raw, points, held_out, table, scales)


def _held_out(step: np.ndarray, fraction: float, spare_short: bool) -> np.ndarray:
    """Which rows (in random order) validate: a share of every step that is not short.

    Where all steps are short, a share of all rows, unless ``spare_short``.
    """
    counts = np.bincount(step)
    if counts.max() < SHORT and not spare_short:
        return np.arange(len(step)) < int(fraction * len(step))
    order = np.argsort(step, kind="stable")
    rank = np.empty(len(step), dtype=int)
    rank[order] = np.arange(len(step)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = np.floor(counts * fraction).astype(int)
    if fraction > 0:
        share = np.where(counts >= SHORT, np.maximum(share, 1), 0)
    return rank < share[step]


def _pools(t: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of t to fit as one step: the range of each row, and the centres.

    A t with at least ``least`` rows is a range of its own, others are joined to their neighbours.
    """
    values, step, counts = np.unique(t, return_inverse=True, return_counts=True)
    enough = max(POOL_ROWS, len(t) / MOST_POOLS)
    pool, rows, last = np.zeros(len(values), dtype=int), [0], 0
    for k, n in enumerate(counts):
        if rows[-1] and (n >= least or last >= least or rows[-1] >= enough):
            rows.append(0)
        pool[k], rows[-1], last = len(rows) - 1, rows[-1] + n, n
    full = np.flatnonzero(np.array(rows) >= least)
    if len(full):  # what is left over joins the full range before it, or the first
        pool = np.maximum(np.searchsorted(full, pool, side="right") - 1, 0)
    step = pool[step]
    return step, (np.bincount(step, weights=t) / np.bincount(step))[:, None]


def _boxes(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of t (row, varying) to fit as one step: halved at the median of the longest side."""
    enough = max(POOL_ROWS, len(t) / MOST_POOLS)
    waiting, boxes = [np.arange(len(t))], []
    while waiting:
        rows = waiting.pop()
        axis = int(np.argmax(np.ptp(t[rows], axis=0)))
        left = t[rows, axis] <= np.median(t[rows, axis])
        if min(left.sum(), (~left).sum()) < enough:
            boxes.append(rows)
        else:
            waiting += [rows[~left], rows[left]]
    step = np.empty(len(t), dtype=int)
    for k, rows in enumerate(boxes):
        step[rows] = k
    return step, np.stack([t[rows].mean(axis=0) for rows in boxes])


def _padded(
    step: np.ndarray,
    n_steps: int,
    rows: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    offset: np.ndarray | None = None,
) -> Points:
    """The chosen rows by step; with ``offset`` weights may be lines over a step."""
    rows = rows[np.argsort(step[rows], kind="stable")]
    counts = np.bincount(step[rows], minlength=n_steps)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = position < ROWS_PER_STEP
    rows, position = rows[kept], position[kept]
    shape = (n_steps, max(int(position.max(initial=0)) + 1, 1))
    place = (step[rows], position)
    px, py, mask = np.zeros((*shape, x.shape[1])), np.zeros(shape), np.zeros(shape)
    px[place], py[place], mask[place] = x[rows], y[rows], 1.0
    basis = np.ones((*shape, 1))
    if offset is not None:
        slopes = np.zeros((*shape, offset.shape[1]))
        slopes[place] = offset[rows]
        basis = np.concatenate([basis, slopes], axis=-1)
    return Points(*(torch.from_numpy(a) for a in (px, py, mask, basis)))
