"""The time of a training step, the part of it that is top-k, and the memory that it needs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

from rtopk.gnn.capture import EAGER_STEPS
from rtopk.gnn.training import Trainer


def milliseconds(function: Callable[[], object], device: torch.device, repetitions: int) -> float:
    """The median time of a call, after two untimed ones, measured as :func:`medians` does."""
    for _ in range(2):
        function()
    return medians({"": function}, device, repetitions)[""]


def medians(functions: Mapping[str, Callable[[], object]], device: torch.device, repetitions: int) -> dict[str, float]:
    """The median time of each function in milliseconds. They take turns, so that a device that becomes slower is slower
    for all, and none finds its own data in the caches. On a GPU the time is measured by events, and all calls are
    queued before the first is waited for: as in training, the host's time is hidden if the device takes longer."""
    turns = list(functions) * repetitions
    if device.type != "cuda":
        times = []
        for name in turns:
            start = time.perf_counter()
            functions[name]()
            times.append((time.perf_counter() - start) * 1e3)
    else:
        with torch.cuda.device(device):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(len(turns) + 1)]
            torch.cuda.synchronize()
            events[0].record()
            for name, event in zip(turns, events[1:], strict=True):
                functions[name]()
                event.record()
            torch.cuda.synchronize()
        times = [first.elapsed_time(second) for first, second in zip(events, events[1:], strict=False)]
    return {name: statistics.median(times[i :: len(functions)]) for i, name in enumerate(functions)}


def selected_rows(trainer: Trainer) -> list[torch.Tensor]:
    """The rows that each MaxK of the network selects from in a step. Trains two steps."""
    trainer.eager_step()
    inputs: list[torch.Tensor] = []
    hooks = [
        convolution.activation.register_forward_hook(lambda _, x, __: inputs.append(x[0].detach()))
        for convolution in trainer.network.convolutions
    ]
    trainer.eager_step()
    for hook in hooks:
        hook.remove()
    return inputs


def step_memory(trainer: Trainer) -> dict[str, float]:
    """The memory of a step in MiB, on a GPU: step_mib, its peak beyond held_mib, and held_mib, what is in use between
    steps. Trains a step."""
    if trainer.device.type != "cuda":
        return {}
    trainer.optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize(trainer.device)
    torch.cuda.reset_peak_memory_stats(trainer.device)
    before = torch.cuda.memory_allocated(trainer.device)
    trainer.eager_step()
    torch.cuda.synchronize(trainer.device)
    peak = torch.cuda.max_memory_allocated(trainer.device) - before
    return {"step_mib": peak / 2**20, "held_mib": before / 2**20}


def measure(trainer: Trainer, repetitions: int = 20) -> dict[str, float]:
    """Figures of one training step.

    Returns:
        step_ms: its time.
        topk_ms: the time of its selections alone, on rows that this network makes.
        step_mib, held_mib: as :func:`step_memory`.
    """
    selections = list(zip(trainer.network.convolutions, selected_rows(trainer), strict=True))

    def select() -> None:
        with torch.no_grad():
            for convolution, x in selections:
                convolution.activation.select(x)

    figures = {"topk_ms": milliseconds(select, trainer.device, repetitions)}
    selections.clear()
    figures |= step_memory(trainer)
    for _ in range(EAGER_STEPS):
        trainer.step()
    figures["step_ms"] = milliseconds(trainer.step, trainer.device, repetitions)
    return figures
