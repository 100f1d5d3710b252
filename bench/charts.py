"""Line and bar charts as SVG, for the pages of paper/ and for pictures in the documentation.

There is no matplotlib here: machines with a GPU often lack it, charts on a page must follow its style sheet (dark
background, print), and text stays text. charts.css has the colours: a mark names one of its classes as `style`.

    panel = Panel(places_axis("k", ks), linear_axis("milliseconds", times), [Series("rtopk", "ours", points)])
    figure([panel])                          # HTML: panels side by side, with a legend
    picture([panel], "Time by k")            # an SVG file of its own
"""

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

STYLE = (Path(__file__).resolve().parent / "charts.css").read_text()

# Sizes are in units of the viewBox. A panel among others, and one that stands alone:
SIZE, SIZE_ALONE = (330, 236), (370, 250)
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 24, 40
BAR_WIDTH = 0.72  # of the distance between two categories
CHARACTER_WIDTH = 6.2  # of the legend's text, on average


# ---- Axes ----


@dataclass
class Axis:
    label: str
    low: float
    high: float
    ticks: list  # numbers, or (number, text)
    log: bool = False

    def place(self, number):
        """Where a number lies: 0 at the low end, 1 at the high end."""
        if self.log:
            number, low, high = math.log(number), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return (number - low) / (high - low)


def plain(number):
    """The text of a tick: 2.5, 12, 2k, 3M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (abs(number) >= size and number % size == 0):
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def linear_axis(label, numbers, at_least=0.0):
    """From 0 to a round number that is not below any of `numbers`, nor below `at_least`."""
    high, count = max([*numbers, at_least]) or 1.0, 5
    step = 10 ** math.floor(math.log10(high / count))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor * count >= high)
    ticks = [i * step for i in range(count + 1) if (i - 1) * step < high]
    return Axis(label, 0.0, ticks[-1], ticks)


def enclosing_axis(label, numbers):
    """Between two round numbers, for numbers that differ by little: the axis need not begin at 0."""
    low, high = min(numbers), max(numbers)
    width = max(high - low, 1e-3 * max(abs(high), 1.0))
    power = 10.0 ** math.floor(math.log10(width / 3))
    step = next(power * factor for factor in (1, 2, 5, 10) if width / (power * factor) <= 4)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]
    return Axis(label, ticks[0], ticks[-1], ticks)


def log_axis(label, numbers):
    """Ticks at the decades, and between them where there are few decades."""
    low, high = min(numbers) / 1.15, max(numbers) * 1.15
    factors = (1,) if high / low > 300 else (1, 3) if high / low > 30 else (1, 2, 5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return Axis(label, low, high, [tick for tick in ticks if low <= tick <= high], log=True)


def places_axis(label, numbers):
    """Logarithmic, with ticks at those of `numbers` that are powers of two, or at all where none is; seven at most."""
    numbers = sorted(set(numbers))
    wanted = [number for number in numbers if float(math.log2(number)).is_integer()] or numbers
    wanted = wanted[:: -(-len(wanted) // 7)]
    return Axis(label, numbers[0] / 1.12, numbers[-1] * 1.12, wanted, log=True)


def category_axis(label, names):
    """Names side by side: the i-th is at x = i."""
    return Axis(label, -0.5, len(names) - 0.5, list(enumerate(names)))


# ---- What a panel shows ----


class Point(NamedTuple):
    x: float
    y: float
    spread: float = 0.0  # the whisker goes from y - spread to y + spread
    text: str = ""  # beside the dot, or on the bar
    source: str = ""  # where the number stands in the JSON of a page


@dataclass
class Series:
    """Dots, joined by a line or not. What is drawn is `scale` times a point's y."""

    label: str
    style: str
    points: list
    line: bool = True
    scale: float = 1.0
    in_legend: bool = True

    def draw(self, frame):
        places = [(frame.x(point.x), frame.y(point.y * self.scale)) for point in self.points]
        if self.line and len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            yield f'<polyline points="{path}" class="{self.style}"/>'
        for point, (x, y) in zip(self.points, places, strict=True):
            if point.spread:
                ends = [frame.y((point.y + sign * point.spread) * self.scale) for sign in (1, -1)]
                yield _line(x, x, *ends, f"whisker {self.style}")
            source = f' data-at="{point.source}" data-scale="{self.scale:g}"' if point.source else ""
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{self.radius}" class="{self.style}"{source}>'
                f"<title>{escape(self.label)}, {plain(point.x)}: {point.y * self.scale:.4g}</title></circle>"
            )
            if point.text:
                yield _text(x + 6, y + 4, point.text, "value", "start")

    @property
    def radius(self):
        return 2.2 if self.line else 3.2

    def swatch(self):
        line = f'<line x1="1" x2="25" y1="7" y2="7" class="{self.style}"/>' if self.line else ""
        return f'{line}<circle cx="13" cy="7" r="3.2" class="{self.style}"/>'


@dataclass
class Bars:
    """A bar from 0 to every point."""

    label: str
    style: str
    points: list
    in_legend: bool = False

    def draw(self, frame):
        width = BAR_WIDTH * (frame.x(1) - frame.x(0))
        for point in self.points:
            x, y = frame.x(point.x), frame.y(point.y)
            yield (
                f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{frame.base - y:.1f}"'
                f' class="bar {self.style}"><title>{escape(self.label)}: {point.y:.4g}</title></rect>'
            )
            yield _text(x, y - 4, point.text, "value")

    def swatch(self):
        return f'<rect x="4" y="2" width="18" height="10" class="bar {self.style}"/>'


