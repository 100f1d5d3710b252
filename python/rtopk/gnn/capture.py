"""Training steps as CUDA graphs. Where a graph has few nodes, a GPU is done with a step's kernels long before Python
has launched them all; captured once, they are launched together."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Elements of the hidden rows of all layers up to which a step is captured: on an H200 about 10 ms of kernels, which
# take about as long to launch. A captured step keeps its memory, up to 2 GB then.
_MOST_ELEMENTS = 1 << 27

# Steps before the capture. In the first, libraries pick their kernels and the transpose is made, which cannot be
# captured.
EAGER_STEPS = 2


def pays(device: torch.device, elements: int) -> bool:
    return device.type == "cuda" and elements <= _MOST_ELEMENTS


class CapturedStep:
    """What `step` launches, to be launched again. The tensors that it reads and writes have to stay where they are."""

    def __init__(self, step: Callable[[], torch.Tensor], device: torch.device) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # The stream that torch would take is of whichever device came first.
        with torch.cuda.device(device), torch.cuda.graph(self._graph, stream=torch.cuda.Stream(device)):
            self._result = step()

    def __call__(self) -> torch.Tensor:
        """What `step` returns, in memory of its own."""
        self._graph.replay()
        return self._result.clone()
