"""The time of a training step, the part of it that is top-k, and the memory that it needs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from rtopk.gnn.capture import EAGER_STEPS
from rtopk.gnn.training import Trainer


def milliseconds(function: Callable[[], object], device: torch.device, repetitions: int) -> float:
    """The median time of a call, after two untimed ones. On a GPU it is measured by events, and all calls are queued
    before the first is waited for: as in training, the host's time is hidden if the device takes longer."""
    for _ in range(2):
        function()
    if device.type != "cuda":
        times = []
        for _ in range(repetitions):
            start = time.perf_counter()
            function()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)
    with torch.cuda.device(device):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(repetitions + 1)]
        torch.cuda.synchronize()
        events[0].record()
        for event in events[1:]:
            function()
            event.record()
        torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(second) for first, second in zip(events, events[1:], strict=False))


def measure(trainer: Trainer, repetitions: int = 20) -> dict[str, float]:
    """Figures of one training step.

    Returns:
        step_ms: its time.
        topk_ms: the time of its selections alone, on rows that this network makes.
        step_mib, on a GPU: its peak memory in MiB beyond held_mib.
        held_mib, on a GPU: the memory in use between steps.
    """
    trainer.eager_step()
    inputs: list[torch.Tensor] = []
    hooks = [
        convolution.activation.register_forward_hook(lambda _, x, __: inputs.append(x[0].detach()))
        for convolution in trainer.network.convolutions
    ]
    trainer.eager_step()
    for hook in hooks:
        hook.remove()
    selections = list(zip(trainer.network.convolutions, inputs, strict=True))

    def select() -> None:
        with torch.no_grad():
            for convolution, x in selections:
                convolution.activation.select(x)

    figures = {"topk_ms": milliseconds(select, trainer.device, repetitions)}
    selections.clear()
    inputs.clear()
    if trainer.device.type == "cuda":
        trainer.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize(trainer.device)
        torch.cuda.reset_peak_memory_stats(trainer.device)
        before = torch.cuda.memory_allocated(trainer.device)
        trainer.eager_step()
        torch.cuda.synchronize(trainer.device)
        figures["step_mib"] = (torch.cuda.max_memory_allocated(trainer.device) - before) / 2**20
        figures["held_mib"] = before / 2**20
    for _ in range(EAGER_STEPS):
        trainer.step()
    figures["step_ms"] = milliseconds(trainer.step, trainer.device, repetitions)
    return figures
