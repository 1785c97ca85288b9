"""A measured field as one series: global bases in x and t, shrunk where noise hides the signal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int_]

FEWEST = 8  # points of a direction: below, no wave is left from which noise could be told
POLYNOMIALS = 0.75  # of the points: the higher ones are large between points, over half the grid
REGION = 5  # waves around; 50 numbers of pure noise exceed twice their mean once in 30,000
LINE = 7  # waves along t alone: a wave in x that a symmetry forbids is then seen to be absent
BLOCK = 3  # waves around for the share that is kept: the fewest that still average
EXCESS = 2.0  # power over noise from which keeping a number does more good than harm
FLOOR = 1e-9  # noise relative to the field's size that is taken for rounding or a solver's error
MOST_MISSING = 0.2  # measured up to here: the error grows by no more than half
REFILLS, SETTLED = 60, 1e-4  # each refill shrinks the error to about the share that is missing
SHORT, COARSE = 0.75, 1e-3  # of the size of u: differentiated twice, the shortest waves matter then


@dataclass(frozen=True)
class Basis:
    """Functions that are orthonormal on the points of ``grid``, from long waves to short.

    ``wave`` (function,) is the number of each, equal for the sine and the cosine of one wave;
    ``tables[d]`` (point, function) are derivatives, so ``tables[0].T @ tables[0]`` is the identity.
    """

    grid: Array
    tables: tuple[Array, ...]
    wave: Whole
    periodic: bool

    @property
    def values(self) -> Array:
        """The functions themselves, (point, function)."""
        return self.tables[0]

    def trusted(self, highest: int, order: int, edge: float) -> Mask:
        """Where the derivative of waves up to ``highest`` has at most ``edge`` times its usual
        noise: everywhere on a period, away from the ends on an interval.
        """
        size = np.linalg.norm(self.tables[order][:, self.wave <= highest], axis=1)
        return size <= edge * np.median(size)

    def spread(self, count: int, trusted: Mask) -> Whole:
        """About ``count`` of the trusted points, spaced as the waves are: evenly on a period,
        closer towards the ends on an interval, as polynomials are sharper there.
        """
        where = np.flatnonzero(trusted)
        if count >= len(where):
            return where
        position = np.arange(len(self.grid), dtype=float)
        if not self.periodic:
            middle, half = (self.grid[-1] + self.grid[0]) / 2, (self.grid[-1] - self.grid[0]) / 2
            position = np.arccos(np.clip((middle - self.grid) / half, -1, 1))
        position = position[where]
        if self.periodic:
            nodes = np.arange(count) * len(self.grid) / count
        else:
            nodes = np.linspace(position[0], position[-1], count + 1)[:-1]
            nodes = nodes + (position[-1] - position[0]) / (2 * count)
        return where[np.unique(np.abs(position - nodes[:, None]).argmin(axis=1))]


def fourier(grid: Array, order: int) -> Basis:
    """The waves of one period, uniformly sampled; as many as points.

    >>> basis = fourier(np.arange(8) / 8, 1)
    >>> basis.wave.tolist(), bool(np.allclose(basis.values.T @ basis.values, np.eye(8)))
    ([0, 1, 1, 2, 2, 3, 3, 4], True)
    """
    n = len(grid)
    length = (grid[-1] - grid[0]) * n / (n - 1)
    wave = (np.arange(n) + 1) // 2
    turn = np.where((np.arange(n) % 2 == 1) | (wave == 0), 0.0, -np.pi / 2)  # cosine, then sine
    phase = 2 * np.pi * np.outer(np.arange(n), wave) / n + turn
    size = np.where((wave == 0) | (2 * wave == n), 1.0, np.sqrt(2.0)) / np.sqrt(n)
    speed = 2 * np.pi * wave / length
    tables = [size * speed**d * np.cos(phase + d * np.pi / 2) for d in range(order + 1)]
    return Basis(grid, tuple(tables), wave, periodic=True)


def polynomials(grid: Array, order: int) -> Basis:
    """The orthogonal polynomials of a grid, uniform or not, for three quarters of its points.

    >>> basis = polynomials(np.linspace(0, 1, 16) ** 2, 2)
    >>> basis.values.shape, bool(np.allclose(basis.values.T @ basis.values, np.eye(12)))
    ((16, 12), True)
    """
    n = len(grid)
    functions = int(POLYNOMIALS * n)
    scale = 2 / (grid[-1] - grid[0])
    s = scale * (grid - grid[0]) - 1
    tables = [np.zeros((n, functions + 1)) for _ in range(order + 1)]  # the last column stays 0
    values = tables[0]
    values[:, 0] = 1 / np.sqrt(n)
    last = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # at the ends, which are not trusted then
        for k in range(functions - 1):
            centre = float(values[:, k] @ (s * values[:, k]))
            new = (s - centre) * values[:, k] - last * values[:, k - 1]
            for _ in range(2):  # rounding would let the recurrence lose orthogonality
                new = new - values[:, : k + 1] @ (values[:, : k + 1].T @ new)
            length = float(np.linalg.norm(new))
            values[:, k + 1] = new / length
            for d in range(1, order + 1):
                slope = (s - centre) * tables[d][:, k] - last * tables[d][:, k - 1]
                tables[d][:, k + 1] = (slope + d * tables[d - 1][:, k]) / length
            last = length
    kept = tuple(table[:, :functions] * scale**d for d, table in enumerate(tables))
    return Basis(grid, kept, np.arange(functions), periodic=False)


@dataclass(frozen=True)
class Series:
    """``coefficients`` and ``gain`` (function of x, function of t); ``noise`` in units of u, and
    whether it is so small that the field is ``clean``.
    """

    x: Basis
    t: Basis
    coefficients: Array
    gain: Array
    noise: float
    clean: bool

    def __call__(self, order_x: int, order_t: int, rows: Whole, columns: Whole) -> Array:
        """A derivative at some points: (rows, columns).

        >>> x, t = np.arange(16) / 16, np.linspace(0, 1, 16)
        >>> series = fit(np.sin(2 * np.pi * x)[:, None] * t, fourier(x, 1), polynomials(t, 1))
        >>> bool(np.allclose(series(1, 1, np.arange(1), np.arange(3, 6)), 2 * np.pi))
        True
        """
        used_x, used_t = self.gain.any(axis=1), self.gain.any(axis=0)
        table_x = self.x.tables[order_x][np.ix_(rows, np.flatnonzero(used_x))]
        table_t = self.t.tables[order_t][np.ix_(columns, np.flatnonzero(used_t))]
        return table_x @ self.coefficients[np.ix_(used_x, used_t)] @ table_t.T

    @property
    def everywhere(self) -> Array:
        """The series at every point of the grid."""
        return self.x.values @ self.coefficients @ self.t.values.T

    def measured_again(self, random: np.random.Generator) -> Series:
        """What another measurement would give, were this series the field: noise and all."""
        noise = self.noise * random.standard_normal((len(self.x.grid), len(self.t.grid)))
        return _shrink(self.everywhere + noise, self.x, self.t)

    @cached_property
    def freedom(self) -> tuple[int, int]:
        """How many functions of x and of t the series is made of, a shrunk one counted in part."""
        along_x, along_t = self.gain.max(axis=1).sum(), self.gain.max(axis=0).sum()
        return int(np.ceil(along_x)), int(np.ceil(along_t))

    @cached_property
    def highest(self) -> tuple[int, int]:
        """The shortest wave in x and in t."""
        in_x, in_t = self.gain.any(axis=1), self.gain.any(axis=0)
        return int(self.x.wave[in_x].max()), int(self.t.wave[in_t].max())


def fit(u: Array, x: Basis, t: Basis, name: str = "u") -> Series:
    """The series of a field (x, t); points that are NaN are filled by the series itself."""
    missing = np.isnan(u)
    series = _fill(u, missing, x, t) if missing.any() else _shrink(u, x, t)
    if not series.gain.any():
        raise ValueError(
            f"nothing in {name} exceeds its noise, estimated as {series.noise:.3g} (standard "
            f"deviation; that of {name} is {np.nanstd(u):.3g}): its derivatives cannot be told. "
            "Average repeated measurements, or measure more points"
        )
    _check_holes(missing, series, name)
    for axis, basis in enumerate((x, t)):
        _check_resolved(series, basis, axis, name)
    return series


def _shrink(u: Array, x: Basis, t: Basis, lost: float = 0.0, doubt: float = 0.0) -> Series:
    """Keep of each wave what is signal: all of it, nothing, or a part near the noise (Wiener).

    A share ``lost`` of the points was filled, with errors of the mean square ``doubt``.
    """
    coefficients = x.values.T @ u @ t.values
    # Sines and cosines of one wave are one cell of (wave of x, wave of t).
    sums = np.zeros((x.wave[-1] + 1, t.wave[-1] + 1))
    np.add.at(sums, np.ix_(x.wave, t.wave), coefficients**2)
    cells = np.outer(np.bincount(x.wave), np.bincount(t.wave)).astype(float)

    def around(*size: int) -> Array:
        return ndimage.uniform_filter(sums, size) / ndimage.uniform_filter(cells, size)

    short = np.ix_(x.wave > x.wave[-1] / 2, t.wave > 3 * t.wave[-1] / 4)
    # A normal variable is within 0.6745 of its spread half of the time; the median does not see
    # the odd wave of signal. Filled points are smooth: the noise is that of the others.
    noise = float(np.median(np.abs(coefficients[short])) / 0.6745) / np.sqrt(1 - lost)
    least = FLOOR * float(np.sqrt(np.mean(u**2)))
    clean, noise = noise <= least, max(float(noise), least)
    level = noise**2 + lost * doubt
    region = _largest(around(REGION, REGION) > EXCESS * level, sums)
    power = np.minimum(around(1, LINE), around(BLOCK, BLOCK))
    with np.errstate(divide="ignore"):
        share = np.where(region & (power > EXCESS * level), 1 - level / power, 0.0)
    gain = share[np.ix_(x.wave, t.wave)]
    return Series(x, t, gain * coefficients, gain, noise, clean)


def _largest(mask: Mask, weight: Array) -> Mask:
    """The connected part that weighs most; signal is one, chance excesses lie elsewhere."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    if count == 0:
        return mask
    weights = ndimage.sum(weight, labels, np.arange(1, count + 1))
    return ndimage.binary_fill_holes(labels == 1 + int(np.argmax(weights)))


