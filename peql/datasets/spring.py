"""The spring system: two particles as two images, and the force or the energy between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from ._dataset import Dataset
from .analytic import paper_grid

PIXELS, HALF_WIDTH = 64, 4.0  # an image is a row of pixels over [-4, 4]
SD = 0.1  # standard deviation of a particle's image; the paper's text says variance 0.1
DARK = 1e-12  # light below this is none
REACH = 3.0  # particles are within [-3, 3]
LONGEST = 4.0  # no training pair is farther apart

psi1, psi2, t = sympy.symbols("psi1 psi2 t")
k = sympy.Function("k")(t)


@dataclass(frozen=True)
class Target:
    """What is to be predicted from a pair: its equation, a symbol for it, its value."""

    symbol: str
    equation: sympy.Expr
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of k and psi2 - psi1


TARGETS = {
    "spring_force": Target("F", k * psi1 - k * psi2, lambda k, stretch: -k * stretch),
    "spring_energy": Target(
        "E",
        k / 2 * psi1**2 + k / 2 * psi2**2 - k * psi1 * psi2,
        lambda k, stretch: k / 2 * stretch**2,
    ),
}


@dataclass(frozen=True, repr=False)
class SpringDataset(Dataset):
    """Pairs of images, float32 (row, image, pixel), beside the true positions in ``X``.

    A model sees the images and the column ``t`` of ``X``; ``psi1`` and ``psi2`` are the truth.
    """

    images_train: np.ndarray
    images_test: np.ndarray


def stiffness(t: np.ndarray) -> np.ndarray:
    """The spring constant k(t) = (5 - t)/2: the spring wears out."""
    return (5 - np.asarray(t, dtype=float)) / 2


def draw_images(psi: np.ndarray, sd: float = SD) -> np.ndarray:
    """Images of particles at ``psi`` (...): float32 (..., pixel), a Gaussian of height 1.

    >>> draw_images(np.array([[-1.0, 2.5]])).shape
    (1, 2, 64)
    """
    pixels = np.linspace(-HALF_WIDTH, HALF_WIDTH, PIXELS, dtype=np.float32)
    distance = (pixels - np.asarray(psi, dtype=np.float32)[..., None]) / np.float32(sd)
    light = np.exp(-0.5 * distance**2)
    light[light < DARK] = 0.0  # denormal numbers would slow every sum down
    return light


def make_spring(
    name: str,
    *,
    random_state: int | None = 0,
    n_t: int = 128,
    n_train: int = 512,
    n_test: int = 256,
    sd: float = SD,
) -> SpringDataset:
    """Draw pairs as in the paper: at each t, positions uniform on [-3, 3].

    Training pairs are at most 4 apart, test pairs are not restricted. ``sd`` is the width of a
    particle's image: 0.1 as in the authors' code; their text, variance 0.1, would be 0.316.
    """
    if not sd > 0:
        raise ValueError(f"sd={sd!r}: expected a positive width")
    random = np.random.default_rng(random_state)
    grid = paper_grid(n_t)
    target = TARGETS[name]

    def rows(points: int, longest: float) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
        psi = random.uniform(-REACH, REACH, size=(points * n_t, 2))
        while (far := np.abs(psi[:, 1] - psi[:, 0]) > longest).any():
            psi[far] = random.uniform(-REACH, REACH, size=(int(far.sum()), 2))
        X = pd.DataFrame({"psi1": psi[:, 0], "psi2": psi[:, 1], "t": np.repeat(grid, points)})
        y = target.value(stiffness(X["t"].to_numpy()), psi[:, 1] - psi[:, 0])
        return X, pd.Series(y, name=target.symbol), draw_images(psi, sd)

    X_train, y_train, images_train = rows(n_train, LONGEST)
    X_test, y_test, images_test = rows(n_test, 2 * REACH)
    known = np.unique(grid)
    return SpringDataset(
        name=name,
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        varying="t",
        equation=target.equation,
        coefficients=pd.DataFrame({"k": stiffness(known)}, index=pd.Index(known, name="t")),
        images_train=images_train,
        images_test=images_test,
    )
