#!/usr/bin/env python3
"""Runs every test that this machine can run and ends with one line: N passed, N failed, N skipped.

    scripts/run_tests.py [--only NAME ...]

The steps are in STEPS below. CTest runs the C++ tests, the fuzz targets and the soak test of a build; pytest runs the
rest. Each step builds what it needs. Logs and reports are left in build/reports. A test that cannot run here is listed
as skipped, with the reason. Run it with the Python that has pytest.
"""

import argparse
import functools
import importlib.util
import platform
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import logged
from logged import JOBS, ROOT, last_line, say

REPORTS = ROOT / "build" / "reports"
# How much the randomised C++ tests do: sanitizers cost a factor of 5 to 15 in time.
ASAN_SCALE = "0.04"
# Races hang on threads and tasks, not on numbers; and the reference has one thread.
TSAN_SCALE = "0.02"
TSAN_RUNNERS = "cpu"
# Of operators, under AddressSanitizer: some 400 a second.
ATTACK_CALLS = 4000
# Steps at a time. While one waits for a test on one core, the other compiles.
STEPS_AT_A_TIME = 2


@dataclass
class Result:
    passed: int = 0
    failed: list = field(default_factory=list)  # names
    skipped: list = field(default_factory=list)  # (name, why)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def run(title, command, log_name, **environment):
    return logged.run(title, command, REPORTS / f"{log_name}.log", **environment)


def reason(case):
    """Why a test case was skipped, in one line."""
    message = case.find("skipped").get("message") or ""
    output = case.findtext("system-out") or ""
    # CTest knows only that a GoogleTest case was skipped; the reason stands below GoogleTest's own line about it.
    if ": Skipped\n" in output:
        message = output.split(": Skipped\n", 1)[1].split("[  SKIPPED ]", 1)[0]
    return " ".join(message.split()) or "no reason given"


def cases(path, label):
    """The test cases of a JUnit file, as CTest and pytest write it."""
    result = Result()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # CTest repeats the name as the class, and GoogleTest adds the parameter to it.
        name = case.get("name").split("  #")[0]
        if case.get("classname") not in (None, case.get("name")):
            name = f"{case.get('classname')}.{name}"
        if case.find("skipped") is not None:
            result.skipped.append((f"{label}: {name}", reason(case)))
        elif case.find("failure") is not None or case.find("error") is not None:
            result.failed.append(f"{label}: {name}")
        else:
            result.passed += 1
    return result


def counted(label, good, junit):
    """The cases of a report; a run that failed or counted nothing is itself a failure."""
    result = cases(junit, label) if junit.exists() else Result()
    if (not good and not result.failed) or not (result.passed or result.failed or result.skipped):
        result.failed.append(f"{label}: the run as a whole")
    return result


def missing(*modules):
    """The first of these that this Python has not, as a reason to skip; None: all are there."""
    return next((f"{name} is not installed" for name in modules if importlib.util.find_spec(name) is None), None)


def package_options():
    """The Python package is built beside the library, for what this Python has."""
    fronts = {"PYTHON": "nanobind", "TORCH": "torch", "JAX": "jax"}
    options = [
        f"-DRTOPK_BUILD_{front}={'ON' if importlib.util.find_spec(module) else 'OFF'}"
        for front, module in fronts.items()
    ]
    return [*options, f"-DPython_EXECUTABLE={sys.executable}"]


def quick_kernels():
    """Whether the CUDA kernels of the release build are compiled quickly: without a GPU nothing runs them, and what is
    tested is that they compile. A build folder that has them as users get them keeps those."""
    if shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi"], capture_output=True).returncode == 0:
        return False
    cache = ROOT / "build" / "CMakeCache.txt"
    if cache.exists() and "RTOPK_QUICK_KERNELS:BOOL=ON" in cache.read_text():
        return True
    return not any((ROOT / "build" / "src" / "CMakeFiles" / "rtopk.dir" / "cuda").glob("*.cu.o"))


