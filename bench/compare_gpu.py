#!/usr/bin/env python3
"""Times rtopk's CUDA backend against the floor and torch.topk, in one run, and compares it with its targets.

The floor is a device-to-device copy that moves the same bytes: the input read once, k values and k int32 indices (or
the dense matrix) written once. All times are medians of CUDA events, with the caches overwritten before every
repetition; floor, rtopk and torch.topk alternate. Before the timing, every result is checked in full against torch.topk
and the rule that the lowest indices win ties (with early stopping: some rows against the CPU backend). After it, the
result must still be the same.

The JSON is written after every cell. A cell that hangs or crashes ends the run; --resume continues after that cell.

    python bench/compare_gpu.py --json bench/results/gpu.json
    python bench/compare_gpu.py --json bench/results/gpu.json --seconds 60 --resume
    python bench/compare_gpu.py --quick --grids paper sweep
    python bench/compare_gpu.py --shape 1048576x256x32 --dtype f32 bf16
    python bench/compare_gpu.py --random 300 --seed 7
    python bench/compare_gpu.py --random 100 --early
    python bench/compare_gpu.py --quick --grids paper --peers all

With --peers, other libraries' top-k is timed beside rtopk where they are installed; those that are not are named. Their
results are checked too, by value: a time of wrong rows is marked, and a failure of theirs does not end the run.
"""

import argparse
import faulthandler
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import librtopk
import peers
from checkout import origin
from gpu_grids import DATA, ELEMENT_BYTES, GRIDS, Cell, matrix_of, random_cells, random_early_cells, spread, thinned
from gpu_report import Outcome, Report, print_heading, print_outcome, print_peers, print_random, print_table

# The L2 caches of today's GPUs hold at most half of this.
CACHE_FLUSH_BYTES = 256 << 20
# A cell takes a fraction of a second; after this long it counts as hanging.
CELL_LIMIT_SECONDS = 12
# With peers: some of them compile for every shape.
PEER_CELL_LIMIT_SECONDS = 90
# One millisecond at 2 GHz.
HEAD_START_CYCLES = 2_000_000
# A peer that takes longer is timed once.
SLOW_PEER_MILLISECONDS = 50


# ---- The GPU ----


class WrongResult(Exception):
    pass


class DeviceLost(Exception):
    """The GPU has failed and does not recover, so all further cells would fail too."""


