#!/usr/bin/env python3
"""Other people's code on rtopk: runs packages that call torch.topk with accelerate() on and off and compares.

    scripts/clients.py [--only CLIENT ...] [--table FILE]

Installs the packages of requirements-clients.txt into an environment of its own, build/clients/venv, and rtopk beside
it. Where a package publishes tests, those run both ways and their outcomes are compared, test by test. Programs of our
own (tests/clients/client_*.py) use every package both ways and compare results and gradients. What cannot be had is
said in the table, which goes to docs/clients.md. Exits with 1 if anything differs. Run it with a Python that has torch
and scikit-build-core: it builds rtopk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from clients_table import Row, table
from logged import JOBS, ROOT, START, execute, last_line, say

WORK = ROOT / "build" / "clients"
SITE = WORK / "site"  # rtopk
SOURCES = WORK / "sources"
REPORTS = WORK / "reports"
PYTHON = WORK / "venv" / "bin" / "python"
PINS = ROOT / "requirements-clients.txt"
PROGRAMS = ROOT / "tests" / "clients"
TESTS_LIMIT_S = 1500  # for one run of one package's tests
RERUNS = 2  # of tests whose outcomes differ
slots = threading.Semaphore(JOBS)  # for processes that test


@dataclass
class Tests:
    """Tests that a package publishes: which, and where they come from."""

    arguments: list[str]  # of pytest; {source} is the folder of the archive
    source: str | None = None  # "PyPI" for the package's own archive, or an address
    sha256: str = ""
    folder: str = ""  # in the archive; tests run there
    note: str = ""


@dataclass
class Client:
    name: str  # in requirements-clients.txt
    module: str  # of our program
    tests: Tests | None = None


CLIENTS = [
    Client("transformers", "transformers"),
    Client("torch_geometric", "torch_geometric"),
    Client("sae-lens", "sae_lens"),
    Client("dictionary-learning", "dictionary_learning"),
    Client(
        "torchvision",
        "torchvision",
        Tests(
            [
                "test/test_models_detection_utils.py",
                "test/test_models_detection_anchor_utils.py",
                "test/test_models_detection_negative_samples.py",
                # Those of two stages script an operator of torchvision's binary, which may not load.
                *(
                    f"test/test_models.py::test_detection_model[cpu-{model}]"
                    for model in (
                        "fcos_resnet50_fpn",
                        "retinanet_resnet50_fpn",
                        "retinanet_resnet50_fpn_v2",
                        "ssd300_vgg16",
                        "ssdlite320_mobilenet_v3_large",
                    )
                ),
            ],
            source="https://deb.debian.org/debian/pool/main/p/pytorch-vision/pytorch-vision_0.21.0.orig.tar.gz",
            sha256="0a4a967bbb7f9810f792cd0289a07fb98c8fb5d1303fae8b63e3a6b05d720058",
            folder="vision-0.21.0",
            note="of 0.21.0, from Debian",
        ),
    ),
    Client(
        "timm",
        "timm",
        Tests(
            ["tests", "--ignore=tests/test_models.py", "--ignore=tests/test_optim.py"],
            source="PyPI",
            folder="timm-1.0.30",
        ),
    ),
    Client(
        "torchmetrics",
        "torchmetrics",
        Tests(
            [
                "--doctest-modules",
                "-o",
                "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS",
                "--pyargs",
                "torchmetrics.functional.classification",
                "torchmetrics.classification",
                "torchmetrics.functional.retrieval",
                "torchmetrics.retrieval",
                "torchmetrics.utilities",
            ],
            note="the examples of its documentation",
        ),
    ),
    Client("x-transformers", "x_transformers"),
]


def run(command: list, log: str, **options) -> bool:
    return execute(command, log_of(log), **options) == 0


def log_of(name: str) -> Path:
    return REPORTS / f"{name}.log"


def install_rtopk() -> bool:
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", SITE, ROOT]
    return run([*command, "--config-settings=cmake.define.RTOPK_CUDA=OFF"], "install-rtopk", CC="cc", CXX="c++")


def install(names: list[str]) -> bool:
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--constraint", PINS, *names]
    return run(command, f"install-{names[0]}")


def version(name: str) -> str:
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True).stdout.strip()


def fetch(client: Client) -> Path | None:
    """The folder that the client's tests run in, or None where they cannot be had."""
    tests = client.tests
    if tests.source is None:
        return WORK
    folder = SOURCES / tests.folder
    if folder.exists():
        return folder
    archives = SOURCES / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    if tests.source == "PyPI":
        command = [PYTHON, "-m", "pip", "download", "--no-deps", "--no-binary", client.name, "--dest", archives]
        if not run([*command, "--constraint", PINS, client.name], f"fetch-{client.module}"):
            return None
        archive = archives / f"{tests.folder}.tar.gz"
    else:
        archive = archives / tests.source.rsplit("/", 1)[1]
        try:
            content = urllib.request.urlopen(tests.source, timeout=120).read()
        except OSError as error:
            say(f"{client.name}: {tests.source}: {error}")
            return None
        if hashlib.sha256(content).hexdigest() != tests.sha256:
            say(f"{client.name}: {tests.source} is not the archive that it was")
            return None
        archive.write_bytes(content)
    with tarfile.open(archive) as content:
        content.extractall(SOURCES, filter="data")
    return folder