build_locks = {preset: threading.Lock() for preset in ("release", "asan", "tsan")}


@functools.cache
def built_once(preset):
    options = [] if preset == "tsan" else package_options()
    if preset == "release":
        options.append(f"-DRTOPK_QUICK_KERNELS={'ON' if quick_kernels() else 'OFF'}")
    return run(f"{preset}: configure", ["cmake", "--preset", preset, *options], f"{preset}-configure") and run(
        f"{preset}: build", ["cmake", "--build", "--preset", preset, "--parallel", JOBS], f"{preset}-build"
    )


def built(preset):
    """Whether a build is there; the first step that asks makes it, and others wait."""
    with build_locks[preset]:
        return built_once(preset)


def ctest(preset, wrapper=(), **environment):
    """The tests of one build that CTest knows."""
    if not built(preset):
        return Result(failed=[f"{preset}: build"])
    junit = REPORTS / f"{preset}.xml"
    junit.unlink(missing_ok=True)
    command = [*wrapper, "ctest", "--preset", preset, "--parallel", JOBS, "--output-junit", junit]
    return counted(preset, run(f"{preset}: C++ tests", command, f"{preset}-tests", **environment), junit)


def pytest(label, title, *folders, **environment):
    junit = REPORTS / f"{label}.xml"
    junit.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *folders, "-rs", f"--junitxml={junit}"]
    good = run(f"{label}: {title}", command, f"{label}-tests", **environment)
    return counted(label, good, junit)


def install_package(label, folder):
    """The Python package of a build, in folder/site; None: that failed."""
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = ["cmake", "--install", folder, "--component", "python", "--prefix", site]
    return site if run(f"{label}: install", command, f"{label}-install") else None


package_lock = threading.Lock()


@functools.cache
def installed_once():
    return install_package("release", ROOT / "build") if built("release") else None


def package_of_release():
    """Where the Python package of the release build is installed; the first step that asks does it. None: failed."""
    with package_lock:
        return installed_once()


def lint():
    if shutil.which("run-clang-tidy") is None:
        return Result(skipped=[("lint", "run-clang-tidy is not installed")])
    return Result(passed=1) if run("lint", ["make", "lint"], "lint") else Result(failed=["lint"])


def release():
    result = ctest("release")
    if "compiled quickly" in (REPORTS / "release-configure.log").read_text():
        why = "no GPU: kernels were compiled quickly; after `make build`, which compiles them in full, so does this"
        result.skipped.append(("release: kernels that spill registers", why))
    return result


def beside_program(label, title):
    """Tests of what the release build made, as its users meet it."""
    why = missing("pytest")
    if why:
        return Result(skipped=[(f"{label}: tests/{label}", why)])
    if not built("release"):
        return Result(failed=[f"{label}: there is no build to test"])
    return pytest(label, title, f"tests/{label}")


def program():
    return beside_program("program", "tests of the program")


def packaging():
    return beside_program("packaging", "tests of packages, of the installed library and of the documentation")


def package_tests(label, title, modules, *tests):
    """Tests of the Python package of the release build. tests/packaging has the one that pip builds."""
    why = missing("pytest", *modules)
    if why:
        return Result(skipped=[(f"{label}: {title}", why)])
    site = package_of_release()
    if site is None:
        return Result(failed=[f"{label}: there is no package to test"])
    return pytest(label, title, *tests, RTOPK_TEST_SITE=str(site))


def torch_tests(of_graphs):
    files = sorted((ROOT / "tests" / "python").glob("test_*.py"))
    return [file for file in files if file.name.startswith("test_gnn_") == of_graphs]


def torch():
    return package_tests("torch", "tests of the package for PyTorch", ["torch"], *torch_tests(of_graphs=False))


def gnn():
    return package_tests("gnn", "tests of rtopk.gnn", ["torch"], *torch_tests(of_graphs=True))


