"""peql in a fresh environment: the wheel alone, or with the oldest versions that it allows.

    python scripts/fresh.py wheel     # make test-wheel: build, install without extras, fit, predict
    python scripts/fresh.py oldest    # make test-oldest: the unit tests with the lower bounds

Makes a virtual environment in a temporary folder, with this Python, and removes it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What needs the book, its notebooks, an extra or the exact versions of the lock is left out.
LEFT_OUT = (
    *("browser", "cli", "drawings", "files", "imports", "machines", "notebooks"),
    *("project", "results", "scoreboard", "sindy", "sweep"),
)
TOOLS = ("beartype", "hypothesis", "pytest")  # for the tests, as in the lock

FIT = """
import importlib.resources
import sys
import peql

assert (importlib.resources.files("peql") / "py.typed").is_file()
assert "site-packages" in peql.__file__, peql.__file__
data = peql.datasets.load("f1", n_t=8, n_train=64)
model = peql.SEQL(varying="t", n_layers=1, max_iter=400, random_state=0, verbose=False)
model.fit(data.X_train, data.y_train)
error = float(((model.predict(data.X_test) - data.y_test) ** 2).mean())
print(f"Python {sys.version.split()[0]}: y = {model.equation_}")
assert error < 1e-8, error
model.save("f1.peql")
assert (peql.load("f1.peql").predict(data.X_test) == model.predict(data.X_test)).all()
"""


class Environment:
    """A virtual environment in a folder."""

    def __init__(self, folder: Path):
        venv.create(folder, with_pip=True, clear=True)
        self.folder, self.bin = folder, folder / ("Scripts" if os.name == "nt" else "bin")
        self.variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def call(self, *arguments: str, cwd: Path | None = None) -> None:
        """Run the environment's Python; its failure is ours."""
        command = [str(self.bin / "python"), *arguments]
        subprocess.run(command, check=True, cwd=cwd or self.folder, env=self.variables)

    def install(self, *what: str) -> None:
        """Install with pip, torch by the lock's version before anything that depends on it."""
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        self.call(*pip, f"torch=={locked('torch')}")
        self.call(*pip, *what)


def locked(name: str) -> str:
    """The version of the lock."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return pins[name]


def lower_bounds(requirements: list[str]) -> list[str]:
    """Requirements with their lower bound as the only version.

    >>> lower_bounds(["numpy>=2.0.0"])
    ['numpy==2.0.0']
    """
    bounded = [re.fullmatch(r"([\w-]+)>=([\w.]+)", text) for text in requirements]
    unbounded = [text for text, match in zip(requirements, bounded, strict=True) if not match]
    if unbounded:
        raise ValueError(f"no lower bound, or more than one: {', '.join(unbounded)}")
    return [f"{match.group(1)}=={match.group(2)}" for match in bounded if match]


def wheel(folder: Path) -> None:
    """Build the wheel, look into it, install it alone, fit and predict."""
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*build, *options, str(ROOT)], check=True)
    [built] = folder.glob("*.whl")
    names = zipfile.ZipFile(built).namelist()
    strays = [n for n in names if not n.startswith(("peql/", f"peql-{PROJECT['version']}"))]
    assert "peql/py.typed" in names and not strays, strays
    environment = Environment(folder / "env")
    environment.install(str(built))
    environment.call("-c", FIT)
    subprocess.run([str(environment.bin / "peql"), "--help"], check=True, stdout=subprocess.DEVNULL)
    print(f"{built.name}: installed without extras, fits, predicts, saves and loads")


def oldest(folder: Path) -> None:
    """Run the unit tests with the lower bounds of all dependencies."""
    bounds = lower_bounds(PROJECT["dependencies"])
    print(f"Installing {', '.join(bounds)}", flush=True)
    environment = Environment(folder / "env")
    tools = [f"{name}=={locked(name)}" for name in TOOLS]
    environment.install(*bounds, *tools)
    environment.variables["PYTHONPATH"] = str(ROOT)
    tests = [p for p in sorted((ROOT / "tests").glob("test_*.py")) if p.stem[5:] not in LEFT_OUT]
    # Old versions may warn of what newer ones have mended; nbval's options have no meaning here.
    settings = ("-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider")
    shared = ("--confcutdir", str(ROOT / "tests"))
    environment.call("-m", "pytest", "--quiet", *settings, *shared, *map(str, tests), cwd=ROOT)
    print("The unit tests pass with the oldest versions.")


def main() -> int:
    """Run what is named."""
    parser = argparse.ArgumentParser(
        description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("wheel", "oldest"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            {"wheel": wheel, "oldest": oldest}[arguments.what](Path(folder))
        except subprocess.CalledProcessError as error:
            print(f"failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
