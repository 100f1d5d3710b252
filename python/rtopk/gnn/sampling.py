"""Sampled neighbourhoods: mini-batches of nodes with a few neighbours of each, a few of theirs, and so on.

A mini-batch has the form of PyTorch Geometric's NeighborLoader, whose samplers are in the packages pyg-lib and
torch-sparse. This one needs torch alone, and runs where the graph is, on a CPU or a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from ._copies import copied
from ._csr import described, is_plain, ranges
from .graph import Graph

# The most neighbours of a node that are picked, but for all of them: picking takes a step for each.
MAX_FANOUT = 1024


@dataclass(frozen=True)
class MiniBatch:
    """Some nodes of a graph, the seeds, with neighbours that reach them. Nodes are numbered hop by hop, seeds first.

    Args:
        nodes: [nodes], int64: what each is called in the whole graph.
        row_starts: where the edges of each node begin that has been asked for its neighbours: all but the last hop.
        columns: [edges]: the node of the mini-batch that each edge gathers from.
        num_sampled_nodes: how many nodes each hop has added; first, how many seeds there are.
        num_sampled_edges: how many edges lead to the nodes of each hop from the next one.
        weights: [edges]: those of the edges; None: the graph has none.
    """

    nodes: torch.Tensor
    row_starts: torch.Tensor
    columns: torch.Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    weights: torch.Tensor | None = None

    @property
    def edge_index(self) -> torch.Tensor:
        """[2, edges], the sources and the targets of the edges, which ascend: PyTorch Geometric's form."""
        targets = torch.arange(self.row_starts.numel() - 1, device=self.nodes.device)
        counts = self.row_starts.diff()
        return torch.stack([self.columns, targets.repeat_interleave(counts, output_size=len(self.columns))])

    def to(self, device: torch.device | str) -> MiniBatch:
        """The mini-batch on a device. A copy to a GPU comes from pinned memory, and the host does not wait for it."""
        device, names = torch.device(device), ("nodes", "row_starts", "columns", "weights")
        parts = {name: getattr(self, name) for name in names}
        return replace(self, **{name: part if part is None else copied(part, device) for name, part in parts.items()})

    def graphs(self, num_layers: int | None = None) -> list[Graph]:
        """The graph of each layer, which gathers from the targets of the layer before. The last one's targets are the
        seeds, if there are as many layers as hops."""
        graph = Graph(self.row_starts, self.columns, self.weights, num_sources=len(self.nodes), check=False)
        layers = len(self.num_sampled_edges) if num_layers is None else num_layers
        return _layers(graph, layers, self.num_sampled_nodes, self.num_sampled_edges)


def hops_of(batch, num_hops: int) -> dict[str, list[int]]:
    """How many nodes and edges each hop of a NeighborLoader's mini-batch has: the arguments by which MaxKGNN computes
    only what the seeds need.

    If pyg-lib has sampled, the batch has these numbers. With torch-sparse it has not, and they are counted: nodes and
    edges are in the order of the hops. Counting waits for a GPU.

    Args:
        batch: a torch_geometric.data.Data with edge_index and batch_size.
        num_hops: as many as the loader's num_neighbors.

    >>> from types import SimpleNamespace
    >>> batch = SimpleNamespace(edge_index=torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]]), batch_size=1)
    >>> rtopk.gnn.hops_of(batch, 2)
    {'num_sampled_nodes_per_hop': [1, 2, 1], 'num_sampled_edges_per_hop': [2, 2]}
    """
    nodes, edges = getattr(batch, "num_sampled_nodes", None), getattr(batch, "num_sampled_edges", None)
    if nodes is None or edges is None:
        sources, targets = batch.edge_index
        if bool((targets[1:] < targets[:-1]).any()):
            raise ValueError(
                "batch.edge_index has targets that do not ascend; accepted: NeighborLoader's order, which it has with"
                " subgraph_type='directional'"
            )
        nodes, edges = [int(batch.batch_size)], []
        for _ in range(num_hops):
            begin, end = sum(edges), int((targets < sum(nodes)).sum())
            highest = int(sources[begin:end].max()) if end > begin else -1
            edges.append(end - begin)
            nodes.append(max(highest + 1 - sum(nodes), 0))
    return {"num_sampled_nodes_per_hop": list(nodes), "num_sampled_edges_per_hop": list(edges)}


