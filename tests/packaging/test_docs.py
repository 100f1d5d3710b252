"""The documentation: its links lead somewhere, its samples run, its figures are the measured ones, its site builds.

Samples in Python run with the tests of the Python package: tests/python/test_package.py."""

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from consumers import ROOT, run

DOCS = ROOT / "docs"
STARTING = DOCS / "getting-started"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "paper/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
LOG = sorted(set(DOCS.glob("log/*.md")) - {DOCS / "log" / "index.md"})
SPHINX = ROOT / "build" / "docs-venv" / "bin" / "sphinx-build"


def name(path):
    return path.relative_to(ROOT).as_posix()


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def table_after(path, header):
    """The rows of the table with this header."""
    lines = path.read_text().split(f"\n{header}\n", 1)[1].splitlines()[1:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


# ---- Links ----


def without_blocks(path):
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """The ids of a page of HTML; the headings of one in Markdown, as GitHub and MyST make anchors of them."""
    if path.suffix == ".html":
        return set(re.findall(r'\bid="([^"]+)"', path.read_text()))
    found = []
    for heading in re.findall(r"^#+ (.*)$", without_blocks(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "code", without_blocks(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{target}: {file.name} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    assert list(broken_links(page)) == []


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `code` heading\n[1](page.md#a-code-heading) [2](#no) [3](none.md) `[4](x.md)` [5](https://x.y/z)\n"
    )
    assert [line.split(": ")[0] for line in broken_links(page)] == ["#no", "none.md"]


def test_files_name_files_that_exist():
    """Comments, messages and pages name other files by their path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this is no git checkout")
    gone = []
    for file in filter(None, listed.stdout.split("\0")):
        path = ROOT / file
        if not path.is_file() or path.suffix in (".json", ".html", ".npy", ".npz"):
            continue  # results keep the commands that they were made with
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for named in re.findall(r"(?<![\w/.])(?:docs|bench|scripts)/[\w/-]+\.(?:md|html|svg|py|sh)\b", line):
                if not (ROOT / named).exists():
                    gone.append(f"{file}:{number}: {named}")
    assert gone == []


def test_commands_of_make_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?:^|`|    )make ([a-z-]+)", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{name(page)}: make {target}"


# ---- What pages say ----


def test_readme_is_read_in_a_minute():
    assert len((ROOT / "README.md").read_text().split()) <= 600


def test_readme_has_the_measured_times():
    """Each row of the table is a cell of the committed result."""
    cells = {
        (cell["rows"], cell["cols"], cell["k"]): cell
        for cell in json.loads((ROOT / "bench/results/gpu-h200.json").read_text())["cells"]
        if cell["set"] in ("paper", "sweep", "small", "long", "few")
    }
    rows = table_after(ROOT / "README.md", "| rows x columns, k | rtopk | torch.topk | rtopk / floor |")
    assert len(rows) >= 5
    for shape, rtopk, torch, ratio in rows:
        cell = cells[tuple(map(int, re.findall(r"\d+", shape)))]
        for text, microseconds in ((rtopk, cell["microseconds"]["rtopk"]), (torch, cell["microseconds"]["torch"])):
            number = text.removesuffix(" ms")
            digits = len(number.replace(".", "").lstrip("0"))
            assert float(number) == float(f"{microseconds / 1000:.{digits}g}"), f"{shape}: {text}"
        assert float(ratio) == round(cell["ratios"]["floor"], 2), f"{shape}: {ratio}"


def test_results_are_the_measured_ones():
    summary = json.loads((ROOT / "bench/results/gpu-h200.json").read_text())["summary"]
    rows = table_after(DOCS / "results.md", "| set | geometric mean | worst | target |")
    assert len(rows) == len(summary)
    for (text, mean, worst, target), measured in zip(rows, summary, strict=True):
        assert float(mean) == round(measured["geometric_mean"], 2), text
        assert worst.startswith(f"{measured['worst']:.2f}"), text
        verdict = {True: "met", False: "missed", None: "none"}[measured["met"]]
        assert target.split(": ")[-1] == verdict, text


def test_results_between_the_grids_are_the_measured_ones():
    summary = json.loads((ROOT / "bench/results/gpu-h200-again.json").read_text())["summary"]
    names = [
        "widths",
        "rows",
        "shortest",
        "vocabularies",
        "unaligned",
        "off_grid_f16",
        "off_grid_bf16",
        "data",
        "constant",
    ]
    rows = table_after(DOCS / "results.md", "| set | cells | geometric mean | worst | target |")
    for name, (text, number, mean, worst, target) in zip(names, rows, strict=True):
        (measured,) = [row for row in summary if row["set"] == name]
        assert int(number) == measured["cells"], text
        assert float(mean) == round(measured["geometric_mean"], 2), text
        assert worst.startswith(f"{measured['worst']:.2f}"), text
        assert target.endswith("met" if measured["met"] else "missed"), text


def test_early_stops_on_a_cpu_are_the_measured_ones():
    measured = {}
    for cell in json.loads((ROOT / "bench/results/early-cpu.json").read_text())["cells"]:
        shape, k, dtype, _ = cell["problem"].split()
        ratio = cell["times"]["early"] / cell["times"]["exact"]
        measured.setdefault((shape, k.removeprefix("k="), dtype), []).append(f"{ratio:.2f}")
    section = (ROOT / "docs/results.md").read_text().split("### Stopped early", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\d+) x (\d+), (\d+) \| (.*) \| (.*) \|$", section, re.MULTILINE)
    stated = {
        (f"{row[0]}x{row[1]}", row[2], dtype): row[3 + number].split(", ")
        for row in rows
        for number, dtype in enumerate(("f32", "bf16"))
    }
    assert stated == measured


def test_sentences_about_early_stops_on_a_cpu_are_the_measured_ones():
    grid, drawn = (json.loads((ROOT / f"bench/results/early-cpu{name}.json").read_text()) for name in ("", "-random"))
    exact, passes, of_drawn = grid["summary"]["exact"], grid["summary"]["passes"], drawn["summary"]["exact"]
    section = (ROOT / "docs/results.md").read_text().split("### Stopped early", 1)[1].split("\n## ", 1)[0]
    assert of_drawn["cells"] == len(drawn["cells"]) - 1
    (slowest,) = [cell["problem"] for cell in drawn["cells"] if ratio_to_exact(cell) == of_drawn["worst"]]
    for text in (
        f"{exact['geometric_mean']:.2f} in the geometric mean, {exact['worst']:.2f} at worst; times the paper's passes"
        f" {passes['geometric_mean']:.2f} and {passes['worst']:.2f} (target {passes['target']:.1f})",
        f"{len(drawn['cells'])} random problems with `max_iter` 1 to 12, of which one is too short to time",
        f"{of_drawn['geometric_mean']:.2f} times the exact time in the mean, {of_drawn['worst']:.2f} at worst, rows of"
        f" {slowest.split()[0].split('x')[1]} columns of which most hold an infinity",
        f"target {exact['target']} each)",
    ):
        assert text in " ".join(section.split()), text


def ratio_to_exact(cell):
    return round(cell["times"]["early"] / cell["times"]["exact"], 3)


def test_general_rows_on_a_cpu_are_the_measured_ones():
    names = ("threshold", "magnitude", "both", "lengths")
    measured = json.loads((ROOT / "bench/results/rows-cpu.json").read_text())
    ratios = {}
    for cell in measured["cells"]:
        shape = f"{cell['rows']} x {cell['cols']}, {cell['k']}"
        times = cell["times"]
        ratios.setdefault(shape, []).append(", ".join(f"{times[name] / times['plain']:.2f}" for name in names))
    section = (DOCS / "results.md").read_text().split("### General rows on a CPU", 1)[1].split("\n#", 1)[0]
    stated = dict(re.findall(r"^\| (\d+ x \d+, \d+) \| (.*) \|$", section, re.MULTILINE))
    assert stated == {shape: " | ".join(of_types) for shape, of_types in ratios.items()}
    for part in ("geometric_mean", "worst"):
        *others, last = (f"{measured['summary'][name][part]:.2f}" for name in names)
        assert f"{', '.join(others)} and {last}" in section


def test_few_long_rows_are_the_measured_ones():
    cells = json.loads((ROOT / "bench/results/indexer-h200.json").read_text())["cells"]
    ratios = {
        (cell["rows"], cell["cols"], cell["k"], cell["dtype"]): round(cell["ratios"]["floor"], 2)
        for cell in cells
        if cell["set"] in ("indexer_f32", "indexer_bf16")
    }
    rows = table_after(DOCS / "results.md", "| rows x columns | float32 | bfloat16 |")
    assert len(rows) == 7
    for shape, *columns in rows:
        for dtype, column in zip(("f32", "bf16"), columns, strict=True):
            measured = [ratios[(*map(int, shape.split(" x ")), k, dtype)] for k in (512, 1024, 2048)]
            assert [float(number) for number in column.split(", ")] == measured, (shape, dtype)


def general_rows(case, file="rows-h200.json"):
    """What was measured of one case, by rows, columns, k and dtype."""
    measured = json.loads((ROOT / "bench/results" / file).read_text())["rows"]
    return {(row["rows"], row["cols"], row["k"], row["dtype"]): row for row in measured if row["case"] == case}


RESULTS_OF_GENERAL_ROWS = {
    "| rows x columns, {} | full lengths | random lengths | magnitude | threshold | pages |": (
        ("full", 2),
        ("random", 2),
        ("magnitude", 2),
        ("threshold", 2),
        ("pages_more_us", 1),
    ),
    "| rows x columns, {} | any ties | lowest |": (("flashinfer", 2), ("flashinfer_lowest", 2)),
}
BESIDE_FLASHINFER = "rows-flashinfer-h200.json"


@pytest.mark.parametrize(("name", "dtype"), [("float32", "f32"), ("bfloat16", "bf16")])
@pytest.mark.parametrize("header", RESULTS_OF_GENERAL_ROWS, ids=["beside plain ones", "beside FlashInfer"])
def test_general_rows_are_the_measured_ones(header, name, dtype):
    cells = general_rows("indexer", BESIDE_FLASHINFER) if "ties" in header else general_rows("indexer")
    rows = table_after(DOCS / "results.md", header.format(name))
    assert len(rows) * 3 * 2 == len(cells)
    for shape, *columns in rows:
        for (part, digits), column in zip(RESULTS_OF_GENERAL_ROWS[header], columns, strict=True):
            measured = [cells[(*map(int, shape.split(" x ")), k, dtype)][part] for k in (512, 1024, 2048)]
            assert column.split(", ") == [f"{round(number, digits) + 0.0:.{digits}f}" for number in measured], (
                shape,
                part,
            )


def test_targets_of_general_rows_are_met_as_often_as_measured():
    cells = general_rows("indexer").values()
    met = [
        sum(cell[part] <= target for cell in cells)
        for part, target in (("random", 1.25), ("magnitude", 1.05), ("pages_more_us", 1))
    ]
    text = f"random lengths meet it in {met[0]} of {len(cells)} cells, magnitudes in {met[1]}, pages in {met[2]}"
    assert text in (DOCS / "results.md").read_text()


def test_segments_are_the_measured_ones():
    cells = general_rows("segments")
    rows = table_after(DOCS / "results.md", "| segments x mean length, k | float32 | bfloat16 |")
    assert len(rows) * 2 == len(cells)
    for shape, *columns in rows:
        sizes = tuple(int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", shape))
        assert columns == [f"{cells[(*sizes, dtype)]['segments']:.2f}" for dtype in ("f32", "bf16")], shape
    one, other = (general_rows("mixed")[256, 131072, 512, dtype]["mixed"] for dtype in ("f32", "bf16"))
    text = f"take {one:.2f} times as long as both alone together (bfloat16 {other:.2f};"
    assert text in (DOCS / "results.md").read_text()


def test_long_general_rows_are_the_measured_ones():
    header = "| row x columns, k | type | plain, times the floor | full lengths | magnitude | threshold |"
    rows = table_after(DOCS / "results.md", header)
    cells = general_rows("long")
    assert len(rows) == len(cells)
    for shape, dtype, to_floor, *columns in rows:
        sizes = tuple(int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", shape))
        cell = cells[(*sizes, {"float32": "f32", "bfloat16": "bf16"}[dtype])]
        assert to_floor == f"{cell['plain_to_floor']:.1f}", shape
        assert columns == [f"{cell[part]:.2f}" for part in ("full", "magnitude", "threshold")], shape


def test_counts_beside_flashinfer_are_the_measured_ones():
    cells = general_rows("indexer", BESIDE_FLASHINFER).values()
    counts = [cell["counts"] for cell in cells]

    def total(peer, of):
        return sum(count[peer][of] for count in counts)

    checked = sum(cell["rows"] for cell in cells)
    assert not any(total(peer, "wrong") for peer in counts[0])
    assert not any(total("rtopk", of) for of in counts[0]["rtopk"])
    assert total("flashinfer_lowest", "changed_sets") == 0
    assert total("flashinfer_lowest", "changed_order") == checked
    text = " ".join((DOCS / "results.md").read_text().split())
    assert f"Of {checked:,} rows, no set was wrong on either side." in text
    assert f"With any ties, {total('flashinfer', 'changed_sets'):,} rows selected other elements" in text
    assert f"from run to run in {total('flashinfer', 'changed_order'):,} rows, with the lowest in all" in text


def test_hard_general_rows_are_the_measured_ones():
    cells = json.loads((ROOT / "bench/results/rows-hard-h200.json").read_text())["rows"]

    def problem(cell):
        return tuple(cell[part] for part in ("rows", "cols", "k", "dtype", "form"))

    normal = {problem(cell): cell["us"]["rtopk"] for cell in cells if cell["data"] == "normal"}
    rows = table_after(DOCS / "results.md", "| data | rtopk / rtopk on normal data | FlashInfer / rtopk |")
    assert len(rows) * len(normal) == len(cells)
    names = {"one value": "all_equal", "[1, 1 + 2^-10)": "narrow", "few values": "few_levels"}
    for data, ours, theirs in rows:
        mine = [cell for cell in cells if names.get(data, data) == cell["data"]]
        slower = [cell["us"]["rtopk"] / normal[problem(cell)] for cell in mine]
        beside = [cell["flashinfer_lowest"] for cell in mine]
        assert [ours, theirs] == [span(slower), span(beside)], data
    assert not any(count["wrong"] for cell in cells for count in cell["counts"].values())
    assert f"No row of {sum(cell['rows'] for cell in cells):,} was wrong" in (DOCS / "results.md").read_text()


def span(ratios):
    least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return least if least == most else f"{least} to {most}"


def test_routers_are_the_measured_ones():
    routers = json.loads((ROOT / "bench/results/routers-h200.json").read_text())["routers"]
    measured = {router["name"]: router for router in routers}
    rows = table_after(DOCS / "results.md", "| router | µs | to the floor | compiled PyTorch | host |")
    assert len(rows) >= 7
    for name, *numbers in rows:
        router = measured[name]
        assert numbers == [
            f"{router['route_us']:.1f}",
            f"{router['to_floor']:.2f}",
            f"{router['compiled_us'] / router['route_us']:.0f}",
            f"{router['route_host_us']:.0f}",
        ], name


def random_runs(file):
    """Of each run the seed and the cells."""
    for each in json.loads((ROOT / "bench/results" / file).read_text())["runs"]:
        yield each["environment"]["seed"], each["cells"]


def ratios_of(cells, matches):
    """How many cells match, and their geometric mean, 90th percentile and worst."""
    ratios = sorted(cell["ratios"]["floor"] for cell in cells if matches(cell))
    percentile = ratios[math.ceil(0.9 * len(ratios)) - 1]
    return [len(ratios), statistics.geometric_mean(ratios), percentile, ratios[-1]]


def rounded(numbers):
    return [round(number, 2) for number in numbers]


RANDOM_SETS = {
    "float32": "random_f32",
    "float16 and bfloat16": "random_16",
    "float64 and int32": "random_other",
    "matrices below 64 MB": "random_small",
}


def test_random_problems_are_the_measured_ones():
    runs = dict(random_runs("random-h200-3-seeds.json"))
    rows = table_after(DOCS / "results.md", "| seed | problems | number | geometric mean | 90th percentile | worst |")
    assert len(rows) == len(runs) * len(RANDOM_SETS)
    for seed, problems, *numbers in rows:
        measured = ratios_of(runs[int(seed)], lambda cell, name=problems: cell["set"] == RANDOM_SETS[name])
        assert [float(number) for number in numbers] == rounded(measured), (seed, problems)


def test_random_problems_of_families_are_the_measured_ones():
    cells = [cell for _, cells in random_runs("random-h200-3-seeds.json") for cell in cells]
    for family, *numbers in table_after(DOCS / "results.md", "| family | float32 | worst | 16 bits | worst |"):
        measured = []
        for dtypes in (["f32"], ["f16", "bf16"]):
            mine = (family.strip("`"), dtypes)
            _, mean, _, worst = ratios_of(
                cells, lambda cell, of=mine: cell["plan"].split()[0] == of[0] and cell["dtype"] in of[1]
            )
            measured += [round(mean, 2), round(worst, 1)]
        assert [float(number) for number in numbers] == measured, family


@pytest.mark.parametrize(
    ("file", "seed"),
    [("random-n1-2-threads.json", "seed"), ("cpu-random-xeon-2-threads.json", "seed, Xeon")],
)
def test_random_problems_on_a_cpu_are_the_measured_ones(file, seed):
    runs = json.loads((ROOT / "bench/results" / file).read_text())["runs"]
    header = f"| {seed} | problems | mean times torch | 10th percentile | worst | slower than torch |"
    parts = ("cells", "speedup_geometric_mean", "speedup_tenth_percentile", "speedup_worst", "slower_than_torch")
    measured = [[run["seed"], *(round(run["summary"][part], 2) for part in parts)] for run in runs]
    assert [[float(number) for number in row] for row in table_after(DOCS / "results.md", header)] == measured


def test_claims_of_the_paper_are_listed_under_their_verdicts():
    """docs/paper.md names claims by their place on the page."""
    listed = json.loads((DOCS / "paper/summary.json").read_text())["checklist"]["claims"]
    verdicts = {claim["name"]: claim["verdict"] for claim in listed}
    page = (DOCS / "paper.md").read_text()
    lists = re.findall(r"^(Held|Not held|Cannot be tested here):\n\n((?:- .*\n(?:  .*\n)*)+)", page, re.MULTILINE)
    assert [verdict for verdict, _ in lists] == ["Held", "Not held"]
    found = [(name, verdict) for verdict, text in lists for name in re.findall(r"index\.html#claim-([\w-]+)\)", text)]
    assert len(found) >= 10
    for claim, verdict in found:
        assert verdicts[claim] == verdict.lower(), claim


@pytest.mark.parametrize("page", LOG, ids=name)
def test_entries_of_the_log_have_four_parts(page):
    """A heading without parts is one of a group of entries, or of remarks at the end."""
    entries = [text for text in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE) if "**Change:**" in text]
    assert entries
    for entry in entries:
        assert re.findall(r"^- \*\*(\w+):\*\* \S", entry, re.MULTILINE) == [
            "Change",
            "Expected",
            "Measured",
            "Decision",
        ], entry.splitlines()[0]


def test_every_kernel_family_is_explained():
    names = "".join(path.read_text() for path in (ROOT / "src/core").rglob("names.cpp"))
    families = re.findall(r"case \w*Family::(\w+):", names)
    assert {"cuda_warp", "cuda_gather"} <= set(families)
    page = (DOCS / "kernels.md").read_text()
    assert [family for family in families if f"`{family}`" not in page] == []


def test_every_public_name_of_python_has_a_reference():
    names = re.search(r"__all__ = \[(.*?)\]", (ROOT / "python/rtopk/__init__.py").read_text(), re.DOTALL).group(1)
    page = (DOCS / "reference/python.md").read_text()
    # The first is in info(), the others are modules.
    public = set(re.findall(r'"(\w+)"', names)) - {"__version__", "distributed", "jax", "moe", "nn", "serving"}
    assert public == set(re.findall(r"^\.\. auto(?:function|class):: (\w+)(?:\(.*\))?$", page, re.MULTILINE))
    for module in ("nn", "moe", "serving", "pyg", "jax", "distributed"):
        assert f".. automodule:: rtopk.{module}\n" in page


# ---- Samples ----


@pytest.mark.parametrize(
    "page", ["README.md", "docs/getting-started/pytorch.md", "docs/python.md", "docs/gnn.md", "docs/routers.md"]
)
def test_pages_have_samples_in_python(page):
    assert blocks(ROOT / page, "python")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The main build, installed as the pages say."""
    if not (ROOT / "build" / "lib" / "librtopk.so").exists():
        pytest.skip("there is no main build")
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", ROOT / "build", "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def environment(installed):
    library = next(installed.rglob("librtopk.so")).parent
    path = [str(installed / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        "PATH": os.pathsep.join(path),
        "LD_LIBRARY_PATH": str(library),
        "PKG_CONFIG_PATH": str(library / "pkgconfig"),
        "CMAKE_PREFIX_PATH": str(installed),
    }


def has_main(source):
    return "int main(" in source


def test_samples_in_cpp(environment, tmp_path):
    """The program is built as the page says and prints what it says."""
    page = STARTING / "cpp.md"
    (program,) = filter(has_main, blocks(page, "cpp"))
    (tmp_path / "main.cpp").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(*blocks(page, "cmake"))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", **environment)
    run("cmake", "--build", tmp_path / "build", **environment)
    assert run(tmp_path / "build" / "first", **environment) == blocks(page, "text")[0]


@pytest.mark.parametrize("page, compiler, standard", [("cpp.md", "c++", "c++20"), ("c.md", "cc", "c11")])
def test_samples_compile(tmp_path, page, compiler, standard):
    language = page.removesuffix(".md")
    for sample in blocks(STARTING / page, language):
        source = tmp_path / f"sample.{language}"
        source.write_text(sample)
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}"]
        run(compiler, *flags, source)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not here")
@pytest.mark.parametrize("page, compiler, source", [("cpp.md", "c++", "main.cpp"), ("c.md", "cc", "main.c")])
def test_samples_by_pkg_config(environment, tmp_path, page, compiler, source):
    page = STARTING / page
    (program,) = filter(has_main, blocks(page, source.removeprefix("main.")))
    (tmp_path / source).write_text(program)
    (command,) = re.findall(rf"`({re.escape(compiler)} -std=.*?)`", page.read_text())
    run("sh", "-c", f"{command} -Wall -Wextra -Werror", cwd=tmp_path, **environment)
    assert run(tmp_path / "a.out", **environment) == blocks(page, "text")[0]


def test_samples_of_the_program(installed, environment, tmp_path):
    pytest.importorskip("numpy")
    if not (installed / "bin" / "rtopk").exists():
        pytest.skip("the main build has no program")
    page = STARTING / "program.md"
    for sample in blocks(page, "sh"):
        run("sh", "-eu", "-c", sample, cwd=tmp_path, **environment)
    table = table_after(page, "| command | does |")
    commands = re.findall(r"^  (\w+) ", run("rtopk", "--help", **environment).split("Subcommands:")[1], re.MULTILINE)
    assert {row[0].strip("`") for row in table} <= set(commands)


# ---- The site ----


@pytest.mark.skipif(not SPHINX.exists(), reason="Sphinx is not installed: `scripts/setup.sh docs` does it")
@pytest.mark.skipif(shutil.which("doxygen") is None, reason="Doxygen is not installed: `scripts/setup.sh docs` does it")
def test_the_site_builds_without_a_warning(tmp_path):
    run(SPHINX, "-q", "-W", "--keep-going", "-d", tmp_path / "cache" / "doctrees", DOCS, tmp_path / "site")
    for page in ("index", "reference/python", "reference/cpp", "reference/c", "log/index", "paper/index"):
        assert (tmp_path / "site" / f"{page}.html").exists(), page
    article = (tmp_path / "site" / "index.html").read_text().split("<article", 1)[1].split("</article", 1)[0]
    for page in ("gnn.html", "paper.html"):  # the second has a folder of the same name beside it
        assert f'href="{page}"' in article, page
    cpp = (tmp_path / "site" / "reference" / "cpp.html").read_text()
    for header in (ROOT / "include").rglob("*.hpp"):
        assert f"{name(header).removeprefix('include/')}<" in cpp, f"{name(header)} is not in the C++ reference"
