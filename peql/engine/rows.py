"""From rows in any order to steps of t in scaled units: scaling, splitting, sorting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .solver import Points
from .training import Table

ROWS_PER_STEP = 4096  # more rows at one t are thinned to this many,
UNEVEN = 8  # or to so many times the average step, so that padding stays in proportion to the rows
LEAST_ROWS = 64  # rows at one t that are never thinned
SHORT = 5  # a step with fewer rows keeps all of them for the fit
POOL_ROWS = 32  # rows in a range of t that stands for a step where t lies on no grid
MOST_POOLS = 4096  # steps that are solved for where t lies on no grid
DISTANT = 3.0  # a column whose middle is this many half ranges from 0 is trained on around it
SURE_DIGITS = 9  # decimals of a column that computing it on another machine does not change
TAME = 1e-4, 1e4  # a column whose largest magnitude is within is searched in its own units
OFFSET = 3.0  # a mean of y that is this many standard deviations from 0 is no task for training


@dataclass(frozen=True)
class Scales:
    """Between raw and scaled units: x = shift + unit·scaled; y = unit·scaled at all t alike.

    One unit of y at all t keeps coefficients smooth in t.
    """

    x: np.ndarray
    x_shift: np.ndarray
    y: float
    t_centre: np.ndarray
    t_half: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, t: np.ndarray, *, centred: bool = True) -> Scales:
        """Largest magnitude of each feature (outliers aside), size of y about its mean, range of t.

        If ``centred``, a feature far from 0 (a year, a temperature in Kelvin) is measured from its
        middle. Otherwise it stays as it is unless its numbers are out of the ordinary: log(x) is
        no longer log(x) in other units.
        """
        low, high = x.min(axis=0), x.max(axis=0)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        distant = centred & (np.abs(middle) > DISTANT * half) & (half > 0)
        shift = np.where(distant, middle, 0.0)
        largest = np.abs(x - shift).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        spread = np.sqrt(np.mean(((x - shift) / unit) ** 2, axis=0))
        unit = unit * np.where(spread > 0, np.minimum(1.0, 3 * spread), 1.0)
        if not centred:
            unit = np.where((TAME[0] < unit) & (unit < TAME[1]), 1.0, unit)
        low_t, high_t = t.min(axis=0), t.max(axis=0)
        half_t = high_t / 2 - low_t / 2
        return cls(
            unit,
            shift,
            _size(y - _offset(y)) or _size(y) or 1.0,
            low_t / 2 + high_t / 2,
            np.where(half_t > 0, half_t, 1.0),
        )

    def features(self, x: np.ndarray) -> np.ndarray:
        return (x - self.x_shift) / self.x

    def t(self, t: np.ndarray) -> np.ndarray:
        return (t - self.t_centre) / self.t_half


def _size(y: np.ndarray) -> float:
    """Root mean square, also of numbers whose squares are out of range."""
    largest = float(np.abs(y).max(initial=0.0))
    return largest * float(np.sqrt(np.mean((y / largest) ** 2))) if largest > 0 else 0.0


def _offset(y: np.ndarray) -> float:
    """The mean of y where it outweighs what varies about it, else 0."""
    largest = float(np.abs(y).max(initial=0.0)) or 1.0
    mean = float(np.mean(y / largest)) * largest
    return mean if abs(mean) > OFFSET * _size(y - mean) else 0.0


@dataclass(frozen=True)
class Arranged:
    """A table sorted into steps of t, in scaled units."""

    t: np.ndarray  # (step, varying), raw, ascending: a step's t, or the centre of its range
    points: Points  # rows to fit, float64
    held_out: Points  # rows to validate on
    table: Table  # rows to train on, float32, by distinct t, y without its offset
    offset: float  # of y, scaled: what is to be added to what was trained
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
    centred: bool = True,
) -> Arranged:
    """Sort rows (any order, any number per t) into steps and hold some of each out.

    Where some t has fewer than ``pool_below`` rows, neighbouring t are pooled for refinement.
    Shapes: x (row, feature), t (row, varying), y (row,).
    """
    # One order for the same rows, however they came and on whatever machine they were computed:
    # what is drawn does not depend on it. Only rows that are alike but for rounding change places.
    order = np.lexsort((y, *x.T, _coarse(y), *_coarse(x).T, *t.T[::-1]))
    x, t, y = x[order], t[order], y[order]
    scales = Scales.of(x, y, t, centred=centred)
    offset = _offset(y) / scales.y
    values, step = np.unique(t, axis=0, return_inverse=True)
    step = step.reshape(-1)
    pooled = np.bincount(step).min() < pool_below
    shuffled = random.permutation(len(y))
    held = _held_out(step[shuffled], validation_fraction, spare_short=not pooled)
    fitted_rows, held_rows = shuffled[~held], shuffled[held]
    x, y, scaled_t = scales.features(x), y / scales.y, scales.t(t)

    trained = _padded(step, len(values), fitted_rows, x, y)
    filled = trained.mask.any(-1)  # a t whose only row is held out is not trained on
    targets = trained.y[..., None] - offset
    columns = trained.x, targets, torch.as_tensor(scales.t(values)), trained.count
    table = Table(*(a[filled].to(device, torch.float32) for a in columns))
    if not pooled:
        points, held_out = trained, _padded(step, len(values), held_rows, x, y)
        return Arranged(values, points, held_out, table, offset, scales)
    if t.shape[1] == 1:
        step, centres = _pools(scaled_t[:, 0], pool_below)
    else:
        step, centres = _boxes(scaled_t)
    distance = (scaled_t - centres[step]).round(12)  # exactly 0 where a range is one t
    points = _padded(step, len(centres), fitted_rows, x, y, distance)
    held_out = _padded(step, len(centres), held_rows, x, y, distance)
    raw = centres * scales.t_half + scales.t_centre
    return Arranged(raw, points, held_out, table, offset, scales)


def _coarse(columns: np.ndarray) -> np.ndarray:
    """Columns (row, ...) without the digits that rounding decides, in units of each's largest."""
    return np.round(columns / np.abs(columns).max(axis=0, initial=1e-300), SURE_DIGITS)


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
    distance: np.ndarray | None = None,
) -> Points:
    """The chosen rows by step; with the ``distance`` of t weights may be lines over a step."""
    index, mask = by_step(step, n_steps, rows)
    basis = np.ones((*index.shape, 1))
    if distance is not None:
        basis = np.concatenate([basis, distance[index] * mask[..., None]], axis=-1)
    arrays = x[index] * mask[..., None], y[index] * mask, mask, basis
    return Points(*(torch.from_numpy(a) for a in arrays))


def by_step(step: np.ndarray, n_steps: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the chosen rows of each step are, (step, point), and a mask of what is no padding.

    ``step`` is the step of every row. Long steps are thinned, short ones padded.

    >>> by_step(np.array([0, 1, 0]), 2, np.array([2, 1, 0]))[0]
    array([[2, 0],
           [1, 2]])
    """
    rows = rows[np.argsort(step[rows], kind="stable")]
    counts = np.bincount(step[rows], minlength=n_steps)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    most = min(ROWS_PER_STEP, max(LEAST_ROWS, UNEVEN * len(rows) // max(n_steps, 1)))
    kept = position < most
    rows, position = rows[kept], position[kept]
    shape = (n_steps, max(int(position.max(initial=0)) + 1, 1))
    index, mask = np.full(shape, rows[0] if len(rows) else 0), np.zeros(shape)
    index[step[rows], position], mask[step[rows], position] = rows, 1.0
    return index, mask
