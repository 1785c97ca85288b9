"""Laws about the repository itself."""

import ast
import importlib.metadata
import operator
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pandas
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import peql

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def lock_lines() -> list[str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_lock_pins_every_name_once_and_exactly() -> None:
    # No options, addresses, ranges, wildcards or local builds such as 2.13.0+cpu.
    loose = [line for line in lock_lines() if not re.fullmatch(r"[\w.-]+==\w+(\.\w+)*", line)]
    assert loose == []
    names = [canonicalize_name(line.split("==")[0]) for line in lock_lines()]
    assert len(names) == len(set(names))


def test_lock_satisfies_pyproject() -> None:
    pins = {canonicalize_name(n): v for n, v in (line.split("==") for line in lock_lines())}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        required = Requirement(text)
        pin = pins.get(canonicalize_name(required.name))
        assert pin is not None, f"{text} has no pin in requirements.lock"
        assert required.specifier.contains(pin), f"{text} is not met by {pin}"


def test_every_dependency_has_a_lower_bound() -> None:
    """Which ``make test-oldest`` installs."""
    for text in PROJECT["dependencies"]:
        assert [s.operator for s in Requirement(text).specifier] == [">="], text


def test_pyproject_make_and_readme_name_the_same_pythons() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    pythons = [f"3.{minor}" for minor in range(8, 20) if allowed.contains(f"3.{minor}.0")]
    marks = [text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    assert marks == pythons
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [names] = re.findall(r"^PYTHON \?= (.*) python3#", makefile, re.MULTILINE)
    assert names.split() == [f"python{version}" for version in pythons]
    [(low, high)] = re.findall(r"\((3, \d+)\) <= sys.version_info < \((3, \d+)\)", makefile)
    assert PROJECT["requires-python"] == f">={low},<{high}".replace(", ", ".")
    *most, last = pythons
    told = f"{', '.join(most)} or {last}"
    assert f"With Python {told} and `make`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_an_editable_install_wins_in_the_folder_above_a_clone_called_peql(tmp_path: Path) -> None:
    clone = tmp_path / "above" / "peql"
    clone.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "peql", clone / "peql", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "site").mkdir()
    build = f"from setuptools.build_meta import build_editable as b; b({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    # Without the installed peql that runs the tests, but with what it needs.
    needs = str(Path(pandas.__file__).parents[1])
    use = f"import site, sys; site.addsitedir({str(tmp_path / 'site')!r})"
    use += f"; sys.path.append({needs!r})"
    use += "; import peql; peql.SEQL; print(peql.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-S", "-c", use],
        cwd=clone.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(told.stdout.strip()) == clone / "peql" / "__init__.py"


def test_environment_installs_the_lock_and_nothing_else() -> None:
    """So conda resolves to the lock's versions: all but Python and pip come from it by pip."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["dependencies"] == [
        "python=3.11",
        "pip",
        {"pip": ["-r requirements.lock", "-e ."]},
    ]
    assert SpecifierSet(PROJECT["requires-python"]).contains("3.11")


def test_binder_installs_the_lock_and_nothing_else() -> None:
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    installed = [line for line in lines if not line.startswith("#")]
    assert installed == ["-r ../requirements.lock", "-e ."]
    assert (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8") == "python-3.11\n"


def test_this_environment_has_the_locked_versions() -> None:
    """What make, conda and Binder install by the lock, and what these tests ran with, agree."""
    pins = dict(line.split("==") for line in lock_lines())
    names = [Requirement(text).name for text in PROJECT["dependencies"]]
    installed = {name: importlib.metadata.version(name).split("+")[0] for name in names}
    assert installed == {name: pins[name] for name in names}


def test_colab_installs_the_repository_and_uses_what_the_package_offers() -> None:
    notebook = nbformat.read(ROOT / "colab" / "peql.ipynb", as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert sum("git clone" in source and "%pip install" in source for source in sources) == 1
    extras = re.findall(r"peql\[(\w+)\]", "".join(sources))
    assert extras and set(extras) <= set(PROJECT["optional-dependencies"])
    used = {
        ast.unparse(n) for n in ast.walk(ast.parse(sources[-1])) if isinstance(n, ast.Attribute)
    }
    assert {"peql.datasets.load", "peql.SEQL"} <= used
    for name in (name for name in used if name.startswith("peql.")):
        operator.attrgetter(name.removeprefix("peql."))(peql)  # raises if there is none


def test_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    versions = {PROJECT["version"], peql.__version__, importlib.metadata.version("peql")}
    assert versions == {citation["version"]}


def test_the_toc_has_pages_that_exist_and_every_notebook() -> None:
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    pages = set(re.findall(r"\b(?:root|file): (\S+)", toc))
    assert [
        p for p in pages if not any((ROOT / f"{p}.{e}").is_file() for e in ("md", "ipynb"))
    ] == []
    assert {f"notebooks/{path.stem}" for path in NOTEBOOKS} <= pages
