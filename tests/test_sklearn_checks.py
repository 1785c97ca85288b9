"""scikit-learn's common checks for the three models."""

from typing import Any

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

import peql

TINY: dict[str, Any] = {
    "method": "network",
    "primitives": ["identity"],
    "n_layers": 1,
    "max_iter": 30,
    "random_state": 0,
}


class GridSEQL(peql.SEQL):
    """SEQL on two values of t, the halves of the varying column.

    The checks draw tables in which no t comes twice, and SEQL rightly refuses those: it needs
    several rows at each t. What it does with its own kind of table is checked here.
    """

    def _split_columns(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = super()._split_columns(X)
        middle = self.__dict__.setdefault("_middle", np.median(t))
        return x, np.where(t < middle, -1.0, 1.0)


# Refinement takes its time on the noise that the checks draw; it is the same code in all three.
MODELS = [
    GridSEQL(**TINY),
    peql.EQL(**TINY | {"refine": False, "max_iter": 150}),
    peql.HEQL(**TINY | {"refine": False}),
]


@parametrize_with_checks(MODELS)
def test_common_checks(estimator, check):
    check(estimator)
