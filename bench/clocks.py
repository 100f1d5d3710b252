"""Median times of functions that alternate. On a GPU, events measure the GPU's time with cold caches, and the host's
time is measured separately."""

import statistics
import sys
import time

import torch

# The L2 caches of today's GPUs hold at most half of this.
CACHE_FLUSH_BYTES = 256 << 20
# One second at 2 GHz.
MAX_SLEEP_CYCLES = 2_000_000_000


class CpuClock:
    """Times the parts of a function on the host."""

    def __init__(self):
        self.host_spans = []

    def measure(self, *parts):
        self.host_spans.append(self._run(parts))

    def forget(self):
        self.host_spans.clear()

    def medians(self):
        return medians_of(self.host_spans)

    @staticmethod
    def _run(parts, after=lambda _: None):
        """Runs the parts in order. Returns the host's time for each, in microseconds."""
        times = []
        for number, part in enumerate(parts):
            start = time.perf_counter()
            part()
            times.append((time.perf_counter() - start) * 1e6)
            after(number)
        return times


class GpuClock(CpuClock):
    """Times the parts of a function on the GPU, and separately on the host.

    The GPU sleeps until the host has called everything. So the GPU's time does not include the host's, and a function
    gains nothing from the GPU still being busy with the one before it.
    """

    flushed = None
    rehearses = False  # runs everything once before, so that the GPU has the code of the kernels at hand
    sleep_cycles = 20_000_000  # 10 ms on a GPU of 2 GHz

    def __init__(self):
        super().__init__()
        self.events = []
        if GpuClock.flushed is None:
            GpuClock.flushed = torch.empty(CACHE_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def measure(self, *parts):
        while True:
            if self.rehearses:
                self._run(parts)
            events = [torch.cuda.Event(enable_timing=True) for _ in range(len(parts) + 1)]
            torch.cuda._sleep(GpuClock.sleep_cycles)
            self.flushed.zero_()
            events[0].record()
            host_times = self._run(parts, lambda number: events[number + 1].record())  # noqa: B023
            if not events[0].query():
                break
            if GpuClock.sleep_cycles > MAX_SLEEP_CYCLES:
                sys.exit("a measured function waits for the GPU, so its times cannot be separated from the host's")
            GpuClock.sleep_cycles *= 2
        self.host_spans.append(host_times)
        self.events.append(events)

    def forget(self):
        super().forget()
        self.events.clear()

    def medians(self):
        torch.cuda.synchronize()
        return medians_of([[a.elapsed_time(b) * 1e3 for a, b in zip(e, e[1:], strict=False)] for e in self.events])


def host_time(function, calls, device):
    """The host's microseconds for one call of many in a row. A first call after others, as in interleaved(), takes
    several times as long: its code and data are in no cache."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    elapsed = time.perf_counter() - start
    if device == "cuda":
        torch.cuda.synchronize()
    return elapsed / calls * 1e6


def medians_of(spans):
    return [statistics.median(part) for part in zip(*spans, strict=True)]


def interleaved(device, functions, repeats, warm_up=3, rehearses=False):
    """Two dictionaries with the median microseconds of each function's parts: on the device, and on the host. The
    functions alternate. `rehearses`: see GpuClock."""
    clock = GpuClock if device == "cuda" else CpuClock
    clocks = {name: clock() for name in functions}
    for each in clocks.values():
        each.rehearses = rehearses
    # First calls load and compile code, during which the host could not get ahead of the GPU.
    for parts in functions.values():
        for part in parts():
            part()
    for turn in range(warm_up + repeats):
        for name, parts in functions.items():
            clocks[name].measure(*parts())
            if turn < warm_up:
                clocks[name].forget()
    return (
        {name: clock.medians() for name, clock in clocks.items()},
        {name: medians_of(clock.host_spans) for name, clock in clocks.items()},
    )
