"""Line charts as SVG, for a page that is read on a phone, on paper and with a dark background.

Written out here, not by matplotlib: machines with a GPU often lack it, colours come from the page's style sheet, and
text stays text. A figure is several small panels, which the page lays out side by side or below each other.
"""

import math
from dataclasses import dataclass
from html import escape

# Of the viewBox: a panel among others, and one that stands alone. They are drawn a little larger or smaller than that.
SIZE, SIZE_ALONE = (330, 236), (370, 250)
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 24, 40


@dataclass
class Series:
    """Points that a line joins. `style` names a class of the style sheet; a value is a Node of the page's JSON."""

    label: str
    style: str
    points: list  # (x, Node)
    line: bool = True
    scale: float = 1.0  # the plotted number is this times the Node's


@dataclass
class Axis:
    label: str
    low: float
    high: float
    ticks: list  # numbers, or (number, text)
    log: bool = False

    def place(self, number):
        """Between 0 and 1."""
        if self.log:
            number, low, high = math.log(number), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return (number - low) / (high - low)


@dataclass
class Panel:
    x: Axis
    y: Axis
    series: list
    title: str = ""
    title_node: object = None  # a number at the end of the title


def plain(number):
    """2.5, 12, 2k, 3M: a tick's text."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (abs(number) >= size and number % size == 0):
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def nice_ticks(high, count=5):
    """Round numbers from 0 to at least `high`."""
    step = 10 ** math.floor(math.log10(high / count))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor * count >= high)
    return [i * step for i in range(count + 1) if (i - 1) * step < high]


def linear_axis(label, numbers, least=0.0):
    ticks = nice_ticks(max([*numbers, least]) or 1.0)
    return Axis(label, 0.0, ticks[-1], ticks)


def log_axis(label, numbers):
    """Decades, with 2 and 5 where there are few of them."""
    low, high = min(numbers) / 1.15, max(numbers) * 1.15
    factors = (1,) if high / low > 300 else (1, 3) if high / low > 30 else (1, 2, 5)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return Axis(label, low, high, [tick for tick in ticks if low <= tick <= high], log=True)


def places_axis(label, numbers, log=True):
    """Ticks at the numbers that occur, as many of them as there is room for."""
    numbers = sorted(set(numbers))
    if not log:
        return Axis(label, numbers[0] - 0.3, numbers[-1] + 0.3, numbers)
    wanted = [number for number in numbers if float(math.log2(number)).is_integer()] or numbers
    wanted = wanted[:: -(-len(wanted) // 7)]
    return Axis(label, numbers[0] / 1.12, numbers[-1] * 1.12, wanted, log=True)


def svg(panel, size=SIZE):
    width, height = size

    def x_of(number):
        return LEFT + (width - LEFT - RIGHT) * panel.x.place(number)

    def y_of(number):
        return height - BOTTOM - (height - TOP - BOTTOM) * panel.y.place(number)

    def text(x, y, words, kind, anchor="middle", extra=""):
        return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'

    parts = []
    for tick in panel.y.ticks:
        number, words = tick if isinstance(tick, tuple) else (tick, plain(tick))
        y = y_of(number)
        parts.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(LEFT - 5, y + 4, words, "tick", "end"))
    base = height - BOTTOM
    parts.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{base}" y2="{base}" class="axis"/>')
    for tick in panel.x.ticks:
        number, words = tick if isinstance(tick, tuple) else (tick, plain(tick))
        parts.append(text(x_of(number), base + 14, words, "tick"))
    parts.append(text((LEFT + width - RIGHT) / 2, height - 8, panel.x.label, "label"))
    middle = (TOP + base) / 2
    parts.append(text(11, middle, panel.y.label, "label", extra=f' transform="rotate(-90 11 {middle:.1f})"'))
    if panel.title:
        words = escape(panel.title)
        if panel.title_node is not None:
            words += f' <tspan data-at="{panel.title_node.at}" data-digits="1">{panel.title_node.raw:.1f}</tspan> ×'
        parts.append(
            f'<text x="{(LEFT + width - RIGHT) / 2:.1f}" y="14" class="title" text-anchor="middle">{words}</text>'
        )
    for series in panel.series:
        dots = [(x, node, node.raw * series.scale) for x, node in series.points if node.raw is not None]
        places = [(x_of(x), y_of(y)) for x, _, y in dots]
        if series.line and len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" class="{series.style}"/>')
        for (x, node, y), (left, top) in zip(dots, places, strict=True):
            shown = f"{y:.4g}"
            parts.append(
                f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{2.2 if series.line else 3.2}" class="{series.style}"'
                f' data-at="{node.at}" data-scale="{series.scale:g}"><title>{escape(series.label)}, {plain(x)}:'
                f" {shown}</title></circle>"
            )
    described = escape(f"{panel.title}: {panel.y.label} over {panel.x.label}".lstrip(": "), quote=True)
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{described}" class="panel">{"".join(parts)}</svg>'
    )


def legend(series):
    """One entry for every label, in the order in which they first occur."""
    entries = {}
    for one in series:
        entries.setdefault(one.label, one)
    items = []
    for label, one in entries.items():
        line = f'<line x1="1" x2="25" y1="7" y2="7" class="{one.style}"/>' if one.line else ""
        dot = f'<circle cx="13" cy="7" r="3.2" class="{one.style}"/>'
        items.append(
            f'<li><svg viewBox="0 0 26 14" class="swatch" aria-hidden="true">{line}{dot}</svg>{escape(label)}</li>'
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def figure(panels):
    """The panels and a legend for all of them."""
    together = [series for panel in panels for series in panel.series]
    kind, size = ("panels one", SIZE_ALONE) if len(panels) == 1 else ("panels", SIZE)
    return f'<div class="{kind}">{"".join(svg(panel, size) for panel in panels)}</div>{legend(together)}'
