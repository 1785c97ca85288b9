"""TeX and MathML in which a name is only ever a name."""

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from html.entities import html5
from pathlib import Path

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser

from peql.equation.tex import Printer, inline, mathml, name, tex

x, t = sympy.symbols("x t")
a, b = sympy.symbols("a b", cls=sympy.Function)
HOSTILE = [
    r"\input{/etc/passwd}",
    r"\write18{id}",
    "$x$",
    "a$b$c",
    "%",
    "x_y_z",
    "a{b",
    "a}b",
    "<img src=x onerror=alert(1)>",
    "</math><script>alert(1)</script>",
    "=cmd()",
    "x & y # ~ ^",
    "&lt;",
    "line\nbreak",
    "",
]


def commands(written: str) -> set[str]:
    return set(re.findall(r"\\([a-zA-Z]+)", written))


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12)))
def test_whatever_the_name_tex_gets_balanced_braces_and_no_command_of_it(text):
    written = name(text)
    allowed = {"mathrm", "backslash", "wedge", "sim", "prime", "text"}
    if text.split("_")[0].rstrip("0123456789").isalpha() and text.isascii():
        allowed |= {text.split("_")[0].rstrip("0123456789")}  # a Greek letter
    assert commands(written) <= allowed
    bare = re.sub(r"\\[^a-zA-Z]", "", written)  # \{ is no brace
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert not set("$%#&~\n") & set(bare)


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12)))
def test_whatever_the_name_mathml_has_it_as_text(text):
    symbol = sympy.Symbol(text)
    written = mathml(a(symbol) * symbol**2, left=text)
    printable = "".join(
        c if ord(c) >= 32 and not 0xD800 <= ord(c) < 0xE000 else "" for c in written
    )
    entities = "".join(f'<!ENTITY {k[:-1]} "{ord(v)}">' for k, v in html5.items() if k in ENTITIES)
    tree = ElementTree.fromstring(f"<!DOCTYPE m [{entities}]><math>{printable}</math>")
    kinds = {element.tag for element in tree.iter()}
    assert kinds <= {"math", "mrow", "mi", "mo", "mn", "msup", "mfrac"}


ENTITIES = {"InvisibleTimes;"}


def test_factors_of_several_letters_do_not_run_together():
    written = mathml(a(sympy.Symbol("t")) * sympy.Symbol("speed") * sympy.Symbol("load"))
    assert written.count("<mo lspace='0.17em'>") == 2


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        (a(t) * x**2 + b(t) * x, r"a(t) \, x^{2} + b(t) \, x"),
        (-a(t) * x, r"- a(t) \, x"),
        (sympy.Float(2.5) * a(t) * x * sympy.Symbol("u_x"), r"2.50 \, a(t) \, u_{x} \, x"),
        (sympy.log(x + sympy.Float(3.99) * a(t)), r"\log{\left(x + 3.99 \, a(t) \right)}"),
        (sympy.sin(a(t) * x), r"\sin{\left(a(t) \, x \right)}"),
        (a(t) ** 2 * x, r"x \, a^{2}(t)"),
        (x / a(t), r"\frac{x}{a(t)}"),
        (a(t) * (x + 1), r"a(t) \, \left(x + 1\right)"),
        (sympy.Float(1.5e-9) * x, r"1.50 \cdot 10^{-9} \, x"),
        (sympy.Symbol("u_xx") * sympy.Symbol("air_speed"), r"\mathrm{air\_speed} \, u_{xx}"),
    ],
)
def test_equations_read_as_they_are_written_by_hand(expression, written):
    assert tex(expression) == written


@pytest.mark.parametrize("text", [*HOSTILE, "speed", "T °C", "omega", "x1"])
def test_a_parser_of_tex_accepts_it(text):
    symbol = sympy.Symbol(text)
    written = tex(a(symbol) * symbol**2, left=text)
    MathTextParser("path").parse(f"${written}$".replace(r"\&", "n"))  # it knows no \&


def test_numbers_are_written_as_they_are_told_to_be():
    numbers = {sympy.Float("0.72"): "0.720", sympy.Float("1.5"): r"\mathbf{1.5}"}
    written = Printer(".1f", numbers).doprint(-0.72 * sympy.sin(1.5 * x) + 2.25 * x)
    assert written == r"2.2 \, x - 0.720 \, \sin{\left(\mathbf{1.5} \, x \right)}"


def test_a_long_sum_is_cut_between_terms():
    powers = sum((k + 0.5) * sympy.Symbol(f"speed_{k}") for k in range(12))
    cut = inline(powers)
    assert cut.count(r"\(") == 12
    assert cut.startswith(r"\(") and cut.endswith(r"\)")
    assert inline(x - 2.0).count(r"\(") == 1


def test_mathjax_typesets_every_name():
    """As the book does, in Chromium: no error, and no name is a command."""
    test_browser = pytest.importorskip("test_browser")
    offline = importlib.util.find_spec("sphinx-mathjax-offline")
    if offline is None or offline.origin is None:
        pytest.skip("no MathJax: sphinx-mathjax-offline is not installed")
    [script] = Path(offline.origin).parent.rglob("mathjax/tex-chtml.js")
    path = test_browser.chromium()
    with test_browser.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=test_browser.FLAGS)
        page = browser.new_page()
        page.goto("about:blank")
        page.add_script_tag(path=script)
        page.evaluate("async () => { await MathJax.startup.promise; }")
        for text in [*HOSTILE, "speed", "T °C", "omega", "x1", "it's"]:
            symbol = sympy.Symbol(text)
            written = tex(a(symbol) * symbol**2, left=text)
            made = page.evaluate("t => MathJax.tex2chtml(t).outerHTML", written)
            assert "merror" not in made and "data-mjx-error" not in made, written
        browser.close()
