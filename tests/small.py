"""Settings for tests: small versions of f1 to f5 are found quickly."""

from typing import Any

QUICK: dict[str, Any] = {
    "varying": "t",
    "method": "network",
    "primitives": ["one", "identity", "square", "sin"],
    "n_layers": 1,
    "max_iter": 400,
    "random_state": 0,
}

# Where what is found does not matter, only that it is the same, or that it is there.
HASTY: dict[str, Any] = QUICK | {"max_iter": 5, "refine": False}
