#!/usr/bin/env python3
"""Builds with CUDA, tests on the GPU, looks with compute-sanitizer, measures, and ends with a summary on one screen.

    python3 scripts/gpu_check.py [--only STEP ...] [--quick] [--seconds N] [--json FILE]

The steps: build, tests, soak, sanitize, bench, random (the benchmark over random problems), peers (other libraries'
top-k beside rtopk, where they are installed), torch (the Python package), fronts (CuPy and JAX), attack (its operators
under memcheck), gnn, batches (mini-batches beside PyTorch Geometric), ranks (shards and parts of graphs, two processes
on one GPU; communication hooks).

It needs a GPU, CUDA, CMake, GoogleTest, and a Python with PyTorch for the benchmark; no network, no git and no virtual
environment. What is measured is written as JSON to bench/results; logs are left in build/reports. The exit code says
whether the build, the tests and the sanitizers are clean, and every measured result was right: not how fast it is.
A step that fails does not keep the others from running, unless there is no library.
"""

import argparse
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import run_tests
from logged import JOBS, ROOT, START, last_line, say
from run_tests import REPORTS, Result, counted, pytest, report

sys.path.insert(0, str(ROOT / "bench"))

from gpu_grids import GRIDS  # noqa: E402
from gpu_report import as_text, print_table  # noqa: E402

BUILD = ROOT / "build" / "gpu"
LIBRARY = BUILD / "lib" / "librtopk.so"
SITE = BUILD / "site"  # the Python package
SANITIZERS = ("racecheck", "memcheck", "initcheck")  # the slowest first
# Test programs under the sanitizers, each with what of it needs a GPU. Most of the time goes into rewriting the machine
# code of each kernel that runs, so the selections are split by element type: their kernels differ.
SANITIZED = {
    "conformance": ("*/f32", "*/f16", "*/bf16", "*/f64", "*/i32", "-*/f32:*/f16:*/bf16:*/f64:*/i32"),
    "aggregate": ("*/Cuda",),
    "linear": ("LinearOnGpu.*",),
    "norm": ("NormOnGpu.*",),
    "product": ("*/Cuda",),
    "route": ("*/Cuda",),
}
# Of the Python package's tests, those on CUDA tensors under memcheck: what touches every kernel with small tensors, and
# compiles nothing.
SANITIZED_PYTHON = ("test_forms.py", "test_gnn_aggregate.py", "test_gnn_product.py", "test_gnn_norm.py", "test_moe.py")
# Operators called with anything, under memcheck.
ATTACK_CALLS = 4000
# Of what these tests do: the sanitizers make kernels up to a hundred times slower.
SANITIZER_SCALE = "0.02"
SANITIZER_LIMIT_SECONDS = 240
# torch alone takes a minute to start under them.
PYTHON_SANITIZER_LIMIT_SECONDS = 480
# Beside other libraries, some of which sort whole rows or compile for every shape.
PEER_GRIDS = ("paper", "sweep", "small", "few", "half")
PEERS_LIMIT_SECONDS = 900
# How often the benchmark goes on behind a cell that ended it.
BENCH_RESTARTS = 4
# For the summary, and for a command to end after it was interrupted.
RESERVE_SECONDS = 3


class Clock:
    """How long all of this may still take."""

    seconds = math.inf

    @classmethod
    def left(cls):
        return cls.seconds - RESERVE_SECONDS - (time.monotonic() - START)


def run(title, command, log_name, limit=math.inf, **environment):
    """run_tests.run() with a limit of its own and that of the whole."""
    seconds = min(limit, Clock.left())
    if seconds < math.inf:
        command = ["timeout", "--signal=INT", f"--kill-after={RESERVE_SECONDS}", f"{max(seconds, 0.1):.1f}", *command]
    return run_tests.run(title, command, log_name, **environment)


