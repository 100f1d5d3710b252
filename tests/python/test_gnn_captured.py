"""Steps on mini-batches whose sizes are rounded up: the same as on the mini-batch itself."""

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

pytest.importorskip("numpy", reason="numpy is not installed")

from captured_batches import SEEDS, Data, close, network_of, of_step, plain, sgd  # noqa: E402
from rtopk.gnn import CapturedBatchStep, Graph, SparseFeatures  # noqa: E402
from rtopk.gnn.capture import backward  # noqa: E402
from rtopk.gnn.captured.inputs import BatchInputs  # noqa: E402
from rtopk.gnn.captured.sizes import BatchSizes, rounded_up  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


# ---- Sizes ----


def test_sizes_are_rounded_to_four_numbers_an_octave():
    rounded = [rounded_up(count) for count in range(1, 20000)]
    assert all(count <= size for count, size in enumerate(rounded, 1))
    assert all(size <= max(1.25 * count, count + 63) for count, size in enumerate(rounded, 1))
    assert sorted({size for size in rounded if 1024 < size <= 4096}) == [1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096]
    assert rounded == sorted(rounded) and [rounded_up(size) for size in rounded] == rounded
    assert rounded_up(0) == 64
    counts = range((1 << 16) + 1, (1 << 17) + 1)
    assert 1.089 < sum(rounded_up(count) / count for count in counts) / len(counts) < 1.09
    by_logarithm = [round(2 ** (16 + i / 5000)) for i in range(5000)]
    assert 1.095 < sum(rounded_up(count) / count for count in by_logarithm) / len(by_logarithm) < 1.096


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
    true = [BatchSizes.of_batch(batch[0], *batch[3:]) for batch in batches]
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
        for matrix in kept.x().matrices if sparse else ():
            starts, columns = matrix.crow_indices(), matrix.col_indices()
            assert starts[0] == 0 and (starts.diff() >= 0).all() and starts[-1] == len(columns)
            assert columns.min() >= 0 and columns.max() < matrix.shape[1]


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
    true = [BatchSizes.of_hops(*one[3:], 0) for one in (bad, batch)]
    inputs = BatchInputs(*bad[:2], true[0].rounded())  # what a replay reads: filled twice
    for one, own in zip((bad, batch), true, strict=True):
        inputs.fill(*one[:3], own)
    loss = inputs.mean_loss(F.cross_entropy, network(inputs.x(), inputs.graphs()[0]))
    close([loss.detach(), *torch.autograd.grad(loss, list(network.parameters()))], expected)
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


def test_a_nan_label_does_not_stay(device):
    """An earlier mini-batch's, in the rows behind the seeds of a smaller one with the same rounded sizes."""
    data, network = Data(device, several=True), network_of("sage", device)
    large, small = data.batch(60), data.batch(50)
    large[1][-1] = torch.nan
    before = copy.deepcopy(network.state_dict())
    step = CapturedBatchStep(network, sgd(network, lr=0.0), F.mse_loss, pad=True)
    for _ in range(3):
        step(*large)
    network.load_state_dict(before)
    expected = plain(network, small, F.mse_loss)
    close(of_step(step, small), expected)

    true = [BatchSizes.of_hops(*batch[3:], 0) for batch in (large, small)]
    inputs = BatchInputs(*large[:2], true[0].rounded())  # what a replay reads: filled twice
    assert inputs.sizes.nodes[0] == 64
    for batch, own in zip((large, small), true, strict=True):
        inputs.fill(*batch[:3], own)
    result = network(inputs.x(), inputs.graphs()[0])
    loss = inputs.mean_loss(F.mse_loss, result)
    close([loss.detach(), *torch.autograd.grad(loss, list(network.parameters()))], expected)


def test_nothing_behind_the_seeds_reaches_a_gradient(device):
    """Neither the label of an earlier mini-batch nor the result of a row too many. Also not that of a parameter that
    the loss has itself."""
    data = Data(device, several=True)
    large, small = data.batch(60), data.batch(50)
    large[1][-1] = torch.nan
    true = [BatchSizes.of_hops(*batch[3:], 0) for batch in (large, small)]
    inputs = BatchInputs(*large[:2], true[0].rounded())
    for batch, own in zip((large, small), true, strict=True):
        inputs.fill(*batch[:3], own)
    result = torch.randn(64, small[1].shape[1], device=device)
    result[50:] = torch.inf
    result.requires_grad_()
    scale = torch.nn.Parameter(torch.tensor(2.0, device=device))

    def loss(result, y, reduction="mean"):
        return F.mse_loss(scale * result, y, reduction=reduction)

    found = torch.autograd.grad(inputs.mean_loss(loss, result), [result, scale])
    close(found, torch.autograd.grad(loss(result[:50], small[1]), [result, scale]))


def test_labels_that_require_a_gradient_leave_no_graph():
    """In memory that stays, each step's would hold that of the one before."""
    data = Data(several=True)
    x, y, edge_index, *hops = data.batch(50)
    true = BatchSizes.of_hops(*hops, 0)
    inputs = BatchInputs(x, y, true.rounded())
    inputs.fill(x.clone().requires_grad_(), y.clone().requires_grad_(), edge_index, true)
    assert not inputs.x().requires_grad and not inputs._y.requires_grad