class NeighborSampler:
    """Samples the neighbourhoods of nodes.

    Every hop picks up to `fanouts[hop]` distinct edges of each node that the hop before has added, all subsets with the
    same probability. The same generator state gives the same mini-batch, on the same kind of device.

    Args:
        graph: the whole graph, square.
        fanouts: for each hop how many neighbours of a node to pick, 1 to 1024; -1: all of them.

    >>> graph = rtopk.gnn.Graph.from_edge_index(torch.tensor([[1, 2, 3, 4], [0, 0, 1, 1]]), 5)
    >>> batch = rtopk.gnn.NeighborSampler(graph, [2, 1]).sample(torch.tensor([0]))
    >>> batch.num_sampled_nodes
    [1, 2, 1]
    """

    def __init__(self, graph: Graph, fanouts: Sequence[int]) -> None:
        if graph.num_nodes != graph.num_sources:
            raise ValueError(f"graph is {graph}; accepted: a square one")
        self.fanouts = check_fanouts(fanouts)
        self.graph = graph
        # By node of the whole graph: its number in the mini-batch, or -1. Between two calls all are -1.
        self._numbers = torch.full((graph.num_nodes,), -1, device=graph.device)
        self._first = torch.empty_like(self._numbers)

    def sample(self, seeds: torch.Tensor, generator: torch.Generator | None = None) -> MiniBatch:
        """
        Args:
            seeds: [seeds], int64, distinct nodes on the device of the graph.
            generator: of random numbers, on the device of the graph; None: torch's own.
        """
        self._check_seeds(seeds)
        self._numbers[seeds] = torch.arange(len(seeds), device=seeds.device)
        hops, edges, sources, counts = [seeds], [], [], []
        for fanout in self.fanouts:
            picked, degrees = self._edges_of(hops[-1], fanout, generator)
            neighbours = self.graph.columns[picked].long()
            edges.append(picked)
            sources.append(neighbours)
            counts.append(degrees)
            hops.append(self._new_nodes(neighbours, sum(map(len, hops))))
        nodes = torch.cat(hops)
        columns = self._numbers[torch.cat(sources)]
        self._numbers[nodes] = -1
        row_starts = torch.cat([seeds.new_zeros(1), *counts]).cumsum(0)
        weights = None if self.graph.weights is None else self.graph.weights[torch.cat(edges)]
        return MiniBatch(nodes, row_starts, columns, [len(hop) for hop in hops], [len(own) for own in edges], weights)

    def _edges_of(self, nodes, fanout: int, generator) -> tuple[torch.Tensor, torch.Tensor]:
        """The places in the graph of the edges that are picked, node by node, and how many each node has."""
        starts = self.graph.row_starts[nodes].long()
        degrees = self.graph.row_starts[nodes + 1].long() - starts
        if fanout < 0:
            return ranges(starts, degrees), degrees
        picks = _distinct(degrees, fanout, generator)
        kept = degrees.clamp(max=fanout)
        there = torch.arange(fanout, device=nodes.device) < kept[:, None]
        return (starts[:, None] + picks)[there], kept

    def _new_nodes(self, neighbours: torch.Tensor, count: int) -> torch.Tensor:
        """The neighbours that are not in the mini-batch yet, in the order in which they first occur. Numbers them."""
        found = neighbours[self._numbers[neighbours] < 0]
        places = torch.arange(len(found), device=found.device)
        self._first[found] = len(found)
        self._first.scatter_reduce_(0, found, places, "amin")
        new = found[self._first[found] == places]
        self._numbers[new] = torch.arange(count, count + len(new), device=new.device)
        return new

    def _check_seeds(self, seeds) -> None:
        if not is_plain(seeds) or seeds.dim() != 1 or seeds.dtype != torch.int64 or seeds.device != self.graph.device:
            where = f" on {seeds.device}" if isinstance(seeds, torch.Tensor) else ""
            raise ValueError(
                f"seeds is {described(seeds)}{where}; accepted: one dimension of int64 on {self.graph.device}"
            )
        if seeds.numel() == 0:
            return
        lowest, highest, distinct = (*torch.stack(seeds.aminmax()).tolist(), seeds.unique().numel())
        if lowest < 0 or highest >= self.graph.num_nodes:
            raise ValueError(f"seeds go from {lowest} to {highest}; accepted: 0 to {self.graph.num_nodes - 1}")
        if distinct != len(seeds):
            raise ValueError(f"seeds has {len(seeds) - distinct} nodes more than once; accepted: distinct nodes")


