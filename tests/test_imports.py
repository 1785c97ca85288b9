"""The rooms of the package: imports go one way, and none hides inside a function to turn round."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_rooms_import_only_what_is_below_them():
    """The contract is in pyproject.toml; import-linter sees imports inside functions as well."""
    command = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("use", ["peql.cli; peql.cli.parser()", "peql.plots, peql.style"])
def test_what_needs_no_torch_does_not_wait_for_it(use):
    code = f"import sys, {use}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
