"""The built book, opened from disk in Chromium: nothing is missing, nothing leaves the machine.

The book is built here from the notebooks' stored outputs, into ``_build/test``, unless that is
newer than all it is made of; pages that store no output are executed. Without Chromium these
tests are skipped; with ``PEQL_BROWSER=required``, as in CI, they then fail.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from matplotlib.image import imread
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "_build" / "test"
HTML = FOLDER / "_build" / "html"
BUILT = FOLDER / "built"  # there when the last build had no error
SOURCES = ("_config.yml", "_toc.yml", "_static", "book", "notebooks", "peql", "results")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    f"--{flag}"
    for flag in (
        "disable-gpu",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "no-first-run",
    )
]
MEGABYTE = 2**20
PATIENCE = 300_000  # milliseconds; other tests may have all cores
IDLE = 10_000  # milliseconds to wait until nothing is fetched any more

# The text that a reader sees, without code: where TeX would show if it were not typeset.
RAW_TEX = r"""
() => {
  const raw = [];
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const inside = nodes.currentNode.parentElement;
    if (inside.closest("script, style, pre, code, mjx-container")) continue;
    if (/\\[([]|\$\$|\\begin\{|\$[^$\n]+\$/.test(nodes.currentNode.data))
      raw.push(nodes.currentNode.data.trim().slice(0, 80));
  }
  for (const math of document.querySelectorAll(".math"))
    if (!math.querySelector("mjx-container")) raw.push(math.textContent.slice(0, 80));
  for (const wrong of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
    raw.push("error in: " + wrong.textContent.slice(0, 80));
  return raw;
}
"""
BROKEN_IMAGES = """
() => [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.src)
"""
IMAGES = "() => [...new Set([...document.images].map(i => i.currentSrc.split('#')[0]))]"
CURVES = """
() => [...document.querySelectorAll(".js-plotly-plot .scatterlayer .trace path.js-line")]
  .map(path => path.getAttribute("d"))
"""
# Whether something around an element cuts it off.
CUT_OFF = """
e => {
  for (let box = e.parentElement; box.closest("article"); box = box.parentElement)
    if (getComputedStyle(box).overflowY === "hidden" && box.scrollHeight > box.clientHeight + 1)
      return true;
  return false;
}
"""
TITLE = """
() => [...document.querySelectorAll(".js-plotly-plot .gtitle, .js-plotly-plot .annotation-text")]
  .map(text => text.textContent).join()
"""
ALL_CHANGED = f"""
([curves, title]) => ({CURVES.strip()})().every((curve, k) => curve !== curves[k])
  && ({TITLE.strip()})() !== title
"""


# A picture without words for it; Sphinx puts its path where none were given.
WITHOUT_ALT = """
() => [...document.querySelectorAll("article img")]
  .filter(i => !i.alt.trim() || i.alt.includes("_images/")).map(i => i.src)
"""
UNFRAMED = """
() => [...document.querySelectorAll("article table.dataframe, article table.table")]
  .filter(t => !t.closest(".table-frame")).length
"""
# Tables that scroll in their frame, and how much wider than the window the page is.
WIDE_TABLES = """
() => [...document.querySelectorAll(".table-frame")]
  .filter(f => f.scrollWidth > f.clientWidth + 1 || f.scrollHeight > f.clientHeight + 1)
  .map(f => f.textContent.trim().slice(0, 40) + " … " + (f.scrollWidth - f.clientWidth))
"""
# What a cell printed and runs out of its box.
CUT_OUTPUT = """
() => [...document.querySelectorAll(".cell_output .stream pre, .cell_output .text_plain pre")]
  .filter(p => p.scrollWidth > p.clientWidth + 1).map(p => p.textContent.slice(0, 60))
"""
# How far down the first picture or table of a chapter begins.
FIRST_RESULT = """
() => Math.min(...[...document.querySelectorAll("article figure img, article table.dataframe")]
  .map(e => e.getBoundingClientRect().top))
"""
SEARCH_BOXES = """
() => [...document.querySelectorAll(".search-button-field, .search-button, input[type=search]")]
  .filter(e => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden").length
"""
OVERHANG = "() => document.documentElement.scrollWidth - window.innerWidth"
FORMULA = """
() => document.querySelector(".peql-scrub .found").textContent
  + document.querySelector(".scrub-numbers").textContent
"""


def chromium() -> str:
    """Where Chromium is; skips, or fails where it is required."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found:
        return found
    reason = f"no Chromium: the built book is not tested. Install one of {', '.join(NAMES)}"
    if os.environ.get("PEQL_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def build() -> None:
    """Build the book from the stored outputs, as strictly as ``make book``."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["execute"]["exclude_patterns"] = ["notebooks/*.ipynb"]
    extensions = config["sphinx"]["local_extensions"]  # found from where the config is
    config["sphinx"]["local_extensions"] = {k: str(ROOT / v) for k, v in extensions.items()}
    path = FOLDER / "_config.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ROOT, "--config", path]
    options = ["--path-output", FOLDER, "-W", "-n", "--keep-going", "--quiet"]
    built = subprocess.run(
        [*map(str, command), *map(str, options)], capture_output=True, text=True, cwd=ROOT
    )
    assert built.returncode == 0, f"the book does not build:\n{built.stdout}\n{built.stderr}"
    BUILT.touch()


def is_fresh() -> bool:
    if not BUILT.exists():
        return False
    sources = [ROOT / name for name in SOURCES]
    files = [f for source in sources for f in ([source] if source.is_file() else source.rglob("*"))]
    changed = (f.stat().st_mtime for f in files if f.is_file() and "__pycache__" not in f.parts)
    return max(changed) < BUILT.stat().st_mtime


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """What was seen on a page."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    raw_tex: list[str] = field(default_factory=list)
    broken_images: list[str] = field(default_factory=list)
    size: int = 0
    n_equations: int = 0
    has_slider: bool = False
    without_alt: list[str] = field(default_factory=list)
    unframed: int = 0


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    yield made
    made.close()


def open_page(context: BrowserContext, address: str, visit: Visit) -> Page:
    """Open a page of the book and wait until its scripts are done; ``visit`` notes what they do."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on(
        "console", lambda said: visit.errors.append(said.text) if said.type == "error" else None
    )
    page.on("pageerror", lambda error: visit.errors.append(str(error)))

    def refuse(route) -> None:
        visit.requests.append(route.request.url)
        route.abort()

    page.route(lambda url: not url.startswith(("file:", "data:", "blob:")), refuse)
    page.goto(f"{HTML.as_uri()}/{address}")
    with suppress(TimeoutError):  # from disk, under load, Chromium sometimes never says so
        page.wait_for_load_state("networkidle", timeout=IDLE)
    page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise; }")
    return page


@pytest.fixture(scope="module")
def visits(browser: Browser) -> dict[str, Visit]:
    """Every page of the book, opened once."""
    if not is_fresh():
        build()
    visits = {}
    for path in sorted(HTML.rglob("*.html")):
        name = path.relative_to(HTML).as_posix()
        if name.startswith("_static/"):
            continue
        context = browser.new_context()
        visit = visits[name] = Visit()
        page = open_page(context, name, visit)
        visit.raw_tex = page.evaluate(RAW_TEX)
        visit.broken_images = page.evaluate(BROKEN_IMAGES)
        files = [u.removeprefix("file://") for u in page.evaluate(IMAGES) if u.startswith("file:")]
        visit.size = path.stat().st_size + sum(Path(f).stat().st_size for f in files)
        visit.n_equations = page.locator("mjx-container").count()
        visit.has_slider = page.locator(".t-slider input").count() > 0
        visit.without_alt = page.evaluate(WITHOUT_ALT)
        visit.unframed = page.evaluate(UNFRAMED)
        context.close()
    return visits


def test_every_page_of_the_toc_is_there(visits):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    assert [c for c in [toc["root"], *chapters] if f"{c}.html" not in visits] == []


@pytest.mark.parametrize(
    "wrong", ["errors", "requests", "raw_tex", "broken_images", "without_alt", "unframed"]
)
def test_no_page_has_what_none_may_have(visits, wrong):
    """Errors in the console, requests that leave the machine, raw TeX, pictures without words."""
    assert {name: vars(v)[wrong] for name, v in visits.items() if vars(v)[wrong]} == {}


def test_every_chapter_has_equations(visits):
    chapters = [v for name, v in visits.items() if name.startswith("notebooks/")]
    assert chapters and all(v.n_equations > 0 for v in chapters)


def test_no_page_is_over_3_megabytes(visits):
    """A page is its HTML and its pictures; the scripts are shared by all."""
    assert {name: v.size for name, v in visits.items() if v.size > 3 * MEGABYTE} == {}


def test_a_slider_changes_curve_and_equation(visits, context):
    pages = [name for name, visit in visits.items() if visit.has_slider]
    chapters = ("01_eql_failure", "02_analytic", "03_pdes", "04_spring", "05_your_own_data")
    assert {f"notebooks/{chapter}.html" for chapter in chapters} <= set(pages)
    for name in pages:
        page = open_page(context, name, Visit())
        slider = page.locator(".t-slider input")  # fails if there are several: each is tried
        assert not slider.evaluate(CUT_OFF), f"{name}: the slider cannot be seen"
        slider.scroll_into_view_if_needed()
        before, title = page.evaluate(CURVES), page.evaluate(TITLE)
        known = "your_own_data" not in name  # there the truth is measured points, no curve
        assert len(before) >= 1 + known, f"{name}: a true and a found curve"
        box = slider.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 0.85 * box["width"], box["y"] + box["height"] / 2)
        page.wait_for_function(ALL_CHANGED, arg=[before, title])
        after = page.evaluate(CURVES), page.evaluate(TITLE)
        slider.focus()
        for _ in range(8):
            page.keyboard.press("ArrowLeft")
        page.wait_for_function(ALL_CHANGED, arg=list(after))


def test_every_table_has_a_csv_file(visits):
    for name in visits:
        links = re.findall(r'class="table-csv"><a[^>]* href="([^"]+)"', (HTML / name).read_text())
        for link in links:
            lines = ((HTML / name).parent / link).read_text(encoding="utf-8").splitlines()
            assert lines, f"{name}: {link}"  # a table of misses may have a head alone
    assert len(list((HTML / "tables").glob("*.csv"))) > 20


def test_every_figure_says_which_function_drew_it(visits):
    found = [
        (name, link)
        for name in visits
        for link in re.findall(r'class="painter"><a[^>]* href="([^"]+)"', (HTML / name).read_text())
    ]
    assert len(found) > 15
    for name, link in found:
        page, anchor = link.split("#")
        code = ((HTML / name).parent / page).read_text(encoding="utf-8")
        assert f'"{anchor}"' in code, f"{name}: {link}"


def test_tables_fit_the_page_and_no_page_hangs_over_on_a_phone(visits, browser):
    wide, over, cut, searches = {}, {}, {}, {}
    for width, height in ((1200, 900), (390, 844)):
        context = browser.new_context(viewport={"width": width, "height": height})
        for name in visits:
            page = open_page(context, name, Visit())
            if width == 1200 and (tables := page.evaluate(WIDE_TABLES)):
                wide[name] = tables
            if width == 1200 and name.startswith(("book/", "notebooks/")):
                searches[name] = page.evaluate(SEARCH_BOXES)
            if outputs := page.evaluate(CUT_OUTPUT):
                cut[name, width] = outputs
            if (hang := page.evaluate(OVERHANG)) > 0:
                over[name, width] = hang
            page.close()
        context.close()
    assert (wide, over, cut) == ({}, {}, {})
    assert set(searches.values()) == {1}


def test_a_chapter_shows_a_result_on_its_first_screen(visits, browser):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    chapters = [name for name in visits if name.startswith("notebooks/")]
    begins = {}
    for name in (*chapters, "book/scoreboard.html"):
        page = open_page(context, name, Visit())
        begins[name] = page.evaluate(FIRST_RESULT)
        page.close()
    context.close()
    assert {name: top for name, top in begins.items() if top > 700} == {}


def test_dark_and_narrow_pages_are_not_empty(visits, browser):
    for scheme, width in (("dark", 1200), ("light", 390)):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        blank = context.new_page()
        empty = len(blank.screenshot())
        for name in ("book/index.html", "book/training.html", "notebooks/02_analytic.html"):
            page = open_page(context, name, Visit())
            assert len(page.screenshot()) > 5 * empty, f"{name}: {scheme}, {width}"
            theme = page.evaluate("() => document.documentElement.dataset.theme")
            assert theme == scheme
        context.close()


def test_panels_stack_on_a_phone_and_stand_side_by_side_elsewhere(visits, browser):
    for width, stacked in ((1200, False), (390, True)):
        context = browser.new_context(viewport={"width": width, "height": 844})
        page = open_page(context, "notebooks/02_analytic.html", Visit())
        assert page.locator("article img.whole").first.is_visible() != stacked
        panels = page.locator("article .panel img")
        assert panels.first.is_visible() == stacked
        for box in filter(None, (panel.bounding_box() for panel in panels.all())):
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
        context.close()


def test_what_the_encoder_sees_is_not_inverted_in_the_dark(visits, browser):
    context = browser.new_context(color_scheme="dark")
    page = open_page(context, "notebooks/04_spring.html", Visit())
    filters = {
        name: page.locator(f"#{name} img").first.evaluate("i => getComputedStyle(i).filter")
        for name in ("fig-encoder", "fig-spring-images", "fig-spring-predictions")
    }
    context.close()
    assert ["invert" in shown for shown in filters.values()] == [False, False, True], filters


def test_figures_are_dark_on_a_dark_page(visits, browser):
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        for name in ("book/scoreboard.html", "notebooks/02_analytic.html"):
            page = open_page(context, name, Visit())
            picture = page.locator("article figure > img").first.screenshot()
            brightness = float(imread(BytesIO(picture))[..., :3].mean())
            assert (brightness < 0.4) == (scheme == "dark"), f"{name}: {scheme}, {brightness:.2f}"
            page.close()
        context.close()


def test_the_scrubber_moves_by_keyboard_and_mouse(visits, context):
    page = open_page(context, "book/training.html", Visit())
    seen = {page.evaluate(FORMULA)}
    for name, key in (("step", "ArrowLeft"), ("price", "ArrowRight")):
        page.locator(f".peql-scrub input[name={name}]").focus()
        for _ in range(2):
            page.keyboard.press(key)
        assert page.evaluate(FORMULA) not in seen, name
        seen.add(page.evaluate(FORMULA))
    for value in ("f5", "HEQL"):
        page.locator(f".peql-scrub input[value={value}]").check()
        assert page.evaluate(FORMULA) not in seen, value
        seen.add(page.evaluate(FORMULA))
    page.locator(".peql-scrub button").click()
    page.wait_for_function("() => document.querySelector('.peql-scrub .at').textContent === '4000'")


def test_without_scripts_the_scrubber_shows_the_end(visits, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{HTML.as_uri()}/book/training.html")
    assert page.locator(".peql-scrub .found").inner_text() == "a(t) x² + b(t) x"
    assert page.locator(".peql-scrub form").is_hidden()
    context.close()


def test_without_an_address_no_button_leads_to_a_repository(visits):
    for name in visits:
        text = (HTML / name).read_text(encoding="utf-8")
        buttons = re.findall(r'<a href="([^"]*)"[^>]*\bbtn\b', text)
        assert not [link for link in buttons if link.startswith("http")], name


def test_search_finds_burgers(visits, context):
    visit = Visit()
    page = open_page(context, "search.html?q=Burgers", visit)
    page.locator("#search-results ul.search li").first.wait_for()
    links = page.locator("#search-results ul.search li a").all()
    assert any("03_pdes.html" in (link.get_attribute("href") or "") for link in links)
    assert (visit.errors, visit.requests) == ([], [])


# --- the checks can fail ---------------------------------------------------------------------

BAD_PAGE = """<!doctype html><title>bad</title><body>
<p>Raw: \\(x^2\\)</p><span class="math">x</span>
<img src="absent.png"><img src="https://example.org/a.png">
<script>console.error("ours"); throw new Error("thrown");</script>
"""


def test_a_bad_page_is_seen_to_be_bad(context, tmp_path, monkeypatch):
    (tmp_path / "bad.html").write_text(BAD_PAGE)
    monkeypatch.setattr(sys.modules[__name__], "HTML", tmp_path)
    visit = Visit()
    page = open_page(context, "bad.html", visit)
    assert page.evaluate(RAW_TEX) == ["Raw: \\(x^2\\)", "x"]
    assert len(page.evaluate(BROKEN_IMAGES)) == 2
    assert visit.requests == ["https://example.org/a.png"]
    assert {"ours", "thrown"} <= set(visit.errors)
