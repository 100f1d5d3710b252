"""bench/charts.py: what it draws is where the axes say, and a picture is a whole SVG file."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))

import charts  # noqa: E402
from charts import Axis, Bars, Level, Panel, Point, Series  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def drawn(panel):
    """The panel as elements; it must be well formed."""
    return ElementTree.fromstring(charts.svg(panel, size=(charts.LEFT + charts.RIGHT + 100, 164)))


def found(root, tag, kind):
    return [element for element in root.iter(tag) if kind in element.get("class", "").split()]


@pytest.mark.parametrize(
    "numbers, high",
    [([0.7], 0.8), ([3, 9.5], 10), ([11], 12.5), ([100], 100), ([101], 125), ([0], 1)],
)
def test_linear_axis_ends_at_a_round_number(numbers, high):
    axis = charts.linear_axis("", numbers)
    assert axis.low == 0 and axis.high == pytest.approx(high) == axis.ticks[-1]
    assert axis.high >= max(numbers)


@pytest.mark.parametrize("numbers", [[80.1, 80.4], [0.001, 0.002], [50, 50], [-3, 12]])
def test_enclosing_axis_encloses(numbers):
    axis = charts.enclosing_axis("", numbers)
    assert axis.low <= min(numbers) <= max(numbers) <= axis.high
    assert 2 <= len(axis.ticks) <= 6


def test_ticks_of_logarithmic_axes():
    assert charts.log_axis("", [1, 10]).ticks == [1, 2, 5, 10]
    assert charts.log_axis("", [1, 1e6]).ticks == [10.0**n for n in range(7)]
    assert charts.places_axis("", [64, 96, 128]).ticks == [64, 128]
    assert len(charts.places_axis("", [1 << n for n in range(20)]).ticks) <= 7


def test_marks_are_where_the_axes_say():
    """In a panel whose plot is 100 wide and 100 high."""
    x, y = Axis("x", 0, 10, [0, 10]), Axis("y", 0, 50, [0, 50])
    panel = Panel(x, y, [Series("a & b", "ours", [Point(0, 0), Point(5, 5, spread=1, text="five")], scale=10.0)])
    root = drawn(panel)
    low, high = root.iter("circle")
    assert [float(low.get(name)) for name in ("cx", "cy")] == [charts.LEFT, charts.TOP + 100]
    assert [float(high.get(name)) for name in ("cx", "cy")] == [charts.LEFT + 50, charts.TOP]
    assert high.find("title").text == "a & b, 5: 50"
    (whisker,) = found(root, "line", "whisker")
    assert float(whisker.get("y2")) - float(whisker.get("y1")) == pytest.approx(40)
    assert [text.text for text in found(root, "text", "value")] == ["five"]
    assert len(list(root.iter("polyline"))) == 1


def test_bars_and_levels():
    panel = Panel(
        charts.category_axis("", ["one", "two"]),
        Axis("", 0, 4, [0, 4]),
        [Bars("times", "ours", [Point(0, 1, text="1"), Point(1, 4, text="4")]), Level("even", "floor", 2, spread=1)],
    )
    root = drawn(panel)
    assert [float(bar.get("height")) for bar in found(root, "rect", "bar")] == [25, 100]
    (band,) = found(root, "rect", "band")
    assert float(band.get("height")) == 50 and float(band.get("y")) == charts.TOP + 25
    (level,) = found(root, "line", "level")
    assert level.get("y1") == level.get("y2") == f"{charts.TOP + 50:.1f}"
    assert [text.text for text in found(root, "text", "tick")] == ["0", "4", "one", "two"]


def test_sources_are_kept():
    series = Series("ours", "ours", [Point(1, 2, source="summary.json#/a/0")], scale=0.5)
    (circle,) = drawn(Panel(Axis("", 0, 2, []), Axis("", 0, 2, []), [series])).iter("circle")
    assert (circle.get("data-at"), circle.get("data-scale")) == ("summary.json#/a/0", "0.5")


def test_picture_has_each_label_once():
    x = y = Axis("", 0, 2, [0, 1, 2])
    marks = [Series("ours", "ours", [Point(1, 1)]), Series("dots", "torch", [Point(1, 2)], line=False, in_legend=False)]
    root = ElementTree.fromstring(charts.picture([Panel(x, y, marks), Panel(x, y, marks)], "A < B"))
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert texts == ["A < B", "ours"]
    assert len(root.findall(f"{SVG}svg")) == 2
    assert int(root.get("width")) == 2 * charts.SIZE_ALONE[0]
