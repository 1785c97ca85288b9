"""Three ways to differentiate a gridded field along one axis, and what each asks of the grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np
from numpy import fft
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

Array = NDArray[np.float64]
SPLINE_DEGREE = 7  # above this, error at the edges of t grows faster than error inside shrinks


@dataclass(frozen=True)
class Method:
    """Takes a field, its grid along ``axis`` and an order; order 0 gives the (smoothed) field."""

    apply: Callable[[Array, Array, int, int], Array]
    points: Callable[[int], int]
    uniform: bool = True
    highest: int | None = None
    advice: str = "take a lower order or a longer grid"

    def __call__(self, u: Array, grid: Array, order: int, axis: int, name: str = "x") -> Array:
        """The derivative of ``u`` along ``axis``, of the same shape.

        >>> x = np.linspace(0, 1, 20)
        >>> SPLINE(x**2, x, 2, axis=0).round(6)[:3]
        array([2., 2., 2.])
        """
        if self.highest is not None and order > self.highest:
            raise ValueError(f"this method differentiates {self.highest} times, got order={order}")
        if len(grid) < self.points(order):
            raise ValueError(
                f"too few points along {name} for a derivative of order {order}: "
                f"{self.points(order)} are needed, got {len(grid)}; {self.advice}"
            )
        if self.uniform:
            check_uniform(grid, name)
        return self.apply(u, grid, order, axis)


def check_uniform(grid: Array, name: str) -> None:
    """Raise if the steps of ``grid`` differ."""
    steps = np.diff(grid)
    if not np.allclose(steps, steps.mean(), rtol=1e-4):
        raise ValueError(
            f"{name} must be uniform for these derivatives: its steps go from {steps.min():g} to "
            f"{steps.max():g}; pass periodic=False with derivatives='auto', or interpolate u to a "
            "uniform grid"
        )


def _step(grid: Array) -> float:
    return float(grid[-1] - grid[0]) / (len(grid) - 1)


@lru_cache(maxsize=32)
def fourier_factor(n: int, step: float, order: int) -> NDArray[np.complex128]:
    """What multiplies each wave of a real field on n points; shape (n // 2 + 1,)."""
    factor = np.asarray((2j * np.pi * fft.rfftfreq(n, step)) ** order, dtype=np.complex128)
    if order % 2 and n % 2 == 0:
        factor[-1] = 0  # the odd derivative of the highest wave of an even grid is not on the grid
    return factor


def _fourier(u: Array, grid: Array, order: int, axis: int) -> Array:
    if order == 0:
        return u
    factor = fourier_factor(len(grid), _step(grid), order)
    waves = np.moveaxis(fft.rfft(u, axis=axis), axis, -1) * factor
    return np.moveaxis(fft.irfft(waves, len(grid)), -1, axis)


@lru_cache(maxsize=8)
def _difference_matrix(n: int, order: int) -> Array:
    """Second-order differences on unit steps, one-sided at the ends; shape (n, n)."""

    def stencil(offsets: Array) -> Array:
        moments = np.vander(offsets, increasing=True).T
        return np.linalg.solve(moments, np.eye(len(offsets))[order] * factorial(order))

    half = (order + 1) // 2
    ahead, around = np.arange(order + 2.0), np.arange(-half, half + 1.0)
    matrix = np.zeros((n, n))
    for row in range(n):
        offsets = ahead if row < half else -ahead if row >= n - half else around
        matrix[row, row + offsets.astype(int)] = stencil(offsets)
    return matrix


def _difference(u: Array, grid: Array, order: int, axis: int) -> Array:
    if order == 0:
        return u
    if order > 3:  # as in Rudy et al., whose figures ours must agree with
        return _difference(_difference(u, grid, 3, axis), grid, order - 3, axis)
    product = _difference_matrix(len(grid), order) @ np.moveaxis(u, axis, 0)
    return np.moveaxis(product, 0, axis) / _step(grid) ** order


def _spline(u: Array, grid: Array, order: int, axis: int) -> Array:
    if order == 0:
        return u
    return make_interp_spline(grid, u, SPLINE_DEGREE, axis=axis).derivative(order)(grid)


FOURIER = Method(_fourier, points=lambda order: 2 * order + 1)
DIFFERENCE = Method(_difference, points=lambda order: (0, 3, 4, 6)[min(order, 3)])
SPLINE = Method(
    _spline, points=lambda _: SPLINE_DEGREE + 1, uniform=False, highest=SPLINE_DEGREE - 1
)
