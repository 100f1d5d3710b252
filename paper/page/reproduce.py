#!/usr/bin/env python3
"""Recomputes the tables and figures of the RTop-K paper and writes a page that compares them with the published ones.

    make paper                         # builds what is needed first; QUICK=1 for a quick run
    python3 paper/page/reproduce.py    # uses the program and the library under build/
    python3 paper/page/reproduce.py --build build/gpu --out /somewhere --quick

Three steps: the statistics of the search (rtopk study), the kernels beside torch.topk (kernels.py; on a GPU if there is
one), and the page (page.py). The folder then has study*.json, kernels.json, summary.json (means, which published
numbers agree, verdicts on the claims), run.json, and index.html, which is made from those files alone.

Training takes hours, so it has its own commands. The page shows these files where they are in the folder:
training.json (results.json of paper/gnn/study.py), steps.json (baselines.json of paper/gnn/baselines.py), and
table4.json (of python -m rtopk.gnn paper).
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import bench_folder  # noqa: F401
from checkout import commit
from grids import DISTRIBUTIONS
from page import write as write_page
from summary import summary_of

ROOT = Path(__file__).resolve().parents[2]
# Rows of the statistics for distributions that the paper does not study, and of a quick run: enough for a precision of
# half a percent.
DATA_ROWS, QUICK_ROWS, QUICK_DATA_ROWS = 20000, 5000, 3000
# What the page is made of, and what it shows besides where it is there.
NEEDED = ("study", "kernels", *(f"study-{name}" for name in DISTRIBUTIONS if name != "normal"))
OPTIONAL = ("training", "steps", "table4")
START = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - START:4.0f} s] {text}", flush=True)


def relative(path):
    """A path without the folders of this machine, if possible, since the page shows commands."""
    path = Path(path).absolute()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def run(title, command):
    """Runs a command and shows its last line meanwhile: in place on a terminal, else every ten seconds."""
    say(title)
    terminal = sys.stdout.isatty()
    shown = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = []
    for line in process.stdout:
        lines = [*lines[-30:], line.rstrip()]
        if terminal:
            print(f"\r\033[K    {line.rstrip()[:100]}", end="", flush=True)
        elif time.monotonic() - shown > 10:
            shown = time.monotonic()
            say(f"  ... {line.rstrip()[:150]}")
    if terminal:
        print("\r\033[K", end="")
    if process.wait() != 0:
        print("\n".join(lines))
    return process.returncode


def study(arguments, name, parts, rows, *flags):
    """Writes one file of statistics."""
    command = [relative(arguments.program), "study", *parts, *flags, "--seed", arguments.seed]
    command += ["--rows", rows] if rows else []
    command += ["--device", "cpu"] if arguments.device == "cpu" else []
    command += ["--json", relative(arguments.out) / f"{name}.json"]
    say(f"statistics: {' '.join(flags[1:]) or 'normal'} elements")
    # Without its tables, but with its progress, which goes to the standard error.
    if subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit("rtopk study failed; its message is above")
    path = arguments.out / f"{name}.json"
    write_json(path, {"commit": commit()} | json.loads(path.read_text()))  # the program does not know its commit


def statistics(arguments):
    study(arguments, "study", [], arguments.rows or (QUICK_ROWS if arguments.quick else None))
    rows = arguments.rows or (QUICK_DATA_ROWS if arguments.quick else DATA_ROWS)
    for name in DISTRIBUTIONS:
        if name != "normal":
            study(arguments, f"study-{name}", ["table1", "rule"], rows, "--dist", name)


def kernels(arguments):
    path = arguments.out / "kernels.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "paper/page/kernels.py", "--device", arguments.device, "--seed", arguments.seed]
    command += ["--library", relative(arguments.library), "--json", relative(path)]
    command += ["--quick"] if arguments.quick else []
    command += ["--dry-run"] if arguments.made_up_times else []
    code = run(f"kernels against torch.topk, on a {arguments.device.upper()}", command)
    if not path.exists():
        sys.exit("kernels.py has measured nothing; its messages are above")
    return code


def write_json(path, content):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def read_json(path):
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        sys.exit(f"{path} cannot be read: {error}; write it anew, or take it out of the folder")


def page(arguments):
    out = arguments.out
    for name in NEEDED:
        if not (out / f"{name}.json").exists():
            sys.exit(
                f"{out / name}.json is not there: run the step that writes it first (--only statistics, --only kernels)"
            )
    read = {name: read_json(out / f"{name}.json") for name in (*NEEDED, *OPTIONAL) if (out / f"{name}.json").exists()}
    studies = {"normal": read["study"]} | {name: read[f"study-{name}"] for name in DISTRIBUTIONS if name != "normal"}
    write_json(out / "summary.json", summary_of(read, studies))
    facts = {
        "command": shlex.join(["python3", str(relative(sys.argv[0])), *sys.argv[1:]]),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "quick": arguments.quick,
        "statistics_seconds": round(sum(part["seconds"] for study in studies.values() for part in study["parts"]), 1),
        "files": sorted(f"{name}.json" for name in (*read, "summary")),
    }
    write_json(out / "run.json", facts)
    write_page(out)


def has_gpu(program):
    done = subprocess.run([program, "info", "--json"], capture_output=True, text=True, check=True)
    return bool(json.loads(done.stdout)["gpus"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "paper",
        help="folder for the page and its data; default: build/paper",
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="folder with bin/rtopk and lib/librtopk.so; default: build"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows, shapes and repetitions")
    parser.add_argument("--device", choices=["gpu", "cpu"], help="default: a GPU if there is one")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random rows; default %(default)s")
    parser.add_argument("--rows", type=int, help="rows for every statistic; default: as many as the paper uses")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="steps to run; default: all")
    parser.add_argument("--made-up-times", action="store_true", help="measure no kernels, for tests of the page")
    arguments = parser.parse_args()
    if arguments.seed < 0:
        parser.error(f"--seed {arguments.seed} is negative; accepted: 0 or more")
    if arguments.rows is not None and arguments.rows < 2:
        parser.error(f"--rows {arguments.rows} is less than 2; accepted: 2 or more")
    arguments.program = arguments.build / "bin" / "rtopk"
    arguments.library = arguments.build / "lib" / "librtopk.so"
    needed = {"statistics": arguments.program, "kernels": arguments.library}
    for path in (needed[step] for step in arguments.only if step in needed):
        if not path.exists():
            sys.exit(f"{path} is not there: build it (`make paper` does), or give another build folder with --build")
    if arguments.device is None:
        arguments.device = "gpu" if arguments.program.exists() and has_gpu(arguments.program) else "cpu"
    return arguments


STEPS = {step.__name__: step for step in (statistics, kernels, page)}


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = [name for name, step in STEPS.items() if name in arguments.only and step(arguments)]
    if "page" in arguments.only:
        say(f"the page is {arguments.out / 'index.html'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