def configured(*options):
    command = ["cmake", "-S", ROOT, "-B", BUILD]
    if shutil.which("ninja") and not (BUILD / "CMakeCache.txt").exists():
        command += ["-G", "Ninja"]
    # Without Highway where it is not installed: it is the GPU that is looked at.
    command += ["-DCMAKE_BUILD_TYPE=Release", "-DRTOPK_CUDA=ON", "-DRTOPK_HIGHWAY=AUTO", "-DBUILD_SHARED_LIBS=ON"]
    command += [f"-DPython_EXECUTABLE={sys.executable}"]
    return run("configure", [*command, *options], "gpu-configure")


def configuration():
    """What CMake said about this project's parts."""
    lines = (REPORTS / "gpu-configure.log").read_text(errors="replace").splitlines()
    return [line.removeprefix("-- rtopk: ") for line in lines if line.startswith("-- rtopk: ")]


def tests_left_out():
    return any(line.startswith("left out: the tests") for line in configuration())


def googletest_built(sources):
    """Builds GoogleTest from its sources; returns where it was installed, or None."""
    folder = BUILD.with_name("gpu-googletest")
    prefix = folder / "install"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_GMOCK=OFF", f"-DCMAKE_INSTALL_PREFIX={prefix}"]
    good = run("GoogleTest: configure", ["cmake", "-S", sources, "-B", folder, *options], "gpu-googletest-configure")
    command = ["cmake", "--build", folder, "--parallel", JOBS, "--target", "install"]
    return prefix if good and run("GoogleTest: build", command, "gpu-googletest-build") else None


def keep_going():
    """What tells the build tool to make all that it can: one broken program need not cost the rest."""
    cache = BUILD / "CMakeCache.txt"
    ninja = cache.exists() and "CMAKE_GENERATOR:INTERNAL=Ninja" in cache.read_text(errors="replace")
    return ["-k", "0"] if ninja else ["-k"]


def build(arguments):
    good = configured()
    if good and tests_left_out() and arguments.googletest.exists():
        prefix = googletest_built(arguments.googletest)
        good = prefix is not None and configured(f"-DCMAKE_PREFIX_PATH={prefix}")
    LIBRARY.unlink(missing_ok=True)  # an old one would be tested where there is no new one
    command = ["cmake", "--build", BUILD, "--parallel", JOBS, "--", *keep_going()]
    good = good and run("build", command, "gpu-build")
    for line in configuration():
        say(line)
    result = Result(passed=1) if good else Result(failed=["build"])
    if good and tests_left_out():
        result.failed.append("build: without GoogleTest there are no tests; --googletest names its sources")
    return result


def tests(_):
    junit = REPORTS / "gpu.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", BUILD, "--label-regex", "gpu", "--parallel", JOBS, "--output-on-failure"]
    good = run("tests", [*command, "--output-junit", junit], "gpu-tests", RTOPK_TEST_RUNNERS="cuda")
    return counted("tests", good, junit)


def soak(arguments):
    """Random problems on the GPU, each row checked on the CPU."""
    program = BUILD / "bin" / "rtopk"
    if not program.exists():
        return Result(skipped=[("soak", "the program was not built: CLI11, fmt, nlohmann-json or zlib is missing")])
    seconds = min(arguments.soak_seconds, max(Clock.left() - RESERVE_SECONDS, 1))
    label = f"soak: {seconds:.0f} s"
    command = [program, "soak", "--device", "cuda", "--seconds", seconds, "--seed", arguments.seed]
    if not run(label, command, "gpu-soak"):
        return Result(failed=[label])
    say(last_line(REPORTS / "gpu-soak.log"))
    return Result(passed=1)


