"""What the book asks of Sphinx beyond ``_config.yml``."""

import os
import shutil
from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Load MathJax on every page, and give the chapters' kernels the surroundings of the tests."""
    app.set_html_assets_policy("always")  # a sidebar shows TeX on pages without equations too
    app.connect("html-page-context", leave_out_thebe)
    os.environ["TQDM_DISABLE"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("MPLBACKEND", None)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", list_names)
    app.connect("build-finished", copy_plotly)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def list_names(
    app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    """Make a list of what a docstring names, as ``name : text``, under an underlined heading."""
    written: list[str] = []
    listing = False
    for number, line in enumerate(lines):
        if set(line) == {"-"} and number and len(line) == len(lines[number - 1]):
            written[-1:] = [f".. rubric:: {lines[number - 1]}", ""]
            listing = True
        elif listing and line and not line.startswith(" "):
            names, text = line.split(" : ", 1)
            written.append(f"- ``{names}``: {text}")
        else:
            listing = listing and bool(line)
            written.append(f"  {line.strip()}" if listing else line)
    lines[:] = written


def copy_plotly(app: Any, error: Exception | None) -> None:
    """Put plotly's script beside the pages once, for all sliders."""
    from peql.plots import plotly_script

    if error is None and app.builder.format == "html":
        shutil.copy(plotly_script(), Path(app.outdir) / "_static")


def leave_out_thebe(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Drop the scripts of Thebe, which no page uses, and which Jupyter Book declares twice."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in f"{script.filename}{script.attributes.get('body')}".lower()
    ]