def check_fanouts(fanouts: Sequence[int]) -> list[int]:
    """The numbers of neighbours to pick, checked."""
    fanouts = list(fanouts)
    if not fanouts:
        raise ValueError("fanouts is empty; accepted: a number for each hop")
    for fanout in fanouts:
        if type(fanout) is not int or not (fanout == -1 or 1 <= fanout <= MAX_FANOUT):
            raise ValueError(f"fanouts has {fanout}; accepted: 1 to {MAX_FANOUT}, or -1 for all neighbours")
    return fanouts


def _distinct(degrees: torch.Tensor, count: int, generator) -> torch.Tensor:
    """[nodes, count]: distinct numbers below each degree, all subsets with the same probability; a node with no more
    edges than `count` has 0, 1, 2, ... Floyd's way: step i picks from the first (degree - count + i + 1) numbers, and
    takes the last of those if the pick is there already. (Bentley and Floyd, CACM 30(9), 1987.)"""
    uniform = torch.rand(len(degrees), count, dtype=torch.float64, generator=generator, device=degrees.device)
    picks = torch.arange(count, device=degrees.device).repeat(len(degrees), 1)
    last = degrees - count
    many = last > 0
    for i in range(count):
        pick = (uniform[:, i] * (last + 1)).long().minimum(last)
        taken = (picks[:, :i] == pick[:, None]).any(1)
        picks[:, i] = torch.where(many, torch.where(taken, last, pick), picks[:, i])
        last = last + 1
    return picks


# ---- The graphs of layers ----


def graphs_of_layers(graph: Graph, num_layers: int, nodes_per_hop, edges_per_hop) -> list[Graph]:
    """The graph of each layer of a network: the same one, or those of a mini-batch whose nodes and edges are known by
    hops, in NeighborLoader's order."""
    if nodes_per_hop is None and edges_per_hop is None:
        return [graph] * num_layers
    for name, given in (("nodes", nodes_per_hop), ("edges", edges_per_hop)):
        if given is None:
            raise ValueError(f"num_sampled_{name}_per_hop is None; accepted: both of them, or none")
    nodes, edges = [int(count) for count in nodes_per_hop], [int(count) for count in edges_per_hop]
    if len(nodes) != len(edges) + 1 or len(edges) < num_layers:
        raise ValueError(
            f"num_sampled_nodes_per_hop has {len(nodes)} numbers and num_sampled_edges_per_hop {len(edges)}; accepted:"
            f" {num_layers} or more hops, and the seeds before them in the first"
        )
    if min(nodes + edges) < 0 or sum(nodes) != graph.num_nodes or sum(edges) != graph.num_edges:
        raise ValueError(
            f"num_sampled_nodes_per_hop adds up to {sum(nodes)} and num_sampled_edges_per_hop to {sum(edges)};"
            f" accepted: {graph.num_nodes} and {graph.num_edges}, the nodes and edges of the graph"
        )
    targets, expected = list(accumulate(nodes[:-1])), list(accumulate(edges))
    found = graph.starts_at(targets)
    if found != expected:
        raise ValueError(
            f"the first {targets} nodes have {found} edges; accepted: {expected}, as in"
            " num_sampled_edges_per_hop: each hop's edges lead to the nodes of the hop before"
        )
    return _layers(graph, num_layers, nodes, edges)


def _layers(graph: Graph, num_layers: int, nodes: list[int], edges: list[int]) -> list[Graph]:
    hops = range(len(edges), len(edges) - num_layers, -1)
    return [graph.first_targets(sum(nodes[:hop]), sum(nodes[: hop + 1]), sum(edges[:hop])) for hop in hops]


def check_chain(graphs: Sequence[Graph], num_layers: int) -> None:
    """An error unless these are the graphs of consecutive layers."""
    if len(graphs) != num_layers:
        raise ValueError(f"graph is a list of {len(graphs)}; accepted: {num_layers}, one for each convolution")
    for i, graph in enumerate(graphs):
        if not isinstance(graph, Graph):
            raise TypeError(f"graph[{i}] is {type(graph).__name__}; accepted: Graph")
        if i > 0 and graph.num_sources != graphs[i - 1].num_nodes:
            raise ValueError(
                f"graph[{i}] has {graph.num_sources} sources; accepted: {graphs[i - 1].num_nodes}, the targets of the"
                " one before"
            )
