"""The surroundings of a notebook's kernel: one place for sweeps, the book, nbval and scripts."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # results must not depend on the number of cores
    "TQDM_DISABLE": "1",  # no progress bars in outputs
    "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, whatever others the user has installed
}


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Give kernels started from here the surroundings in which the stored outputs were made.

    >>> surroundings = {"MPLBACKEND": "Agg"}
    >>> prepare(surroundings)
    >>> sorted(surroundings)
    ['JUPYTER_PREFER_ENV_PATH', 'OMP_NUM_THREADS', 'TQDM_DISABLE']
    """
    environment.update(ENVIRONMENT)
    environment.pop("MPLBACKEND", None)  # kernels then choose the inline backend