class Gpu:
    # Elements to check at a time: the check needs about 30 bytes for each.
    CHECKED_AT_A_TIME = 1 << 27
    # Rows of an early-stopped selection that are compared with the CPU backend.
    CPU_SAMPLE_ROWS = 256

    def __init__(self, library_path, repeats, torch_repeats, with_torch, seed, data=DATA):
        import torch  # before the library, as in every program that uses both

        self.library = librtopk.Library(library_path)
        if not torch.cuda.is_available():
            sys.exit("no GPU that torch can use; --dry-run shows what would be measured")
        self.torch = torch
        self.repeats, self.torch_repeats, self.with_torch = repeats, torch_repeats, with_torch
        self.seed, self.data = seed, data
        self.peers = ()
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.dtypes = {
            "f32": torch.float32,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "f64": torch.float64,
            "i32": torch.int32,
        }
        # torch has hardly an operation for uint16; columns below 32768 look the same.
        self.index_types = {"i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.int16}
        self.bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        self.flushed = torch.empty(CACHE_FLUSH_BYTES, dtype=torch.uint8, device=self.device)
        self.warm_up()

    def facts(self):
        torch = self.torch
        properties = torch.cuda.get_device_properties(self.device)
        return {
            "gpu": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "driver": self.driver(),
            "torch": torch.__version__,
            "torch_cuda": torch.version.cuda,
            "rtopk": self.library.version,
        }

    @staticmethod
    def driver():
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            return None

    def warm_up(self):
        """Copies for half a second, so that the GPU raises its clocks."""
        other = self.torch.empty_like(self.flushed)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            for _ in range(100):
                other.copy_(self.flushed)
            self.torch.cuda.synchronize()

    def measure(self, cell, number):
        try:
            return self._measure(cell, number)
        except Exception as error:
            outcome = Outcome(cell, error=in_one_line(error))
        try:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()  # the cell may have run out of memory
        except RuntimeError as error:
            raise DeviceLost(f"{outcome.error}; the GPU is lost: {in_one_line(error)}") from error
        return outcome

    def _measure(self, cell, number):
        works = {"rtopk": Work(self, cell, self.matrix(cell, number))}
        if cell.baseline is not None:
            same_data = cell.baseline.data == cell.data
            matrix = works["rtopk"].matrix if same_data else self.matrix(cell.baseline, number)
            works["baseline"] = Work(self, cell.baseline, matrix)
        beside = peers.Beside(self.peers)
        times = self.checked_times(works, beside)
        return Outcome(cell, times, works["rtopk"].family, "", beside.wrong_rows, beside.errors)

    def checked_times(self, works, beside=None):
        """Median microseconds of every work by name, of the first work's floor, and of torch.topk where it can do the
        same. Results are checked before the timing and must be the same after it. Peers that can do the same are timed
        too, as "peer:NAME"; what else is known of them is left in `beside`."""
        beside = beside or peers.Beside()
        first = next(iter(works.values()))
        functions = {"floor": self.copy_of(first.cell.floor_bytes)} | {name: work.run for name, work in works.items()}
        repeats = dict.fromkeys(functions, self.repeats)
        if self.with_torch and first.cell.has_torch_peer:
            functions["torch"] = self.torch_topk(first.cell, first.matrix)
            repeats["torch"] = self.torch_repeats
        checked = {name: work.checked_result() for name, work in works.items()}
        guests = beside.checked_functions(self.torch, first.cell, first.matrix, self.head_start, self.recover_from)
        times = self.interleaved(functions | guests, repeats | dict.fromkeys(guests, self.torch_repeats), beside)
        beside.release()
        for name, work in works.items():
            for before, after in zip(checked[name], work.outputs.values(), strict=True):
                if not self.torch.equal(before, self.as_bits(after)):
                    raise WrongResult(f"{name}: a timed run gave another result than the checked one")
        return times

    def matrix(self, cell, number):
        torch = self.torch
        if torch.cuda.memory_reserved() > 64 << 30:
            torch.cuda.empty_cache()
        generator = torch.Generator(device=self.device).manual_seed(self.seed + number)
        return matrix_of(torch, cell, self.dtypes[cell.dtype], generator, self.data)

    def copy_of(self, total_bytes):
        """A copy that reads half of `total_bytes` and writes the other half."""
        source = self.torch.zeros(-(-total_bytes // 2), dtype=self.torch.uint8, device=self.device)
        target = self.torch.empty_like(source)
        return lambda: target.copy_(source)

    def torch_topk(self, cell, matrix):
        torch, k, in_order = self.torch, cell.k, cell.order == "by_value"
        values = torch.empty(cell.rows, k, dtype=matrix.dtype, device=self.device)
        indices = torch.empty(cell.rows, k, dtype=torch.int64, device=self.device)
        largest = cell.direction == "largest"
        return lambda: torch.topk(matrix, k, dim=1, largest=largest, sorted=in_order, out=(values, indices))

    def head_start(self):
        """The GPU sleeps until the host's part of a peer's call is over: with some it is longer than the kernel."""
        self.torch.cuda._sleep(HEAD_START_CYCLES)

    def recover_from(self, name, error):
        """After a peer's error: the GPU must still work, and memory may have run out."""
        try:
            self.torch.cuda.synchronize()
        except RuntimeError as lost:
            raise DeviceLost(f"{name}: {in_one_line(error)}; the GPU is lost: {in_one_line(lost)}") from lost
        self.torch.cuda.empty_cache()

    def interleaved(self, functions, repeats, beside):
        """Median microseconds of each function on the GPU. The host runs ahead, so its time is not included. A peer
        that fails has no time; `beside` keeps its error."""
        event = self.torch.cuda.Event
        spans = {name: [] for name in functions}
        for turn in range(1 + self.repeats):
            for name, function in functions.items():
                if turn > repeats[name]:
                    continue
                begin, end = event(enable_timing=True), event(enable_timing=True)
                is_peer = name.startswith(peers.PREFIX)
                if is_peer:
                    self.head_start()
                self.flushed.zero_()
                begin.record()
                try:
                    function()
                except Exception as error:
                    if not is_peer:
                        raise
                    beside.failed(name.removeprefix(peers.PREFIX), error)
                    self.recover_from(name, error)
                    repeats[name] = -1
                    spans[name].clear()
                    continue
                end.record()
                if turn > 0:  # the first turn loads code and warms up
                    spans[name].append((begin, end))
                elif is_peer:
                    end.synchronize()
                    repeats[name] = 1 if begin.elapsed_time(end) > SLOW_PEER_MILLISECONDS else repeats[name]
        self.torch.cuda.synchronize()
        return {
            name: statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1e3
            for name, pairs in spans.items()
            if pairs
        }

    def as_bits(self, tensor):
        return tensor.view(self.bits[tensor.element_size()])


class Work:
    """A selection and its memory."""

    def __init__(self, gpu, cell, matrix):
        torch = gpu.torch
        self.gpu, self.cell, self.matrix = gpu, cell, matrix
        selection = gpu.library.topk_cuda(
            cell.rows,
            cell.cols,
            cell.k,
            cell.dtype,
            ordinal=gpu.device.index,
            direction=cell.direction,
            order=cell.order,
            form=cell.form,
            index_type=cell.index_type,
            row_stride=cell.row_stride,
            max_iter=cell.max_iter,
            rule=cell.rule,
            epsilon=cell.epsilon,
            search=cell.search,
        )
        self.family = plan_in_short(selection.text)
        if cell.form == "dense":
            self.outputs = {"dense": torch.empty(cell.rows, cell.cols, dtype=matrix.dtype, device=gpu.device)}
        elif cell.form == "mask":
            self.outputs = {"mask": torch.empty(cell.rows, cell.cols, dtype=torch.uint8, device=gpu.device)}
        else:
            index_type = gpu.index_types[cell.index_type]
            self.outputs = {
                "values": torch.empty(cell.rows, cell.k, dtype=matrix.dtype, device=gpu.device),
                "indices": torch.empty(cell.rows, cell.k, dtype=index_type, device=gpu.device),
            }
        self.workspace = torch.empty(max(selection.workspace_bytes, 1), dtype=torch.uint8, device=gpu.device)
        self.run = selection.bound(
            matrix.data_ptr(),
            workspace=self.workspace.data_ptr(),
            stream=torch.cuda.current_stream().cuda_stream,
            **{name: tensor.data_ptr() for name, tensor in self.outputs.items()},
        )

    def checked_result(self):
        """Runs the selection, checks its results, and returns a copy of their bits."""
        for tensor in self.outputs.values():
            self.gpu.as_bits(tensor).fill_(-1)
        self.workspace.fill_(0x5A)
        self.run()
        self.gpu.torch.cuda.synchronize()
        if self.cell.stops_early:
            self.check_validity()
            self.check_against_cpu()
        else:
            step = max(self.gpu.CHECKED_AT_A_TIME // self.cell.cols, 1)
            for start in range(0, self.cell.rows, step):
                self.check_rows(slice(start, start + step))
        return [self.gpu.as_bits(tensor).clone() for tensor in self.outputs.values()]

    def check_rows(self, rows):
        torch, cell, k = self.gpu.torch, self.cell, self.cell.k
        matrix = self.matrix[rows]
        keys = ordered_keys(torch, matrix, cell.direction)
        border = torch.topk(keys, k, dim=1, sorted=False).values.min(dim=1, keepdim=True).values
        above, tied = keys > border, keys == border
        wanted_ties = k - above.sum(dim=1, keepdim=True, dtype=torch.int32)
        selected = above | (tied & (tied.cumsum(dim=1, dtype=torch.int32) <= wanted_ties))
        if not (selected.sum(dim=1) == k).all():
            raise WrongResult("torch.topk's values and its input contradict each other, so nothing can be checked")
        if cell.form == "dense":
            dense = torch.where(selected, matrix, torch.zeros((), dtype=matrix.dtype, device=matrix.device))
            self.expect_same(self.outputs["dense"][rows], dense, "the dense matrix")
            return
        if cell.form == "mask":
            self.expect_same(self.outputs["mask"][rows], selected.to(torch.uint8), "the mask")
            return
        values, indices = self.outputs["values"][rows], self.outputs["indices"][rows].to(torch.int64)
        if cell.index_type == "u16":
            indices &= 0xFFFF
        expected = selected.nonzero()[:, 1].view(-1, k)
        self.expect_same(indices.sort(dim=1).values, expected, "the set of indices")
        self.expect_same(values, matrix.gather(1, indices), "what the indices lead to")
        in_order = indices[:, :-1] < indices[:, 1:]
        if cell.order == "by_value":
            best = keys.gather(1, indices)
            first, second = best[:, :-1], best[:, 1:]
            in_order = (first > second) | ((first == second) & in_order)
        if not in_order.all():
            raise WrongResult("the order of the results is wrong")

    def check_validity(self):
        """Checks that a selection is valid; it need not be the best one."""
        torch = self.gpu.torch
        values, indices = self.outputs["values"], self.outputs["indices"]
        if int(indices.min()) < 0 or int(indices.max()) >= self.cell.cols:
            raise WrongResult("an index is out of range")
        if not (indices.diff(dim=1) > 0).all():
            raise WrongResult("indices are not ascending")
        self.expect_same(values, self.matrix.gather(1, indices.to(torch.int64)), "what the indices lead to")

    def check_against_cpu(self):
        torch, cell = self.gpu.torch, self.cell
        count = min(cell.rows, self.gpu.CPU_SAMPLE_ROWS)
        sample = torch.arange(count, device=self.matrix.device) * (cell.rows // count)
        matrix = self.matrix[sample].cpu()
        values = torch.empty(count, cell.k, dtype=matrix.dtype)
        indices = torch.empty(count, cell.k, dtype=torch.int32)
        selection = self.gpu.library.topk_cpu(
            count,
            cell.cols,
            cell.k,
            cell.dtype,
            order=cell.order,
            max_iter=cell.max_iter,
            rule=cell.rule,
            epsilon=cell.epsilon,
        )
        selection.run(matrix.data_ptr(), values.data_ptr(), indices.data_ptr())
        self.expect_same(self.outputs["indices"][sample].cpu(), indices, "an index, by the CPU backend,")
        self.expect_same(self.outputs["values"][sample].cpu(), values, "a value, by the CPU backend,")

    def expect_same(self, actual, expected, what):
        if not self.gpu.torch.equal(self.gpu.as_bits(actual), self.gpu.as_bits(expected)):
            raise WrongResult(f"{what} is wrong")


def in_one_line(error):
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def ordered_keys(torch, matrix, direction):
    """Integers in the order of the contract, larger ones first to be selected: all NaN are equal and greatest, zeros of
    either sign equal."""
    if matrix.is_floating_point():
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[matrix.element_size()]
        greatest = torch.iinfo(bits).max
        keys = (matrix + 0.0).view(bits)  # of -0.0 this makes 0.0
        keys = torch.where(keys < 0, keys ^ greatest, keys).masked_fill_(matrix.isnan(), greatest)
    else:
        keys = matrix
    return keys if direction == "largest" else ~keys


def plan_in_short(text):
    """The family and its config: cuda_warp lanes_per_row=32 elements_per_lane=8."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = ("threads", "lanes_per_row", "elements_per_lane", "rows_per_block", "blocks", "parts", "workspace_bytes")
    return " ".join([fields.get("family", "?")] + [f"{name}={fields[name]}" for name in names if name in fields])


class MadeUpGpu:
    """For --dry-run: the same cells and tables without a GPU."""

    def facts(self):
        return {"gpu": "none: the times are made up", "rtopk": None, "torch": None, "driver": None}

    def measure(self, cell, number):
        floor = cell.floor_bytes / 4.3e6 + 2
        noise = 1 + number % 7 / 50
        times = {"floor": floor, "rtopk": floor * 1.1 * noise}
        if cell.baseline is not None:
            times["baseline"] = floor * 1.1
        if cell.has_torch_peer:
            times["torch"] = floor * 20
        return Outcome(cell, times, plan="made_up")


# ---- The command ----


def shape(text):
    if not re.fullmatch(r"\d+x\d+x\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not ROWSxCOLSxK")
    return tuple(int(number) for number in text.split("x"))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", nargs="+", choices=GRIDS, help="default: all of them")
    parser.add_argument(
        "--shape",
        type=shape,
        nargs="+",
        default=[],
        metavar="ROWSxCOLSxK",
        help="measure these shapes instead of grids",
    )
    parser.add_argument("--dtype", nargs="+", choices=ELEMENT_BYTES, default=["f32"], help="element types for --shape")
    parser.add_argument("--order", nargs="+", choices=["unsorted", "by_value", "by_index"], default=["unsorted"],
                        help="of --shape")  # fmt: skip
    parser.add_argument("--form", nargs="+", choices=["pairs", "dense"], default=["pairs"], help="forms for --shape")
    parser.add_argument("--data", nargs="+", choices=DATA, default=["normal"], help="distributions for --shape")
    parser.add_argument("--random", type=int, metavar="N", help="measure N random problems; --seed says which")
    parser.add_argument(
        "--early",
        action="store_true",
        help="stop random problems early, with max_iter 1 to 12: beside exact, and passes",
    )
    parser.add_argument("--program", type=Path, help="which draws them; default: bin/rtopk beside the library's folder")
    parser.add_argument("--quick", action="store_true", help="a third of the cells, fewer repetitions")
    parser.add_argument("--no-torch", action="store_true", help="do not time torch.topk (results are still checked)")
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=["all", *peers.NAMES],
        default=[],
        help="time these beside rtopk, where they are installed",
    )
    parser.add_argument("--repeats", type=int, help="of the floor and rtopk; default 15, with --quick 9")
    parser.add_argument("--torch-repeats", type=int, default=3, help="of torch.topk; default %(default)s")
    parser.add_argument("--seed", type=int, help="of the data and the random problems; default: another in every run")
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--seconds", type=float, help="start no cell after this many seconds; all sets share"
                        " the time")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--resume", action="store_true", help="measure only cells that the file of --json lacks")
    parser.add_argument("--dry-run", action="store_true", help="real cells and tables, made-up times; needs no GPU")
    arguments = parser.parse_args()
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json FILE")
    if arguments.random and (arguments.shape or arguments.grids):
        parser.error("--random draws its own shapes: leave out --shape and --grids")
    if arguments.early and not arguments.random:
        parser.error("--early is for random problems: add --random N")
    return arguments


def chosen_cells(arguments, seed):
    if arguments.random:
        program = arguments.program or arguments.library.resolve().parent.parent / "bin" / "rtopk"
        return (random_early_cells if arguments.early else random_cells)(program, arguments.random, seed)
    if arguments.shape and not arguments.grids:
        return [
            Cell("asked", *shape, dtype, order, form, data=data)
            for shape in arguments.shape
            for dtype in arguments.dtype
            for order in arguments.order
            for form in arguments.form
            for data in arguments.data
        ]
    cells = [cell for name in arguments.grids or GRIDS for cell in GRIDS[name]()]
    return thinned(cells) if arguments.quick else cells


def found_peers(arguments, gpu, cells):
    """The peers that --peers asks for."""
    asked = peers.named(arguments.peers)
    if arguments.dry_run:
        return peers.not_looked_for(asked, "needs a GPU")
    return peers.Found.among(asked, gpu.torch, sorted({cell.dtype for cell in cells}))


def measure_all(gpu, report, positions, seconds):
    """Measures every cell. Returns why it ended early, or None."""
    for position in positions:
        if seconds is not None and time.monotonic() - report.start > seconds:
            return None
        try:
            report.begin(position)
            limit = PEER_CELL_LIMIT_SECONDS if report.peers else CELL_LIMIT_SECONDS
            faulthandler.dump_traceback_later(limit, exit=True)
            report.end(position, gpu.measure(report.cells[position], position))
            print_outcome(report.outcomes[position])
        except DeviceLost as error:
            report.end(position, Outcome(report.cells[position], error=str(error)))
            return "the GPU is lost"
        except KeyboardInterrupt:
            report.forget_unfinished(position)
            return "interrupted"
        finally:
            faulthandler.cancel_dump_traceback_later()
    return None


def main():
    arguments = parse_arguments()
    faulthandler.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    cells = chosen_cells(arguments, seed)
    repeats = arguments.repeats or (9 if arguments.quick else 15)
    facts = {
        **origin(),
        "seed": seed,
        "repeats": repeats,
    }
    report = Report(arguments.json, facts, cells)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
    if arguments.resume:
        report.resume()
    if arguments.dry_run:
        gpu = MadeUpGpu()
    else:
        gpu = Gpu(arguments.library, repeats, min(arguments.torch_repeats, repeats), not arguments.no_torch, seed)
    facts |= gpu.facts()
    if arguments.peers:
        found = found_peers(arguments, gpu, cells)
        gpu.peers, report.peers = tuple(found.peers), found.record()
        print("peers:", ", ".join(f"{peer.name} {version}" for peer, version in found.measured) or "none here")
    order = range(len(cells)) if arguments.seconds is None else spread(cells)
    positions = [position for position in order if position not in report.outcomes]
    print(
        f"rtopk {facts['rtopk']} against torch {facts['torch']} on {facts['gpu']}: {len(positions)} cells, seed {seed}"
    )
    print_heading()
    ended = measure_all(gpu, report, positions, arguments.seconds)
    report.write(finished=ended is None)

    failed = report.failed()
    if arguments.random and not arguments.early:
        print_random(report.in_order())
    print_table(report.summaries())
    if report.peers is not None:
        print_peers(report.in_order(), report.peers)
    for outcome in failed:
        print(f"FAILED {outcome.cell.set} {outcome.cell.name}: {outcome.error}")
    written = f", written to {arguments.json}" if arguments.json else ""
    print(f"{len(report.outcomes) - len(failed)} of {len(cells)} cells measured and checked, {len(failed)} failed,"
          f" {facts['seconds']:.0f} s{written}{f'; {ended}' if ended else ''}")  # fmt: skip
    return 1 if failed or ended else 0


if __name__ == "__main__":
    sys.exit(main())
