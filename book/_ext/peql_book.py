"""What the book asks of Sphinx beyond ``_config.yml``."""

import ast
import csv
import importlib
import inspect
import io
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from peql.cli import kernel

LAUNCH = {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab.research.google.com"}
# pandas' tables, and those written in Markdown
TABLE = re.compile(r"<table[^>]*class=['\"](?:dataframe\b|table['\"]).*?</table>", re.DOTALL)
CODE_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
FIGURE_NAME = re.compile(r"^:\s+name: (\S+)$", re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    """Load MathJax on every page, and give the chapters' kernels the surroundings of the tests."""
    app.set_html_assets_policy("always")  # a sidebar shows TeX on pages without equations too
    app.connect("config-inited", set_buttons, priority=900)
    app.connect("autodoc-skip-member", leave_out_fields)
    app.connect("html-page-context", leave_out_thebe)
    kernel.prepare()
    app.connect("html-page-context", frame_tables)
    app.connect("html-page-context", name_painters)
    app.connect("html-collect-pages", painters_code)
    app.connect("build-finished", copy_plotly)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def copy_plotly(app: Any, error: Exception | None) -> None:
    """Put plotly's script beside the pages once, for all sliders."""
    from peql.style import plotly_script

    if error is None and app.builder.format == "html":
        shutil.copy(plotly_script(), Path(app.outdir) / "_static")


def leave_out_thebe(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Drop the scripts of Thebe, which no page uses, and which Jupyter Book declares twice."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in f"{script.filename}{script.attributes.get('body')}".lower()
    ]


def leave_out_fields(
    app: Any, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Drop the fields of a named tuple, of which nothing is said that its signature does not."""
    return True if type(member).__name__ == "_tuplegetter" else None


def set_buttons(app: Any, config: Any) -> None:
    """Show what leads to the repository if its address is set in ``_config.yml``, else nothing."""
    options = config.html_theme_options
    known = bool(options.get("repository_url"))
    for name in ("repository", "issues", "source"):
        options[f"use_{name}_button"] = known
    options["use_edit_page_button"] = False
    options["navbar_persistent"] = []  # the search box beside the contents is enough
    options["launch_buttons"] = {"notebook_interface": "jupyterlab", **LAUNCH} if known else {}


# --- tables -----------------------------------------------------------------------------------


def frame_tables(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Let every table scroll in a frame of its own, with a link to it as CSV."""
    if "body" not in context or tree is None:
        return
    count = 0

    def framed(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        table = one_head(match.group())
        name = f"{page.replace('/', '-')}-{count}.csv"
        path = Path(app.outdir) / "tables" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(as_csv(table), encoding="utf-8")
        link = f"{context['pathto'](f'tables/{name}', 1)}"
        return (
            f'<div class="table-frame" tabindex="0">{table}</div>'
            f'<p class="table-csv"><a href="{link}" download>this table as CSV</a></p>'
        )

    context["body"] = TABLE.sub(framed, context["body"])


def one_head(table: str) -> str:
    """A table of pandas whose row of index names is part of the row above it."""
    head = re.search(r"<thead>(.*?)</thead>", table, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>.*?</tr>", head[1], re.DOTALL) if head else []
    if head is None or len(rows) != 2:
        return table
    upper, lower = (re.findall(r"<th[^>]*>(.*?)</th>", row, re.DOTALL) for row in rows)
    if len(upper) != len(lower) or any(
        a.strip() and b.strip() for a, b in zip(upper, lower, strict=True)
    ):
        return table
    names = "".join(f"<th>{a.strip() or b.strip()}</th>" for a, b in zip(upper, lower, strict=True))
    whole = f'<thead>\n<tr style="text-align: right;">{names}</tr>\n</thead>'
    return table.replace(head.group(), whole, 1)


def as_csv(table: str) -> str:
    """An HTML table as CSV: cells that span several are repeated, levels of the head are joined."""
    from bs4 import BeautifulSoup

    grid: dict[tuple[int, int], str] = {}
    rows = BeautifulSoup(table, "html.parser").find_all("tr")
    n_head = sum(not row.find_all("td") for row in rows)
    for r, row in enumerate(rows):
        c = 0
        for cell in row.find_all(["th", "td"]):
            while (r, c) in grid:
                c += 1
            text = re.sub(r"\\[()]", "", " ".join(cell.get_text().split()))
            text = re.sub(r"\\mathbf\{([^}]*)\}", r"\1", text)
            for i in range(int(cell.get("rowspan", 1))):
                for j in range(int(cell.get("colspan", 1))):
                    grid[r + i, c + j] = text
    width = max((c for _, c in grid), default=-1) + 1
    lines = [[grid.get((r, c), "") for c in range(width)] for r in range(len(rows))]
    head = [", ".join(filter(None, dict.fromkeys(column))) for column in zip(*lines[:n_head])]  # noqa: B905
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([head, *lines[n_head:]])
    return written.getvalue()


# --- which function drew a figure ---------------------------------------------------------------


def name_painters(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Under a figure, a link to the function that drew it."""
    if "body" not in context or tree is None:
        return
    for name, (module, function, line) in painters(app.env.doc2path(page)).items():
        link = f"{context['pathto'](f'code/{module}')}#line-{line}"
        note = f'<p class="painter"><a href="{link}">drawn by <code>{function}</code></a></p>'
        figure = re.compile(rf'(<figure[^>]*id="{re.escape(name)}".*?)(</figcaption>)', re.DOTALL)
        context["body"] = figure.sub(rf"\g<1>{note}\g<2>", context["body"], count=1)


def painters_code(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each module that draws: its code, each line with an anchor."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    modules = {
        module
        for page in app.env.found_docs
        for module, _, _ in painters(app.env.doc2path(page)).values()
    }
    for module in sorted(modules):
        code = inspect.getsource(importlib.import_module(module))
        shown = highlight(code, PythonLexer(), HtmlFormatter(lineanchors="line"))
        body = f"<h1><code>{module}</code></h1>{shown}"
        yield f"code/{module}", {"title": module, "body": body}, "page.html"


@cache
def painters(path: str) -> dict[str, tuple[str, str, int]]:
    """For each figure of a page: the module of the function that drew it, its name and line."""
    names: dict[str, Any] = {}
    found = {}
    for source, figure in cells(Path(path)):
        plain = re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE)
        tree = ast.parse(plain)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peql"):
                names.update({a.asname or a.name: (node.module, a.name) for a in node.names})
        function = figure and next((f for f in map(called(names), ast.walk(tree)) if f), None)
        if function:
            line = inspect.getsourcelines(inspect.unwrap(function))[1]
            short = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
            found[figure] = function.__module__, short, line
    return found


def called(names: dict[str, Any]) -> Any:
    """A function of a syntax node: the function of the package that it calls to draw, or None."""

    def look(node: ast.AST) -> Any:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return None
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in names):
            return None
        package, name = names[node.func.value.id]
        try:
            module = importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            return None
        function = getattr(module, node.func.attr, None)
        returned = getattr(function, "__annotations__", {}).get("return")
        return function if "Figure" in str(returned) else None

    return look


def cells(path: Path) -> Iterator[tuple[str, str]]:
    """The code cells of a page, each with the name of its figure, if it has one."""
    if path.suffix == ".ipynb":
        import nbformat

        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                yield cell.source, cell.metadata.get("mystnb", {}).get("figure", {}).get("name", "")
    elif path.suffix == ".md":
        for match in CODE_CELL.finditer(path.read_text(encoding="utf-8")):
            named = FIGURE_NAME.search(match.group(1))
            lines = [line for line in match.group(1).splitlines() if not line.startswith(":")]
            yield "\n".join(lines), named.group(1) if named else ""
