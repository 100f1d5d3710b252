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


class CapturedStep:
    """A step that is captured once and replayed by each call. The tensors that it uses must stay where they are.

    Args:
        step: what to capture.
        device: where it runs.
        pool: memory to share with other steps (torch.cuda.graph_pool_handle()), or None. Then a replay may overwrite
            what others have left there.
    """

    def __init__(self, step: Callable[[], torch.Tensor], device: torch.device, pool=None) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # By default torch would take a stream of whichever device was used first, and an event that another thread
        # asks about, such as one that pins the memory of a DataLoader, would end the capture.
        options = {"pool": pool, "stream": torch.cuda.Stream(device), "capture_error_mode": "thread_local"}
        with torch.cuda.device(device), torch.cuda.graph(self._graph, **options):
            self._result = step()

    def __call__(self) -> torch.Tensor:
        """What `step` returns, in memory that later calls do not overwrite."""
        self._graph.replay()
        return self._result.clone()
