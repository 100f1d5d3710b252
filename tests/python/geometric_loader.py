"""A loader of PyTorch Geometric whose neighbours rtopk picks: NeighborLoader needs pyg-lib or torch-sparse for that.
Everything else is PyTorch Geometric's: the seeds of a mini-batch, and the batch that is made of the neighbours."""

from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from rtopk.gnn import Graph, NeighborSampler


class PickedByRtopk(BaseSampler):
    def __init__(self, data, fanouts):
        self._sampler = NeighborSampler(Graph.from_edge_index(data.edge_index, data.num_nodes), fanouts)

    def sample_from_nodes(self, index: NodeSamplerInput) -> SamplerOutput:
        batch = self._sampler.sample(index.node)
        hops = {"num_sampled_nodes": batch.num_sampled_nodes, "num_sampled_edges": batch.num_sampled_edges}
        return SamplerOutput(batch.nodes, *batch.edge_index, edge=None, metadata=(index.input_id, index.time), **hops)

    def sample_from_edges(self, index, neg_sampling=None):
        raise NotImplementedError


def node_loader(data, num_neighbors, **options) -> NodeLoader:
    """With the arguments of NeighborLoader."""
    return NodeLoader(data, PickedByRtopk(data, num_neighbors), **options)
