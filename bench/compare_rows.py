#!/usr/bin/env python3
"""Times general rows beside plain ones: lengths, page tables, magnitudes, segments, very different and very long rows.

    python bench/compare_rows.py --json bench/results/rows-h200.json
    python bench/compare_rows.py --quick

Each time stands beside that of the plain call which it is compared with, in the same run, with cold caches:

    full        lengths that are all the columns               beside the plain call
    random      lengths drawn between k and the columns        beside a plain call with as many elements and rows
    pages       places in a paged cache, indices alone         beside `full` with indices alone: microseconds more
    magnitude   the largest absolute values                    beside the plain call
    threshold   `full`, with the kth value of each row         beside `full`
    segments    of a flat array, lengths within a quarter      beside a matrix of as many elements and rows
    mixed       one long row among short ones                  beside the long one alone plus the short ones alone
    long        rows of millions, such as gradients: full, magnitude and threshold
    flashinfer  FlashInfer's page tables and shifted indices   beside the same of rtopk: FlashInfer's time / rtopk's

Before anything is timed, some rows of every result are compared with a stable sort. The floor is a copy that moves the
bytes of the plain call.

FlashInfer is measured where RTOPK_FLASHINFER_INCLUDE names the folder of its headers and nvcc is installed:
`flashinfer` takes any of equal values, `flashinfer_lowest` the first ones, as rtopk does. Its kernels are these
headers'; its Python functions take CUB's for some shapes, which a record then names in `package_takes_cub`.

`hard` are rows with random lengths on data that is hard to select from (bench/hard_rows.py). There, and for the page
tables of `indexer`, all rows of two calls are counted, rtopk's in the same way as FlashInfer's:

    wrong           other values than the largest, or an index twice or out of range
    other_ties      right, but not the lowest indices of equal values
    changed_sets    other indices in the second call
    changed_order   other indices, or another order, in the second call
"""

import argparse
import random
import sys
from pathlib import Path

import torch

