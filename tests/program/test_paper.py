"""`make paper` without make: its measurements, what it derives from them, and the page in a browser."""

import html
import json
import re
import shutil
import statistics
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from conftest import PROGRAM, REPOSITORY

SCRIPT = REPOSITORY / "paper" / "page" / "reproduce.py"
BUILD = PROGRAM.parent.parent

pytest.importorskip("jinja2", reason="jinja2 is not installed")


def paper(*arguments, code=0):
    command = [sys.executable, SCRIPT, "--build", BUILD, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The page of a machine with a GPU, from real statistics of few rows and made-up times."""
    out = tmp_path_factory.mktemp("paper")
    paper("--device", "gpu", "--made-up-times", "--rows", 300, "--out", out)
    return out


@pytest.fixture(scope="session")
def files(folder):
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def at(files, place):
    """The value in the JSON that a data-at attribute names."""
    name, path = place.split("#")
    found = files[name]
    for key in path.strip("/").split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


class Numbers(HTMLParser):
    """Collects the elements with data-at and their texts, and all other text in the cells of tables."""

    VOID = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.found, self.cells = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag in self.VOID:
            return
        attributes = dict(attributes)
        self.open.append((tag, attributes))
        if "data-at" in attributes:
            self.found.append([tag, attributes, ""])
        if tag == "td":
            self.cells.append([attributes.get("class") or "", ""])

    def handle_startendtag(self, tag, attributes):
        pass  # lines of a drawing

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        if any("data-at" in attributes for _, attributes in self.open):
            self.found[-1][2] += text
        elif any(tag == "td" for tag, _ in self.open):
            self.cells[-1][1] += text


@pytest.fixture(scope="session")
def numbers(folder):
    parser = Numbers()
    parser.feed((folder / "index.html").read_text())
    assert not parser.open
    return parser


def test_numbers_of_the_page_are_those_of_the_json(files, numbers):
    kinds = dict.fromkeys(("data", "circle", "tspan"), 0)
    for tag, attributes, text in numbers.found:
        value = at(files, attributes["data-at"])
        kinds[tag] += 1
        if tag == "circle":  # of a figure; its title ends in the number
            assert text.endswith(f": {value * float(attributes['data-scale']):.4g}"), attributes
            continue
        shown = text.replace("−", "-")
        digits = len(shown.partition(".")[2])
        assert abs(float(shown) - value) <= 0.5000001 * 10.0**-digits, (attributes, text)
        if tag == "data":
            assert float(attributes["value"]) == value
    assert kinds["data"] > 1000 and kinds["circle"] > 1400 and kinds["tspan"] == 12


def test_no_other_numbers_in_tables(numbers):
    assert len(numbers.cells) > 500
    for kind, text in numbers.cells:
        assert kind in ("words", "why") or not re.search(r"\d", text), text


def test_page_needs_nothing_from_elsewhere(folder):
    page = (folder / "index.html").read_text()
    without_links = re.sub(r'<a href="[^"]*"', "", page)
    for forbidden in ("http:", "https:", "<script", "<img", "<iframe", "@import", "url(", "src="):
        assert forbidden not in without_links, forbidden
    for name in re.findall(r'<a href="([^"#:]+)"', page):
        assert (folder / name).is_file(), name


def test_speed_ups_are_means_of_the_measured_times(files):
    cells = files["kernels.json"]["cells"]
    assert {cell["rows"] for cell in cells if cell["set"] == "grid"} == {1 << n for n in (14, 16, 18, 20)}
    for line in files["summary.json"]["table3"]:
        assert [entry["setting"] for entry in line["entries"]] == [f"max_iter={n}" for n in range(2, 9)] + ["exact"]
        for entry in line["entries"]:
            ratios = [
                cell["microseconds"]["torch"] / cell["microseconds"][entry["setting"]]
                for cell in cells
                if cell["set"] == "grid" and line["cols"] in (None, cell["cols"])
            ]
            assert len(ratios) == entry["cells"] == (60 if line["cols"] is None else 20)
            assert entry["mean"] == pytest.approx(statistics.fmean(ratios))
    for line in files["summary.json"]["sweep"]:
        for name, mean in line["settings"].items():
            ratios = [
                cell["microseconds"]["torch"] / cell["microseconds"][name]
                for cell in cells
                if cell["set"] == "sweep" and cell["cols"] == line["cols"] and cell["dtype"] == "f32"
            ]
            assert mean["mean"] == pytest.approx(statistics.fmean(ratios)) and mean["least"] == min(ratios)


def test_agreement_is_that_of_the_study(files):
    table1, table2, table5 = files["study.json"]["parts"][:3]
    lines = {line["name"]: line for line in files["summary.json"]["agreement"]}
    hits = [cell["hit_percent"] for cell in table2["cells"]]
    line = lines["Table 2: hit rate, %, Algorithm 2 as printed"]
    assert line["numbers"] == len(hits) == 35 and line["agree"] == sum(hit["agrees"] for hit in hits)
    assert line["largest_difference"] == max(abs(hit["value"] - hit["published"]) for hit in hits)
    assert line["mean_difference"] == pytest.approx(table2["mean_absolute_difference"]["printed"]["hit_percent"])
    line = lines["Table 2: hit rate, %, with the selection of the paper's kernel"]
    hits = [cell["threshold_first"]["hit_percent"] for cell in table2["cells"]]
    assert line["numbers"] == 35 and line["agree"] == sum(hit["agrees"] for hit in hits)
    line = lines["Table 5: E(n)"]
    assert line["numbers"] == line["agree"] == len(table5["columns"]) == 14 and line["why"] == ""
    for column in table5["columns"]:
        assert round(column["theory"]["value"], 2) == column["theory"]["published"]
    assert lines["Table 1: average exit"]["numbers"] == len(table1["columns"]) == 5


def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for found in map(shutil.which, names) if found), None)


MEASURE = """
addEventListener("load", () => {
  const measured = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    const sizes = [...page.querySelectorAll("figure svg.panel")].map((svg) => svg.getBoundingClientRect());
    return {
      figures: page.querySelectorAll("figure").length,
      panels: sizes.map((box) => [box.width, box.height, box.right]),
      captions: [...page.querySelectorAll("figcaption")].map((caption) => caption.textContent.trim().length),
      width: page.documentElement.scrollWidth,
    };
  });
  document.body.textContent = JSON.stringify(measured);
});
"""


@pytest.mark.skipif(browser() is None, reason="there is no chromium or chrome")
def test_page_in_a_browser(folder, tmp_path):
    """No message on the console, every figure visible, nothing wider than the screen of a computer or a phone."""
    page = html.escape((folder / "index.html").read_text(), quote=True)
    widths = (1200, 390)
    frames = "".join(f'<iframe style="width:{w}px;height:900px;border:0" srcdoc="{page}"></iframe>' for w in widths)
    outer = tmp_path / "outer.html"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frames}<script>{MEASURE}</script></body>')
    command = [browser(), "--headless", "--disable-gpu", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--enable-logging=stderr", "--window-size=1600,1000", "--dump-dom", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert ":CONSOLE" not in done.stderr, done.stderr
    measured = json.loads(html.unescape(re.search(r"<body>(\[.*\])", done.stdout, re.DOTALL).group(1)))
    for width, page in zip(widths, measured, strict=True):
        assert page["figures"] == len(page["captions"]) == 11 and min(page["captions"]) > 20
        assert page["width"] <= width
        assert len(page["panels"]) > 40
        for panel_width, height, right in page["panels"]:
            assert panel_width > 200 and height > 130 and right <= width


def test_kernels_on_this_cpu(tmp_path, folder):
    """Real measurements, each checked by the benchmark itself; its hit rates are those of the study."""
    pytest.importorskip("torch", reason="torch is not installed")
    for path in folder.glob("study*.json"):
        shutil.copy(path, tmp_path)
    output = paper("--device", "cpu", "--quick", "--only", "kernels", "page", "--out", tmp_path)
    assert "index.html" in output
    kernels = json.loads((tmp_path / "kernels.json").read_text())
    assert kernels["environment"]["device"] == "cpu" and not any(cell["error"] for cell in kernels["cells"])
    assert {cell["data"] for cell in kernels["cells"]} > {"normal", "student", "quantized", "ties"}
    assert "no GPU" in (tmp_path / "index.html").read_text()
    study = json.loads((tmp_path / "study.json").read_text())["parts"][1]["cells"]
    assert kernels["environment"]["rule"] == "threshold_first"
    hits = {(cell["k"], cell["max_iter"]): cell["threshold_first"]["hit_percent"] for cell in study}
    compared = 0
    for cell in kernels["cells"]:
        if cell["set"] != "grid" or cell["cols"] != 256:
            continue
        for setting, percent in cell["hit_percent"].items():
            other = hits[cell["k"], int(setting.removeprefix("max_iter="))]
            assert abs(percent - other["value"]) < 2 * (other["high"] - other["low"]) + 0.5
            compared += 1
    assert compared == 9


def test_refused(tmp_path):
    assert "--seed -1 is negative" in paper("--seed", "-1", code=2)
    assert "--rows 1 is less than 2" in paper("--rows", "1", code=2)
    assert "is not there" in paper("--build", tmp_path, code=1)
    assert "study.json is not there" in paper("--only", "page", "--out", tmp_path, code=1)