def arrays():
    return package_tests("arrays", "tests of the package without PyTorch", ["numpy", "nanobind"], "tests/arrays")


def jax():
    return package_tests("jax", "tests of rtopk.jax", ["jax"], "tests/jax")


NO_CLANG = "clang++ is not installed"


def asan():
    if shutil.which("clang++") is None:
        return Result(skipped=[("asan: all C++ tests, all fuzz targets", NO_CLANG)])
    # On 64-bit ARM the leak checker takes 3 s of every process, and every test is one; there the fuzz targets look for
    # leaks, at the end of their run.
    leaks = "0" if platform.machine() == "aarch64" else "1"
    return ctest("asan", RTOPK_TEST_SCALE=ASAN_SCALE, ASAN_OPTIONS=f"detect_leaks={leaks}")


def asan_runtime():
    """Clang's runtime of AddressSanitizer as a library, for a Python that was built without it. None: it has none."""
    for name in (f"libclang_rt.asan-{platform.machine()}.so", "libclang_rt.asan.so"):
        command = ["clang++", f"-print-file-name={name}"]
        path = Path(subprocess.run(command, capture_output=True, text=True).stdout.strip())
        if path.is_absolute() and path.exists():
            return path
    return None


def attack():
    """The operators of the Python package, with AddressSanitizer in them, called with anything."""
    label = "attack: tests/python/attack.py"
    why = NO_CLANG if shutil.which("clang++") is None else missing("torch")
    if why:
        return Result(skipped=[(label, why)])
    runtime = asan_runtime()
    if runtime is None:
        return Result(skipped=[(label, "clang++ has no libclang_rt.asan as a shared library")])
    site = install_package("attack", ROOT / "build" / "asan") if built("asan") else None
    if site is None:
        return Result(failed=["attack: there is no package to test"])
    environment = {
        "LD_PRELOAD": str(runtime),
        "RTOPK_TEST_SITE": str(site),
        # Python keeps memory to its end, and sizes that no machine has are part of the attack.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    command = [sys.executable, "-W", "ignore", "tests/python/attack.py", "--calls", ATTACK_CALLS, "--verbose"]
    if not run(f"attack: {ATTACK_CALLS} calls under AddressSanitizer", command, "attack", **environment):
        return Result(failed=[label])
    say(last_line(REPORTS / "attack.log"))
    return Result(passed=1)


def tsan():
    # Some kernels spread addresses wider than ThreadSanitizer's map; without randomisation it always fits.
    steady = ["setarch", "-R"]
    possible = shutil.which("setarch") and subprocess.run([*steady, "true"], capture_output=True).returncode == 0
    wrapper = steady if possible else ()
    return ctest("tsan", wrapper=wrapper, RTOPK_TEST_SCALE=TSAN_SCALE, RTOPK_TEST_RUNNERS=TSAN_RUNNERS)


# In the order in which they start. The release build takes longest, and all that come after tsan need it: those that
# take long first, so that both places are busy to the end.
STEPS = {
    step.__name__: step for step in (release, lint, asan, attack, tsan, packaging, torch, gnn, program, jax, arrays)
}


def outcome_of(name):
    try:
        result = STEPS[name]()
    except Exception as error:  # whatever it is, the other steps go on
        result = Result(failed=[f"{name}: {type(error).__name__}: {error}"])
    say(f"{name}: {result}")
    return result


def report(total):
    for name in total.failed:
        print(f"FAILED   {name}")
    by_reason = {}
    for name, why in total.skipped:
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f", and {len(names) - 10} more" if len(names) > 10 else ""
        print(f"skipped  {len(names)} ({why}): {', '.join(names[:10])}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    arguments = parser.parse_args()
    total = Result()
    with ThreadPoolExecutor(STEPS_AT_A_TIME) as pool:
        for result in pool.map(outcome_of, arguments.only):
            total.add(result)
    print()
    report(total)
    print(total)
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
