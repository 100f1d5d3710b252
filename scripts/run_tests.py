#!/usr/bin/env python3
"""Runs every test that this machine can run and ends with one line: N passed, N failed, N skipped.

    scripts/run_tests.py [--only NAME ...] [--fuzz-seconds N] [--soak-seconds N]

The steps are in STEPS below. Each one builds what it needs; logs and reports are left in build/reports. A test that
cannot run here is listed as skipped, with the reason. Run it with the Python that has pytest.
"""

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "reports"
JOBS = len(os.sched_getaffinity(0))
# How much the randomised C++ tests do: sanitizers cost a factor of 5 to 15 in time.
SANITIZER_SCALE = "0.1"
# Of operators, under AddressSanitizer: some 400 a second.
ATTACK_CALLS = 4000
START = time.monotonic()


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


def say(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


def run(title, command, log_name, **environment):
    """Runs a command with its output in a log; shows the log's last line while it runs, and its end if it fails."""
    log = REPORTS / f"{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(title)
    terminal = sys.stdout.isatty()
    reported = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while True:
            try:
                process.wait(timeout=1 if terminal else 30)
                break
            except subprocess.TimeoutExpired:
                lines = log.read_text(errors="replace").splitlines()
                last = lines[-1][:100] if lines else ""
                if terminal:
                    print(f"\r\033[K    {time.monotonic() - reported:.0f} s  {last}", end="", flush=True)
                else:
                    say(f"  ... {last}")
    if terminal:
        print("\r\033[K", end="")
    if process.returncode != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
        say(f"{title}: exit code {process.returncode}; all of it in {log.relative_to(ROOT)}")
    return process.returncode == 0


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


def build(preset):
    return run(f"{preset}: configure", ["cmake", "--preset", preset], f"{preset}-configure") and run(
        f"{preset}: build", ["cmake", "--build", "--preset", preset, "--parallel", JOBS], f"{preset}-build"
    )


def counted(label, good, junit):
    """The cases of a report; a run that failed or counted nothing is itself a failure."""
    result = cases(junit, label) if junit.exists() else Result()
    if (not good and not result.failed) or not (result.passed or result.failed or result.skipped):
        result.failed.append(f"{label}: the run as a whole")
    return result


def ctest(preset, scale, wrapper=(), **environment):
    """The C++ tests of one build."""
    if not build(preset):
        return Result(failed=[f"{preset}: build"])
    junit = REPORTS / f"{preset}.xml"
    junit.unlink(missing_ok=True)
    command = [*wrapper, "ctest", "--preset", preset, "--parallel", JOBS, "--output-junit", junit]
    good = run(f"{preset}: C++ tests", command, f"{preset}-tests", RTOPK_TEST_SCALE=scale, **environment)
    return counted(preset, good, junit)


def release(_):
    return ctest("release", scale="1")


def soaked(program, device, seconds):
    """Random problems on a device until time is up; what was tried is shown."""
    label = f"soak: {device}, {seconds:.0f} s"
    command = [program, "soak", "--device", device, "--seconds", seconds, "--seed", int(time.time())]
    good = run(label, command, f"soak-{device}")
    if good:
        say((REPORTS / f"soak-{device}.log").read_text().splitlines()[-1])
    return Result(passed=1) if good else Result(failed=[label])


def soak(arguments):
    program = ROOT / "build" / "bin" / "rtopk"
    if not program.exists():
        return Result(failed=["soak: there is no program; the step release builds it"])
    return soaked(program, "cpu", arguments.soak_seconds)


def pytest(label, title, *folders, **environment):
    junit = REPORTS / f"{label}.xml"
    junit.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *folders, "-rs", f"--junitxml={junit}"]
    good = run(f"{label}: {title}", command, f"{label}-tests", **environment)
    return counted(label, good, junit)


def python(_):
    """The program and the installed library, as their users meet them."""
    if importlib.util.find_spec("pytest") is None:
        return Result(skipped=[("python: tests/program, tests/packaging", "pytest is not installed")])
    return pytest("python", "tests of the program and of the installed library", "tests/program", "tests/packaging")


def torch(_):
    """The Python package, built as pip builds it."""
    for module in ("pytest", "torch", "scikit_build_core"):
        if importlib.util.find_spec(module) is None:
            return Result(skipped=[("torch: tests/python", f"{module} is not installed")])
    site = ROOT / "build" / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", site, ROOT]
    # Without CUDA, whose kernels take minutes to compile and which this machine may not have; make gpu-check has them.
    # The compilers by the names that the other builds use, so that ccache knows what they have compiled.
    options = ["--config-settings=cmake.define.RTOPK_CUDA=OFF"]
    if not run("torch: pip install", [*command, *options], "torch-install", CC="cc", CXX="c++"):
        return Result(failed=["torch: pip install"])
    return pytest("torch", "tests of the Python package", "tests/python", RTOPK_TEST_SITE=str(site))


