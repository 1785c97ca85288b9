"""Execute notebooks in place, so that their stored outputs are fresh.

A notebook that did not change gives the same bytes again. A notebook is written only after
all its cells ran; the first error ends the run.

    python scripts/execute_notebooks.py [notebooks/02_analytic.ipynb ...]
"""

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from peql.cli import kernel

ROOT = Path(__file__).resolve().parents[1]
# What would otherwise name the machine: the kernel's title and Python's patch version.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> bool:
    """Execute the notebook at ``path`` in its own folder; say whether its bytes changed."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    n_cells = len(notebook.cells)

    def show(cell_index: int, **_: object) -> None:
        if sys.stderr.isatty():
            print(f"\r{path.name}: cell {cell_index + 1}/{n_cells} ", end="", file=sys.stderr)

    notebook.metadata.update(METADATA)
    NotebookClient(
        notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        timeout=None,
        record_timing=False,  # timestamps would churn the diff
        coalesce_streams=True,  # how a kernel cuts its prints into messages is chance
        on_cell_start=show,
    ).execute()
    notebook.metadata.update(METADATA)
    after = nbformat.writes(notebook) + "\n"
    if after == before:
        return False
    part = path.with_suffix(".part")
    part.write_text(after, encoding="utf-8")
    part.replace(path)
    return True


def main() -> int:
    """Execute the notebooks named on the command line, or all of ``notebooks/``."""
    parser = argparse.ArgumentParser(description="Execute notebooks in place.")
    parser.add_argument("paths", nargs="*", type=Path, help="default: every one in notebooks/")
    paths = parser.parse_args().paths or sorted((ROOT / "notebooks").glob("*.ipynb"))

    kernel.prepare()
    for number, path in enumerate(paths, start=1):
        print(f"[{number}/{len(paths)}] {path.name}", flush=True)
        start = time.perf_counter()
        try:
            changed = execute(path)
        except CellExecutionError as error:
            print(f"\n{path}: not written, because a cell failed:\n{error}", file=sys.stderr)
            return 1
        seconds = time.perf_counter() - start
        print(f"\r{path.name}: {'updated' if changed else 'unchanged'} in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
