"""Steps on mini-batches that a GPU replays as CUDA graphs: the same as eager ones."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("numpy", reason="numpy is not installed")

from captured_batches import SEEDS, Data, adam, close, network_of, of_step, plain, sgd  # noqa: E402
from rtopk.gnn import CapturedBatchStep  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("one_thread")]


@pytest.mark.parametrize(
    "optimizer", [sgd, adam, lambda network: adam(network, fused=True)], ids=["SGD", "Adam", "fused"]
)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_equal_eager_ones(model, sparse, optimizer):
    """Bit for bit, with dropout, if sums have a fixed order."""
    data, states = Data("cuda", sparse), []
    first = network_of(model, "cuda", dropout=0.5)
    batches = [data.batch(SEEDS[i % len(SEEDS)]) for i in range(4 * len(SEEDS))]
    torch.use_deterministic_algorithms(True)
    try:
        for max_captures in (16, 0):
            network = copy.deepcopy(first)
            step = CapturedBatchStep(network, optimizer(network), max_captures=max_captures)
            torch.manual_seed(3)
            found = [value for batch in batches for value in of_step(step, batch)]
            states.append([*found, *network.parameters(), torch.cuda.get_rng_state()])
            assert (step.captured >= 2) == (max_captures > 0)
    finally:
        torch.use_deterministic_algorithms(False)
    for mine, other in zip(*states, strict=True):
        assert torch.equal(mine, other)


def kept_evaluation(network, batch):
    x, y, edge_index, nodes, edges = batch
    result = network(x, edge_index, num_sampled_nodes_per_hop=nodes, num_sampled_edges_per_hop=edges)
    return F.cross_entropy(result, y)


def kept_training(network, batch):
    loss = kept_evaluation(network, batch)
    loss.backward(retain_graph=True)
    return loss


def kept_clones(network, batch):
    return [parameter.clone() for parameter in network.parameters()]


@pytest.mark.parametrize("keep", [kept_evaluation, kept_training, kept_clones])
def test_graphs_that_are_kept_do_no_harm(keep):
    """Their nodes are of the default stream, and captures have another one."""
    data, first, states = Data("cuda"), network_of("sage", "cuda"), []
    large, small = data.batch(200), data.batch(37)
    torch.use_deterministic_algorithms(True)
    try:
        for keeps in (True, False):
            network = copy.deepcopy(first)
            step, kept, found = CapturedBatchStep(network, adam(network)), [], []
            for batch in (large, large, small, large, small, small, large):  # each computed, captured and replayed
                if keeps:
                    kept.append(keep(network, batch))
                found += of_step(step, batch)
            assert step.captured == 2
            states.append([*found, *network.parameters()])
    finally:
        torch.use_deterministic_algorithms(False)
    for mine, other in zip(*states, strict=True):
        assert torch.equal(mine, other)


def test_without_memory_for_a_capture_steps_go_on():
    """Bit for bit as if nothing had been captured, with dropout."""
    data, first, states = Data("cuda"), network_of("sage", "cuda", dropout=0.5), []
    large, small = data.batch(200), data.batch(37)

    def loss(result, y, reduction):
        if len(result) < 100 and torch.cuda.is_current_stream_capturing():
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        return F.cross_entropy(result, y, reduction=reduction)

    torch.use_deterministic_algorithms(True)
    try:
        for max_captures in (16, 0):
            network, found = copy.deepcopy(first), []
            step = CapturedBatchStep(network, adam(network), loss, max_captures=max_captures)
            torch.manual_seed(3)
            for i, batch in enumerate((large, large, large, small, small, small, large, large)):
                found += of_step(step, batch)
                assert step.captured == (1 if max_captures and 1 <= i < 4 else 0)
            states.append([*found, *network.parameters(), torch.cuda.get_rng_state()])
    finally:
        torch.use_deterministic_algorithms(False)
    for mine, other in zip(*states, strict=True):
        assert torch.equal(mine, other)


WAITING_LOSS = """
import sys
import torch
import torch.nn.functional as F
sys.path.insert(0, sys.argv[1])
import conftest
from rtopk.gnn import CapturedBatchStep
from captured_batches import Data, network_of, sgd

def loss(result, y, reduction):
    float(result.sum())
    return F.cross_entropy(result, y, reduction=reduction)

data, network = Data("cuda"), network_of("sage", "cuda")
step, batch = CapturedBatchStep(network, sgd(network), loss), data.batch(50)
step(*batch)
before, stream = [own.detach().cpu() for own in network.parameters()], torch.cuda.current_stream()
try:
    step(*batch)
