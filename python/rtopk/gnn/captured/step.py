"""Training steps on mini-batches that are captured as CUDA graphs, one for each set of rounded sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..capture import CapturedStep, SharedMemory, backward
from ..features import SparseFeatures
from ..graph import Graph
from ..layers import MaxKGNN
from .checks import check_arguments, check_batch, check_capturable
from .inputs import BatchInputs
from .settings import settings_of
from .sizes import BatchSizes

# What graphs_of_layers() asks of an edge_index.
_ACCEPTED_EDGES = (
    "accepted: NeighborLoader's order, in which targets ascend, sources are nodes up to the hop after the target's, and"
    " as many edges lead to the nodes of each hop as num_sampled_edges_per_hop says"
)


class CapturedBatchStep:
    """A training step on mini-batches: graph, forward, loss, backward and update. On a GPU it is captured as a CUDA
    graph and replayed, since launching the kernels of a mini-batch one by one takes longer than they run.

    The numbers of nodes and edges up to each hop are rounded up, so that few different sizes occur. Sizes that come for
    the first time are computed eagerly, and captured when they come again. What is filled up reaches no result:
    loss and gradients are those of the mini-batch, to rounding; dropout draws other random numbers. After a step, the
    parameters have its gradients.

    Copying the mini-batch into the captured memory does not wait for the GPU. So edges that are none of a mini-batch
    are an error of a later call in replayed steps, or of :meth:`check`, which waits; and the steps until then have
    trained on them. The call that raises trains on nothing.

    Changes of `loss` and `transform`, of the optimizer's options, of where its state and the parameters are, of
    requires_grad, and of train() or eval() of the whole network are seen, and steps are captured again. So an option
    that changes at every step leaves nothing to replay: a learning rate should then be a tensor on the GPU, and
    OneCycleLR and CyclicLR should have cycle_momentum=False, or they change betas or momentum as well. `captured` says
    for how many sizes a step is captured now, and `replays` how many steps so far were replays. Captured steps do not
    see other changes: another dropout, eval() of a part of the network, a hook that comes or goes, or what else a loss
    reads in Python. Make another CapturedBatchStep then.

    Hooks of parameters (register_hook, register_post_accumulate_grad_hook) are captured with the step: a replay repeats
    what their kernels did. Hooks of the nodes that add up gradients (AccumulateGrad) do not run in any step.

    On a CPU and under autocast every step is computed eagerly. So it is when the memory of a GPU does not suffice for
    captures, and with new sizes after `max_captures`: :meth:`why_not_captured` tells these two. A loss or transform
    that waits for the GPU is an error when it is captured.

    Args:
        network: what to train: not dense, its norms LayerNorm or Identity, so that rows do not depend on each other.
            Gradients are not averaged over ranks.
        optimizer: on a GPU with capturable=True, or SGD, whose options can be no tensors on the GPU but for lr with
            fused=True. Its parameters beside those of the network, such as one of the loss, are trained too.
        loss: a function of results, labels and reduction="none", as torch.nn.functional has them. The mean over the
            seeds is taken of what it returns: also over those with a label of -100, and without dividing by class
            weights, unlike the mean of F.cross_entropy itself.
        max_captures: sizes that come after so many others were captured are computed eagerly. All captured steps share
            their memory, and each has some for a mini-batch and for gradients.
        transform: what to make of the graph of each layer, such as
            ``lambda graph: graph.with_self_loops(none_yet=True)``; it must not wait for a GPU. None: nothing.
        pad: whether to round sizes up; None: on a GPU alone.

    >>> network = rtopk.gnn.MaxKGNN("sage", 20, 64, 5, num_layers=2, k=8)
    >>> step = rtopk.gnn.CapturedBatchStep(network, torch.optim.SGD(network.parameters(), lr=0.1))
    >>> edge_index = torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]])
    >>> loss = step(torch.randn(4, 20), torch.tensor([3]), edge_index, [1, 2, 1], [2, 2])
    >>> loss.shape
    torch.Size([])
    """

    def __init__(
        self,
        network: MaxKGNN,
        optimizer: torch.optim.Optimizer,
        loss: Callable = F.cross_entropy,
        *,
        max_captures: int = 16,
        transform: Callable[[Graph], Graph] | None = None,
        pad: bool | None = None,
    ) -> None:
        check_arguments(network, optimizer, loss, max_captures, transform)
        self.network = network
        self.optimizer = optimizer
        self.loss = loss
        self.max_captures = max_captures
        self.transform = transform
        self.pad = pad
        self.replays = 0
        self._of_network = list(network.parameters())
        self._found_wrong: _Flag | None = None  # on a GPU, whether replayed steps have found wrong edges
        self._shared: SharedMemory | None = None
        self._forget_captured()

    def _forget_captured(self, settings: tuple | None = None) -> None:
        self._settings_captured = settings
        self._captured: dict[tuple, _CapturedSizes] = {}
        self._seen: set[tuple] = set()  # sizes that are captured when they come again
        self._memory_suffices = True
        self._too_many = False  # a size came again after max_captures others were captured
        if self._shared is not None:
            self._shared.renew()

    @property
    def captured(self) -> int:
        """For how many sizes a step is captured now."""
        return len(self._captured)

    def why_not_captured(self) -> str | None:
        """Why sizes that came again are computed eagerly on this GPU; None: none were."""
        if not self._memory_suffices:
            return "the memory of the GPU does not suffice"
        if self._too_many:
            return f"there are more sizes of mini-batches than max_captures, which is {self.max_captures}"
        return None

    def check(self) -> None:
        """Waits for the steps so far.

        Raises:
            ValueError: the edge_index of one of them was wrong, and no later call has said so.
        """
        if self._found_wrong is not None:
            self._found_wrong.wait()
            self._raise_if_found_wrong()

    def _raise_if_found_wrong(self) -> None:
        if self._found_wrong is not None and self._found_wrong.taken():
            raise ValueError(f"edge_index of an earlier call was wrong; {_ACCEPTED_EDGES}")

    def __call__(
        self,
        x: torch.Tensor | SparseFeatures,
        y: torch.Tensor,
        edge_index: torch.Tensor,
        num_sampled_nodes_per_hop: Sequence[int],
        num_sampled_edges_per_hop: Sequence[int],
    ) -> torch.Tensor:
        """
        Args:
            x: [nodes, in_channels], a tensor or SparseFeatures.
            y: labels of the seeds, a row for each.
            edge_index: [2, edges], integers, in the order of PyTorch Geometric's NeighborLoader.
            num_sampled_nodes_per_hop: how many nodes each hop has added; first, how many seeds there are.
            num_sampled_edges_per_hop: how many edges lead to the nodes of each hop from the next one. hops_of() gives
                both.

        Returns:
            The mean loss of the seeds, a tensor without a gradient.
        """
        true = BatchSizes.of_batch(x, num_sampled_nodes_per_hop, num_sampled_edges_per_hop)
        check_batch(self.network, self._of_network[0].device, x, y, edge_index, true)
        gpu = x.device.type == "cuda"
        sizes = true.rounded() if (gpu if self.pad is None else self.pad) else true
        batch = (x, y, edge_index, true)
        if not gpu or torch.is_autocast_enabled("cuda"):
            return self._eager_step(batch, sizes)
        self._raise_if_found_wrong()
        if (settings := self._settings()) != self._settings_captured:
            if self.max_captures > 0:
                check_capturable(self.optimizer, x.device)
            self._forget_captured(settings)
        key = (sizes, type(x), x.dtype, y.dtype, y.shape[1:])
        captured = self._captured.get(key)
        if captured is not None:
            captured.inputs.fill(*batch)
        elif self._is_to_be_captured(key):
            captured = self._capture(batch, sizes)
            if captured is None:
                self._do_without_captures()
                return self._eager_step(batch, sizes)
            self._captured[key] = captured
        else:
            loss = self._eager_step(batch, sizes)
            self._seen.add(key)
            if not self._captured:
                self._settings_captured = self._settings()  # the optimizer's first step makes its state
            return loss
        loss = captured.replay()
        self.replays += 1
        self._found_wrong.read()
        return loss

    def _is_to_be_captured(self, key: tuple) -> bool:
        if key not in self._seen:
            return False
        self._too_many = len(self._captured) >= self.max_captures
        return self._memory_suffices and not self._too_many

    def _capture(self, batch: tuple, sizes: BatchSizes) -> _CapturedSizes | None:
        """None: the memory does not suffice."""
        device = batch[0].device
        if self._found_wrong is None or self._found_wrong.device != device:
            self._found_wrong, self._shared = _Flag(device), SharedMemory(device)

        def step() -> torch.Tensor:
            graphs, wrong = inputs.graphs()
            self._found_wrong.add(wrong)
            return self._train(inputs, graphs)

        parameters = self._parameters()
        try:
            inputs = _filled(batch, sizes)
            captured = CapturedStep(step, device, self._shared)
        except torch.OutOfMemoryError:
            captured = None
        finally:
            gradients = [own.grad for own in parameters]
            self._forget_gradients()  # nothing has been computed yet
        if captured is None:
            return None
        return _CapturedSizes(inputs, captured, parameters, gradients)

    def _eager_step(self, batch: tuple, sizes: BatchSizes) -> torch.Tensor:
        try:
            loss = self._gradients_of(batch, sizes)
        except torch.OutOfMemoryError:
            if not self._captured:
                raise
            loss = None
        if loss is None:  # here, where the exception has let go of what it had computed
            self._do_without_captures()
            loss = self._gradients_of(batch, sizes)
        self.optimizer.step()
        return loss

    def _do_without_captures(self) -> None:
        """Without what captured steps keep, the memory may suffice for steps that are not."""
        self._forget_captured(self._settings_captured)
        self._memory_suffices = False

    def _gradients_of(self, batch: tuple, sizes: BatchSizes) -> torch.Tensor:
        inputs = _filled(batch, sizes)
        graphs, wrong = inputs.graphs()
        if bool(wrong):
            raise ValueError(f"edge_index is wrong; {_ACCEPTED_EDGES}")
        return self._differentiate(inputs, graphs)

    def _train(self, inputs: BatchInputs, graphs: list[Graph]) -> torch.Tensor:
        loss = self._differentiate(inputs, graphs)
        self.optimizer.step()
        return loss

    def _differentiate(self, inputs: BatchInputs, graphs: list[Graph]) -> torch.Tensor:
        """The loss; and gradients for the parameters."""
        if self.transform is not None:
            graphs = list(map(self.transform, graphs))
        self._forget_gradients()
        return backward(self.network, lambda: inputs.mean_loss(self.loss, self.network(inputs.x(), graphs)))

    def _forget_gradients(self) -> None:
        self.network.zero_grad(set_to_none=True)
        self.optimizer.zero_grad(set_to_none=True)  # of parameters beside the network, such as those of the loss

    def _parameters(self) -> list[nn.Parameter]:
        """Those of the network, and those that the optimizer has beside them."""
        of_optimizer = (own for group in self.optimizer.param_groups for own in group["params"])
        return list(dict.fromkeys([*self._of_network, *of_optimizer]))

    def _settings(self) -> tuple:
        return self.loss, self.transform, *settings_of(self.network, self.optimizer, self._parameters())


class _CapturedSizes(NamedTuple):
    """The step that is captured for some sizes."""

    inputs: BatchInputs
    step: CapturedStep
    parameters: list[nn.Parameter]
    gradients: list[torch.Tensor | None]  # where a replay writes them

    def replay(self) -> torch.Tensor:
        loss = self.step()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return loss


class _Flag:
    """A flag that kernels set, and that the host looks at without waiting for them: so it sees it late."""

    def __init__(self, device: torch.device) -> None:
        self._on_device = torch.zeros((), dtype=torch.bool, device=device)
        self._on_host = torch.zeros((), dtype=torch.bool, device="cpu", pin_memory=True)

    @property
    def device(self) -> torch.device:
        return self._on_device.device

    def add(self, flag: torch.Tensor) -> None:
        self._on_device.logical_or_(flag)

    def read(self) -> None:
        """Has the flag brought to the host."""
        self._on_host.copy_(self._on_device, non_blocking=True)

    def wait(self) -> None:
        """Has the host see all flags so far."""
        torch.cuda.synchronize(self.device)

    def taken(self) -> bool:
        """Whether the host knows of a set flag, which is cleared then."""
        if not bool(self._on_host):
            return False
        self._on_device.zero_()
        self._on_host.copy_(self._on_device)
        return True


def _filled(batch: tuple, sizes: BatchSizes) -> BatchInputs:
    x, y, _, _ = batch
    inputs = BatchInputs(x, y, sizes)
    inputs.fill(*batch)
    return inputs
