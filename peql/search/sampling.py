"""The rows that are looked at: all, samples, blocks of steps, and points between the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .evaluation import Rows


def prepare_rows(points) -> Rows:
    """From tensors to rows; padding repeats a step's first row, so that domains are the data's."""
    x, y, mask = (np.asarray(v, dtype=float) for v in (points.x, points.y, points.mask))
    first = mask.argmax(1)
    steps = np.arange(len(x))
    x = np.where(mask[..., None] > 0, x, x[steps, first][:, None])
    return Rows(x, np.where(mask > 0, y, 0.0), mask)


def between(rows: Rows, seed: int, margin: float = 0.0, n: int = 200) -> Rows:
    """Points inside the range of each step's rows: a grid, or points between pairs of rows.

    With a ``margin``, a share of the range, also beyond it; what is positive stays so.
    """
    rng = np.random.default_rng(seed)
    low, high = rows.x.min(1, keepdims=True), rows.x.max(1, keepdims=True)
    if rows.x.shape[-1] == 1:
        share = np.linspace(-margin, 1 + margin, n)[:, None]
        x = low + share * (high - low)
    else:
        i, j = rng.integers(rows.x.shape[1], size=(2, n))
        share = rng.uniform(-margin, 1 + margin, size=(n, 1))
        x = share * rows.x[:, i] + (1 - share) * rows.x[:, j]
    x = np.where(low > 0, np.maximum(x, low / 2), np.where(low == 0, np.maximum(x, 0.0), x))
    x = np.where(high < 0, np.minimum(x, high / 2), np.where(high == 0, np.minimum(x, 0.0), x))
    zeros = np.zeros(x.shape[:2])
    return Rows(x, zeros, zeros + 1, centres=rows.centres, work=rows.work)


def spread(n: int, most: int) -> np.ndarray:
    """At most so many of the places 0 … n-1, evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def thinned(rows: Rows, n_steps: int, n_rows: int, rng: np.random.Generator) -> Rows:
    """A sample of steps and of rows; rows that are there come before padding."""
    steps = spread(len(rows.x), n_steps)
    order = np.stack(
        [
            np.concatenate([rng.permutation(np.flatnonzero(m > 0)), np.flatnonzero(m == 0)])
            for m in rows.mask[steps]
        ]
    )[:, :n_rows]
    pick = np.arange(len(steps))[:, None]
    return Rows(
        rows.x[steps][pick, order],
        rows.y[steps][pick, order],
        rows.mask[steps][pick, order],
        centres=rows.centres,
        work=rows.work,
    )


def blocks(rows: Rows, numbers: int) -> Iterator[tuple[slice, Rows]]:
    """The rows of neighbouring steps, of at least two: as many as hold so many numbers."""
    n_steps, n_points = rows.y.shape
    n = max(2, numbers // n_points)
    starts = range(0, max(n_steps - 1, 1), n)  # a last step alone joins those before it
    for first, last in zip(starts, [*starts[1:], n_steps], strict=True):
        at = slice(first, last)
        arrays = rows.x[at], rows.y[at], rows.mask[at]
        yield at, Rows(*arrays, centres=rows.centres, work=rows.work)
