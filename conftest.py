"""For every test: shapes are checked. For nbval: the bare ``pytest --nbval notebooks/`` passes."""

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# The modules whose signatures name shapes are checked as they run. The public face is not:
# its own errors for bad input are what the tests are after. Nor is the formula: its functions
# within functions would be compiled anew at every call, and a fit take four times as long.
SHAPED = ("nn.gates", "nn.network", "nn.weights", "engine.solver", "engine.training")
install_import_hook(
    [f"peql.{name}" for name in SHAPED],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",  # an int is a float
)


def pytest_configure(config: pytest.Config) -> None:
    """Give nbval's kernels the surroundings in which the outputs were stored."""
    from peql.cli import kernel  # after the hook above

    kernel.prepare()
    option = config.option
    if option.nbval_sanitize_with is None:
        option.nbval_sanitize_with = str(Path(__file__).parent / "tests" / "nbval_sanitize.cfg")
    if option.nbval_kernel_name is None:
        option.nbval_current_env = True  # this Python, whatever kernels the user has installed
