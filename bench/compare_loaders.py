#!/usr/bin/env python3
"""Training on the mini-batches of PyTorch Geometric's own loaders: rtopk beside PyTorch Geometric's convolutions.

    python bench/compare_loaders.py --graph coauthor-physics.npz --json loaders.json

NeighborLoader needs pyg-lib or torch-sparse, and ClusterLoader one of them with METIS. The networks, what is checked
of them and what is timed are those of bench/compare_batches.py, which samples by itself: the same parameters, the same
mini-batches, loss and gradients equal to rounding where the selections are the same. Then SAGE is trained by both.

Networks are trimmed by the numbers of nodes and edges of the hops; "rtopk, all nodes" is not trimmed.
"""

import argparse
import statistics
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric import __version__ as geometric_version
from torch_geometric import typing
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, ClusterLoader, NeighborLoader

from batch_networks import GeometricNetwork, networks_of
from checkout import origin
from compare_batches import check, check_selections, seconds, step_of, time_steps
from rtopk.gnn import hops_of, load
from rtopk.gnn.layers import MODELS
from rtopk.gnn.training import score
from whole_file import write_json

CPU = torch.device("cpu")


def geometric_data(dataset) -> Data:
    """The graph without its features, which are sparse: n_id says which of them a batch needs."""
    graph = dataset.graph
    targets = torch.arange(graph.num_nodes).repeat_interleave(graph.row_starts.diff().long())
    data = Data(edge_index=torch.stack([graph.columns.long(), targets]), num_nodes=graph.num_nodes, y=dataset.labels)
    data.train = torch.zeros(graph.num_nodes, dtype=torch.bool).index_fill_(0, dataset.train, True)
    data.n_id = torch.arange(graph.num_nodes)
    return data


# ---- NeighborLoader ----


class NeighborBatch:
    """What compare_batches' networks take, of a batch of NeighborLoader."""

    def __init__(self, batch, dataset, layers, dense=False):
        self.edge_index, self.y = batch.edge_index, batch.y[: batch.batch_size]
        self.x = dataset.features[batch.n_id]
        if dense:  # compare_batches checks in double precision, which sparse features do not have
            self.x = self.x.to_dense()
        self.nodes_per_hop, self.edges_per_hop = hops_of(batch, layers).values()


def neighbor_loader(data, arguments, seed):
    torch.manual_seed(seed)
    nodes, fanouts = data.train.nonzero().flatten(), arguments.sample
    return NeighborLoader(data, num_neighbors=fanouts, batch_size=arguments.batch, input_nodes=nodes, shuffle=True)


def loader_networks(model, dataset, arguments, hidden, dropout):
    networks = networks_of(model, dataset, hidden, len(arguments.sample), dropout, CPU)
    ours, calls = networks["ours"], networks["calls"]
    del calls["rtopk, graphs given"]  # those of rtopk's sampler
    calls["rtopk, all nodes"] = lambda batch: ours(batch.x, batch.edge_index)[: len(batch.y)]
    return networks


def measure_steps(model, dataset, data, arguments):
    layers = len(arguments.sample)
    first, *others = (batch for batch, _ in zip(neighbor_loader(data, arguments, 0), range(3), strict=False))
    networks = loader_networks(model, dataset, arguments, arguments.hidden, 0.0)
    whole = networks["calls"].pop("rtopk, all nodes")
    dense = NeighborBatch(first, dataset, layers, dense=True)
    facts = {"distances": check(networks, dense), "selections": check_selections(networks, dense)}
    networks["calls"]["rtopk, all nodes"] = whole
    batches = [NeighborBatch(batch, dataset, layers) for batch in others]
    facts["ms"] = time_steps(networks, batches, arguments.repeats, CPU)
    theirs = min(taken for name, taken in facts["ms"].items() if name.startswith("PyG"))
    facts |= {"ratio": theirs / facts["ms"]["rtopk"], "nodes": dense.nodes_per_hop, "edges": dense.edges_per_hop}
    return facts


def trained_on_neighbors(name, dataset, batches, arguments, seed):
    """Test accuracy, and median ms of a step."""
    torch.manual_seed(seed)
    networks = loader_networks("sage", dataset, arguments, arguments.trained_hidden, 0.5)
    optimizer = torch.optim.Adam(networks["ours"].parameters(), lr=3e-3)
    times = []
    for batch in batches:
        step = step_of(networks["calls"][name], optimizer, NeighborBatch(batch, dataset, len(arguments.sample)))
        times.append(seconds(step, CPU)[0] * 1e3)
    return accuracy(networks["ours"], dataset), statistics.median(times)


# ---- ClusterLoader ----


