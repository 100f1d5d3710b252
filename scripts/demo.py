#!/usr/bin/env python3
"""`make demo`: selects, checks the result, compares the time with torch.topk and NumPy, and draws a chart."""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bin" / "rtopk"
RESULT = "build/demo.npz"
PICTURE = "build/demo.svg"

ROWS, COLS, K = 65536, 256, 32
MATRIX = ["--random", f"{ROWS}x{COLS}", "--seed", "1"]
SWEEP_COLS = [64, 128, 256, 512, 1024, 4096, 16384]
SWEEP_ELEMENTS = 1 << 22


def title(text):
    print(f"\n== {text}", flush=True)


def program(*arguments):
    print("$ build/bin/rtopk", *arguments, flush=True)
    subprocess.run([PROGRAM, *arguments], check=True, cwd=ROOT)


def progress(text):
    print(f"   {text}", flush=True)


def argpartition(matrix):
    """The usual way to select in NumPy."""
    import numpy

    array = matrix.numpy()
    indices = numpy.argpartition(array, COLS - K, axis=1)[:, COLS - K :]
    return numpy.take_along_axis(array, indices, axis=1), indices


def measure():
    """(median seconds by method at the demo's shape, speed-up over torch.topk by row length, threads, CPU)."""
    sys.path.insert(0, str(ROOT / "bench"))
    import torch

    import compare_torch
    import librtopk

    library = librtopk.Library()
    threads = compare_torch.available_cpus()
    torch.set_num_threads(threads)

    def cell(rows, cols, repeats, extra=None):
        matrices = compare_torch.random_matrices(2, rows, cols, "f32")
        return compare_torch.measure(library, matrices, K, "f32", threads, repeats, extra)

    progress(f"{threads} threads, {compare_torch.cpu_model()}, median of 5 turns")
    shape, others = cell(ROWS, COLS, 5, {"numpy": argpartition})
    times = {
        "rtopk": shape.rtopk,
        "torch.topk": shape.torch,
        "numpy.argpartition": others["numpy"],
        "copy (the floor)": shape.copy,
    }
    for name, seconds in times.items():
        progress(f"{name:20} {seconds * 1e3:8.1f} ms  {seconds / shape.rtopk:5.1f} × rtopk")
    speedups = {}
    for cols in SWEEP_COLS:
        speedups[cols] = cell(SWEEP_ELEMENTS // cols, cols, 5)[0].speedup
        progress(f"rows of {cols:5}: {speedups[cols]:5.1f} times as fast as torch.topk")
    return times, speedups, threads, compare_torch.cpu_model()


def draw(times, speedups, threads, cpu):
    import charts
    from charts import Bars, Level, Panel, Point

    milliseconds = {name: seconds * 1e3 for name, seconds in times.items()}
    styles = {"rtopk": "ours", "copy (the floor)": "floor"}
    bars = []
    for i, (name, value) in enumerate(milliseconds.items()):
        ratio = "" if name == "rtopk" else f" ({value / milliseconds['rtopk']:.1f} ×)"
        bars.append(Bars(name, styles.get(name, "torch"), [Point(i, value, text=f"{value:.1f} ms{ratio}")]))
    above = 1.1  # of the highest bar: room for its text
    left = Panel(
        charts.category_axis("", list(milliseconds)),
        charts.linear_axis("milliseconds (times rtopk)", [above * max(milliseconds.values())]),
        bars,
        f"{ROWS} rows of {COLS}",
    )
    faster = [Point(i, value, text=f"{value:.1f}") for i, value in enumerate(speedups.values())]
    right = Panel(
        charts.category_axis("row length", [str(cols) for cols in speedups]),
        charts.linear_axis("times as fast as torch.topk", [above * max(*speedups.values(), 1)]),
        [Bars("rtopk", "ours", faster), Level("torch.topk", "floor", 1)],
        f"2^{SWEEP_ELEMENTS.bit_length() - 1} elements in rows of different lengths",
    )
    title = f"The {K} largest of every row, with their indices: f32, {threads} threads, {cpu}"
    (ROOT / PICTURE).write_text(charts.picture([left, right], title, size=(500, 320)))


def main():
    start = time.monotonic()
    if not PROGRAM.exists():
        sys.exit("the program was not built; the messages above say what is missing")
    title(f"Select the {K} largest of each of {ROWS} rows of {COLS}")
    program("select", *MATRIX, "-k", str(K), "-o", RESULT)
    title("Check the saved selection against the contract")
    program("verify", RESULT)
    title("Time it beside torch.topk and NumPy, and compare the results")
    try:
        measured = measure()
        title("Draw it")
        draw(*measured)
    except ImportError as missing:
        print(f"left out, since a Python package is missing: {missing}")
    else:
        print(f"the picture is {PICTURE}")
    print(f"\ndone in {time.monotonic() - start:.0f} s; next: build/bin/rtopk --help, README.md")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)
