#!/usr/bin/env python3
"""Times rtopk.jax inside of jax.jit beside jax.lax.top_k, jax.lax.approx_max_k, the library's own call and a copy.

All of them alternate over several matrices, together larger than the caches, so that each is read from memory. The
copy moves as many bytes as a selection does: the input read once, k values and k int32 indices written once. Times are
those of one matrix, medians over the repetitions. `nothing` is a compiled function that reads one element: what JAX
takes for a call. Before the timing, rtopk's results are compared with jax.lax.top_k's, bit by bit (where that
orders equal elements in another way, their values are); of approximate selections the recall is measured.

On a GPU a compiled function selects from all matrices, and is called again without waiting until the calls take a
while. The library is called through its C interface on a stream of its own, just as often. The host's time for a small
call is measured at the end.

    python bench/compare_jax.py --json bench/results/jax-cpu.json
    python bench/compare_jax.py --device cuda --json bench/results/jax-h200.json
    python bench/compare_jax.py --quick

It needs the package on PYTHONPATH, or installed; it takes the library that lies in the package.
"""

import argparse
import ctypes
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import librtopk  # noqa: E402
import rtopk.jax  # noqa: E402
from checkout import origin  # noqa: E402
from whole_file import write_json  # noqa: E402

# More than the caches hold: 50 MB on an H200, tens of MB on CPUs.
SWEPT_BYTES = {"cpu": 64 << 20, "cuda": 512 << 20}
MAX_SWEPT_BYTES = 6 << 30
MATRICES = {"cpu": 8, "cuda": 32}  # at most
# What takes longer is timed once.
SLOW_SECONDS = 1.0
# On a GPU, calls are queued until they take this long.
QUEUED_SECONDS = 0.05
# The passes of the early-stopped selection.
MAX_ITER = 4
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "i32": jnp.int32}
TARGET_OVER_LIBRARY = 1.05

SHAPES = {
    "cpu": [
        ("f32", 16384, 64, 8),
        ("f32", 4096, 256, 32),
        ("f32", 1024, 4096, 64),
        ("f32", 64, 65536, 64),
        ("f32", 1, 1 << 20, 100),
        ("bf16", 4096, 256, 32),
        ("bf16", 1024, 4096, 64),
    ],
    "cuda": [
        ("f32", 65536, 256, 32),
        ("f32", 65536, 1024, 64),
        ("f32", 1048576, 256, 32),
        ("f32", 65536, 4096, 64),
        ("f32", 8192, 10000, 500),
        ("f32", 128, 131072, 2048),
        ("bf16", 65536, 256, 8),
        ("bf16", 8192, 16384, 64),
        ("bf16", 4096, 65536, 64),
    ],
}
SMALL = [(4, 16, 4), (1, 128, 8), (64, 64, 8)]


