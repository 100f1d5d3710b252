#!/usr/bin/env python3
"""Installs a wheel in a fresh environment without compiler and CUDA, and runs the tests there.

    scripts/wheel_test.py WHEEL [--python PYTHON ...] [--stage NAME ...] [--with REQUIREMENT ...] [--json FILE]

In stages, so that each has no more than its users have: NumPy alone, then PyTorch, then JAX. Packages come from pip's
index. Ends with a table, and with exit code 1 if a test failed.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from logged import ROOT, say

WORK = ROOT / "build" / "wheel-tests"
# Of tests/python those that look at the package itself, and at selection: the main build has to pass all.
STAGES = {
    "numpy": (["numpy"], ["tests/arrays"]),
    "torch": (
        ["torch"],
        [f"tests/python/test_{name}.py" for name in ("package", "import", "topk", "forms", "accelerate")],
    ),
    "jax": (["jax"], ["tests/jax"]),
}
# What the tests look into binaries with. Compilers and CUDA stay hidden.
TOOLS = ("nm", "readelf")
# The examples of the documents are the same with every package, and would take most of the time.
NOT_TESTED = "not examples_in_documents"


def pinned(package):
    """As the tests of the main build have it, if requirements-dev.txt says."""
    found = re.search(rf"^{package}==\S+$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    return found.group() if found else package


class Environment:
    """A virtual environment in which nothing else can be found."""

    def __init__(self, python, folder):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        tools = folder / "tools"
        tools.mkdir()
        for tool in TOOLS:
            if shutil.which(tool):
                (tools / tool).symlink_to(shutil.which(tool))
        hidden = {"PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "RTOPK_TEST_SITE"}
        self.variables = {name: value for name, value in os.environ.items() if name not in hidden}
        self.variables["PATH"] = f"{folder / 'bin'}{os.pathsep}{tools}"

    def run(self, *command):
        return subprocess.run(
            [str(self.python), *(str(part) for part in command)],
            cwd=self.folder,  # not the sources, whose python/rtopk has no binaries
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def install(self, *requirements):
        done = self.run(
            "-m", "pip", "install", "-q", "--only-binary=:all:", "--disable-pip-version-check", *requirements
        )
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nwheel_test.py: pip could not install {' '.join(map(str, requirements))}")

    def versions(self):
        """Of the packages that pip has installed."""
        done = self.run("-m", "pip", "list", "--format=json", "--disable-pip-version-check")
        listed = json.loads(done.stdout[done.stdout.index("[") :].splitlines()[0])
        return {package["name"].lower(): package["version"] for package in listed}


def tested(environment, stage, tests):
    """The counts of pytest's report, and its last lines if something failed."""
    report = environment.folder / f"{stage}.xml"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-k", NOT_TESTED]
    done = environment.run(*command, *(ROOT / test for test in tests))
    if not report.exists():
        return {"failed": 1}, done.stdout
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    count = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    result = {"passed": count["tests"] - failed - count["skipped"], "failed": failed, "skipped": count["skipped"]}
    return result, done.stdout if done.returncode else ""


def run_stages(wheel, python, stages, more):
    version = subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = Environment(python, WORK / f"python-{version}")
    say(f"Python {version}: {wheel.name}")
    environment.install(wheel, "pytest", "hypothesis", *more)
    for stage in stages:
        packages, tests = STAGES[stage]
        named = {re.split(r"[^\w-]", requirement)[0] for requirement in more}
        environment.install(wheel, *(pinned(package) for package in packages if package not in named), *more)
        counts, log = tested(environment, stage, tests)
        installed = environment.versions()
        versions = {name: installed[name] for name in ("numpy", "torch", "jax") if name in installed}
        say(f"  {stage}: {counts}")
        if log:
            print("\n".join(log.splitlines()[-60:]))
        yield {"python": version, "stage": stage, "installed": versions, **counts}


def table(rows):
    yield f"| {'Python':8} | {'installed':45} | passed | failed | skipped |"
    yield f"|{'-' * 10}|{'-' * 47}|--------|--------|---------|"
    for row in rows:
        installed = ", ".join(f"{name} {version}" for name, version in row["installed"].items())
        counts = " | ".join(f"{row.get(name, 0):{len(name)}}" for name in ("passed", "failed", "skipped"))
        yield f"| {row['python']:8} | {installed:45} | {counts} |"


def report(path, wheel, rows):
    """Writes what was tested to a file; more tests of the same wheel are added to those that are there."""
    facts = {
        "wheel": wheel.name,
        "bytes": wheel.stat().st_size,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tests": [],
    }
    if path.exists():
        before = json.loads(path.read_text())
        facts = before if before["sha256"] == facts["sha256"] else facts
    facts["tests"] += rows
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="the interpreters to test with")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument(
        "--with", nargs="+", default=[], dest="more", metavar="REQUIREMENT", help="such as numpy==1.26.4"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    rows = [row for python in arguments.python for row in run_stages(wheel, python, arguments.stage, arguments.more)]
    print(f"\n{wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB", *table(rows), sep="\n")
    if arguments.json:
        report(arguments.json, wheel, rows)
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