def trained_on_clusters(name, dataset, batches, arguments, seed):
    """Test accuracy, median ms of a step, and how far the results of the two networks are apart before the first step,
    when they have the same parameters."""
    torch.manual_seed(seed)
    layers = len(arguments.sample)
    ours = networks_of("sage", dataset, arguments.trained_hidden, layers, 0.5, CPU)["ours"]
    theirs = GeometricNetwork(ours, pairs=False)

    def of_theirs(x, edge_index):  # a hop with all nodes and edges, and others without: nothing is trimmed
        return theirs(x, edge_index, [len(x), *[0] * layers], [edge_index.shape[1], *[0] * (layers - 1)])

    call = ours if name == "rtopk" else of_theirs
    optimizer = torch.optim.Adam(ours.parameters(), lr=3e-3)
    times, distance = [], None

    def step(batch, x):
        F.cross_entropy(call(x, batch.edge_index)[batch.train], batch.y[batch.train]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for batch in batches:
        x = dataset.features[batch.n_id]
        if distance is None:
            ours.eval(), theirs.eval()
            with torch.no_grad():
                found, expected = ours(x, batch.edge_index), of_theirs(x, batch.edge_index)
            distance = float((found - expected).norm() / expected.norm())
        ours.train(), theirs.train()
        times.append(seconds(lambda batch=batch, x=x: step(batch, x), CPU)[0] * 1e3)
    return accuracy(ours, dataset), statistics.median(times), distance


def accuracy(network, dataset):
    with torch.no_grad():  # one way of scoring for all: the parameters are the same
        result = network.eval()(dataset.features, dataset.graph)
    return float(score(result[dataset.test], dataset.labels[dataset.test]))


# ---- The report ----


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", required=True, metavar="PATH", help="a graph with sparse features")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--sample", type=int, nargs="+", default=[15, 10, 5], help="neighbours that each hop picks")
    parser.add_argument("--batch", type=int, default=1024, help="nodes of a mini-batch of NeighborLoader")
    parser.add_argument("--parts", type=int, default=64, help="clusters of the graph")
    parser.add_argument("--clusters", type=int, default=8, help="clusters of a mini-batch of ClusterLoader")
    parser.add_argument("--hidden", type=int, default=256, help="columns of the hidden rows; an eighth is kept")
    parser.add_argument("--trained-hidden", type=int, default=128, help="the same where networks are trained")
    parser.add_argument("--repeats", type=int, default=2, help="repetitions of every measurement")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2, help="over the mini-batches of NeighborLoader")
    parser.add_argument("--cluster-epochs", type=int, default=6, help="over those of ClusterLoader, which are fewer")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def sampler():
    """The package by which NeighborLoader samples, with its version."""
    name = "pyg-lib" if typing.WITH_PYG_LIB else "torch-sparse" if typing.WITH_TORCH_SPARSE else None
    return None if name is None else f"{name} {version(name)}"


def main():
    arguments = parsed()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Using 'NeighborSampler' without a 'pyg-lib'")
    dataset = load(arguments.graph)
    data = geometric_data(dataset)
    facts = origin() | {
        "threads": 1,
        "torch": torch.__version__,
        "torch_geometric": geometric_version,
        "sampler": sampler(),
        "graph": dataset.name,
        "settings": {name: getattr(arguments, name) for name in ("sample", "batch", "hidden", "trained_hidden", "parts",
                                                                 "clusters", "epochs", "cluster_epochs")},
        "steps": {},
        "trained": [],
    }  # fmt: skip
    print(dataset, flush=True)
    for model in arguments.models:
        facts["steps"][model] = cell = measure_steps(model, dataset, data, arguments)
        print(f"{model}: " + ", ".join(f"{name} {taken:.1f} ms" for name, taken in cell["ms"].items()), flush=True)
        chosen = cell["selections"]
        print(f"  nodes {cell['nodes']}, edges {cell['edges']}; gradients differ by {chosen['distance']:.1e}, with the"
              f" same selections by {chosen['distance_with_the_same']:.1e}; from float64: rtopk {chosen['error']:.1e},"
              f" PyG {chosen['error_of_pyg']:.1e}", flush=True)  # fmt: skip
    clusters = ClusterData(data, arguments.parts, log=False)
    for seed in range(arguments.seeds):
        entry = {"seed": seed}
        # Sampled beforehand: both networks get the same, whatever dropout draws.
        loader = neighbor_loader(data, arguments, seed)
        batches = [batch for _ in range(arguments.epochs) for batch in loader]
        for name in ("PyG, pairs", "rtopk"):
            test, step = trained_on_neighbors(name, dataset, batches, arguments, seed)
            entry[f"neighbors, {name}"] = {"test": test, "step_ms": step}
        loader = ClusterLoader(clusters, batch_size=arguments.clusters, shuffle=True)
        batches = [batch for _ in range(arguments.cluster_epochs) for batch in loader]
        for name in ("PyG", "rtopk"):
            test, step, distance = trained_on_clusters(name, dataset, batches, arguments, seed)
            entry[f"clusters, {name}"] = {"test": test, "step_ms": step, "distance": distance}
        facts["trained"].append(entry)
        print(entry, flush=True)
    if arguments.json is not None:
        write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