NO_CLANG = "clang++ is not installed"


def asan(_):
    if shutil.which("clang++") is None:
        return Result(skipped=[("asan: all C++ tests", NO_CLANG)])
    # On 64-bit ARM the leak checker takes 3 s of every process, and every test is one; there the fuzz targets look for
    # leaks, at the end of their run.
    leaks = "0" if platform.machine() == "aarch64" else "1"
    return ctest("asan", scale=SANITIZER_SCALE, ASAN_OPTIONS=f"detect_leaks={leaks}")


def asan_runtime():
    """Clang's runtime of AddressSanitizer as a library, for a Python that was built without it. None: it has none."""
    for name in (f"libclang_rt.asan-{platform.machine()}.so", "libclang_rt.asan.so"):
        command = ["clang++", f"-print-file-name={name}"]
        path = Path(subprocess.run(command, capture_output=True, text=True).stdout.strip())
        if path.is_absolute() and path.exists():
            return path
    return None


def attack(_):
    """The operators of the Python package, with AddressSanitizer in them, called with anything."""
    label = "attack: tests/python/attack.py"
    for missing, why in (
        (shutil.which("clang++") is None, NO_CLANG),
        (importlib.util.find_spec("torch") is None, "torch is not installed"),
    ):
        if missing:
            return Result(skipped=[(label, why)])
    runtime = asan_runtime()
    if runtime is None:
        return Result(skipped=[(label, "clang++ has no libclang_rt.asan as a shared library")])
    folder = ROOT / "build" / "asan"
    options = ["-DRTOPK_BUILD_TORCH=ON", f"-DPython3_EXECUTABLE={sys.executable}"]
    steps = {
        "configure": ["cmake", "--preset", "asan", *options],
        "build": ["cmake", "--build", "--preset", "asan", "--parallel", JOBS, "--target", "rtopk_torch"],
        "install": ["cmake", "--install", folder, "--component", "python", "--prefix", folder / "site"],
    }
    for name, command in steps.items():
        if not run(f"attack: {name}", command, f"attack-{name}"):
            return Result(failed=[f"attack: {name}"])
    environment = {
        "LD_PRELOAD": str(runtime),
        "RTOPK_TEST_SITE": str(folder / "site"),
        # Python keeps memory to its end, and sizes that no machine has are part of the attack.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    command = [sys.executable, "-W", "ignore", "tests/python/attack.py", "--calls", ATTACK_CALLS, "--verbose"]
    if not run(f"attack: {ATTACK_CALLS} calls under AddressSanitizer", command, "attack", **environment):
        return Result(failed=[label])
    say((REPORTS / "attack.log").read_text(errors="replace").splitlines()[-1])
    return Result(passed=1)


def tsan(_):
    # Some kernels spread addresses wider than ThreadSanitizer's map; without randomisation it always fits.
    steady = ["setarch", "-R"]
    possible = shutil.which("setarch") and subprocess.run([*steady, "true"], capture_output=True).returncode == 0
    return ctest("tsan", scale=SANITIZER_SCALE, wrapper=steady if possible else ())


def fuzz(arguments):
    if shutil.which("clang++") is None:
        return Result(skipped=[("fuzz: all targets", NO_CLANG)])
    if not build("fuzz"):
        return Result(failed=["fuzz: build"])
    result = Result()
    for target in sorted((ROOT / "build" / "fuzz" / "bin").glob("fuzz_*")):
        found = REPORTS / "fuzz" / target.name
        corpus = found / "corpus"  # what is found goes here; it starts from what is kept
        corpus.mkdir(parents=True, exist_ok=True)
        command = [
            target,
            f"-max_total_time={arguments.fuzz_seconds}",
            f"-artifact_prefix={found}/",
            # An input of a few kilobytes that takes more than this is a bomb.
            "-rss_limit_mb=4096",
            "-malloc_limit_mb=256",
            "-timeout=10",
            corpus,
            ROOT / "tests" / "fuzz" / "corpus" / target.name.removeprefix("fuzz_"),
        ]
        if run(f"fuzz: {target.name}, {arguments.fuzz_seconds} s", command, target.name):
            result.passed += 1
        else:
            result.failed.append(f"fuzz: {target.name} (input in {found.relative_to(ROOT)})")
    return result


STEPS = {step.__name__: step for step in (release, soak, python, torch, asan, attack, tsan, fuzz)}


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
    parser.add_argument("--fuzz-seconds", type=int, default=20, help="per target, default %(default)s")
    parser.add_argument("--soak-seconds", type=float, default=60, help="default %(default)s")
    arguments = parser.parse_args()
    total = Result()
    for name in arguments.only:
        result = STEPS[name](arguments)
        say(f"{name}: {result}")
        total.add(result)
    print()
    report(total)
    print(total)
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
