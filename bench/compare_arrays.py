#!/usr/bin/env python3
"""Times rtopk.top_k on arrays of NumPy beside NumPy's functions and torch.topk, and on arrays of CuPy beside CuPy's.

    python bench/compare_arrays.py --json bench/results/arrays-cpu.json
    python bench/compare_arrays.py --device cuda --json bench/results/arrays-h200.json
    python bench/compare_arrays.py --quick

    import      what `import rtopk` takes, in processes of their own
    small       the host's time for a small call
    tables      larger arrays, beside a copy of the same bytes

Functions alternate. In host memory each time is the least of many turns, since other processes only add to it; on a GPU
it is their median, with cold caches. `pairs` is what gives the same as top_k without order: argpartition, then
take_along_axis. argpartition, partition and sort give less: indices alone or values alone. Every result of rtopk is
compared with a stable sort in the same run; of large arrays, some rows. torch.topk is measured where torch is
installed, on the same memory and with as many threads as rtopk.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import rtopk
from checkout import cpu_model, origin
from whole_file import write_json

SMALL = [((1, 64), 4), ((8, 256), 8), ((64, 64), 8), ((1, 4096), 16)]
TABLES = [
    ((65536, 64), 8),
    ((16384, 256), 32),
    ((4096, 1024), 64),
    ((1024, 8192), 64),
    ((64, 131072), 256),
    ((1, 4 << 20), 1000),
]
DTYPES = ["float32", "float16", "float64", "int32"]
CHECKED_ROWS = 16
CALLS = 200  # of a small function, at a time
FLUSH_BYTES = 256 << 20  # more than the caches of a GPU hold


def host_times(functions, turns, calls=1):
    """The least nanoseconds for one call of each function. The first turn does not count."""
    times = {name: [] for name in functions}
    for turn in range(turns + 1):
        for name, function in functions.items():
            start = time.perf_counter_ns()
            for _ in range(calls):
                function()
            if turn > 0:
                times[name].append((time.perf_counter_ns() - start) / calls)
    return {name: min(samples) for name, samples in times.items()}


def gpu_times(cupy, functions, turns):
    """Median nanoseconds of the GPU, with cold caches."""
    flush = cupy.empty(FLUSH_BYTES, cupy.uint8)
    times = {name: [] for name in functions}
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for turn in range(turns + 1):
        for name, function in functions.items():
            flush.fill(turn % 2)
            begin.record()
            function()
            end.record()
            end.synchronize()
            if turn > 0:
                times[name].append(cupy.cuda.get_elapsed_time(begin, end) * 1e6)
    return {name: statistics.median(samples) for name, samples in times.items()}


def checked(a, k, result):
    """Raises an error where the result is not what a stable sort says."""
    step = max(1, len(a) // CHECKED_ROWS)
    rows = a[::step]
    expected = np.argsort(-rows.astype(np.float64), axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(result.indices[::step], expected)
    np.testing.assert_array_equal(result.values[::step], np.take_along_axis(rows, expected, -1))


def array(shape, dtype):
    return (np.random.default_rng(20250921).standard_normal(shape) * 1000).astype(dtype)


def import_times(processes):
    """The least milliseconds of an import, timed inside of new processes, and the modules that it brings."""
    site = str(Path(rtopk.__file__).parents[1])
    script = (
        f"import sys, time; sys.path.insert(0, {site!r}); before = len(sys.modules); start = time.perf_counter();"
        " import {0}; print(1e3 * (time.perf_counter() - start), len(sys.modules) - before)"
    )
    result = {}
    for name in ("rtopk", "numpy", *(["torch"] if importlib.util.find_spec("torch") else [])):
        command = [sys.executable, "-c", script.format(name)]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(processes)]
        values = [run.stdout.split() for run in runs]
        result[name] = {"ms": min(float(each[0]) for each in values), "modules": int(values[0][1])}
    return result


def torch_topk(a, k, threads):
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(threads)
    tensor = torch.from_numpy(a)
    return {"torch.topk": lambda: torch.topk(tensor, k)}


def small_calls(turns):
    records = []
    for shape, k in SMALL:
        a = array(shape, np.float32)
        checked(a, k, rtopk.top_k(a, k))
        functions = {
            "rtopk": lambda a=a, k=k: rtopk.top_k(a, k),
            "rtopk, unsorted": lambda a=a, k=k: rtopk.top_k(a, k, sorted=False),
            "argpartition": lambda a=a, k=k: np.argpartition(a, -k),
            "partition": lambda a=a, k=k: np.partition(a, -k),
            "pairs": lambda a=a, k=k: np.take_along_axis(a, np.argpartition(a, -k)[:, -k:], -1),
            **torch_topk(a, k, 1),
        }
        records.append({"shape": shape, "k": k, "ns": host_times(functions, turns, CALLS)})
    return records


def tables(turns, dtypes, shapes):
    threads = len(os.sched_getaffinity(0))
    records = []
    for dtype in dtypes:
        for shape, k in shapes:
            a = array(shape, dtype)
            to = np.empty_like(a)
            checked(a, k, rtopk.top_k(a, k))
            functions = {
                "copy": lambda a=a, to=to: np.copyto(to, a),
                "rtopk": lambda a=a, k=k: rtopk.top_k(a, k),
                "rtopk, 1 thread": lambda a=a, k=k: rtopk.top_k(a, k, threads=1),
                "rtopk, unsorted": lambda a=a, k=k: rtopk.top_k(a, k, sorted=False),
                "argpartition": lambda a=a, k=k: np.argpartition(a, -k),
                "partition": lambda a=a, k=k: np.partition(a, -k),
                "sort": lambda a=a: np.sort(a),
                "pairs": lambda a=a, k=k: np.take_along_axis(a, np.argpartition(a, -k)[:, -k:], -1),
                **torch_topk(a, k, threads),
            }
            records.append({"shape": shape, "k": k, "dtype": dtype, "ns": host_times(functions, turns)})
            show(records[-1])
    return records


def cupy_tables(turns, dtypes, shapes):
    import cupy

    records, small = [], []
    for shape, k in SMALL:
        a = cupy.asarray(array(shape, np.float32))
        functions = {
            "rtopk": lambda a=a, k=k: rtopk.top_k(a, k),
            "argpartition": lambda a=a, k=k: cupy.argpartition(a, -k),
            "sort": lambda a=a: cupy.sort(a),
        }
        small.append({"shape": shape, "k": k, "ns": host_times(functions, turns, CALLS)})
        cupy.cuda.Device().synchronize()
    for dtype in dtypes:
        for shape, k in shapes:
            host = array(shape, dtype)
            a = cupy.asarray(host)
            to = cupy.empty_like(a)
            checked(host, k, rtopk.TopK(*map(cupy.asnumpy, rtopk.top_k(a, k))))
            functions = {
                "copy": lambda a=a, to=to: cupy.copyto(to, a),
                "rtopk": lambda a=a, k=k: rtopk.top_k(a, k),
                "rtopk, unsorted": lambda a=a, k=k: rtopk.top_k(a, k, sorted=False),
                "rtopk, nan last": lambda a=a, k=k: rtopk.top_k(a, k, nan="last"),
                "argpartition": lambda a=a, k=k: cupy.argpartition(a, -k),
                "partition": lambda a=a, k=k: cupy.partition(a, -k),
                "sort": lambda a=a: cupy.sort(a),
            }
            records.append({"shape": shape, "k": k, "dtype": dtype, "ns": gpu_times(cupy, functions, turns)})
            show(records[-1])
            cupy.get_default_memory_pool().free_all_blocks()
    return small, records


def show(record):
    ours = record["ns"]["rtopk"]
    what = " x ".join(map(str, record["shape"])) + f", k = {record['k']}, {record.get('dtype', 'float32')}"
    times = ", ".join(f"{name} {value / 1000:.1f}" for name, value in record["ns"].items())
    beside = record["ns"].get("pairs", record["ns"]["argpartition"])
    print(f"{what}: {times} us; {beside / ours:.2f} times", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--quick", action="store_true", help="a few shapes, a few times")
    options = parser.parse_args()
    turns = 3 if options.quick else 7
    dtypes, shapes = (DTYPES[:1], TABLES[:3]) if options.quick else (DTYPES, TABLES)
    record = {
        **origin(),
        "cpu": cpu_model(),
        "threads": len(os.sched_getaffinity(0)),
        "numpy": np.__version__,
        "rtopk": rtopk.__version__,
    }
    record["import"] = import_times(3 if options.quick else 7)
    for name, values in record["import"].items():
        print(f"import {name}: {values['ms']:.1f} ms, {values['modules']} modules")
    if options.device == "cpu":
        record["small"] = small_calls(4 * turns)
        for each in record["small"]:
            show(each)
        record["tables"] = tables(turns, dtypes, shapes)
    else:
        import cupy

        record["cupy"] = cupy.__version__
        record["gpu"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        record["small"], record["tables"] = cupy_tables(turns, dtypes, shapes)
    record["info"] = {
        name: value for name, value in rtopk.info().items() if name.startswith(("cpu", "highway", "cuda"))
    }
    if options.json:
        write_json(options.json, record)


if __name__ == "__main__":
    main()
