"""Medians of what takes turns: on the CPU by its clock; on a GPU by events, with the caches overwritten before, and the
host's time apart from the GPU's."""

import statistics
import sys
import time

import torch

# The L2 caches of today's GPUs hold at most half of this.
CACHE_FLUSH_BYTES = 256 << 20
# A second of a GPU.
MOST_SLEEP_CYCLES = 2_000_000_000


class CpuClock:
    """The time of the parts of a function; the host's own."""

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
        """Runs the parts one after the other; what each took of the host, in microseconds."""
        times = []
        for number, part in enumerate(parts):
            start = time.perf_counter()
            part()
            times.append((time.perf_counter() - start) * 1e6)
            after(number)
        return times


class GpuClock(CpuClock):
    """The time of the GPU, and apart from it that of the host.

    The GPU sleeps until everything has been called. So the host's time stays out of the GPU's, and no function finds a
    host that is further ahead than another one's because the function before it took the GPU longer.
    """

    flushed = None
    sleep_cycles = 20_000_000  # 10 ms on a GPU of 2 GHz

    def __init__(self):
        super().__init__()
        self.events = []
        if GpuClock.flushed is None:
            GpuClock.flushed = torch.empty(CACHE_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def measure(self, *parts):
        while True:
            events = [torch.cuda.Event(enable_timing=True) for _ in range(len(parts) + 1)]
            torch.cuda._sleep(GpuClock.sleep_cycles)
            self.flushed.zero_()
            events[0].record()
            host_times = self._run(parts, lambda number: events[number + 1].record())  # noqa: B023
            if not events[0].query():
                break
            if GpuClock.sleep_cycles > MOST_SLEEP_CYCLES:
                sys.exit("the host does not get ahead of the GPU: what is measured waits for it")
            GpuClock.sleep_cycles *= 2
        self.host_spans.append(host_times)
        self.events.append(events)

    def forget(self):
        super().forget()
        self.events.clear()

    def medians(self):
        torch.cuda.synchronize()
        return medians_of([[a.elapsed_time(b) * 1e3 for a, b in zip(e, e[1:], strict=False)] for e in self.events])


def medians_of(spans):
    return [statistics.median(part) for part in zip(*spans, strict=True)]


def interleaved(device, functions, repeats, warm_up=3):
    """Two dictionaries of median microseconds of each function's parts: of the device, and of the host. The functions
    take turns."""
    clock = GpuClock if device == "cuda" else CpuClock
    clocks = {name: clock() for name in functions}
    # What is loaded and compiled in first calls would pass for a host that cannot get ahead.
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
