"""A network on all nodes with all their neighbours, layer by layer and in chunks of nodes.

The device holds a chunk at a time: its nodes, the rows that they gather, and its part of the graph. Between two layers
only what neighbours gather of every node is kept, where the graph is: compact rows after MaxK.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from .._copies import rows_on
from ..features import SparseFeatures
from ..graph import Graph
from ..layers import MaxKGNN
from ..norm import fuses, normalized
from ..rows import CompactRows, DenseRows
from ..sampling import NeighborSampler

# What a chunk may take on the device.
CHUNK_BYTES = 1 << 28

# By element of a hidden row of a node: sums, their product, what is normalized and the result, four bytes each, and as
# much for what a step has beside them. With these and the next one, a network of 256 columns takes half of CHUNK_BYTES.
_NODE_BYTES = 32

# By edge, beside the row that it gathers: its places in the graph and in the chunk while they are found.
_EDGE_BYTES = 128


class Layerwise:
    """A network's results, computed layer by layer.

    Args:
        network: the network.
        graph: the whole graph.
        features: of all nodes, where the graph is.
        device: of the network.
    """

    def __init__(
        self, network: MaxKGNN, graph: Graph, features: torch.Tensor | SparseFeatures, device: torch.device
    ) -> None:
        self.network = network
        self.features = features
        self.graph = graph
        self.device = device

    @torch.no_grad()
    def results(self, wanted: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """The results of some groups of nodes: a group's name, some of its nodes, and a row for each of them.

        Args:
            wanted: the nodes of each group, where the graph is.
        """
        # Every convolution of a network has the same options, and so the same weights of the edges.
        graph = self.network.convolutions[0].weighted(self.graph)
        sampler = NeighborSampler(graph, [-1])
        everything = self._chunks(torch.arange(graph.num_nodes, device=graph.device))
        rows = _NodeRows(graph.num_nodes)
        for nodes in everything:
            rows.put(nodes, self._mapped(rows_on(self.features, nodes, self.device)))
        last = self.network.num_layers - 1
        for layer in range(last):
            before, rows = rows, _NodeRows(graph.num_nodes)
            for nodes in everything:
                rows.put(nodes, self._computed(layer, nodes, sampler, before))
        for name, group in wanted.items():
            for nodes in self._chunks(group):
                yield name, nodes, self._computed(last, nodes, sampler, rows)

    def _mapped(self, x: torch.Tensor | SparseFeatures) -> CompactRows | DenseRows:
        """What the first layer gathers."""
        x = self.network.input(x)
        return self.network.convolutions[0].selected(F.relu_(x) if self.network.rectified else x)

    def _computed(self, layer: int, nodes: torch.Tensor, sampler: NeighborSampler, rows: _NodeRows):
        """Of some nodes, what the next layer gathers; after the last layer, the result."""
        convolution, norm = self.network.convolutions[layer], self.network.norms[layer]
        neighbourhood = sampler.sample(nodes)
        gathered = rows.get(neighbourhood.nodes, self.device)
        (graph,) = neighbourhood.to(self.device).graphs()
        arguments = gathered, gathered.first(len(nodes)), graph
        if not self.network.dense and fuses(norm):
            x = normalized(convolution.summed(*arguments, None), convolution.last_bias, norm)
        else:
            x = norm(convolution.summed(*arguments, convolution.last_bias))
        if layer + 1 < self.network.num_layers:
            return self.network.convolutions[layer + 1].selected(x)
        return self.network.output(x)

    def _chunks(self, nodes: torch.Tensor) -> list[torch.Tensor]:
        """The nodes in chunks that take up to CHUNK_BYTES; a node that takes more has a chunk of its own."""
        network, starts = self.network, self.graph.row_starts
        row = network.hidden_channels * 4 if network.dense else network.k * 6
        of_node = 4 * network.in_channels + _NODE_BYTES * network.hidden_channels
        costs = of_node + (starts[nodes + 1] - starts[nodes]).long() * (row + _EDGE_BYTES)
        ends, sizes, done, spent = costs.cumsum(0).cpu(), [], 0, 0
        while done < len(nodes):
            end = max(int(torch.searchsorted(ends, spent + CHUNK_BYTES, right=True)), done + 1)
            sizes.append(end - done)
            done, spent = end, int(ends[end - 1])
        return list(nodes.split(sizes))


class _NodeRows:
    """Rows of all nodes, kept where the graph is."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: CompactRows | DenseRows | None = None

    def put(self, nodes: torch.Tensor, rows: CompactRows | DenseRows) -> None:
        if self._kept is None:
            empty = (part.new_empty(self._count, *part.shape[1:], device=nodes.device) for part in rows.tensors)
            self._kept = rows.of_tensors(*empty)
        for kept, part in zip(self._kept.tensors, rows.tensors, strict=True):
            _indexable(kept)[nodes] = _indexable(part.to(kept.device))

    def get(self, nodes: torch.Tensor, device: torch.device) -> CompactRows | DenseRows:
        parts = self._kept.tensors
        return self._kept.of_tensors(*(rows_on(_indexable(part), nodes, device).view(part.dtype) for part in parts))


def _indexable(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory in a type whose rows torch takes and puts by index: not all do so with uint16."""
    return tensor.view(torch.int16) if tensor.dtype == torch.uint16 else tensor
