"""Small data and models that many tests share."""

import pytest
import torch
from small import HASTY, QUICK

import peql


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def f1():
    return peql.datasets.load("f1", n_t=8, n_train=64)


def fitted_once(cls):
    """A fixture: a model of this class, fitted to f1 once for all tests."""
    return pytest.fixture(scope="session")(lambda f1: cls(**QUICK).fit(f1.X_train, f1.y_train))


eql, seql, heql = map(fitted_once, (peql.EQL, peql.SEQL, peql.HEQL))


@pytest.fixture(scope="session")
def hasty(f1):
    return peql.SEQL(**HASTY).fit(f1.X_train, f1.y_train)


@pytest.fixture(params=["EQL", "SEQL", "HEQL"])
def fitted(request):
    """Each model, fitted to f1."""
    return request.getfixturevalue(request.param.lower())
