"""On a narrow page the panels of a figure stand below each other.

The figure stays one SVG file; a page shows parts of it by ``#svgView(viewBox(…))``, so nothing is
drawn twice. Which parts is read off the axes and texts that matplotlib names in its SVG. The style
sheet decides which of the two a page shows, the whole or the parts.
"""

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"]*_images/([^"/]+\.svg))" ?/>')
NAME = "{http://www.w3.org/2000/svg}"
NARROW = 0.04  # of the figure's width: what is narrower is a colour bar
HANDLE = 33  # from the text of a legend's entry to the left end of its line
LINE = 12  # height of a line of text
ENTRY, PANEL = 1.3, 1.7  # pixels of the page for a unit of the drawing: entries of a legend, panels


class Box(NamedTuple):
    """A part of the drawing."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def setup(app: Any) -> dict[str, bool]:
    """Put the parts beside every figure that has several panels."""
    app.connect("html-page-context", add_panels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_panels(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Behind each picture of several panels, the same as parts that can stack."""
    if "body" not in context or tree is None:
        return
    files = {written: source for source, written in app.builder.images.items()}

    def doubled(match: re.Match[str]) -> str:
        alt, link, name = match.groups()
        if name not in files:
            return match.group()
        legend, panels = parts(Path(app.srcdir) / files[name])
        if not panels:
            return match.group()
        if len(panels) == 1:
            return match.group().replace("<img", '<img class="single"', 1)
        entries = "".join(_shown(link, [box], ENTRY, "a line of the legend") for box in legend)
        columns = "".join(
            _shown(link, boxes, PANEL, f"panel {k} of {len(panels)}: {html.unescape(alt)}")
            for k, boxes in enumerate(panels, start=1)
        )
        whole = match.group().replace("<img", '<img class="whole"', 1)
        return f'{whole}<span class="panels">{entries}{columns}</span>'

    context["body"] = PICTURE.sub(doubled, context["body"])


def _shown(link: str, boxes: list[Box], scale: float, alt: str) -> str:
    """Parts side by side as one."""
    total = sum(box.width for box in boxes)
    pictures = "".join(
        f'<img alt="{html.escape(alt)}" style="width:{100 * box.width / total:.2f}%;'
        f'aspect-ratio:{box.width:.1f}/{box.height:.1f}" src="{link}#svgView(viewBox('
        f"{box.left:.1f},{box.top:.1f},{box.width:.1f},{box.height:.1f});"
        'preserveAspectRatio(none))"/>'  # the file's own shape does not count, the box's does
        for box in boxes
    )
    return f'<span class="panel" style="width:{scale * total:.0f}px">{pictures}</span>'


def parts(path: Path) -> tuple[list[Box], list[list[Box]]]:
    """The entries of the legend, and for each column of panels what shows it; none of a drawing.

    A column that shares the first one's axis is shown with that one's labels beside it; a single
    one is the whole.
    """
    root = ElementTree.parse(path).getroot()
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    columns = _columns(root, width)
    if len(columns) < 2:
        return [], [[Box(0, 0, width, height)]] * len(columns)
    texts = [text for group in _groups(root, "legend_") for text in _texts(group)]
    legend = [(text.left, text.bottom) for text in texts]
    top = max((y for _, y in legend), default=-4) + 4
    if top > min(box.top for axes in columns for _, box in axes):
        return [], []  # not above the panels
    cuts = [0.0]
    for before, after in pairwise(columns):
        end = max(edge for axes, box in before for edge in (box.right, *_edges(axes, 1)))
        begin = min(edge for axes, box in after for edge in (box.left, *_edges(axes, 0)))
        cuts.append(min((end + begin) / 2, begin - 1))
    first = [box for _, box in columns[0]]
    labels = Box(0, top, min(b.left for b in first), max(b.bottom for b in first) + 4)
    panels = []
    for axes, (left, right) in zip(columns, pairwise([*cuts, width]), strict=True):
        own = Box(left, top, right, height)
        panels.append([labels, own] if any(_shares(a) for a, _ in axes) else [own])
    return _entries(legend, width), panels


def _entries(legend: list[tuple[float, float]], width: float) -> list[Box]:
    """The parts of a legend in one line, centred; of one in several lines, the whole of it."""
    if not legend:
        return []
    left = min(x for x, _ in legend) - HANDLE
    top, bottom = (f(y for _, y in legend) for f in (min, max))
    if bottom - top > LINE / 2:
        return [Box(left, 0, width - left, bottom + 4)]
    begins = [x - HANDLE for x, _ in sorted(legend)]
    return [Box(a, top - LINE, b, bottom + 4) for a, b in pairwise([*begins, width - left])]


Axes = tuple[ElementTree.Element, Box]


def _columns(root: ElementTree.Element, width: float) -> list[list[Axes]]:
    """The axes of a figure, those above each other together; colour bars with what they explain."""
    columns: list[list[Axes]] = []
    axes = [(group, box) for group in _groups(root, "axes_") if (box := _frame(group))]
    for group, box in sorted(axes, key=lambda pair: pair[1].left):
        end = max((b.right for _, b in columns[-1]), default=0.0) if columns else 0.0
        if columns and (box.left < end or box.width < NARROW * width):
            columns[-1].append((group, box))
        else:
            columns.append([(group, box)])
    return columns


def _groups(root: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (g for g in root.iter(f"{NAME}g") if g.get("id", "").startswith(name))


def _frame(axes: ElementTree.Element) -> Box | None:
    """The background of some axes; a drawing has no axes to speak of."""
    if not any(True for _ in _groups(axes, "matplotlib.axis_")):
        return None
    first = next(_groups(axes, "patch_"), None)
    path = None if first is None else first.find(f"{NAME}path")
    if path is None or axes[0] is not first:
        return None
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.attrib["d"])]
    x, y = numbers[::2], numbers[1::2]
    return Box(min(x), min(y), max(x), max(y))


def _texts(group: ElementTree.Element) -> Iterator[Box]:
    """The places of texts, about: a letter is half as wide as a line is high."""
    for text in _groups(group, "text_"):
        places = (_place(inner) for inner in text.iter(f"{NAME}g"))
        if place := next(filter(None, places), None):
            x, y = float(place[1]), float(place[2])
            if place[3]:  # turned, from below to above
                yield Box(x - LINE, y, x, y)
            else:
                n_letters = sum(1 for _ in text.iter(f"{NAME}use"))
                yield Box(x, y - LINE, x + n_letters * LINE / 2, y)


def _place(group: ElementTree.Element) -> re.Match[str] | None:
    return re.match(r"translate\((\S+) (\S+)\)( rotate)?", group.get("transform", ""))


def _edges(axes: ElementTree.Element, side: int) -> list[float]:
    """The left (0) or right (1) ends of the texts of some axes."""
    return [(text.left, text.right)[side] for text in _texts(axes)]


def _shares(axes: ElementTree.Element) -> bool:
    """Whether some axes have marks on y without numbers: those of a neighbour hold for them."""
    ticks = list(_groups(axes, "ytick_"))
    return bool(ticks) and not any(True for tick in ticks for _ in _groups(tick, "text_"))
