"""scikit-learn's common checks, and the few that are left out, with the reason."""

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import peql

LEFT_OUT: dict[str, str] = {}

TINY: dict[str, Any] = {
    "primitives": ["square"],
    "n_layers": 1,
    "max_iter": 30,
    "random_state": 0,
}


class SignSEQL(peql.SEQL):
    """SEQL with the sign of the varying column as t: the checks' tables have no t twice."""

    def _split_columns(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = super()._split_columns(X)
        middle = self.__dict__.setdefault("_middle", np.median(t))
        return x, np.where(t < middle, -1.0, 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [peql.EQL(**TINY), peql.HEQL(**TINY), SignSEQL(**TINY)],
    expected_failed_checks=lambda model: LEFT_OUT,
)
def test_common_checks(estimator, check):
    check(estimator)
