"""Training steps as CUDA graphs. On a graph with few nodes, launching the kernels of a step takes longer than running
them. Captured once, they are launched together."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Elements of the hidden rows of all layers up to which a step is captured. At this size the kernels run about 10 ms on
# an H200, about as long as launching them takes. A captured step keeps its memory, here up to 2 GB.
_MAX_ELEMENTS = 1 << 27

# Steps before the capture: libraries choose their kernels and the transpose is made in the first, which cannot be
# captured.
EAGER_STEPS = 2


def pays(device: torch.device, elements: int) -> bool:
    """Whether a step with this many elements in the hidden rows is worth capturing."""
    return device.type == "cuda" and elements <= _MAX_ELEMENTS


class SharedMemory:
    """What captured steps share that never run at the same time: memory, and the stream of their captures, for which
    libraries keep memory too. A replay may overwrite what another step has left. Torch shares memory only as long as
    there is a step that was captured with it."""

    def __init__(self, device: torch.device) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)


class CapturedStep:
    """A step that is captured once and replayed by each call. The tensors that it uses must stay where they are.

    Args:
        step: what to capture.
        device: where it runs.
        shared: with other steps; None: nothing.
    """

    def __init__(
        self, step: Callable[[], torch.Tensor], device: torch.device, shared: SharedMemory | None = None
    ) -> None:
        self._graph = torch.cuda.CUDAGraph()
        options = {
            # By default torch would take a stream of whichever device was used first.
            "stream": torch.cuda.Stream(device) if shared is None else shared.stream,
            "pool": None if shared is None else shared.pool,
            # Other threads, such as one that pins the memory of a DataLoader, may call CUDA meanwhile.
            "capture_error_mode": "thread_local",
        }
        with torch.cuda.device(device), torch.cuda.graph(self._graph, **options):
            self._result = step()

    def __call__(self) -> torch.Tensor:
        """What `step` returns, in memory that later calls do not overwrite."""
        self._graph.replay()
        return self._result.clone()