def sanitizer_program():
    beside_nvcc = Path(os.path.realpath(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")).parent
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=beside_nvcc)


def sanitized(program, tool, suite, chosen, scale):
    part = SANITIZED[suite].index(chosen)
    name = f"compute-sanitizer {tool}, {suite} {chosen}"
    log_name = f"gpu-{tool}-{suite}-{part}"
    command = [program, "--tool", tool, "--error-exitcode", "99", "--print-limit", "20"]
    command += [BUILD / "bin" / f"rtopk_{suite}_test", "--gtest_brief=1", f"--gtest_filter={chosen}"]
    environment = {"RTOPK_TEST_RUNNERS": "cuda", "RTOPK_TEST_EXACT_MEMORY": "1", "RTOPK_TEST_SCALE": scale}
    good = run(name, command, log_name, SANITIZER_LIMIT_SECONDS, **environment)
    log = (REPORTS / f"{log_name}.log").read_text(errors="replace")
    summaries = re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", log, re.MULTILINE)
    passed = re.findall(r"^\[  PASSED  \] (\d+) tests", log, re.MULTILINE)
    summary = summaries[-1] if summaries else "no summary"
    say(f"{tool}, {suite} {chosen}: {summary}; {passed[-1] if passed else 0} tests passed")
    clean = re.search(r"SUMMARY: 0 ", summary) is not None
    if good and clean and passed and int(passed[-1]) > 0:
        return Result(passed=1)
    return Result(failed=[name])


def sanitize(arguments):
    program = sanitizer_program()
    if program is None:
        return Result(skipped=[("sanitizers", "compute-sanitizer is not installed")])
    result = Result()
    todo = [(tool, suite, chosen) for suite in SANITIZED for tool in SANITIZERS for chosen in SANITIZED[suite]]
    # Beside each other: each keeps one core busy and the GPU hardly at all.
    with ThreadPoolExecutor(JOBS) as pool:
        for outcome in pool.map(lambda each: sanitized(program, *each, arguments.sanitize_scale), todo):
            result.add(outcome)
    return result


def gpu_name():
    """As it is written in the name of a file: h200."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"]
    try:
        name = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        name = "unknown"
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("nvidia", "")).strip("-")


def json_beside(arguments, name):
    """Where another benchmark writes its results: gpu-h200.json, torch-h200.json."""
    return arguments.json.with_name(f"{name}-" + arguments.json.name.removeprefix("gpu-"))


def bench(arguments):
    arguments.json.unlink(missing_ok=True)
    command = [sys.executable, "bench/compare_gpu.py", "--library", LIBRARY.relative_to(ROOT), "--json", arguments.json]
    command += ["--quick"] if arguments.quick else []
    command += ["--grids", *arguments.grids] if arguments.grids else []
    for attempt in range(1 + BENCH_RESTARTS):
        resumed = ["--resume"] if attempt > 0 else []
        seconds = ["--seconds", f"{Clock.left() - RESERVE_SECONDS:.0f}"] if Clock.left() < math.inf else []
        good = run("benchmark", [*command, *resumed, *seconds], f"gpu-bench{attempt or ''}")
        if not arguments.json.exists():
            return Result(failed=["benchmark"])
        record = json.loads(arguments.json.read_text())
        if record["environment"]["finished"] or Clock.left() < 10:
            break
    failed = [f"benchmark: {c['set']} {c['dtype']} {c['rows']}x{c['cols']} k={c['k']}: {c['error']}"
              for c in record["cells"] if c["error"]]  # fmt: skip
    if not good and not failed:
        failed = ["benchmark"]
    return Result(passed=0 if failed else 1, failed=failed)


def random(arguments):
    """Random problems, others in every run."""
    path = json_beside(arguments, "random")
    command = [sys.executable, "bench/compare_gpu.py", "--library", LIBRARY.relative_to(ROOT), "--json", path]
    command += ["--random", arguments.random_problems, "--seed", arguments.seed]
    good = run("random problems", command, "gpu-random")
    log = (REPORTS / "gpu-random.log").read_text(errors="replace")
    print(log[log.find("\nfamily, bits") :])
    return Result(passed=1) if good else Result(failed=["random problems"])


def peers(arguments):
    """A part of the grids beside other libraries. What is not installed is named, and is no failure."""
    path = json_beside(arguments, "peers")
    command = [sys.executable, "bench/compare_gpu.py", "--library", LIBRARY.relative_to(ROOT), "--json", path]
    command += ["--quick", "--grids", *PEER_GRIDS, "--peers", "all"]
    good = run("peers", command, "gpu-peers", PEERS_LIMIT_SECONDS)
    log = (REPORTS / "gpu-peers.log").read_text(errors="replace")
    table = re.search(r"^(peer / rtopk|not measured:).*", log, re.MULTILINE | re.DOTALL)
    print(table.group() if table else "")
    return Result(passed=1) if good else Result(failed=["peers"])


def package_benchmark(name, script, options, arguments):
    """Runs a benchmark of the Python package, and shows what it printed."""
    command = [sys.executable, f"bench/{script}.py", *options, "--json", json_beside(arguments, name)]
    if not run(f"{name}: benchmark", command, f"gpu-{name}-bench", PYTHONPATH=str(SITE)):
        return Result(failed=[f"{name}: benchmark"])
    print((REPORTS / f"gpu-{name}-bench.log").read_text())
    return Result(passed=1)


def torch(arguments):
    """The Python package: from the build that is there, without pip; its tests, then its benchmark."""
    good = configured("-DRTOPK_BUILD_TORCH=ON", "-DRTOPK_BUILD_PYTHON=AUTO", "-DRTOPK_BUILD_JAX=AUTO") and run(
        "torch: build", ["cmake", "--build", BUILD, "--parallel", JOBS], "gpu-torch-build"
    )
    install = ["cmake", "--install", BUILD, "--component", "python", "--prefix", SITE]
    if not good or not run("torch: install", install, "gpu-torch-install"):
        return Result(failed=["torch: build"])
    result = Result()
    if importlib.util.find_spec("pytest") is None:
        result.skipped.append(("torch: tests/python", "pytest is not installed"))
    else:
        # A process for each file, beside each other: much of the time one core compiles.
        files = sorted((ROOT / "tests" / "python").glob("test_*.py"))
        if importlib.util.find_spec("hypothesis") is None:
            files = [file for file in files if file.name != "test_random.py"]
            result.skipped.append(("torch: tests/python/test_random.py", "hypothesis is not installed"))
        environment = {"RTOPK_TEST_SITE": str(SITE), "OMP_NUM_THREADS": str(max(1, JOBS // 4))}
        environment["PYTHONWARNINGS"] = "ignore:rtopk was built without Highway"  # see configured()
        with ThreadPoolExecutor(len(files)) as pool:
            for outcome in pool.map(
                lambda file: pytest(f"gpu-torch-{file.stem}", file.name, file, **environment), files
            ):
                result.add(outcome)
    library = ["--library", LIBRARY.relative_to(ROOT)]
    quick = ["--quick"] if arguments.quick else []
    for name, script, options in (
        ("torch", "compare_operators", library),
        ("rows", "compare_rows", library),
        ("routers", "compare_routers", []),
    ):
        result.add(package_benchmark(name, script, [*options, *quick], arguments))
    return result


def fronts(arguments):
    """Arrays of CuPy and calls from JAX, with the package that the step before made: tests and benchmarks."""
    if not (SITE / "rtopk").exists():
        return Result(failed=["fronts: the package is not there; --only torch makes it"])
    result = Result()
    for name, module, built in (("arrays", "cupy", "_native*.so"), ("jax", "jax", "librtopk_jax.so")):
        why = None if importlib.util.find_spec(module) else f"{module} is not installed"
        if why is None and not list((SITE / "rtopk").glob(built)):
            why = f"{built} was left out of the build"
        if why:
            result.skipped.append((f"fronts: {name}", why))
            continue
        if importlib.util.find_spec("pytest") is None:
            result.skipped.append((f"fronts: tests/{name}", "pytest is not installed"))
        else:
            result.add(pytest(f"gpu-{name}", f"tests/{name}", f"tests/{name}", RTOPK_TEST_SITE=str(SITE)))
        quick = ["--quick"] if arguments.quick else []
        result.add(package_benchmark(name, f"compare_{name}", ["--device", "cuda", *quick], arguments))
    return result


def memcheck(name, command, log_name):
    """The package on the GPU, without torch's pool of memory, in which neighbours are not told apart."""
    program = [sanitizer_program(), "--tool", "memcheck", "--error-exitcode", "99", "--print-limit", "20"]
    # Allocations that are too large, and refused, are part of the attack.
    program += ["--report-api-errors", "no"]
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "RTOPK_TEST_SITE": str(SITE), "OMP_NUM_THREADS": "2"}
    good = run(name, [*program, sys.executable, *command], log_name, PYTHON_SANITIZER_LIMIT_SECONDS, **environment)
    log = (REPORTS / f"{log_name}.log").read_text(errors="replace")
    summary = re.findall(r"^=+ (ERROR SUMMARY: .*)$", log, re.MULTILINE)
    ran = re.findall(r"^\d+ (?:calls of|passed).*$|^.* \d+ passed.*$", log, re.MULTILINE)
    say(f"{name}: {summary[-1] if summary else 'no summary'}; {ran[-1].strip('= ') if ran else 'nothing ran'}")
    clean = bool(summary) and summary[-1].startswith("ERROR SUMMARY: 0 ")
    return Result(passed=1) if good and clean and ran else Result(failed=[name])