@dataclass
class Report:
    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    totals: dict = field(default_factory=dict)  # empty where the process died


def pytest(label: str, way: str, arguments: list, folder: Path) -> Report:
    path = REPORTS / f"{label}-{way}.jsonl"
    path.unlink(missing_ok=True)
    plugin = ["-p", "rtopk_accelerated", "--rtopk", way, "--rtopk-report", path]
    # -c: no settings but ours, since those of a package may name plugins that are not here.
    command = [PYTHON, "-m", "pytest", "-q", "-c", PROGRAMS / "pytest.ini", f"--rootdir={folder}", *plugin, *arguments]
    with slots:
        run(
            command,
            f"{label}-{way}",
            folder=folder,
            limit_s=TESTS_LIMIT_S,
            PYTHONPATH=os.pathsep.join((str(SITE), str(PROGRAMS))),
            PYTHONHASHSEED="0",
            # One thread: results repeat to the last bit, and as many tests run at a time as there are cores.
            OMP_NUM_THREADS="1",
            HF_HUB_OFFLINE="1",
            WANDB_MODE="disabled",
        )
    report = Report()
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if "test" in entry:
            report.outcomes[entry["test"]] = entry["outcome"]
            report.reasons[entry["test"]] = entry["why"]
        else:
            report.totals = entry
    return report


def counted(outcomes: list[str]) -> str:
    kinds = sorted(set(outcomes) - {"passed"})
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in kinds)


def compare_tests(client: Client, row: Row) -> None:
    folder = fetch(client)
    if folder is None:
        row.problem = "the archive with its tests cannot be had here"
        return
    with ThreadPoolExecutor(2) as pool:
        off, on = pool.map(
            lambda way: pytest(f"{client.module}-tests", way, client.tests.arguments, folder), ("off", "on")
        )
    tests = sorted(off.outcomes.keys() | on.outcomes.keys())
    for way, report in (("off", off), ("on", on)):
        if not report.totals:
            row.problem = (
                f"the run with accelerate() {way} did not end: {last_line(log_of(f'{client.module}-tests-{way}'))}"
            )
            tests = [test for test in tests if test in report.outcomes]
    differing = [test for test in tests if off.outcomes.get(test) != on.outcomes.get(test)]
    for test in differing:
        seen = {"off": [off.outcomes.get(test)], "on": [on.outcomes.get(test)]}
        for _ in range(RERUNS):
            for way, results in seen.items():
                results.append(pytest(f"{client.module}-again", way, [test], folder).outcomes.get(test))
        texts = (f"{way} {', '.join(map(str, results))}" for way, results in seen.items())
        verdict = f"`{test}`: {'; '.join(texts)}"
        (row.unsteady if set(seen["off"]) & set(seen["on"]) else row.different).append(verdict)
    same = [on.outcomes[test] for test in tests if test not in differing]
    row.passed = same.count("passed")
    row.other = counted(same)
    row.calls = on.totals.get("calls", 0)
    row.routed = on.totals.get("routed", 0)
    wrong = [
        f"{way}: {text}" for way, report in (("off", off), ("on", on)) for text in report.totals.get("mistakes", ())
    ]
    row.different += [f"a wrong selection with accelerate() {text}" for text in wrong]