def _fill(u: Array, missing: Mask, x: Basis, t: Basis) -> Series:
    """The series with missing points taken from neighbours, then from itself until it settles."""
    filled, lost = u.copy(), float(missing.mean())
    near = ndimage.distance_transform_edt(missing, return_distances=False, return_indices=True)
    filled[missing] = filled[tuple(near)][missing]
    doubt = float(np.nanvar(u))
    for _ in range(REFILLS):
        series = _shrink(filled, x, t, lost, doubt)
        new = series.everywhere[missing]
        doubt = float(np.mean((new - filled[missing]) ** 2))
        filled[missing] = new
        if doubt < SETTLED * series.noise**2:
            break
    return series


def _check_resolved(series: Series, basis: Basis, axis: int, name: str) -> None:
    """Waves as short as the grid's are not all there are: the field has shorter ones."""
    power = (series.coefficients**2).sum(axis=1 - axis)
    short = basis.wave > SHORT * basis.wave[-1]
    size = float(np.sqrt(power[short].sum() / power[1:].sum())) if power[1:].any() else 0.0
    if size > COARSE:
        along, points = "xt"[axis], len(basis.grid)
        raise ValueError(
            f"{name} is too coarse along {along}: with {points} points, its shortest waves still "
            f"have {size:.1g} of its size, so that it has shorter ones than the grid shows. Take "
            f"more points of {along}, or a shorter range of it; if {name} has a kink, as where a "
            f"material ends, cut it there and fit each part by itself, with periodic=False"
        )


def _check_holes(missing: Mask, series: Series, name: str) -> None:
    """A hole that the shortest waves fit into is not filled by data but by chance."""
    size = [int(np.ceil(2 * n / d)) + 1 for n, d in zip(missing.shape, series.freedom, strict=True)]
    hole = ndimage.binary_erosion(missing, np.ones(size), border_value=1)
    if hole.any():
        where = tuple(np.argwhere(hole)[0].tolist())
        raise ValueError(
            f"{name} has a hole of more than {size[0]} x {size[1]} missing points around {where}, "
            "larger than its shortest waves: cut the field there and use the parts"
        )
