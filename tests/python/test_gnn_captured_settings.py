"""Captured steps: which optimizers and networks they take, what they see change, and what captures that fail say."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("numpy", reason="numpy is not installed")

from captured_batches import Data, adam, close, network_of, of_step, plain, sgd  # noqa: E402
from rtopk._torch_internals import gradient_hooks  # noqa: E402
from rtopk.gnn import CapturedBatchStep  # noqa: E402
from rtopk.gnn.capture import CapturedStep  # noqa: E402
from rtopk.gnn.captured.checks import check_capturable  # noqa: E402
from rtopk.gnn.captured.inputs import BatchInputs  # noqa: E402
from rtopk.gnn.captured.sizes import BatchSizes  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def adam_that_has_stepped(network, **options):
    optimizer = adam(network, capturable=False, **options)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


# ---- What is seen ----


def same_state_again(optimizer, network):
    optimizer.load_state_dict(optimizer.state_dict())


def nothing(optimizer, network):
    pass


def next_rate(optimizer, network):
    optimizer.param_groups[0]["lr"] = 0.5


def momentum_of_one_cycle(optimizer, network):
    optimizer.param_groups[0]["betas"] = (0.85, 0.999)


def no_state(optimizer, network):
    optimizer.state.clear()


def other_state(optimizer, network):
    state = optimizer.state_dict()
    state["state"] = {i: {name: value.clone() for name, value in of.items()} for i, of in state["state"].items()}
    optimizer.load_state_dict(state)


def state_that_moved(optimizer, network):
    for state in optimizer.state.values():
        state["exp_avg"].data = state["exp_avg"].data.clone()


def frozen(optimizer, network):
    next(network.parameters()).requires_grad_(False)


def parameters_that_moved(optimizer, network):
    parameter = next(network.parameters())
    parameter.data = parameter.data.clone()


def one_more_parameter(optimizer, network):
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(()))]})


@pytest.mark.parametrize(
    "change, seen",
    [
        (nothing, False),
        (same_state_again, False),  # the same tensors
        *(
            (change, True)
            for change in (
                next_rate, momentum_of_one_cycle, no_state, other_state, state_that_moved, frozen,
                parameters_that_moved, one_more_parameter,
            )
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_what_a_replay_depends_on_is_seen(change, seen):
    network = network_of("sage")
    optimizer = adam_that_has_stepped(network)
    step = CapturedBatchStep(network, optimizer)
    before = step._settings()
    kept = [value for state in optimizer.state.values() for value in state.values()]  # so that no other takes its place
    change(optimizer, network)
    assert (step._settings() != before) == seen
    assert len(kept) == 3 * len(list(network.parameters()))


def test_a_rate_in_a_tensor_on_the_cpu_is_seen_by_its_value():
    """torch reads it while it launches kernels, so a capture has the number."""
    network = network_of("sage")
    rate, betas = torch.tensor(0.1), (torch.tensor(0.9), torch.tensor(0.999))
    step = CapturedBatchStep(network, adam(network, capturable=False, lr=rate, betas=betas))
    for tensor in (rate, betas[1]):
        before = step._settings()
        assert step._settings() == before
        tensor.mul_(0.5)
        assert step._settings() != before


@pytest.mark.parametrize("name", ["loss", "transform"])
def test_another_loss_or_transform_is_seen(name):
    network = network_of("sage")
    step = CapturedBatchStep(network, adam(network, capturable=False))
    before = step._settings()
    assert step._settings() == before
    setattr(step, name, lambda *given, **more: None)
    assert step._settings() != before


# ---- Parameters of the loss ----


def test_a_parameter_of_the_loss_is_trained(device):
    data, network = Data(device), network_of("sage", device)
    temperature = torch.nn.Parameter(torch.tensor(2.0, device=device))

    def loss(result, y, reduction):
        return F.cross_entropy(result / temperature, y, reduction=reduction)

    optimizer = torch.optim.SGD([*network.parameters(), temperature], lr=0.0)
    step, batch = CapturedBatchStep(network, optimizer, loss, pad=True), data.batch(200)
    for _ in range(4):
        expected = plain(network, batch, lambda result, y: loss(result, y, "mean"))
        x, y, edge_index, nodes, edges = batch
        result = network(x, edge_index, num_sampled_nodes_per_hop=nodes, num_sampled_edges_per_hop=edges).detach()
        expected += torch.autograd.grad(loss(result, y, "mean"), temperature)
        close([*of_step(step, batch), temperature.grad], expected)


# ---- Optimizers and networks ----


def test_optimizers_whose_steps_wait_are_refused():
    network = network_of("sage")
    on_gpu = torch.tensor(0.1, device="meta")
    here = torch.device("cpu")
    for options, accepted in (
        ({"lr": 0.1}, True),
        ({"lr": torch.tensor(0.1)}, True),
        ({"lr": on_gpu}, False),
        ({"lr": on_gpu, "fused": True}, True),
        ({"lr": on_gpu, "fused": True, "foreach": False, "weight_decay": on_gpu}, False),
        ({"lr": 0.1, "initial_lr": on_gpu}, True),  # of a scheduler
    ):
        optimizer = sgd(network)
        optimizer.param_groups[0].update(options)
        if accepted:
            check_capturable(optimizer, here)
        else:
            with pytest.raises(
                ValueError, match="SGD with fused=.* and (lr|weight_decay) in a tensor on meta, .*; acc"
            ):
                check_capturable(optimizer, here)
    with pytest.raises(ValueError, match="optimizer is Adam without capturable=True, .*; accepted: capturable=True"):
        check_capturable(adam(network, capturable=False), here)
    optimizer = sgd(network)
    optimizer.add_param_group({"params": [torch.nn.Parameter(on_gpu)]})
    with pytest.raises(ValueError, match="optimizer has a parameter on meta; accepted: cpu, as the parameters of the"):
        check_capturable(optimizer, here)


def test_norms_over_rows_are_refused_wherever_they_are():
    network = network_of("gcn")
    network.input = torch.nn.Sequential(network.input, torch.nn.BatchNorm1d(32))
    with pytest.raises(TypeError, match="network.input.1 is BatchNorm1d; accepted: LayerNorm or Identity, whose rows"):
        CapturedBatchStep(network, sgd(network))


def test_hooks_are_never_left_out_silently():
    with pytest.raises(AttributeError, match="_backward_hooks"):
        gradient_hooks(object())


def test_inputs_are_filled_from_the_cpu_whatever_the_default_device_is():
    batch = Data().batch(50)
    true = BatchSizes.of_hops(*batch[3:], 0)
    inputs = BatchInputs(*batch[:2], true.rounded())
    with torch.device("meta"):
        inputs.fill(*batch[:3], true)
    assert inputs._true.tolist() == [*true.nodes, *true.edges, 0]


# ---- Failures ----


def test_captures_make_room_for_a_step_without():
    """Nothing has been updated when the memory runs out, so the step is computed once more."""
    data, network, calls = Data(), network_of("sage"), []

    def loss(result, y, reduction):
        calls.append(step.captured)
        if step.captured or len(calls) > 2:
            raise torch.OutOfMemoryError("no memory")
        return F.cross_entropy(result, y, reduction=reduction)

    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0), loss), data.batch(50)
    step._captured["sizes"] = "captured"  # a CPU captures nothing
    expected = plain(network, batch)
    close(of_step(step, batch), expected)
    assert calls == [1, 0] and not step._memory_suffices
    with pytest.raises(torch.OutOfMemoryError):
        step(*batch)
    assert len(calls) == 3


def test_sizes_that_are_not_captured_are_told():
    network = network_of("sage")
    step = CapturedBatchStep(network, sgd(network), max_captures=1)
    assert not step._is_to_be_captured("first") and step.why_not_captured() is None
    step._seen |= {"first", "second"}
    assert step._is_to_be_captured("first") and step.why_not_captured() is None
    step._captured["first"] = "captured"
    assert not step._is_to_be_captured("third") and step.why_not_captured() is None  # which may never come again
    assert not step._is_to_be_captured("second")
    assert step.why_not_captured() == "there are more sizes of mini-batches than max_captures, which is 1"
    step._do_without_captures()
    assert not step._is_to_be_captured("first") and step.why_not_captured() == "the memory of the GPU does not suffice"
    step._forget_captured()
    assert step.why_not_captured() is None


class Graph:
    """In the place of torch.cuda.graph."""

    def __init__(self, at_end=None):
        self.at_end = at_end

    def __enter__(self):
        pass

    def __exit__(self, *error):
        if self.at_end is not None:
            raise self.at_end


@pytest.fixture
def without_gpu(monkeypatch):
    for name in ("CUDAGraph", "Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: nullcontext())
    return lambda at_end=None: monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: Graph(at_end))


def fails_in_a_handler():
    try:
        raise KeyError("harmless")
    except KeyError:
        raise ValueError("the loss says no")  # noqa: B904


@pytest.mark.parametrize(
    "step, at_end, kind, text",
    [
        (fails_in_a_handler, None, RuntimeError, "captured as a CUDA graph: the loss says no"),
        (fails_in_a_handler, RuntimeError("invalidated"), RuntimeError, "captured as a CUDA graph: the loss says no"),
        (lambda: None, RuntimeError("invalidated"), RuntimeError, "captured as a CUDA graph: invalidated"),
        (lambda: None, RuntimeError("CUDA error: out of memory\nmore"), torch.OutOfMemoryError, "out of memory"),
        (lambda: torch.empty(1).fail(), None, RuntimeError, "captured as a CUDA graph: 'Tensor' object has no attr"),
    ],
)
def test_a_capture_that_fails_says_what_failed_first(step, at_end, kind, text, without_gpu):
    without_gpu(at_end)
    with pytest.raises(kind, match=text):
        CapturedStep(step, torch.device("cuda"))


def test_a_step_that_runs_out_of_memory_says_so(without_gpu):
    without_gpu()

    def step():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")

    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        CapturedStep(step, torch.device("cuda"))