def attack(_):
    """The package's operators with CUDA tensors under memcheck: called with anything, such as malformed selectors and
    graphs; and some of its tests."""
    if not (SITE / "rtopk").exists():
        return Result(failed=["attack: the package is not there; --only torch makes it"])
    if sanitizer_program() is None:
        return Result(skipped=[("attack", "compute-sanitizer is not installed")])
    calls = ["-W", "ignore", "tests/python/attack.py", "--device", "cuda", "--calls", ATTACK_CALLS, "--verbose"]
    todo = [("attack", calls)]
    result = Result()
    if importlib.util.find_spec("pytest") is None:
        result.skipped.append((f"attack: memcheck of {', '.join(SANITIZED_PYTHON)}", "pytest is not installed"))
    else:
        # What compiles takes minutes there.
        options = ["-q", "-m", "gpu", "-k", "not pytorchs_rules and not compile"]
        for file in SANITIZED_PYTHON:
            todo.append((file.removesuffix(".py"), ["-m", "pytest", f"tests/python/{file}", *options]))
    with ThreadPoolExecutor(len(todo)) as pool:
        for outcome in pool.map(
            lambda each: memcheck(f"memcheck, {each[0]}", each[1], f"gpu-memcheck-{each[0]}"), todo
        ):
            result.add(outcome)
    return result


