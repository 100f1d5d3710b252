#!/usr/bin/env python3
"""Times general rows beside plain ones: lengths, page tables, magnitudes, segments, and very different lengths.

    python bench/compare_rows.py --json bench/results/rows-h200.json
    python bench/compare_rows.py --quick

Each time stands beside that of the plain call which it is compared with, in the same run, with cold caches:

    full        lengths that are all the columns               beside the plain call
    random      lengths drawn between k and the columns        beside a plain call with as many elements and rows
    pages       places in a paged cache, indices alone         beside `full` with indices alone: microseconds more
    magnitude   the largest absolute values                    beside the plain call
    segments    of a flat array, lengths within a quarter      beside a matrix of as many elements and rows
    mixed       one long row among short ones                  beside the long one alone plus the short ones alone

Before anything is timed, some rows of every result are compared with a stable sort. The floor is a copy that moves the
bytes of the plain call.
"""

import argparse
import random
import sys
from pathlib import Path

import torch

import librtopk
from checkout import origin
from clocks import interleaved
from whole_file import write_json

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
CHECKED_ROWS = 12
PAGE = 64


class Call:
    """A selection with its memory."""

    def __init__(self, library, matrix, rows, cols, k, arrays=None, **options):
        arrays = arrays or {}
        kinds = {{"k": "row_k", "map": "map_type"}.get(name, name): self.kind(x) for name, x in arrays.items()}
        dtype = next(name for name, torch_type in DTYPES.items() if torch_type == matrix.dtype)
        self.plan = library.topk_cuda(rows, cols, k, dtype, **kinds, **options)
        self.matrix, self.arrays = matrix, arrays
        self.values = torch.empty(rows, k, dtype=matrix.dtype, device="cuda")
        self.indices = torch.empty(rows, k, dtype=torch.int32, device="cuda")
        self.workspace = torch.empty(max(self.plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
        self.run = self.plan.bound(
            matrix.data_ptr(),
            self.values.data_ptr() if options.get("values", True) else None,
            self.indices.data_ptr(),
            workspace=self.workspace.data_ptr(),
            stream=torch.cuda.current_stream().cuda_stream,
            **{name: array.data_ptr() for name, array in arrays.items()},
        )

    @staticmethod
    def kind(array):
        return librtopk.ARRAYS["i64" if array.dtype == torch.int64 else "i32"]

    @property
    def family(self):
        return next(line.split("=")[1] for line in self.plan.text.splitlines() if line.startswith("family="))

    def check(self, row_of, k, wanted_index=lambda row, places: places, by=lambda x: x):
        """Compares some rows: `row_of(i)` gives the elements of a row."""
        self.run()
        rows = len(self.indices)
        for i in {0, rows - 1} | {random.randrange(rows) for _ in range(CHECKED_ROWS)}:
            row = row_of(i)
            places = by(row).sort(descending=True, stable=True).indices[:k]
            expected = wanted_index(i, places.sort().values).to(torch.int32)
            found = self.indices[i, : len(places)]
            if (
                not torch.equal(found.sort().values, expected.sort().values)
                or (self.indices[i, len(places) :] != -1).any()
            ):
                sys.exit(f"row {i} is wrong: {self.plan.text}")


def copy_of(total_bytes):
    source = torch.zeros(total_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def timed(functions, repeats):
    # Rehearsed: several calls share a kernel, and the first of them would pay for the others' code, up to 8 us.
    parts = {name: lambda f=f: [f] for name, f in functions.items()}
    times, _ = interleaved("cuda", parts, repeats, rehearses=True)
    return {name: time[0] for name, time in times.items()}


def indexer_case(library, rows, cols, k, dtype, repeats):
    """The rows of a sparse attention's indexer."""
    matrix = torch.randn(rows, cols, device="cuda").to(DTYPES[dtype])
    full = torch.full((rows,), cols, dtype=torch.int32, device="cuda")
    lengths = torch.randint(k, cols + 1, (rows,), dtype=torch.int32, device="cuda")
    short_cols = int(lengths.sum()) // rows
    short = matrix.flatten()[: rows * short_cols]
    pages = -(-cols // PAGE)
    table = torch.randperm(rows * pages, device="cuda", dtype=torch.int32).reshape(rows, pages)
    paged = {"index_kind": librtopk.INDEX_KINDS["pages"], "pages": pages, "page_size": PAGE}
    calls = {
        "plain": Call(library, matrix, rows, cols, k),
        "full": Call(library, matrix, rows, cols, k, {"lengths": full}),
        "random": Call(library, matrix, rows, cols, k, {"lengths": lengths}),
        "plain_short": Call(library, short, rows, short_cols, k),
        "full_indices": Call(library, matrix, rows, cols, k, {"lengths": full}, values=False),
        "pages": Call(library, matrix, rows, cols, k, {"lengths": full, "map": table}, values=False, **paged),
        "magnitude": Call(library, matrix, rows, cols, k, magnitude=1),
    }
    for name in ("plain", "full", "full_indices"):
        calls[name].check(lambda i: matrix[i], k)
    calls["random"].check(lambda i: matrix[i, : lengths[i]], k)
    calls["magnitude"].check(lambda i: matrix[i], k, by=torch.abs)
    calls["pages"].check(
        lambda i: matrix[i], k, lambda i, places: table[i].long()[places // PAGE] * PAGE + places % PAGE
    )
    floor = copy_of(rows * (cols * matrix.element_size() + k * (matrix.element_size() + 4)))
    times = timed({"floor": floor} | {name: call.run for name, call in calls.items()}, repeats)
    return {
        "case": "indexer",
        "rows": rows,
        "cols": cols,
        "k": k,
        "dtype": dtype,
        "family": calls["plain"].family,
        "general_family": calls["full"].family,
        "us": times,
        "plain_to_floor": times["plain"] / times["floor"],
        "full": times["full"] / times["plain"],
        "random": times["random"] / times["plain_short"],
        "pages_more_us": times["pages"] - times["full_indices"],
        "magnitude": times["magnitude"] / times["plain"],
    }


def segments_case(library, rows, mean, k, dtype, repeats):
    lengths = torch.randint(mean - mean // 4, mean + mean // 4 + 1, (rows,), device="cuda")
    offsets = torch.zeros(rows + 1, dtype=torch.int64, device="cuda")
    offsets[1:] = lengths.cumsum(0)
    flat = torch.randn(int(offsets[-1]), device="cuda").to(DTYPES[dtype])
    cols = len(flat) // rows
    segments = Call(library, flat, rows, mean + mean // 4, k, {"offsets": offsets.to(torch.int32)}, elements=len(flat))
    plain = Call(library, flat, rows, cols, k)
    segments.check(lambda i: flat[offsets[i] : offsets[i + 1]], k, lambda i, places: offsets[i] + places)
    plain.check(lambda i: flat[i * cols : (i + 1) * cols], k)
    floor = copy_of(rows * (cols * flat.element_size() + k * (flat.element_size() + 4)))
    times = timed({"floor": floor, "plain": plain.run, "segments": segments.run}, repeats)
    return {
        "case": "segments",
        "rows": rows,
        "cols": mean,
        "k": k,
        "dtype": dtype,
        "family": plain.family,
        "general_family": segments.family,
        "us": times,
        "plain_to_floor": times["plain"] / times["floor"],
        "segments": times["segments"] / times["plain"],
    }


def mixed_case(library, few, short, cols, k, dtype, repeats):
    """`few` rows of `short` elements and one of `cols`."""
    matrix = torch.randn(few + 1, cols, device="cuda").to(DTYPES[dtype])
    lengths = torch.full((few + 1,), short, dtype=torch.int32, device="cuda")
    lengths[few // 2] = cols
    all_rows = Call(library, matrix, few + 1, cols, k, {"lengths": lengths})
    one = Call(library, matrix[few // 2], 1, cols, k, {"lengths": lengths[few // 2 :]})
    others = Call(library, matrix, few, short, k, row_stride=cols)
    all_rows.check(lambda i: matrix[i, : lengths[i]], k)
    one.check(lambda i: matrix[few // 2], k)
    others.check(lambda i: matrix[i, :short], k)
    times = timed({"mixed": all_rows.run, "one": one.run, "others": others.run}, repeats)
    return {
        "case": "mixed",
        "rows": few + 1,
        "cols": cols,
        "k": k,
        "dtype": dtype,
        "family": one.family,
        "general_family": all_rows.family,
        "us": times,
        "mixed": times["mixed"] / (times["one"] + times["others"]),
    }


def cases(quick):
    ks = (1024,) if quick else (512, 1024, 2048)
    shapes = [(1, 131072), (8, 65536), (64, 32768), (256, 131072), (4096, 16384), (4096, 65536)]
    for dtype in ("f32", "bf16"):
        for rows, cols in shapes:
            for k in ks:
                yield indexer_case, (rows, cols, k, dtype)
        for rows, mean, k in (
            (1_000_000, 32, 8),
            (300_000, 100, 10),
            (65536, 256, 32),
            (20_000, 1500, 64),
            (4096, 8192, 256),
        ):
            yield segments_case, (rows, mean, k, dtype)
        yield mixed_case, (255, 1000, 131072, 512, dtype)


def line_of(record):
    us = record["us"]
    text = f"{record['case']:<9} {record['rows']:>8}x{record['cols']:<7} {record['k']:>5} {record['dtype']:<5}"
    text += f" {record['family'][5:]:>10} {record['general_family'][5:]:>8}"
    text += f" {us.get('floor', 0):8.1f} {us.get('plain', 0):8.1f}"
    for name in ("full", "random", "pages_more_us", "magnitude", "segments", "mixed"):
        if name in record:
            text += f"  {name} {record[name]:.2f}"
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--quick", action="store_true", help="one k of three, fewer repetitions")
    parser.add_argument("--repeats", type=int, help="repetitions; 15 by default, 7 with --quick")
    parser.add_argument("--seed", type=int, help="of the data; default: another in every run")
    parser.add_argument("--json", type=Path, help="write all times to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("no GPU that torch can use")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    random.seed(seed)
    torch.manual_seed(seed)
    repeats = arguments.repeats or (7 if arguments.quick else 15)
    library = librtopk.Library(arguments.library)
    facts = {
        **origin(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rtopk": library.version,
        "seed": seed,
        "repeats": repeats,
    }
    print(f"rtopk {library.version} on {facts['gpu']}, seed {seed}")
    print(
        f"{'case':<9} {'shape':>16} {'k':>5} {'dtype':<5} {'plain':>10} {'general':>8} {'floor us':>8} {'plain us':>8}"
    )
    record = {"environment": facts, "rows": []}
    for case, shape in cases(arguments.quick):
        record["rows"].append(case(library, *shape, repeats))
        print(line_of(record["rows"][-1]), flush=True)
        torch.cuda.empty_cache()
    if arguments.json:
        write_json(arguments.json, record)


if __name__ == "__main__":
    main()
