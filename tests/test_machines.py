"""What is found and printed does not depend on the processor; make test-machines does more."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("machines", ROOT / "scripts" / "machines.py")
machines = importlib.util.module_from_spec(spec)
spec.loader.exec_module(machines)

FITS = """
import numpy as np
import torch
from small import QUICK
import peql
from peql.analysis.comparison import scaled_mse
from peql.baselines import least_squares_limit
from peql.equation.writing import error, text

torch.set_num_threads(1)
for name in ("f1", "f5"):
    data = peql.datasets.load(name, n_t=8, n_train=64)
    for model in (peql.SEQL, peql.HEQL):
        fitted = model(**QUICK).fit(data.X_train, data.y_train)
        print(name, model.__name__, text(fitted.equation_))
        print(*(text(fitted.equation(t=t), ".5f") for t in data.coefficients.index))
        wrong = fitted.predict(data.X_test) - data.y_test
        print(error(scaled_mse(data, data.X_test, wrong)))
for derivatives in ("paper", "accurate"):
    limit = least_squares_limit(peql.datasets.load("burgers", derivatives=derivatives))
    print(*(error(value, 1, 1e-14) for value in (limit.y_mse, limit.coefficient_mse)))
# Not printed by anything, and different on every machine if the setting has an effect:
noise = np.random.default_rng(0).standard_normal((200, 200))
digits = np.linalg.solve(noise, noise[0]).sum(), np.exp(noise).sum()
print("DIGITS", *(float(d).hex() for d in digits), torch.backends.cpu.get_cpu_capability())
"""


def printed(setting: str) -> tuple[str, str]:
    """What the fits print under a setting, and the digits that nobody should print."""
    environment = machines.environment(setting, 1)
    paths = [str(ROOT / "tests"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-c", FITS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    shown, digits = done.stdout.split("DIGITS")
    return shown, digits


@pytest.fixture(scope="module")
def here() -> tuple[str, str]:
    return printed("here")


@pytest.mark.parametrize("setting", ["avx2", "oldest"])
def test_what_is_printed_is_the_same_on_another_processor(here, setting):
    shown, digits = printed(setting)
    assert shown == here[0]
    if setting == "oldest":  # the setting does something
        assert digits != here[1]