def gnn(arguments):
    """Sums over neighbours and linear maps beside torch's, with the package that the step before made."""
    if not (SITE / "rtopk").exists():
        return Result(failed=["gnn: the package is not there; --only torch makes it"])
    result = Result()
    shapes = ["--graphs", "flickr", "reddit", "--cols", 64, 256, 512, "--k", 8, 16, 32, 64, 128, "--repeats", 3]
    for name, script, options in (
        ("gnn", "compare_gnn", ["--dtype", "f32", "bf16"]),
        ("gnn-shapes", "compare_gnn", shapes),
        ("linear", "compare_linear", []),
    ):
        quick = ["--repeats", 3] if arguments.quick else []
        result.add(package_benchmark(name, script, [*options, *quick], arguments))
    return result


def batches(arguments):
    """Steps on mini-batches, captured and not, beside PyTorch Geometric's."""
    if not (SITE / "rtopk").exists():
        return Result(failed=["batches: the package is not there; --only torch makes it"])
    if importlib.util.find_spec("torch_geometric") is None:
        return Result(skipped=[("batches", "torch_geometric is not installed")])
    options = ["--device", "cuda", *(["--repeats", 3] if arguments.quick else [])]
    if arguments.real_graph:
        options += ["--real", arguments.real_graph]
    return package_benchmark("batches", "compare_batches", options, arguments)