@dataclass
class Cell:
    dtype: str
    rows: int
    cols: int
    k: int

    @property
    def name(self):
        return f"{self.rows} x {self.cols}, {self.k}, {self.dtype}"

    @property
    def input_bytes(self):
        return self.rows * self.cols * jnp.dtype(DTYPES[self.dtype]).itemsize

    @property
    def copied_bytes(self):
        """Half of what a selection moves: a copy reads and writes."""
        return (self.input_bytes + self.rows * self.k * (4 + jnp.dtype(DTYPES[self.dtype]).itemsize)) // 2

    def matrices(self, device):
        count = -(-SWEPT_BYTES[device] // self.input_bytes)
        count = max(2, min(count, MATRICES[device], MAX_SWEPT_BYTES // self.input_bytes))
        keys = jax.random.split(jax.random.key(self.rows + self.cols), count)
        make = jax.jit(lambda key: jax.random.normal(key, (self.rows, self.cols)).astype(DTYPES[self.dtype]))
        return [make(key) for key in keys]


# ---- What is compared ----


def selections(cell):
    """By name: a function of a matrix."""
    return {
        "rtopk": lambda x: rtopk.jax.top_k(x, cell.k),
        "rtopk unsorted": lambda x: rtopk.jax.top_k(x, cell.k, sorted=False),
        "rtopk total order": lambda x: rtopk.jax.top_k(x, cell.k, total_order=True),
        f"rtopk max_iter {MAX_ITER}": lambda x: rtopk.jax.top_k(x, cell.k, max_iter=MAX_ITER),
        "lax.top_k": lambda x: jax.lax.top_k(x, cell.k),
        "lax.approx_max_k": lambda x: jax.lax.approx_max_k(x, cell.k),
    }


def check(cell, x):
    """Exact selections against jax.lax.top_k; the recall of the others."""
    found = {name: jax.jit(function)(x) for name, function in selections(cell).items()}
    expected = [np.asarray(each) for each in found["lax.top_k"]]
    values, indices = (np.asarray(each) for each in found["rtopk"])
    if values.tobytes() != expected[0].tobytes():
        sys.exit(f"{cell.name}: rtopk has other values than lax.top_k")
    # On a GPU, lax.top_k may give equal elements in another order. Then: the elements at our indices, each once.
    if not np.array_equal(indices, expected[1]):
        there = np.take_along_axis(np.asarray(x), indices, 1)
        rising = (indices[:, 1:] > indices[:, :-1]) | (values[:, 1:] != values[:, :-1])
        if there.tobytes() != values.tobytes() or not rising.all():
            sys.exit(f"{cell.name}: rtopk's indices are neither lax.top_k's nor another order of equal elements")
        print(f"{cell.name}: lax.top_k orders equal elements in another way")
    for one, other in zip(found["rtopk total order"], (values, indices), strict=True):
        if np.asarray(one).tobytes() != other.tobytes():
            sys.exit(f"{cell.name}: total order differs")
    if not np.array_equal(np.asarray(found["rtopk unsorted"][1]), np.sort(indices)):
        sys.exit(f"{cell.name}: rtopk unsorted selects others than rtopk sorted")
    approximate = (f"rtopk max_iter {MAX_ITER}", "lax.approx_max_k")
    return {name: recall(np.asarray(found[name][1]), expected[1]) for name in approximate}


def recall(found, expected, rows=2000):
    """Of the first rows."""
    found, expected = found[:rows], expected[:rows]
    hits = sum(np.isin(row, best).sum() for row, best in zip(found, expected, strict=True))
    return float(hits / expected.size)


# ---- On a CPU ----


class Cpu:
    """A call at a time, each waited for."""

    name = "cpu"

    def __init__(self, library):
        self.library = library

    def facts(self):
        return {"device": cpu_name(), "cpus": len(os.sched_getaffinity(0))}

    def compiled(self, function, matrices):
        function = jax.jit(function)

        def sweep():
            for x in matrices:
                jax.block_until_ready(function(x))

        return sweep

    def own_call(self, cell, matrices):
        selection = self.library.topk_cpu(cell.rows, cell.cols, cell.k, cell.dtype, order="by_value")
        bytes_of = jnp.dtype(DTYPES[cell.dtype]).itemsize
        values = np.empty(cell.rows * cell.k * bytes_of, np.uint8)
        indices = np.empty((cell.rows, cell.k), np.int32)
        calls = [selection.bound(x.unsafe_buffer_pointer(), values.ctypes.data, indices.ctypes.data) for x in matrices]

        def sweep():
            for call in calls:
                call()

        sweep.kept = values, indices
        return sweep

    def copy(self, cell, matrices):
        sources = [np.asarray(x).reshape(-1).view(np.uint8) for x in matrices]
        size = cell.copied_bytes
        if size > sources[0].size:
            sources = [np.resize(source, size) for source in sources]
        target = np.zeros(size, np.uint8)

        def sweep():
            for source in sources:
                np.copyto(target, source[:size])

        return sweep

    def seconds(self, sweep):
        start = time.perf_counter()
        sweep()
        return time.perf_counter() - start


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return f"{platform.machine()}, {named[0]}" if named else platform.machine()


# ---- On a GPU ----


class Driver:
    """The calls of CUDA's driver that are needed beside the library."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)  # does not wait for the default stream

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            sys.exit(f"{name}: CUDA error {code}")

    def wait(self):
        self.call("cuStreamSynchronize", self.stream)

    def copy(self, target, source, size):
        self.call("cuMemcpyDtoDAsync_v2", *map(ctypes.c_uint64, (target, source)), ctypes.c_size_t(size), self.stream)


class Gpu:
    """Calls are queued, and the last one is waited for."""

    name = "cuda"

    def __init__(self, library):
        self.library = library
        self.driver = Driver()

    def facts(self):
        (device, *_) = jax.devices("cuda")
        return {"device": device.device_kind, "platform_version": device.client.platform_version}

    def compiled(self, function, matrices):
        every = jax.jit(lambda matrices: [function(x) for x in matrices])

        def queue(times):
            for _ in range(times):
                results = every(matrices)
            jax.block_until_ready(results)

        return queue

    def own_call(self, cell, matrices):
        selection = self.library.topk_cuda(cell.rows, cell.cols, cell.k, cell.dtype, order="by_value")
        workspace = jnp.zeros(max(selection.workspace_bytes, 1), jnp.uint8)
        values = [jnp.zeros((cell.rows, cell.k), DTYPES[cell.dtype]) for _ in matrices]
        indices = [jnp.zeros((cell.rows, cell.k), jnp.int32) for _ in matrices]
        jax.block_until_ready((workspace, values, indices))
        calls = [
            selection.bound(
                *(array.unsafe_buffer_pointer() for array in arrays),
                workspace=workspace.unsafe_buffer_pointer(),
                stream=self.driver.stream.value,
            )
            for arrays in zip(matrices, values, indices, strict=True)
        ]

        def queue(times):
            for _ in range(times):
                for call in calls:
                    call()
            self.driver.wait()

        queue.kept = workspace, values, indices
        return queue

    def copy(self, cell, matrices):
        size = min(cell.copied_bytes, cell.input_bytes)
        targets = [jnp.zeros(cell.copied_bytes, jnp.uint8) for _ in matrices]
        jax.block_until_ready(targets)

        def queue(times):
            for _ in range(times):
                for target, source in zip(targets, matrices, strict=True):
                    self.driver.copy(target.unsafe_buffer_pointer(), source.unsafe_buffer_pointer(), size)
            self.driver.wait()

        queue.kept = targets
        return queue

    def seconds(self, queue):
        start = time.perf_counter()
        queue(1)
        times = max(1, min(1000, round(QUEUED_SECONDS / (time.perf_counter() - start))))
        start = time.perf_counter()
        queue(times)
        return (time.perf_counter() - start) / times


# ---- Measuring ----


def measure(machine, cell, repeats):
    matrices = cell.matrices(machine.name)
    recalls = check(cell, matrices[0])
    sweeps = {"copy": machine.copy(cell, matrices), "library": machine.own_call(cell, matrices)}
    sweeps["nothing"] = machine.compiled(lambda x: x[0, :1], matrices)
    sweeps |= {name: machine.compiled(function, matrices) for name, function in selections(cell).items()}
    for sweep in sweeps.values():
        machine.seconds(sweep)
    spans = {name: [] for name in sweeps}
    for turn in range(repeats):
        for name, sweep in sweeps.items():
            if turn == 0 or spans[name][0] * len(matrices) < SLOW_SECONDS * 1e6:
                spans[name].append(machine.seconds(sweep) / len(matrices) * 1e6)
    times = {name: statistics.median(each) for name, each in spans.items()}
    return {
        "dtype": cell.dtype,
        "rows": cell.rows,
        "cols": cell.cols,
        "k": cell.k,
        "matrices": len(matrices),
        "microseconds": {name: round(each, 2) for name, each in times.items()},
        "recall": recalls,
        "times_lax": times["lax.top_k"] / times["rtopk"],
        "over_library": times["rtopk"] / times["library"],
        "over_copy": times["rtopk"] / times["copy"],
    }


def measure_small(shape, repeats, calls=300):
    """The host's microseconds for one of many calls in a row."""
    rows, cols, k = shape
    x = jax.random.normal(jax.random.key(0), (rows, cols))
    functions = {
        "lax.top_k": lambda: jax.lax.top_k(x, k),
        "rtopk": lambda: rtopk.jax.top_k(x, k),
    }
    for name, function in {"lax.top_k in jit": jax.lax.top_k, "rtopk in jit": rtopk.jax.top_k}.items():
        compiled = jax.jit(lambda x, function=function: function(x, k))
        functions[name] = lambda compiled=compiled: compiled(x)
    spans = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                result = function()
            spans[name].append((time.perf_counter() - start) / calls * 1e6)
            jax.block_until_ready(result)
    times = {name: round(statistics.median(each[1:]), 2) for name, each in spans.items()}
    return {"rows": rows, "cols": cols, "k": k, "microseconds": times}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="the first two shapes, three repetitions")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main():
    arguments = parsed()
    (path,) = Path(rtopk.__file__).parent.glob("librtopk.so*")
    library = librtopk.Library(path)
    try:
        jax.config.update("jax_default_device", jax.devices(arguments.device)[0])
    except RuntimeError as error:
        sys.exit(f"JAX has no {arguments.device}: {error}")
    machine = Gpu(library) if arguments.device == "cuda" else Cpu(library)
    repeats = 3 if arguments.quick else arguments.repeats
    shapes = [Cell(*shape) for shape in SHAPES[arguments.device]][: 2 if arguments.quick else None]
    record = {**origin(), **machine.facts(), "jax": jax.__version__, "rtopk": library.version, "repeats": repeats}
    print(f"rtopk.jax {library.version} with jax {jax.__version__} on {record['device']}; microseconds")
    columns = ("nothing", "copy", "library", "rtopk", "lax.top_k", "lax.approx_max_k", f"rtopk max_iter {MAX_ITER}")
    print(f"{'':>28}", *(f"{name:>17}" for name in columns), f"{'x lax':>8} {'/ library':>9} {'/ copy':>7}")
    record["cells"] = []
    for cell in shapes:
        result = measure(machine, cell, repeats)
        record["cells"].append(result)
        if arguments.json:  # a peer may take long, and be interrupted
            write_json(arguments.json, record)
        times = (f"{result['microseconds'][name]:17.1f}" for name in columns)
        ratios = f"{result['times_lax']:8.2f} {result['over_library']:9.3f} {result['over_copy']:7.2f}"
        print(f"{cell.name:>28}", *times, ratios, flush=True)
    record["small"] = [measure_small(shape, repeats) for shape in SMALL]
    for result in record["small"]:
        times = ", ".join(f"{name} {each}" for name, each in result["microseconds"].items())
        print(f"a small call, {result['rows']} x {result['cols']}, {result['k']}: {times}")
    missed = [cell for cell in record["cells"] if cell["over_library"] > TARGET_OVER_LIBRARY]
    record["target_over_library"] = TARGET_OVER_LIBRARY
    print(f"{len(record['cells']) - len(missed)} of {len(record['cells'])} within {TARGET_OVER_LIBRARY} of the library")
    if arguments.json:
        write_json(arguments.json, record)


if __name__ == "__main__":
    main()