@dataclass
class Level:
    """A line across the panel at y, with a band from y - spread to y + spread behind it."""

    label: str
    style: str
    y: float
    spread: float = 0.0
    in_legend: bool = True

    def draw(self, frame):
        if self.spread:
            top, bottom = frame.y(self.y + self.spread), frame.y(self.y - self.spread)
            yield (
                f'<rect x="{frame.left}" y="{top:.1f}" width="{frame.right - frame.left}"'
                f' height="{bottom - top:.1f}" class="band {self.style}"/>'
            )
        y = frame.y(self.y)
        yield _line(frame.left, frame.right, y, y, f"level {self.style}")

    def swatch(self):
        return f'<line x1="1" x2="25" y1="7" y2="7" class="level {self.style}"/>'


@dataclass
class Panel:
    x: Axis
    y: Axis
    marks: list  # Series, Bars, Level; later ones are drawn over earlier ones
    title: str = ""
    title_end: str = ""  # SVG that follows the title


# ---- SVG ----


class _Frame:
    """Where the axes of a panel of this size lie."""

    def __init__(self, panel, width, height):
        self._panel = panel
        self.left, self.right, self.top, self.base = LEFT, width - RIGHT, TOP, height - BOTTOM

    def x(self, number):
        return self.left + (self.right - self.left) * self._panel.x.place(number)

    def y(self, number):
        return self.base - (self.base - self.top) * self._panel.y.place(number)


def _text(x, y, words, kind, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def _line(x1, x2, y1, y2, kind):
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _ticks(axis):
    return [tick if isinstance(tick, tuple) else (tick, plain(tick)) for tick in axis.ticks]


def _contents(panel, width, height):
    frame = _Frame(panel, width, height)
    for number, words in _ticks(panel.y):
        y = frame.y(number)
        yield f'<line x1="{LEFT}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield _text(LEFT - 5, y + 4, words, "tick", "end")
    yield f'<line x1="{LEFT}" x2="{frame.right}" y1="{frame.base}" y2="{frame.base}" class="axis"/>'
    for number, words in _ticks(panel.x):
        yield _text(frame.x(number), frame.base + 14, words, "tick")
    centre, middle = (frame.left + frame.right) / 2, (frame.top + frame.base) / 2
    yield _text(centre, height - 8, panel.x.label, "label")
    yield _text(11, middle, panel.y.label, "label", extra=f' transform="rotate(-90 11 {middle:.1f})"')
    if panel.title:
        words = escape(panel.title) + panel.title_end
        yield f'<text x="{centre:.1f}" y="14" class="title" text-anchor="middle">{words}</text>'
    for mark in panel.marks:
        yield from mark.draw(frame)


def svg(panel, size=SIZE, place=""):
    """One panel as an element of a page, or of an SVG file at a place in it."""
    width, height = size
    described = escape(f"{panel.title}: {panel.y.label} over {panel.x.label}".lstrip(": "), quote=True)
    return (
        f'<svg{place} viewBox="0 0 {width} {height}" role="img" aria-label="{described}" class="panel">'
        f"{''.join(_contents(panel, width, height))}</svg>"
    )


def _legend_entries(panels):
    """The marks by label, in the order in which the labels first occur."""
    entries = {}
    for panel in panels:
        for mark in panel.marks:
            if mark.in_legend:
                entries.setdefault(mark.label, mark)
    return entries


def figure(panels):
    """HTML: the panels, and one legend for all of them."""
    items = [
        f'<li><svg viewBox="0 0 26 14" class="swatch" aria-hidden="true">{mark.swatch()}</svg>{escape(label)}</li>'
        for label, mark in _legend_entries(panels).items()
    ]
    kind, size = ("panels one", SIZE_ALONE) if len(panels) == 1 else ("panels", SIZE)
    return (
        f'<div class="{kind}">{"".join(svg(panel, size) for panel in panels)}</div>'
        f'<ul class="legend">{"".join(items)}</ul>'
    )


def picture(panels, title, size=SIZE_ALONE):
    """An SVG file: the title, the panels side by side, and below them one legend for all."""
    (width, height), head, foot = size, 30, 24
    entries = _legend_entries(panels)
    total_width, total_height = width * len(panels), head + height + (foot if entries else 0)
    parts = [_text(total_width / 2, 20, title, "heading")]
    for i, panel in enumerate(panels):
        parts.append(svg(panel, size, f' x="{i * width}" y="{head}" width="{width}" height="{height}"'))
    x = LEFT
    for label, mark in entries.items():
        parts.append(f'<g class="swatch" transform="translate({x:.0f} {head + height + 2})">{mark.swatch()}</g>')
        parts.append(_text(x + 30, head + height + 13, label, "tick", "start"))
        x += 46 + CHARACTER_WIDTH * len(label)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" width="{total_width}"'
        f' height="{total_height}" font-family="system-ui, sans-serif"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" class="paper"/>{"".join(parts)}</svg>\n'
    )
