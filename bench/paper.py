#!/usr/bin/env python3
"""Recomputes the RTop-K paper's tables and figures, and writes them beside the published numbers as one page.

    make paper                        # sets everything up first; QUICK=1 for less of everything
    python3 bench/paper.py            # the same with what is built: the program and the library under build/
    python3 bench/paper.py --build build/gpu --out /somewhere --quick

Three steps: the search's statistics (rtopk study), the kernels against torch.topk (paper_kernels.py; on a GPU if there
is one), and the page (paper_page.py). All of it is left in the folder: study*.json, kernels.json, summary.json (means,
and what agrees with the paper), run.json, and index.html, made from those alone.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import paper_page
import paper_summary
from checkout import commit
from paper_grids import DISTRIBUTIONS

ROOT = Path(__file__).resolve().parent.parent
# Rows of the statistics in a quick run: half a percent of a share, instead of the paper's rows.
QUICK_ROWS = {"table1": 20000, "table2": 10000, "table5": 2000, "rule": 10000, "passes": 512}
DATA_ROWS, QUICK_DATA_ROWS = 20000, 4000
START = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - START:4.0f} s] {text}", flush=True)


def run(title, command, quiet_lines=True):
    """Runs a command and shows its last line while it runs: in place on a terminal, now and then elsewhere."""
    say(title)
    terminal = sys.stdout.isatty()
    shown = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
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


def study(arguments, name, parts, rows=None, *flags):
    """One file of statistics."""
    command = [arguments.program, "study", *parts, "--seed", arguments.seed, "--quiet"]
    command += ["--rows", rows] if rows else []
    command += ["--device", "cpu"] if arguments.device == "cpu" else []
    path = arguments.out / f"{name}.json"
    if run(f"statistics: {name}, {', '.join(parts)}", [*command, *flags, "--json", path]) != 0:
        sys.exit(f"rtopk study failed: {shlex.join(map(str, command))}")
    return path


def merged(paths, into):
    """Studies of one part each, as one study of several."""
    studies = [json.loads(path.read_text()) for path in paths]
    whole = studies[0] | {"parts": [part for one in studies for part in one["parts"]]}
    write_json(into, whole | {"command": "\n".join(one["command"] for one in studies)})
    for path in paths:
        path.unlink()


def statistics(arguments):
    quick = arguments.quick
    rows = {name: arguments.rows or (QUICK_ROWS[name] if quick else None) for name in QUICK_ROWS}
    groups = {}
    for name, count in rows.items():
        groups.setdefault(count, []).append(name)
    paths = [study(arguments, f"study-part{i}", parts, count) for i, (count, parts) in enumerate(groups.items())]
    merged(paths, arguments.out / "study.json")
    data_rows = arguments.rows or (QUICK_DATA_ROWS if quick else DATA_ROWS)
    for name in DISTRIBUTIONS:
        if name != "normal":
            study(arguments, f"study-{name}", ["table1", "rule"], data_rows, "--dist", name)


def kernels(arguments):
    command = [sys.executable, ROOT / "bench" / "paper_kernels.py", "--device", arguments.device]
    command += ["--library", arguments.library, "--seed", arguments.seed, "--json", arguments.out / "kernels.json"]
    command += ["--quick"] if arguments.quick else []
    command += ["--dry-run"] if arguments.made_up_times else []
    return run(f"kernels against torch.topk, on a {arguments.device.upper()}", command)


def write_json(path, content):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def page(arguments):
    out = arguments.out
    read = {path.stem: json.loads(path.read_text()) for path in out.glob("*.json")}
    studies = {"normal": read["study"]} | {name: read[f"study-{name}"] for name in DISTRIBUTIONS if name != "normal"}
    write_json(out / "summary.json", paper_summary.summary_of(studies, read["kernels"]))
    data = sorted(path.name for path in out.glob("*.json"))
    facts = {
        "command": shlex.join(["python3", *sys.argv]),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "quick": arguments.quick,
        "seconds": round(time.monotonic() - START, 1),
        "files": [name for name in data if name != "run.json"],
    }
    write_json(out / "run.json", facts)
    paper_page.write(out)


def has_gpu(program):
    done = subprocess.run([program, "info", "--json"], capture_output=True, text=True, check=True)
    return bool(json.loads(done.stdout)["gpus"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "paper", help="default: build/paper")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where bin/rtopk and lib/librtopk.so are")
    parser.add_argument("--quick", action="store_true", help="fewer rows, shapes and repetitions")
    parser.add_argument("--device", choices=["gpu", "cpu"], help="default: a GPU if there is one")
    parser.add_argument("--seed", type=int, default=0, help="of all random rows, default %(default)s")
    parser.add_argument("--rows", type=int, help="of every statistic; default: as many as the paper has")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), help="steps; default: all of them")
    parser.add_argument("--made-up-times", action="store_true", help="measure nothing: for tests of the page")
    arguments = parser.parse_args()
    if arguments.seed < 0:
        parser.error(f"--seed {arguments.seed} is negative")
    if arguments.rows is not None and arguments.rows < 2:
        parser.error(f"--rows {arguments.rows} is less than 2")
    arguments.program = arguments.build / "bin" / "rtopk"
    arguments.library = arguments.build / "lib" / "librtopk.so"
    for path in (arguments.program, arguments.library):
        if not path.exists():
            sys.exit(f"{path} is not there: build it first (`make paper` does), or name the build with --build")
    if arguments.device is None:
        arguments.device = "gpu" if has_gpu(arguments.program) else "cpu"
    return arguments


STEPS = {step.__name__: step for step in (statistics, kernels, page)}


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = [name for name in STEPS if name in arguments.only and STEPS[name](arguments)]
    if "page" in arguments.only:
        say(f"the page is {arguments.out / 'index.html'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
