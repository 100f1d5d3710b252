"""Training steps as CUDA graphs. On a graph with few nodes, launching the kernels of a step takes longer than running
them. Captured once, they are launched together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call

from .._torch_internals import gradient_hooks

# Elements of the hidden rows of all layers up to which a step is captured. At this size the kernels run about 10 ms on
# an H200, about as long as launching them takes. A captured step keeps its memory, here up to 2 GB.
_MAX_ELEMENTS = 1 << 27

# Steps before the capture: libraries choose their kernels and the transpose is made in the first, which cannot be
# captured.
EAGER_STEPS = 2


def pays(device: torch.device, elements: int) -> bool:
    """Whether a step with this many elements in the hidden rows is worth capturing."""
    return device.type == "cuda" and elements <= _MAX_ELEMENTS


def backward(network: nn.Module, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
    """loss().backward() for the parameters of the network, in a way that can be captured.

    Autograd runs the node that adds up the gradients of a parameter on the stream on which the node was made, and the
    node lives as long as any graph that leads to it: that of a loss that was kept, or of a clone of the parameter. A
    capture that meets a node of another stream fails, with torch.autograd.grad too. So while the loss is computed, the
    network has aliases of its parameters, which nothing else knows and whose nodes are new.

    Returns:
        The loss, without a gradient.
    """
    own = dict(network.named_parameters())
    aliases = {name: parameter.detach().requires_grad_(parameter.requires_grad) for name, parameter in own.items()}
    for name, alias in aliases.items():
        for hook in gradient_hooks(own[name])[0] if alias.requires_grad else ():
            alias.register_hook(hook)
    given = {f"network.{name}": alias for name, alias in aliases.items()}
    result = functional_call(_Backward(network, loss), given, ())
    for name, alias in aliases.items():
        if alias.grad is not None:
            # The loss may have reached a parameter by another way than the network.
            parameter = own[name]
            parameter.grad = alias.grad if parameter.grad is None else parameter.grad + alias.grad
            with torch.no_grad():
                for hook in gradient_hooks(parameter)[1]:
                    hook(parameter)
    return result


class _Backward(nn.Module):
    def __init__(self, network: nn.Module, loss: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self) -> torch.Tensor:
        loss = self.loss()
        loss.backward()
        return loss.detach()


class SharedMemory:
    """What captured steps share that never run at the same time: memory, and the stream of their captures, for which
    libraries keep memory too. A replay may overwrite what another step has left. Torch shares memory only as long as
    there is a step that was captured with it."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)
        self.renew()

    def renew(self) -> None:
        """Other memory, for steps to come: the last step that was captured with it is gone."""
        self.pool = torch.cuda.graph_pool_handle()


class CapturedStep:
    """A step that is captured once and replayed by each call. The tensors that it uses must stay where they are.

    Args:
        step: what to capture.
        device: where it runs.
        shared: with other steps; None: nothing.

    Raises:
        torch.OutOfMemoryError: the step can still be computed without a capture. Also where CUDA itself has too little
            memory for the graph.
        RuntimeError: it cannot be captured. Nothing was computed. Torch may be unable to compute more: after such a
            failure it does not put back its allocator and its generator of random numbers.
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
        first = None  # what the step says, if it fails: then the end of the capture may fail, too
        # After a failure torch.cuda.graph leaves its stream the current one; the outer block does not.
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.current_stream(device)):
            try:
                with torch.cuda.graph(self._graph, **options):
                    try:
                        self._result = step()
                    except Exception as error:
                        first = str(error)  # its text alone: with the error itself, all that it had computed would stay
                        raise
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                # CUDA had too little memory to make the graph: torch has put everything back. Where the capture broke
                # earlier, the message is another.
                if "CUDA error: out of memory" in str(error):
                    raise torch.OutOfMemoryError(str(error)) from error
                raise RuntimeError(f"the training step cannot be captured as a CUDA graph: {first or error}") from error

    def __call__(self) -> torch.Tensor:
        """What `step` returns, in memory that later calls do not overwrite."""
        self._graph.replay()
        return self._result.clone()
