"""Networks on all nodes, layer by layer and in chunks: the results of the whole graph, in bounded memory."""

from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

pytest.importorskip("numpy", reason="numpy is not installed")

from rtopk.gnn import Graph, MaxKGNN, NeighborSampler, SparseFeatures  # noqa: E402
from rtopk.gnn.batches import SampledTrainer, layerwise  # noqa: E402
from rtopk.gnn.batches.layerwise import Layerwise  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.parts import Ranks  # noqa: E402
from rtopk.gnn.recipe import Recipe  # noqa: E402
from rtopk.gnn.training import Trainer  # noqa: E402
from test_gnn_batches import random_parameters  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NODES = 600


def random_graph(nodes=NODES, degree=5, weighted=False):
    """Some nodes have no edges, and one has edges from a third of them."""
    targets = torch.randint(nodes - nodes // 10, (nodes * degree,))
    targets[: nodes // 3] = 7
    weights = torch.rand(len(targets)) + 0.1 if weighted else None
    return Graph.from_edge_index(torch.stack([torch.randint(nodes, targets.shape), targets]), nodes, weights)


def network_of(model, features=20, **options):
    network = MaxKGNN(model, features, options.pop("hidden", 64), 7, **{"k": 8, **options}).eval()
    random_parameters(network)
    return network


def whole(network, x, graph):
    with torch.no_grad():
        return network(x, graph)


def in_chunks(network, x, graph, wanted=None):
    """The results of all nodes, or of those wanted, in their order; and how many chunks the last layer had."""
    device = next(network.parameters()).device
    wanted = torch.arange(graph.num_nodes, device=device) if wanted is None else wanted
    nodes, rows = [], []
    for name, some, result in Layerwise(network, graph, x, device).results({"some": wanted}):
        assert name == "some" and len(some) == len(result) and result.device == device
        nodes.append(some)
        rows.append(result)
    assert torch.cat(nodes).equal(wanted)
    return torch.cat(rows), len(rows)


CASES = {
    "plain": {},
    "dense": {"dense": True},
    "a layer": {"num_layers": 1},
    "two passes": {"max_iter": 2},
    "columns of 16 bits": {"hidden": 300},
    "loops": {"loops": True},
    "dense loops": {"loops": True, "dense": True},
    "weights": {"weighted": True},
    "weights and loops": {"weighted": True, "loops": True},
    "many edges": {"degree": 40},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_results_of_the_whole_graph(model, case, monkeypatch, device):
    """A chunk of all nodes adds up in the same order: the same bits. Products of few rows may be rounded otherwise."""
    options = dict(CASES[case])
    graph = random_graph(weighted=options.pop("weighted", False), degree=options.pop("degree", 5)).to(device)
    loops = options.pop("loops", False)
    graph = graph.with_self_loops() if loops else graph
    if model == "gcn":
        options["add_self_loops"] = loops
    network, x = network_of(model, **options).to(device), torch.randn(NODES, 20, device=device)
    expected = whole(network, x, graph)
    result, chunks = in_chunks(network, x, graph)
    assert chunks == 1
    if device == "cpu":
        assert result.equal(expected)
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 17)
    for wanted in (torch.arange(NODES), torch.randperm(NODES)[:300]):
        result, chunks = in_chunks(network, x, graph, wanted.to(device))
        assert chunks > 5
        different = (result - expected[wanted.to(device)]).abs().amax(1) > 1e-4
        # MaxK may select another of two that are nearly equal: in the first layer, that reaches some 25 rows.
        assert different.sum() <= (0 if device == "cpu" else NODES // 10)


def test_gcn_that_adds_self_loops_to_a_graph_without_them(device):
    """The network's own default."""
    graph, x, network = random_graph().to(device), torch.randn(NODES, 20, device=device), network_of("gcn").to(device)
    torch.testing.assert_close(in_chunks(network, x, graph)[0], whole(network, x, graph), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_sparse_features(model, monkeypatch):
    dense = torch.randn(NODES, 20) * (torch.rand(NODES, 20) < 0.2)
    csr = dense.to_sparse_csr()
    sparse = SparseFeatures(csr.crow_indices(), csr.col_indices(), csr.values(), 20)
    graph, network = random_graph(), network_of(model)
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 17)
    result, chunks = in_chunks(network, sparse, graph)
    assert chunks > 5
    torch.testing.assert_close(result, whole(network, sparse, graph), rtol=1e-5, atol=1e-5)


def test_a_node_that_takes_more_than_a_chunk_has_one_of_its_own(monkeypatch):
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1)
    network, graph, x = network_of("gin"), random_graph(40), torch.randn(40, 20)
    result, chunks = in_chunks(network, x, graph)
    assert chunks == 40
    torch.testing.assert_close(result, whole(network, x, graph), rtol=1e-5, atol=1e-5)


def test_groups_of_nodes_come_by_name_and_an_empty_one_not_at_all():
    network, graph, x = network_of("sage"), random_graph(40), torch.randn(40, 20)
    groups = {"few": torch.tensor([30, 2]), "none": torch.tensor([], dtype=torch.int64), "one": torch.tensor([2])}
    found = list(Layerwise(network, graph, x, torch.device("cpu")).results(groups))
    assert [(name, nodes.tolist()) for name, nodes, _ in found] == [("few", [30, 2]), ("one", [2])]


@pytest.mark.parametrize("model, baseline", [*((model, None) for model in MODELS), ("gcn", "dense")])
@pytest.mark.parametrize("self_loops", [False, True])
def test_scores_of_a_training(cora, model, baseline, self_loops, monkeypatch, device):
    """Those of full-batch training with the same parameters."""
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 18)
    settings = {"hidden": 32, "k": 8, "layers": 2, "model": model, "baseline": baseline, "self_loops": self_loops}
    full = Trainer(cora, Recipe(**settings), device, eager=True)
    for _ in range(5):
        loss = full.step()
    sampled = SampledTrainer(cora, Recipe(**settings, sample="5,5", batch=256), Ranks(device=torch.device(device)))
    sampled.network.load_state_dict(full.network.state_dict())
    expected, entry = full.evaluate(loss), sampled.evaluate(loss)
    for role, nodes in cora.split.items():
        # On a GPU a row may be rounded to the other side.
        assert entry[role] == pytest.approx(expected[role], abs=0 if device == "cpu" else 1.5 / len(nodes))


def peak_bytes(function):
    """The most memory that torch has allocated for a call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        function()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


@pytest.mark.parametrize("model", MODELS)
def test_memory_is_that_of_a_chunk_and_of_compact_rows(model, monkeypatch):
    """Beside a chunk: two times k values and selectors of every node, and its numbers in the sampler and here."""
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 20)
    nodes, k = 8000, 16
    graph, x = random_graph(nodes), torch.randn(nodes, 20)
    network = network_of(model, hidden=256, k=k)
    whole(network, x, graph)  # what is derived from the graph is made once
    in_chunks(network, x, graph)
    kept = nodes * (2 * k * (4 + 1) + 4 * 8)
    evaluation = Layerwise(network, graph, x, torch.device("cpu"))
    peak = peak_bytes(lambda: [None for _ in evaluation.results({"all": torch.arange(nodes)})])
    assert kept / 2 < peak < kept + layerwise.CHUNK_BYTES
    assert peak_bytes(lambda: whole(network, x, graph)) > nodes * 2 * 256 * 4 > 5 * peak


@pytest.mark.gpu
@pytest.mark.parametrize("model", MODELS)
def test_memory_of_a_gpu_is_that_of_a_chunk(model, monkeypatch):
    """The graph, the features and the rows between two layers are on the host."""
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 22)
    graph, x, network = random_graph(50_000), torch.randn(50_000, 20), network_of(model, hidden=256, k=16).cuda()
    expected = whole(network.cpu(), x, graph)
    evaluation = Layerwise(network.cuda(), graph, x, torch.device("cuda"))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    different = 0
    for _, nodes, result in evaluation.results({"all": torch.arange(len(x))}):
        different += int(((result.cpu() - expected[nodes]).abs().amax(1) > 1e-3).sum())
    # One node has so many edges that it takes more than a chunk.
    assert torch.cuda.max_memory_allocated() - before < 2 * layerwise.CHUNK_BYTES + 2 * 50_000 * 100
    assert different < 50


@pytest.mark.parametrize("model", MODELS)
def test_weights_of_a_graph_are_those_of_its_mini_batches(model):
    """With all neighbours, mini-batches compute what the whole graph gives. (GCN has degrees of its own in them.)"""
    graph, x = random_graph(weighted=True), torch.randn(NODES, 20)
    seeds = torch.randperm(NODES)[:50]
    network = network_of(model, num_layers=2, **{"add_self_loops": False} if model == "gcn" else {})
    batch = NeighborSampler(graph, [-1, -1]).sample(seeds)
    assert batch.weights.shape == batch.columns.shape
    expected = [
        graph.weights[int(start) : int(end)]
        for start, end in zip(graph.row_starts[seeds], graph.row_starts[seeds + 1], strict=True)
    ]
    assert batch.weights[: batch.num_sampled_edges[0]].equal(torch.cat(expected))
    if model != "gcn":
        result = whole(network, x[batch.nodes], batch.graphs())
        torch.testing.assert_close(result, whole(network, x, graph)[seeds], rtol=1e-5, atol=1e-4)