def ranks(arguments):
    """Columns and graphs over two processes that share the GPU, with gloo, and one process with NCCL: of what several
    GPUs do, this shows the results and not the times. And what the hooks of gradients compute, in one process."""
    if not (SITE / "rtopk").exists():
        return Result(failed=["ranks: the package is not there; --only torch makes it"])
    result = Result()
    quick = ["--repeats", 3] if arguments.quick else []
    for name in ("shards", "parts"):
        result.add(package_benchmark(name, f"compare_{name}", ["--device", "cuda", *quick], arguments))
    result.add(package_benchmark("gradient-hooks", "compare_gradient_hooks", ["--device", "cuda"], arguments))
    return result


STEPS = {
    step.__name__: step
    for step in (build, tests, soak, sanitize, bench, random, peers, torch, fronts, attack, gnn, batches, ranks)
}


def outcome_of(name, arguments):
    if Clock.left() <= 0:
        return Result(skipped=[(name, "no time left")])
    try:
        return STEPS[name](arguments)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        return Result(failed=[f"{name}: {type(error).__name__}: {error}"])


def show_targets(path):
    record = json.loads(path.read_text())
    facts = record["environment"]
    print(f"\n{facts['gpu']}, driver {facts['driver']}, torch {facts['torch']}: time of rtopk as a multiple of", end="")
    print(" the floor (sorted, early, adversarial: of its own; torch: of torch.topk's)", end="")
    print_table(record["summary"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--quick", action="store_true", help="a third of the benchmark's cells")
    parser.add_argument("--grids", nargs="+", choices=GRIDS, help="of the benchmark; default: all")
    parser.add_argument(
        "--googletest",
        type=Path,
        default=Path("/usr/src/googletest"),
        metavar="SOURCES",
        help="of GoogleTest, where CMake does not find it; default %(default)s",
    )
    parser.add_argument("--sanitize-scale", default=SANITIZER_SCALE, help="RTOPK_TEST_SCALE there; default %(default)s")
    parser.add_argument(
        "--real-graph", metavar="PATH", help="a graph for the step batches, such as coauthor-physics.npz"
    )
    parser.add_argument("--soak-seconds", type=float, default=300, help="default %(default)s")
    parser.add_argument("--random-problems", type=int, default=300, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of random problems; default: the time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all of it; default: as long as it takes")
    parser.add_argument("--json", type=Path, help="default: bench/results/gpu-<name of the GPU>.json")
    arguments = parser.parse_args()
    Clock.seconds = arguments.seconds
    arguments.json = (arguments.json or ROOT / "bench" / "results" / f"gpu-{gpu_name()}.json").resolve()

    total, outcomes = Result(), {}
    for name in (step for step in STEPS if step in arguments.only):
        outcomes[name] = outcome_of(name, arguments)
        say(f"{name}: {outcomes[name]}")
        total.add(outcomes[name])
        if name == "build" and not LIBRARY.exists():
            break

    measured = "bench" in outcomes and arguments.json.exists()
    if measured:
        record = json.loads(arguments.json.read_text())
        cells = [json.dumps(cell) for cell in record.pop("cells")]
        record["checks"] = {
            name: {"passed": outcome.passed, "failed": outcome.failed, "skipped": outcome.skipped}
            for name, outcome in outcomes.items()
        }
        arguments.json.write_text(as_text(record, cells))
        show_targets(arguments.json)
    print()
    report(total)
    for name, outcome in outcomes.items():
        print(f"{name:<9} {outcome}")
    if measured:
        print(f"written: {arguments.json}")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