def test_a_loss_without_a_derivative_at_zero(device):
    """Nothing is asked of labels that are filled up."""
    data, network = Data(device, several=True), network_of("sage", device)
    data.labels += 1

    def relative(result, y, reduction):
        errors = ((result - y) / y).abs()
        return errors.mean() if reduction == "mean" else errors

    step, batch = CapturedBatchStep(network, sgd(network, lr=0.0), relative, pad=True), data.batch(50)
    for _ in range(3):
        expected = plain(network, batch, lambda result, y: relative(result, y, "mean"))
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
    true = BatchSizes.of_batch(batch[0], *batch[3:])
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


def with_first_target(edge_index, target):
    changed = edge_index.clone()
    changed[1, 0] = target
    return changed


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
        (lambda b: {"y": b[1].float().requires_grad_()}, ValueError, r"y requires a gradient; accepted: y.detach\(\)"),
        (lambda b: {"y": b[1][:-1]}, ValueError, r"y has shape \[49\]; accepted: 50 rows, one for each seed"),
        (lambda b: {"y": 7}, ValueError, "y is int; accepted: 50 rows, one for each seed"),
        (lambda b: {"y": b[1].to("meta")}, ValueError, "y is on meta; accepted: cpu, as the parameters"),
        (lambda b: {"edge_index": b[2][0]}, ValueError, "edge_index has shape .*; accepted: two rows of integers"),
        (lambda b: {"edge_index": b[2].flip(1)}, ValueError, "edge_index is wrong; accepted: .* targets ascend"),
        (lambda b: {"edge_index": b[2] - 1}, ValueError, "edge_index is wrong; accepted"),
        (lambda b: {"edge_index": b[2] + torch.tensor([[9999], [0]])}, ValueError, "edge_index is wrong; accepted"),
        (lambda b: {"edge_index": b[2] + torch.tensor([[0], [1]])}, ValueError, "edge_index is wrong; accepted"),
        (lambda b: {"edge_index": with_first_target(b[2], -1)}, ValueError, "edge_index is wrong; accepted"),
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
        (lambda b: {"num_sampled_nodes_per_hop": 5}, ValueError, "num_sampled_nodes_per_hop is 5; accepted: for each"),
        (lambda b: {"num_sampled_edges_per_hop": "abc"}, ValueError, "num_sampled_edges_per_hop is 'abc'; accepted"),
        (lambda b: {"num_sampled_nodes_per_hop": [50.7, *b[3][1:]]}, ValueError, "is .50.7, .*; accepted: .* integer"),
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


def test_sparse_features_that_require_a_gradient_are_refused():
    (x, *batch), network = Data(sparse=True).batch(50), network_of("sage")
    matrix = x.matrices[0]
    values = matrix.values().clone().requires_grad_()
    x = SparseFeatures(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape[1])
    with pytest.raises(
        ValueError, match=r"x requires a gradient; accepted: SparseFeatures of values.detach\(\), since"
    ):
        CapturedBatchStep(network, sgd(network))(x, *batch)


@pytest.mark.parametrize("pad", [True, False], ids=["rounded", "exact"])
def test_sources_are_at_most_a_hop_behind_their_targets(pad):
    """A layer that is rounded up has more nodes, so a later one would make a difference."""
    data, network = Data(), network_of("sage")
    x, y, edge_index, nodes, edges = data.batch(50)
    step, edge_index = CapturedBatchStep(network, sgd(network, lr=0.0), pad=pad), edge_index.clone()
    ends = [sum(nodes[: hop + 2]) for hop in range(3)]  # of the sources of each hop
    for hop, end in enumerate(ends):
        for place in (sum(edges[:hop]), sum(edges[: hop + 1]) - 1):  # the first and the last edge of a hop
            before = int(edge_index[0, place])
            edge_index[0, place] = end - 1
            step(x, y, edge_index, nodes, edges)
            edge_index[0, place] = end
            with pytest.raises(ValueError, match="edge_index is wrong; .* nodes up to the hop after the target's, and"):
                step(x, y, edge_index, nodes, edges)
            edge_index[0, place] = before


def test_arguments_that_are_none_are_named():
    network = network_of("sage")
    for options, kind, text in (
        ({"optimizer": None}, TypeError, "optimizer is NoneType; accepted: a torch.optim.Optimizer"),
        ({"loss": 3}, TypeError, "loss is int; accepted: a function of results, labels and reduction='none'"),
        ({"max_captures": "a"}, ValueError, "max_captures is 'a'; accepted: 0 or more"),
        ({"transform": 3}, TypeError, "transform is int; accepted: a function of a Graph, or None"),
    ):
        with pytest.raises(kind, match=text):
            CapturedBatchStep(network, **{"optimizer": sgd(network)} | options)


def test_a_loss_has_to_take_reduction():
    batch, network = Data().batch(50), network_of("sage")
    step = CapturedBatchStep(network, sgd(network), torch.nn.CrossEntropyLoss())
    text = (
        r"loss does not take reduction \(CrossEntropyLoss.*\); accepted: a function of results, labels and reduction="
    )
    with pytest.raises(TypeError, match=text):
        step(*batch)
    step.loss = lambda result, y, reduction: F.cross_entropy(result, y, 3)  # another TypeError is left as it is
    with pytest.raises(TypeError, match="weight"):
        step(*batch)


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
    with pytest.raises(TypeError, match=r"network.norms.1 is BatchNorm1d; accepted: LayerNorm or Identity"):
        CapturedBatchStep(network, sgd(network))
