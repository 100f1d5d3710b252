"""Steps on mini-batches whose sizes are rounded up, and captured on a GPU: the same as on the mini-batch itself."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

pytest.importorskip("numpy", reason="numpy is not installed")

from rtopk.gnn import CapturedBatchStep, Graph, MaxKGNN, NeighborSampler, SparseFeatures  # noqa: E402
from rtopk.gnn.capture import backward  # noqa: E402
from rtopk.gnn.captured.inputs import BatchInputs  # noqa: E402
from rtopk.gnn.captured.sizes import BatchSizes, rounded_up  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NODES, COLUMNS, CLASSES = 3000, 20, 4
SEEDS = (200, 200, 190, 37, 1, 200)  # mini-batches of different sizes, and of the same rounded ones


class Data:
    """A graph, its features and labels, and mini-batches of it."""

    def __init__(self, device="cpu", sparse=False, several=False):
        torch.manual_seed(7)
        self.device = device
        edges = torch.randint(0, NODES, (2, 30000)).unique(dim=1).to(device)
        self.sampler = NeighborSampler(Graph.from_edge_index(edges, NODES), [5, 4, 3])
        features = torch.randn(NODES, COLUMNS) * (torch.rand(NODES, COLUMNS) < 0.3)
        self.features = (sparse_of(features) if sparse else features).to(device)
        labels = torch.randint(0, 2, (NODES, CLASSES)).float() if several else torch.randint(0, CLASSES, (NODES,))
        self.labels = labels.to(device)

    def batch(self, seeds):
        """The arguments of a step."""
        seeds = torch.randperm(NODES)[:seeds].to(self.device)
        batch = self.sampler.sample(seeds)
        x, y = self.features[batch.nodes], self.labels[seeds]
        return x, y, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges


def sparse_of(features):
    starts = F.pad((features != 0).sum(1).cumsum(0), (1, 0))
    return SparseFeatures(starts, features.nonzero()[:, 1], features[features != 0], features.shape[1])


def network_of(model, device="cpu", **options):
    network = MaxKGNN(model, COLUMNS, 32, CLASSES, num_layers=3, k=8, **options).to(device)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # zeros would hide a mistake
    return network


def plain(network, batch, loss=F.cross_entropy):
    """Loss and gradients of the mini-batch itself."""
    x, y, edge_index, nodes, edges = batch
    result = network(x, edge_index, num_sampled_nodes_per_hop=nodes, num_sampled_edges_per_hop=edges)
    value = loss(result, y)
    return [value.detach(), *torch.autograd.grad(value, list(network.parameters()))]


def of_step(step, batch):
    loss = step(*batch)
    return [loss, *(parameter.grad.clone() for parameter in step.network.parameters())]


def close(ours, theirs, tolerance=None):
    # A GPU rounds products of other sizes in another way, and then another element may be the kth.
    tolerance = tolerance or (1e-3 if theirs[0].is_cuda else 1e-5)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=tolerance)


def sgd(network, **options):
    return torch.optim.SGD(network.parameters(), **{"lr": 0.1} | options)


def adam(network, **options):
    return torch.optim.Adam(network.parameters(), **{"lr": 1e-2, "capturable": True} | options)


# ---- Sizes ----


def test_sizes_are_rounded_to_four_numbers_an_octave():
    rounded = [rounded_up(count) for count in range(1, 20000)]
    assert all(count <= size for count, size in enumerate(rounded, 1))
    assert all(size <= max(1.25 * count, count + 63) for count, size in enumerate(rounded, 1))
    assert sorted({size for size in rounded if 1024 < size <= 4096}) == [1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096]
    assert rounded == sorted(rounded) and [rounded_up(size) for size in rounded] == rounded
    assert rounded_up(0) == 64


def test_every_hop_has_a_node_more_than_the_one_before():
    sizes = BatchSizes.of_hops([64, 0, 0], [0, 0], 0)
    assert sizes == ((64, 64, 64), (0, 0), 0)
    assert sizes.rounded() == ((64, 128, 192), (64, 64), 0)
    # Entries of sparse features are filled up in rows that do not exist.
    assert BatchSizes.of_hops([64, 64], [5], 100).rounded() == ((64, 192), (64,), 128)


# ---- Steps with rounded sizes, which any device can compute ----


@pytest.mark.parametrize("pad", [True, False], ids=["rounded", "exact"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradients_are_those_of_the_mini_batch(model, sparse, pad, device):
    if device == "cuda" and not pad:
        pytest.skip("a GPU rounds sizes")
    data, network = Data(device, sparse), network_of(model, device)
    step = CapturedBatchStep(network, sgd(network, lr=1e-3), pad=pad)
    for seeds in SEEDS:
        batch = data.batch(seeds)
        expected = plain(network, batch)
        close(of_step(step, batch), expected)
        assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_of_an_earlier_mini_batch_stays(model, sparse):
    """The same memory, filled again and again, as for replays: the same bits as with new memory."""
    data, network = Data(sparse=sparse), network_of(model)
    batches = [data.batch(seeds) for seeds in (200, 37, 150, 1, 180)]
    true = [BatchSizes.of_hops(*batch[3:], batch[0].matrices[0].values().numel() if sparse else 0) for batch in batches]
    sizes = BatchSizes(*(tuple(map(max, zip(*of, strict=True))) for of in list(zip(*true, strict=True))[:2]), 0)
    sizes = sizes._replace(entries=max(one.entries for one in true)).rounded()

    def computed(inputs, batch, own):
        inputs.fill(*batch[:3], own)
        graphs, wrong = inputs.graphs()
        assert not bool(wrong)
        loss = inputs.mean_loss(F.cross_entropy, network(inputs.x(), graphs))
        return [loss.detach(), *torch.autograd.grad(loss, list(network.parameters()))]

    kept = BatchInputs(*batches[0][:2], sizes)
    for batch, own in zip(batches, true, strict=True):
        found = computed(kept, batch, own)
        for mine, other in zip(found, computed(BatchInputs(*batch[:2], sizes), batch, own), strict=True):
            assert torch.equal(mine, other)
        close(found, plain(network, batch))


def test_a_nan_does_not_stay(device):
    """Not in the memory of the steps after it, once the parameters are those from before."""
    data, network = Data(device), network_of("sage", device)
    step, before = CapturedBatchStep(network, sgd(network), pad=True), copy.deepcopy(network.state_dict())
    for _ in range(3):
        bad = data.batch(200)
        bad[0][-1] = torch.nan
        step(*bad)
    network.load_state_dict(before)
    batch = data.batch(190)
    expected = plain(network, batch)
    close(of_step(step, batch), expected)


def test_several_labels_and_a_loss_of_ones_own(device):
    data, network = Data(device, several=True), network_of("gin", device)

    def halved(result, y, reduction):
        return 0.5 * F.mse_loss(result, y, reduction=reduction)

    for own, theirs in (
        (F.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits),
        (halved, lambda result, y: halved(result, y, "mean")),
    ):
        step = CapturedBatchStep(network, sgd(network, lr=1e-3), own, pad=True)
        for seeds in (200, 200, 190):
            batch = data.batch(seeds)
            expected = plain(network, batch, theirs)
            close(of_step(step, batch), expected)


def test_int32_edges_and_small_types(device):
    data, network = Data(device), network_of("gcn", device)
    step = CapturedBatchStep(network, sgd(network, lr=0.0), pad=True)
    for _ in range(3):
        x, y, edge_index, *hops = data.batch(50)
        close(of_step(step, (x, y, edge_index.int(), *hops)), plain(network, (x, y, edge_index, *hops)))
    half = network_of("gcn", device).to(torch.bfloat16)
    step = CapturedBatchStep(half, sgd(half, lr=0.0), pad=True)
    for _ in range(3):
        x, *rest = data.batch(50)
        close(of_step(step, (x.bfloat16(), *rest)), plain(half, (x.bfloat16(), *rest)), tolerance=5e-2)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_reads_the_memory_of_the_device(model, sparse):
    """What a captured step does after its inputs are filled, and how they are filled. A GPU cannot be read then."""
    data, network = Data(sparse=sparse), network_of(model, dropout=0.5)
    batch, read = data.batch(100), []
    true = BatchSizes.of_hops(*batch[3:], batch[0].matrices[0].values().numel() if sparse else 0)
    inputs, step = BatchInputs(*batch[:2], true.rounded()), CapturedBatchStep(network, sgd(network))

    def watch(frame, event, called):
        if event == "c_call" and called.__name__ in ("tolist", "item", "numpy", "__bool__", "__int__", "__float__"):
            read.append(called.__name__)

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        sys.setprofile(watch)
        try:
            inputs.fill(*batch[:3], true)
            step._train(inputs, inputs.graphs()[0])
        finally:
            sys.setprofile(None)
    called = {event.name for event in profiled.events()}
    assert not called & {
        f"aten::{name}"
        for name in "_local_scalar_dense item nonzero masked_select unique _unique2 bincount equal".split()
    }
    assert not read
    assert "aten::searchsorted" in called  # the profile has seen the step


def test_own_edges_of_a_graph_that_is_filled_up(device):
    """Edges behind the last row belong to no row, also after own edges were added."""
    starts, columns = torch.tensor([0, 2, 3, 3], device=device), torch.tensor([1, 4, 0, 2, 2, 2], device=device)
    values = torch.rand(5, 2, device=device)
    selectors = torch.tensor([[0, 1]], dtype=torch.uint8, device=device).repeat(5, 1)
    filled = Graph(starts, columns, num_sources=5, check=False)
    exact = Graph(starts, columns[:3], num_sources=5)
    for make in (Graph.gcn_with_self_loops, Graph.beside_identity, lambda graph: graph):
        ours, theirs = make(filled), make(exact)
        assert torch.equal(ours.row_starts, theirs.row_starts)
        rows = values if make is not Graph.beside_identity else torch.cat([values, values[:3]])
        names = selectors if make is not Graph.beside_identity else torch.cat([selectors, selectors[:3]])
        for of in ("sum", "mean"):
            assert torch.equal(ours.aggregate(rows, names, 2, of), theirs.aggregate(rows, names, 2, of))
        assert torch.equal(ours.t_row_starts, theirs.t_row_starts)
        count = theirs.num_edges
        assert torch.equal(ours.t_columns[:count], theirs.t_columns)


# ---- Gradients ----


@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_those_of_backward(model):
    """Bit for bit, in memory of the same order; and they add up as there."""
    data, network = Data(), network_of(model)
    x, y, edge_index, nodes, edges = data.batch(50)

    def loss():
        result = network(x, edge_index, num_sampled_nodes_per_hop=nodes, num_sampled_edges_per_hop=edges)
        return F.cross_entropy(result, y)

    def twice(step):
        network.zero_grad()
        for _ in range(2):
            step()
            yield from ((parameter.grad.stride(), parameter.grad.clone()) for parameter in network.parameters())

    pairs = zip([*twice(lambda: backward(network, loss))], [*twice(lambda: loss().backward())], strict=True)
    for (strides, mine), (other_strides, other) in pairs:
        assert strides == other_strides and torch.equal(mine, other)


def test_graphs_of_others_take_no_part():
    """The nodes that add up gradients belong to a stream, and live as long as a graph that someone keeps."""
    data, network = Data(), network_of("sage")
    kept, ran = [parameter.clone() for parameter in network.parameters()], []
    for clone in kept:
        clone.grad_fn.next_functions[0][0].register_prehook(ran.append)
    CapturedBatchStep(network, sgd(network))(*data.batch(50))
    assert not ran and all(parameter.grad is not None for parameter in network.parameters())
    sum(clone.sum() for clone in kept).backward()
    assert len(ran) == len(kept)  # the hooks would have told


def test_hooks_of_parameters(device):
    data, network, seen = Data(device), network_of("sage", device), []
    first, second = list(network.parameters())[:2]
    first.register_hook(lambda gradient: gradient.clamp(max=0.0))
    second.register_hook(lambda gradient: None)
    second.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter) or parameter.grad.mul_(2))
    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0)), data.batch(200)
    for count in range(1, 4):
        expected = plain(network, batch)  # with the first hook, as torch.autograd.grad has it
        expected[2] *= 2
        close(of_step(step, batch), expected)
        assert float(first.grad.max()) <= 0 and all(parameter is second for parameter in seen)
        assert len(seen) == (count if device == "cpu" else min(count, 2))  # replays do without Python


def test_a_loss_that_reads_parameters(device):
    data, network = Data(device), network_of("sage", device)
    parameters = list(network.parameters())

    def loss(result, y, reduction):
        penalty = sum(parameter.square().sum() for parameter in parameters)
        penalty = penalty + sum(parameter.square().sum() for parameter in network.parameters())
        return F.cross_entropy(result, y, reduction=reduction) + penalty

    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0), loss), data.batch(200)
    for _ in range(3):
        expected = plain(network, batch, lambda result, y: loss(result, y, "mean"))
        close(of_step(step, batch), expected)


def test_parameters_that_are_not_trained(device):
    data, network = Data(device), network_of("sage", device)
    frozen = next(network.parameters()).requires_grad_(False)
    step, batch, before = CapturedBatchStep(network, sgd(network)), data.batch(200), frozen.clone()
    for _ in range(3):
        step(*batch)
    assert frozen.grad is None and torch.equal(frozen, before)


# ---- Errors ----


def changed(batch, **changes):
    names = ("x", "y", "edge_index", "num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")
    return dict(zip(names, batch, strict=True)) | changes


@pytest.mark.parametrize(
    "change, kind, text",
    [
        (lambda b: {"x": b[0][:-1]}, ValueError, r"x has shape \[\d+, 20\]; accepted: \[\d+, 20\], a row for each"),
        (lambda b: {"x": b[0].double()}, TypeError, "x is torch.float64; accepted: float32, float16 and bfloat16"),
        (lambda b: {"x": [1]}, TypeError, "x is list; accepted: a tensor, or SparseFeatures"),
        (lambda b: {"x": b[0].clone().requires_grad_()}, ValueError, r"x requires a gradient; accepted: x.detach\(\)"),
        (lambda b: {"y": b[1][:-1]}, ValueError, r"y has shape \[49\]; accepted: 50 rows, one for each seed"),
        (lambda b: {"y": 7}, ValueError, "y is int; accepted: 50 rows, one for each seed"),
        (lambda b: {"y": b[1].to("meta")}, ValueError, "y is on meta; accepted: cpu, as the parameters"),
        (lambda b: {"edge_index": b[2][0]}, ValueError, "edge_index has shape .*; accepted: two rows of integers"),
        (lambda b: {"edge_index": b[2].flip(1)}, ValueError, "edge_index is wrong; accepted: .* targets ascend"),
        (lambda b: {"edge_index": b[2] - 1}, ValueError, "edge_index is wrong; accepted"),
        (lambda b: {"edge_index": b[2] + torch.tensor([[9999], [0]])}, ValueError, "edge_index is wrong; accepted"),
        (lambda b: {"edge_index": b[2] + torch.tensor([[0], [1]])}, ValueError, "edge_index is wrong; accepted"),
        (
            lambda b: {"edge_index": b[2][:, 1:]},
            ValueError,
            "num_sampled_edges_per_hop adds up to .*; accepted: .*, the edges of edge_index",
        ),
        (
            lambda b: {"num_sampled_edges_per_hop": b[4][:2], "num_sampled_nodes_per_hop": b[3][:3]},
            ValueError,
            "num_sampled_edges_per_hop has 2 numbers; accepted: 3, one for each layer",
        ),
        (
            lambda b: {"num_sampled_nodes_per_hop": b[3][:3]},
            ValueError,
            "num_sampled_nodes_per_hop has 3 numbers and num_sampled_edges_per_hop 3; accepted: one more",
        ),
        (lambda b: {"num_sampled_nodes_per_hop": None}, ValueError, "num_sampled_nodes_per_hop is None; accepted: for"),
        (lambda b: {"num_sampled_edges_per_hop": [-1, 1, 1]}, ValueError, "per_hop is .-1, 1, 1.; accepted: for each"),
        (lambda b: {"num_sampled_nodes_per_hop": [0, 1, 1, 1]}, ValueError, "begins with 0; accepted: 1 or more seeds"),
    ],
)  # fmt: skip
def test_what_is_no_mini_batch_is_refused(change, kind, text):
    data, network = Data(), network_of("sage")
    step, before = CapturedBatchStep(network, sgd(network), pad=True), copy.deepcopy(network.state_dict())
    batch = data.batch(50)
    with pytest.raises(kind, match=text):
        step(**changed(batch, **change(batch)))
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])


def test_what_cannot_be_captured_is_refused():
    network = network_of("sage")
    with pytest.raises(TypeError, match="network is Linear; accepted: MaxKGNN, on one rank"):
        CapturedBatchStep(torch.nn.Linear(1, 1), sgd(network))
    with pytest.raises(ValueError, match="network has dense=True; accepted: dense=False"):
        CapturedBatchStep(network_of("sage", dense=True), sgd(network))
    with pytest.raises(ValueError, match="max_captures is -1; accepted: 0 or more"):
        CapturedBatchStep(network, sgd(network), max_captures=-1)
    step = CapturedBatchStep(network, sgd(network), lambda result, y, reduction: F.cross_entropy(result, y))
    with pytest.raises(ValueError, match=r"loss gives shape \[\]; accepted: with reduction='none' a row for each"):
        step(*Data().batch(50))
    network.norms[1] = torch.nn.BatchNorm1d(32)
    with pytest.raises(TypeError, match=r"network.norms\[1\] is BatchNorm1d; accepted: LayerNorm or Identity"):
        CapturedBatchStep(network, sgd(network))


# ---- Captured ----


@pytest.mark.gpu
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
            assert (len(step._captured) >= 2) == (max_captures > 0)
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


@pytest.mark.gpu
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
            assert len(step._captured) == 2
            states.append([*found, *network.parameters()])
    finally:
        torch.use_deterministic_algorithms(False)
    for mine, other in zip(*states, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.gpu
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
                assert len(step._captured) == (1 if max_captures and 1 <= i < 4 else 0)
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
from test_gnn_captured import Data, network_of, sgd

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


@pytest.mark.gpu
def test_a_loss_that_waits_is_an_error_that_changes_nothing():
    """In a process of its own: torch may not go on after it."""
    line = [sys.executable, "-c", WAITING_LOSS, str(Path(__file__).parent)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert "refused" in done.stdout, done.stderr


@pytest.mark.gpu
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


@pytest.mark.gpu
def test_dropout_differs_between_replays():
    data, network = Data("cuda"), network_of("sage", "cuda", dropout=0.5)
    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0)), data.batch(200)
    losses = [float(step(*batch)) for _ in range(6)]
    assert len(step._captured) == 1 and len(set(losses)) == 6


@pytest.mark.gpu
def test_captures_are_bounded_and_share_memory():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step = CapturedBatchStep(network, sgd(network), max_captures=2)
    for _ in range(10):
        for seeds in (20, 100, 200, 300):
            step(*data.batch(seeds))
    assert len(step._captured) == 2
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        for seeds in (20, 100, 200, 300):
            step(*data.batch(seeds))
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 1e6


@pytest.mark.gpu
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
    assert counts == [7, 8, 9] and len(step._captured) == 1
    assert not any(map(torch.equal, network.parameters(), before))


@pytest.mark.gpu
def test_a_learning_rate_in_a_tensor_changes_replays():
    data, network = Data("cuda"), network_of("sage", "cuda")
    rate = torch.tensor(1e-2, device="cuda")
    step, batch = CapturedBatchStep(network, adam(network, lr=rate)), data.batch(200)
    for _ in range(3):
        step(*batch)
    rate.zero_()
    before = [parameter.clone() for parameter in network.parameters()]
    step(*batch)
    assert len(step._captured) == 1 and all(map(torch.equal, network.parameters(), before))


@pytest.mark.gpu
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


@pytest.mark.gpu
def test_optimizers_that_cannot_be_captured_are_refused():
    data, network = Data("cuda"), network_of("sage", "cuda")
    for optimizer in (torch.optim.Adam(network.parameters()), torch.optim.Adagrad(network.parameters())):
        with pytest.raises(ValueError, match="optimizer is Ada.* without capturable=True, .*; accepted: capturable"):
            CapturedBatchStep(network, optimizer)(*data.batch(50))


@pytest.mark.gpu
def test_autocast_is_computed_step_by_step():
    data, network = Data("cuda"), network_of("sage", "cuda")
    step = CapturedBatchStep(network, sgd(network))
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(3):
            assert bool(step(*data.batch(100)).isfinite())
    assert not step._captured