except RuntimeError as error:
    assert str(error).startswith("the training step cannot be captured as a CUDA graph: "), error
    assert torch.cuda.current_stream() == stream
    assert all(own.grad is None for own in network.parameters())
    assert all(torch.equal(own.detach().cpu(), other) for own, other in zip(network.parameters(), before))
    print("refused", flush=True)
"""


def test_a_loss_that_waits_is_an_error_that_changes_nothing():
    """In a process of its own: torch may not go on after it."""
    line = [sys.executable, "-c", WAITING_LOSS, str(Path(__file__).parent)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert "refused" in done.stdout, done.stderr


def test_the_same_mini_batch_is_trained_on_once():
    """Neither what comes before a capture nor the capture itself changes parameters."""
    data, network = Data("cuda"), network_of("sage", "cuda")
    twin = copy.deepcopy(network)
    step, plain_steps = CapturedBatchStep(network, sgd(network, momentum=0.9)), sgd(twin, momentum=0.9)
    for _ in range(5):
        batch = data.batch(200)
        step(*batch)
        for parameter, gradient in zip(twin.parameters(), plain(twin, batch)[1:], strict=True):
            parameter.grad = gradient
        plain_steps.step()
        close([*network.parameters()], [*twin.parameters()], tolerance=1e-3)
        twin.load_state_dict(network.state_dict())  # another kth element, chosen by rounding, must not add up


def test_dropout_differs_between_replays():
    data, network = Data("cuda"), network_of("sage", "cuda", dropout=0.5)
    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0)), data.batch(200)
    losses = [float(step(*batch)) for _ in range(6)]
    assert step.captured == 1 and len(set(losses)) == 6


def test_captures_are_bounded_and_share_memory():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step = CapturedBatchStep(network, sgd(network), max_captures=2)
    for _ in range(10):
        for seeds in (20, 100, 200, 300):
            step(*data.batch(seeds))
    assert step.captured == 2
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        for seeds in (20, 100, 200, 300):
            step(*data.batch(seeds))
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 1e6


def test_changes_of_the_optimizer_are_seen():
    data, network = Data("cuda"), network_of("sage", "cuda")
    optimizer = adam(network)
    step, batch = CapturedBatchStep(network, optimizer), data.batch(200)
    for _ in range(3):
        step(*batch)
    optimizer.param_groups[0]["lr"] = 0.0
    before = [parameter.clone() for parameter in network.parameters()]
    for _ in range(3):
        step(*batch)
        assert all(map(torch.equal, network.parameters(), before))
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = 1e-2
    counts = []
    for _ in range(3):
        step(*batch)
        counts.append(float(next(iter(optimizer.state.values()))["step"]))
    assert counts == [7, 8, 9] and step.captured == 1
    assert not any(map(torch.equal, network.parameters(), before))


def test_a_learning_rate_in_a_tensor_changes_replays():
    data, network = Data("cuda"), network_of("sage", "cuda")
    rate = torch.tensor(1e-2, device="cuda")
    step, batch = CapturedBatchStep(network, adam(network, lr=rate)), data.batch(200)
    for _ in range(3):
        step(*batch)
    rate.zero_()
    before = [parameter.clone() for parameter in network.parameters()]
    step(*batch)
    assert step.captured == 1 and all(map(torch.equal, network.parameters(), before))


@pytest.mark.parametrize("rate", ["cpu", "cuda"])
def test_rates_of_sgd_in_tensors(rate):
    """On the CPU a capture has the number; on the GPU, for fused steps alone, replays read it."""
    data, network = Data("cuda"), network_of("sage", "cuda")
    lr = torch.tensor(0.1, device=rate)
    step, batch = CapturedBatchStep(network, sgd(network, lr=lr, fused=rate == "cuda")), data.batch(200)
    for _ in range(3):
        step(*batch)
    lr.zero_()
    before = [parameter.clone() for parameter in network.parameters()]
    for count in range(3):
        step(*batch)
        assert all(map(torch.equal, network.parameters(), before))
        assert step.captured == (1 if rate == "cuda" or count else 0)
    with pytest.raises(ValueError, match="SGD with fused=None and lr in a tensor on cuda:0, .*; accepted: numbers, or"):
        CapturedBatchStep(network, sgd(network, lr=torch.tensor(0.1, device="cuda")))(*batch)


def frozen_first(network, optimizer, i):
    network.input.weight.requires_grad_(i > 0)


def state_cleared(network, optimizer, i):
    if i in (1, 4):
        optimizer.state.clear()


def state_loaded_twice(network, optimizer, i):
    if i == 4:
        for _ in range(2):
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


@pytest.mark.parametrize("change", [frozen_first, state_cleared, state_loaded_twice])
def test_changes_before_and_after_a_capture(change):
    """Bit for bit as in steps that are not captured. A capture that made the optimizer's state would make it anew in
    every replay, and a replay that did not know of other state would write where the old one was."""
    data, first, states = Data("cuda"), network_of("sage", "cuda"), []
    batch = data.batch(200)
    torch.use_deterministic_algorithms(True)
    try:
        for max_captures in (16, 0):
            network, found = copy.deepcopy(first), []
            optimizer = adam(network)
            step = CapturedBatchStep(network, optimizer, max_captures=max_captures)
            for i in range(8):
                change(network, optimizer, i)
                found.append(step(*batch))
            assert step.captured == min(max_captures, 1)
            states.append([*found, *network.parameters()])
    finally:
        torch.use_deterministic_algorithms(False)
    for mine, other in zip(*states, strict=True):
        assert torch.equal(mine, other)


def test_steps_that_are_never_captured_can_be_seen():
    data, network = Data("cuda"), network_of("sage", "cuda")
    optimizer = adam(network)
    step, batch = CapturedBatchStep(network, optimizer), data.batch(200)
    for i in range(4):  # as OneCycleLR does
        optimizer.param_groups[0]["betas"] = (0.9 - 0.01 * i, 0.999)
        step(*batch)
    assert (step.captured, step.replays) == (0, 0)
    for _ in range(4):
        step(*batch)
    assert (step.captured, step.replays) == (1, 4)  # the fourth step was the first of two with the same betas


def test_captures_keep_their_stream():
    """Libraries keep memory for each stream."""
    data, network = Data("cuda"), network_of("sage", "cuda")
    optimizer, streams = adam(network), set()
    step, batch = CapturedBatchStep(network, optimizer), data.batch(200)
    for i in range(6):
        optimizer.param_groups[0]["lr"] = 0.01 + 0.01 * (i // 2)
        step(*batch)
        if i % 2:
            streams.add(step._shared.stream)
    assert step.replays == 3 and len(streams) == 1


def test_a_first_step_that_fails_is_none():
    """The optimizer has no state yet, which a capture would make."""
    data, network = Data("cuda"), network_of("sage", "cuda")
    step, batch = CapturedBatchStep(network, adam(network)), data.batch(200)
    x, y, edge_index, *hops = batch
    with pytest.raises(ValueError, match="edge_index is wrong"):
        step(x, y, edge_index - 1, *hops)
    step(*batch)
    assert step.captured == 0
    step(*batch)
    assert step.captured == 1


def test_wrong_edges_in_the_last_replay_are_found_by_check():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0)), data.batch(200)
    step.check()
    for _ in range(3):
        step(*batch)
    step.check()
    x, y, edge_index, *hops = batch
    wrong = edge_index.clone()
    wrong[0, 5] = -1
    step(x, y, wrong, *hops)
    with pytest.raises(ValueError, match="edge_index of an earlier call was wrong; accepted: NeighborLoader's order"):
        step.check()
    step.check()  # and the error is over
    step(*batch)


def test_wrong_edges_in_a_replay_are_an_error_of_a_later_call():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0)), data.batch(200)
    for _ in range(3):
        step(*batch)
    x, y, edge_index, *hops = batch
    wrong = edge_index.clone()
    wrong[0, 5] = -1
    step(x, y, wrong, *hops)
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="edge_index of an earlier call was wrong; accepted: NeighborLoader's order"):
        step(*batch)
    close(of_step(step, batch), plain(network, batch))  # and the error is over


def test_optimizers_that_cannot_be_captured_are_refused():
    data, network = Data("cuda"), network_of("sage", "cuda")
    for optimizer in (torch.optim.Adam(network.parameters()), torch.optim.Adagrad(network.parameters())):
        with pytest.raises(ValueError, match="optimizer is Ada.* without capturable=True, .*; accepted: capturable"):
            CapturedBatchStep(network, optimizer)(*data.batch(50))
        CapturedBatchStep(network, optimizer, max_captures=0)(*data.batch(50))


def test_autocast_is_computed_eagerly():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step = CapturedBatchStep(network, sgd(network))
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(3):
            assert bool(step(*data.batch(100)).isfinite())
    assert step.captured == 0 and step.replays == 0
