"""One rule to choose between formulas, for the search and for a trained network alike."""

from __future__ import annotations

import math

import numpy as np

from .solver import PRECISION

NODE = 3.0  # price of a node of the form: twice the logarithm of the four or five likely choices
DOUBT = 10.0  # price of what a scientist would doubt: a pole just beyond the data, half a wave
ROUNDING = 1e-30  # an error, relative to y's mean square, that float64 leaves of an offset
MOST_CONSTANTS = 0.5  # constants of a step, as a share of its rows; more would interpolate
CONSISTENT = 10.0  # a formula this near to the best is also consistent: odds of exp(-5)


def floor(y: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean squared error of each step that counts as exact; y, mask (step, point)."""
    count = np.maximum(mask.sum(-1), 1)
    mean = (y * mask).sum(-1) / count
    power = (y**2 * mask).sum(-1) / count
    variance = ((y - mean[:, None]) ** 2 * mask).sum(-1) / count
    overall = variance.mean() or power.mean() or 1.0
    return PRECISION * np.maximum(variance, 1e-6 * overall) + ROUNDING * power


def information(
    error: np.ndarray,
    rows: np.ndarray,
    n_free: int,
    n_shared: int,
    size: float,
    floor: np.ndarray | float = 0.0,
    spare: int = 0,
) -> float:
    """Schwarz's criterion over all steps plus the length of the form; smaller is better.

    error, rows, floor (step,): mean squared error and number of rows of each step, and the error
    that counts as exact. ``n_free`` constants differ from step to step, ``n_shared`` do not;
    ``size`` counts the nodes of the form. Errors are multiplied by n/(n - k), because
    the constants have fitted part of the noise. More constants than half the rows of a typical step
    are never worth it, ``spare`` of them aside that may yet turn out to be shared or none.

    >>> error, rows = np.array([0.5, 0.5]), np.array([50, 50])
    >>> information(error, rows, 1, 0, 3) < information(error, rows, 2, 0, 3)
    True
    """
    rows = np.asarray(rows, dtype=float)
    n = rows.sum()
    if n_free - spare > MOST_CONSTANTS * np.median(rows) or n_free * len(rows) + n_shared >= n:
        return math.inf
    lost = n_free + n_shared / len(rows)
    bias = rows / np.maximum(rows - lost, 0.5)
    pooled = (rows / n * bias * (error + floor)).sum()
    if not np.isfinite(pooled):
        return math.inf
    return float(n * math.log(pooled) + (n_free * len(rows) + n_shared) * math.log(n) + NODE * size)
