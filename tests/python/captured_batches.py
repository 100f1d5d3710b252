"""Mini-batches, networks and optimizers for the tests of captured steps."""

import torch
import torch.nn.functional as F

from rtopk.gnn import Graph, MaxKGNN, NeighborSampler, SparseFeatures

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
