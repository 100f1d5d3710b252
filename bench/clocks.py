"""Medians of what takes turns: on the CPU by its clock, on a GPU by events, with the caches overwritten before."""

import statistics
import time

import torch

# The L2 caches of today's GPUs hold at most half of this.
CACHE_FLUSH_BYTES = 256 << 20


class CpuClock:
    def __init__(self):
        self.spans = []

    def measure(self, *parts):
        """Runs the parts one after the other; one time for each, in microseconds."""
        times = []
        for part in parts:
            start = time.perf_counter()
            part()
            times.append((time.perf_counter() - start) * 1e6)
        self.spans.append(times)

    def medians(self):
        return [statistics.median(times) for times in zip(*self.spans, strict=True)]


class GpuClock:
    flushed = None

    def __init__(self):
        self.spans = []
        if GpuClock.flushed is None:
            GpuClock.flushed = torch.empty(CACHE_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def measure(self, *parts):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(parts) + 1)]
        self.flushed.zero_()  # and while it runs, the host gets ahead: its own time stays out of it
        events[0].record()
        for part, event in zip(parts, events[1:], strict=True):
            part()
            event.record()
        self.spans.append(events)

    def medians(self):
        torch.cuda.synchronize()
        times = [[a.elapsed_time(b) * 1e3 for a, b in zip(e, e[1:], strict=False)] for e in self.spans]
        return [statistics.median(part) for part in zip(*times, strict=True)]


def interleaved(device, functions, repeats, warm_up=3):
    """Median microseconds of each function's parts; the functions take turns."""
    clock = GpuClock if device == "cuda" else CpuClock
    clocks = {name: clock() for name in functions}
    for turn in range(warm_up + repeats):
        for name, parts in functions.items():
            clocks[name].measure(*parts())
            if turn < warm_up:
                clocks[name].spans.clear()
    return {name: clock.medians() for name, clock in clocks.items()}
