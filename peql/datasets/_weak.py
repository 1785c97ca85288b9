"""The weak form: an equation times test functions, integrated, with derivatives moved to them."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from ._series import Array, Basis

POWER = 8  # of (1 - s²): with up to four derivatives it still vanishes smoothly at its ends
STEPS = 8  # from its middle to its end: with fewer, sums over the grid are not integrals
REACH = 2 * np.sqrt(
    2 * POWER
)  # half width times the field's shortest wave: two spreads of the bump


class TestFunctions:
    """Bumps (1 - s²)^8 along one direction, as wide as the noise asks: the shortest wave that the
    field shows above it is nearly averaged out.

    ``bumps(d, f)`` integrates the d-th derivative of each bump times f (point, ...); the integral
    of a bump is 1, so with d = 0 the rows (bump, ...) are means of f.

    >>> from peql.datasets._series import fourier
    >>> grid = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    >>> bumps = TestFunctions(fourier(grid, 1), highest=8, count=16)
    >>> f = np.sin(grid)[:, None]
    >>> bool(np.allclose(-bumps(1, f), bumps(0, np.cos(grid)[:, None]), atol=1e-6))
    True
    """

    __test__ = False  # not one of pytest's

    def __init__(self, basis: Basis, highest: int, count: int) -> None:
        grid, n = basis.grid, len(basis.grid)
        step = float(np.diff(grid).max())
        length = float(grid[-1] - grid[0]) + (step if basis.periodic else 0.0)
        # A polynomial of degree k has the waves k / (half the length) in the middle.
        shortest = (2 * np.pi if basis.periodic else 2.0) * max(highest, 1) / length
        self.half = max(REACH / shortest, STEPS * step)
        if 2 * self.half >= length:
            raise ValueError(
                f"the weak form needs test functions {2 * self.half:.3g} wide here, and the field "
                f"is {length:.3g} long: take more points, or derivatives='auto'"
            )
        from_ends = np.minimum(grid - grid[0], grid[-1] - grid)
        inside = np.flatnonzero(basis.periodic | (from_ends >= self.half))
        middles = (np.arange(count) + 0.5) * len(inside) / count
        self.centres = inside[np.unique(middles.astype(int))]
        self.edges = (0, 0) if basis.periodic else (int(inside[0]), n - 1 - int(inside[-1]))
        distance = grid - grid[self.centres, None]
        if basis.periodic:
            distance = (distance + length / 2) % length - length / 2
        self.place = distance / self.half
        self.weight = np.full(n, step) if basis.periodic else np.gradient(grid)

    def __call__(self, order: int, f: Array) -> Array:
        """(bump, ...) of f (point, ...)."""
        bump = Polynomial([1, 0, -1]) ** POWER
        inside = np.abs(self.place) < 1

        def weights(shape: Polynomial) -> Array:
            return np.where(inside, shape(self.place), 0.0) * self.weight

        size = weights(bump).sum(axis=1, keepdims=True) * self.half**order
        return weights(bump.deriv(order) if order else bump) / size @ f