def run_program(client: Client, row: Row) -> None:
    report = pytest(f"{client.module}-program", "inside", [PROGRAMS / f"client_{client.module}.py"], PROGRAMS)
    outcomes = list(report.outcomes.values())
    row.passed = outcomes.count("passed")
    for test, outcome in report.outcomes.items():
        if outcome != "passed":
            why = " ".join(report.reasons[test].split())[-160:]
            row.different.append(f"`{test}`: {outcome}: {why}")
    if not report.totals:
        row.problem = f"the run did not end: {last_line(log_of(f'{client.module}-program-inside'))}"
        return
    totals = report.totals
    row.calls, row.routed = totals["calls"], totals["routed"]
    row.agreement = f"{totals['same_bits']} of {totals['results']}"
    if totals["by_ties"]:
        row.agreement += f", {totals['by_ties']} differ by ties"


def measure(client: Client) -> list[Row]:
    rows = []
    steps = {"their tests": compare_tests} if client.tests else {}
    for what, step in (steps | {"our client": run_program}).items():
        row = Row(client.name, version(client.name), what, note=client.tests.note if what == "their tests" else "")
        began = time.monotonic()
        say(f"{client.name}: {what}")
        step(client, row)
        took = time.monotonic() - began
        say(f"{client.name}: {what}: {row.passed} passed, {len(row.different)} different, {took:.0f} s {row.problem}")
        rows.append(row)
    return rows


def rtopk_version() -> str:
    return next(SITE.glob("rtopk-*.dist-info")).name.split("-")[1].removesuffix(".dist")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[client.name for client in CLIENTS], metavar="CLIENT")
    parser.add_argument("--table", type=Path, help="default docs/clients.md, or build/clients/table.md with --only")
    arguments = parser.parse_args()
    chosen = [client for client in CLIENTS if not arguments.only or client.name in arguments.only]
    path = arguments.table or (WORK / "table.md" if arguments.only else ROOT / "docs" / "clients.md")

    REPORTS.mkdir(parents=True, exist_ok=True)
    say("rtopk: pip install")
    if not install_rtopk():
        print(log_of("install-rtopk").read_text())
        return 1
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(WORK / "venv")], check=True)
    say("torch and what tests need: pip install")
    if not install(["torch", "numpy", "matplotlib", "pytest", "pytest-timeout"]):
        print(log_of("install-torch").read_text())
        return 1
    absent = []
    for client in chosen:
        say(f"{client.name}: pip install")
        if not install([client.name]):
            absent.append(
                Row(client.name, "", "", problem=f"not installed: {last_line(log_of(f'install-{client.name}'))}")
            )
            say(f"{client.name}: {absent[-1].problem}")
    missing = {row.client for row in absent}
    with ThreadPoolExecutor(JOBS) as pool:
        measured = pool.map(measure, [client for client in chosen if client.name not in missing])
        rows = [row for rows in measured for row in rows]
    made_with = (
        f"Python {platform.python_version()}, torch {version('torch')}, rtopk {rtopk_version()}, {platform.machine()}; "
        f"{(time.monotonic() - START) / 60:.0f} minutes on {JOBS} cores, one thread for each test."
    )
    text = table(rows + absent, made_with)
    path.write_text(text)
    print(f"\n{text}\n{path}")
    return 1 if absent or any(row.different or row.problem for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