import hard_rows
import librtopk
from checkout import origin
from clocks import interleaved
from peers import Found
from peers.flashinfer_rows import FlashInferRows
from rows_beside import ON_HARD_DATA, VARIANTS, Beside, Places, Shifted, ours_is_wrong
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
        self.thresholds = torch.empty(rows, dtype=matrix.dtype, device="cuda") if "thresholds" in options else None
        self.run = self.plan.bound(
            matrix.data_ptr(),
            self.values.data_ptr() if options.get("values", True) else None,
            self.indices.data_ptr(),
            workspace=self.workspace.data_ptr(),
            stream=torch.cuda.current_stream().cuda_stream,
            thresholds=None if self.thresholds is None else self.thresholds.data_ptr(),
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
            if self.thresholds is not None and not torch.equal(self.thresholds[i], row[places[-1]]):
                sys.exit(f"the threshold of row {i} is wrong: {self.plan.text}")


def copy_of(total_bytes):
    source = torch.zeros(total_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def timed(functions, repeats):
    # Rehearsed: several calls share a kernel, and the first of them would pay for the others' code, up to 8 us.
    parts = {name: lambda f=f: [f] for name, f in functions.items()}
    times, _ = interleaved("cuda", parts, repeats, rehearses=True)
    return {name: time[0] for name, time in times.items()}


def record_of(case, rows, cols, k, dtype, calls, times):
    """What rows of one length have in common: `times` has "floor" and the names of `calls`."""
    return {
        "case": case,
        "rows": rows,
        "cols": cols,
        "k": k,
        "dtype": dtype,
        "family": calls["plain"].family,
        "general_family": calls["full"].family,
        "us": times,
        "plain_to_floor": times["plain"] / times["floor"],
        "full": times["full"] / times["plain"],
        "magnitude": times["magnitude"] / times["plain"],
        "threshold": times["threshold"] / times["full"],
    }


def indexer_case(library, peer, rows, cols, k, dtype, repeats):
    """The rows of a sparse attention's indexer."""
    matrix = torch.randn(rows, cols, device="cuda").to(DTYPES[dtype])
    full = torch.full((rows,), cols, dtype=torch.int32, device="cuda")
    lengths = torch.randint(k, cols + 1, (rows,), dtype=torch.int32, device="cuda")
    short_cols = int(lengths.sum()) // rows
    short = matrix.flatten()[: rows * short_cols]
    places = Places(rows, cols, PAGE, "cuda")
    calls = {
        "plain": Call(library, matrix, rows, cols, k),
        "full": Call(library, matrix, rows, cols, k, {"lengths": full}),
        "random": Call(library, matrix, rows, cols, k, {"lengths": lengths}),
        "plain_short": Call(library, short, rows, short_cols, k),
        "full_indices": Call(library, matrix, rows, cols, k, {"lengths": full}, values=False),
        "pages": Call(
            library, matrix, rows, cols, k, {"lengths": full, "map": places.map}, values=False, **places.options
        ),
        "magnitude": Call(library, matrix, rows, cols, k, magnitude=1),
        "threshold": Call(library, matrix, rows, cols, k, {"lengths": full}, thresholds=1),
    }
    for name in ("plain", "full", "full_indices", "threshold"):
        calls[name].check(lambda i: matrix[i], k)
    calls["random"].check(lambda i: matrix[i, : lengths[i]], k)
    calls["magnitude"].check(lambda i: matrix[i], k, by=torch.abs)
    calls["pages"].check(
        lambda i: matrix[i], k, lambda i, columns: places.map[i].long()[columns // PAGE] * PAGE + columns % PAGE
    )
    beside = Beside(calls["pages"], places, peer, matrix, full, k, dtype)
    floor = copy_of(rows * (cols * matrix.element_size() + k * (matrix.element_size() + 4)))
    ours = {name: call.run for name, call in calls.items()}
    times = timed({"floor": floor} | ours | beside.functions, repeats)
    return record_of("indexer", rows, cols, k, dtype, calls, times) | {
        "random": times["random"] / times["plain_short"],
        "pages_more_us": times["pages"] - times["full_indices"],
        **beside.record(times, "pages"),
    }


def hard_case(library, peer, rows, cols, k, dtype, data, mapping, repeats):
    """Random lengths, on data that is hard to select from."""
    lengths = hard_rows.hard_lengths(rows, cols, k, "cuda")
    matrix = hard_rows.hard_matrix(data, rows, cols, DTYPES[dtype], lengths)
    mapped = mapping(rows, cols, PAGE, "cuda")
    arrays = {"lengths": lengths, "map": mapped.map}
    call = Call(library, matrix, rows, cols, k, arrays, values=False, **mapped.options)
    beside = Beside(call, mapped, peer, matrix, lengths, k, dtype, ON_HARD_DATA)
    times = timed({"rtopk": call.run} | beside.functions, repeats)
    return {
        "case": "hard",
        "rows": rows,
        "cols": cols,
        "k": k,
        "dtype": dtype,
        "data": data,
        "form": mapped.form,
        "general_family": call.family,
        "us": times,
        **beside.record(times, "rtopk"),
    }


def segments_case(library, _peer, rows, mean, k, dtype, repeats):
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


def mixed_case(library, _peer, few, short, cols, k, dtype, repeats):
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


def long_case(library, _peer, rows, cols, k, dtype, repeats):
    """Rows that many blocks share."""
    matrix = torch.randn(rows, cols, device="cuda").to(DTYPES[dtype])
    full = torch.full((rows,), cols, dtype=torch.int32, device="cuda")
    calls = {
        "plain": Call(library, matrix, rows, cols, k),
        "full": Call(library, matrix, rows, cols, k, {"lengths": full}),
        "magnitude": Call(library, matrix, rows, cols, k, magnitude=1),
        "threshold": Call(library, matrix, rows, cols, k, {"lengths": full}, thresholds=1),
    }
    for name, call in calls.items():
        call.check(lambda i: matrix[i], k, by=torch.abs if name == "magnitude" else torch.clone)
    floor = copy_of(rows * (cols * matrix.element_size() + k * (matrix.element_size() + 4)))
    times = timed({"floor": floor} | {name: call.run for name, call in calls.items()}, repeats)
    return record_of("long", rows, cols, k, dtype, calls, times)


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
        for rows, cols, k in ((1, 25_600_000, 256_000), (1, 4_000_000, 4000), (12, 2_000_000, 20_000)):
            yield long_case, (rows, cols, k, dtype)
        for rows, cols in ((64, 32768), (256, 131072)):
            for k in (2048,) if quick else (512, 2048):
                for data in hard_rows.DATA:
                    for mapping in (Places,) if quick else (Places, Shifted):
                        yield hard_case, (rows, cols, k, dtype, data, mapping)


CASES = {"indexer": indexer_case, "segments": segments_case, "mixed": mixed_case, "long": long_case, "hard": hard_case}


def line_of(record):
    us = record["us"]
    text = f"{record['case']:<9} {record['rows']:>8}x{record['cols']:<7} {record['k']:>5} {record['dtype']:<5}"
    text += f" {record.get('family', '')[5:]:>10} {record['general_family'][5:]:>8}"
    text += f" {us.get('floor', 0):8.1f} {us.get('plain', 0):8.1f}"
    if record["case"] == "hard":
        text += f"  {record['data']} {record['form']} rtopk us {us['rtopk']:.1f}"
    for name in ("full", "random", "pages_more_us", "magnitude", "threshold", "segments", "mixed", *VARIANTS):
        if name in record:
            text += f"  {name} {record[name]:.2f}" + "*" * (name in record.get("package_takes_cub", ()))
    for name, counted in record.get("counts", {}).items():
        text += "".join(f"  {name} {what} {rows}" for what, rows in counted.items() if rows)
    for name, error in record.get("peer_errors", {}).items():
        text += f"  {name} failed: {error}"
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--quick", action="store_true", help="one k of several, fewer repetitions; no shifted indices")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all")
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
    found = Found.among([FlashInferRows()], torch, DTYPES)
    for peer, why in found.missing:
        print(f"not measured: {peer.name} ({why}); to have it measured: {peer.install}")
    for peer, version in found.measured:
        print(f"beside {peer.name} {version}; * where its package would take CUB's kernel")
    peer = next(iter(found.peers), None)
    print(
        f"{'case':<9} {'shape':>16} {'k':>5} {'dtype':<5} {'plain':>10} {'general':>8} {'floor us':>8} {'plain us':>8}"
    )
    chosen = [CASES[name] for name in arguments.cases]
    record = {"environment": facts, "peers": found.record(), "rows": []}
    try:
        for case, shape in cases(arguments.quick):
            if case not in chosen:
                continue
            record["rows"].append(case(library, peer, *shape, repeats))
            print(line_of(record["rows"][-1]), flush=True)
            torch.cuda.empty_cache()
    finally:
        # A peer can end the run with an error; what was measured until then is kept.
        if arguments.json:
            write_json(arguments.json, record)
    if any(ours_is_wrong(row["counts"]) for row in record["rows"] if "counts" in row):
        sys.exit("rtopk has wrong rows: see the lines above")


if __name__ == "__main__":
    main()
