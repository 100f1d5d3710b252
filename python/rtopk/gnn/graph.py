"""Graphs in the form of the aggregation kernels: compressed sparse rows (CSR), with the transpose."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch

from .._torch_internals import is_recorded
from ._aggregate import check_aggregation, index_type
from ._csr import check_csr, check_weights, csr_matrices, described, is_plain

# Edges are sorted by row * nodes + column, which has to fit in 64 bits.
_MAX_NODES = 3_037_000_499

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Graph:
    """A directed graph as a square matrix in compressed sparse rows. Row i lists the nodes that node i gathers from.

    Make it once and keep it: what layers derive from it, such as the transpose, is computed at the first use and kept
    with it. The transpose of a symmetric graph takes no memory. An edge may occur several times, and then counts
    several times. Indices are int32 if they fit, else int64.

    >>> graph = rtopk.gnn.Graph.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 2]]))
    >>> graph
    Graph(nodes=3, edges=3)
    >>> graph.with_self_loops().columns
    tensor([0, 1, 0, 1, 1, 2], dtype=torch.int32)
    """

    def __init__(
        self,
        row_starts: torch.Tensor,
        columns: torch.Tensor,
        weights: torch.Tensor | None = None,
        *,
        check: bool = True,
    ) -> None:
        """
        Args:
            row_starts: [nodes + 1], int32 or int64: where each row's edges begin, and last the number of edges.
            columns: [edges], int32 or int64: the node that each edge gathers from.
            weights: [edges], floating point, kept as float32; or None.
            check: False if the tensors are known to be valid.
        """
        if check:
            check_csr(row_starts, columns)
            check_weights("weights", weights, columns)
        nodes = row_starts.numel() - 1
        index = index_type(max(nodes, columns.numel()))
        self.row_starts = row_starts.to(index).contiguous()
        self.columns = columns.to(index).contiguous()
        self.weights = None if weights is None else weights.to(torch.float32).contiguous()
        self._transpose: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None = None
        self._matrices: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._derived: dict[str, Graph | SimpleNamespace] = {}

    # ---- Ways to make one ----

    @classmethod
    def from_edge_index(
        cls, edge_index: torch.Tensor, num_nodes: int | None = None, edge_weight: torch.Tensor | None = None
    ) -> Graph:
        """From PyTorch Geometric's form.

        Args:
            edge_index: [2, edges], integers: the source and the target of each edge. A target gathers from its sources.
            num_nodes: the number of nodes; None: one more than the largest in edge_index.
            edge_weight: [edges], floating point; or None.
        """
        if not is_plain(edge_index):
            raise ValueError(f"edge_index is {described(edge_index)}; accepted: a tensor with two rows of integers")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype not in _INTEGERS:
            raise ValueError(
                f"edge_index has shape {list(edge_index.shape)} and type {edge_index.dtype}; accepted: two rows of"
                " integers"
            )
        source, target = edge_index.to(torch.int64)
        lowest, highest = (int(edge_index.min()), int(edge_index.max())) if edge_index.numel() else (0, -1)
        if num_nodes is None:
            num_nodes = highest + 1
        if not hasattr(num_nodes, "__index__") or not 0 <= num_nodes <= _MAX_NODES:
            raise ValueError(f"num_nodes is {num_nodes}; accepted: 0 to {_MAX_NODES}")
        num_nodes = int(num_nodes)
        if lowest < 0 or highest >= num_nodes:
            raise ValueError(f"edge_index names nodes {lowest} to {highest}; accepted: 0 to {num_nodes - 1}")
        check_weights("edge_weight", edge_weight, source)
        order = torch.argsort(target * num_nodes + source, stable=True)
        weights = None if edge_weight is None else edge_weight[order]
        return cls(_starts(target, num_nodes), source[order], weights, check=False)

    @classmethod
    def from_pyg(cls, data) -> Graph:
        """From a torch_geometric.data.Data, or any object with edge_index, num_nodes and, optionally, edge_weight."""
        if hasattr(data, "edge_types"):
            raise TypeError(
                f"{type(data).__name__} has nodes and edges of several types; accepted: nodes of one type, as"
                " data.to_homogeneous() makes them, or the edge_index of one type of edges between them"
            )
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None and getattr(data, "adj_t", None) is not None:
            raise TypeError(
                f"{type(data).__name__} has adj_t and no edge_index; accepted: the Data before ToSparseTensor, or"
                " Graph(row_starts, columns, weights) with the three parts of adj_t: adj_t.csr(), or crow_indices(),"
                " col_indices() and values() if it is a torch tensor"
            )
        return cls.from_edge_index(edge_index, data.num_nodes, getattr(data, "edge_weight", None))

    def with_self_loops(self) -> Graph:
        """The graph with exactly one edge from every node to itself. If a node has such edges, the last one is kept
        with its weight; otherwise a new one has weight 1. PyTorch Geometric's ``add_remaining_self_loops`` does the
        same."""
        return self._once("self loops", self._add_self_loops)

    def _add_self_loops(self) -> Graph:
        rows, columns = self._rows(), self.columns.long()
        others = rows != columns
        loops = torch.arange(self.num_nodes, device=columns.device)
        weights = self.weights
        if weights is not None:
            last = torch.full((self.num_nodes,), -1, device=columns.device)
            own = (~others).nonzero().squeeze(1)
            last.scatter_reduce_(0, rows[own], own, "amax")
            of_loops = torch.where(last < 0, weights.new_ones(()), weights[last.clamp(min=0)])
            weights = torch.cat([weights[others], of_loops])
        edges = torch.stack([torch.cat([columns[others], loops]), torch.cat([rows[others], loops])])
        return Graph.from_edge_index(edges, self.num_nodes, weights)

    def gcn_normalized(self) -> Graph:
        """The graph with the weights of a graph convolution, as in PyTorch Geometric's ``GCNConv``: the edge over which
        node i gathers from node j has w_ij / sqrt(d_i * d_j), where d is the sum of the weights into a node."""
        return self._once("normalized", self._normalize)

    def _normalize(self) -> Graph:
        rows, columns = self._rows(), self.columns.long()
        weights = torch.ones(self.num_edges, device=columns.device) if self.weights is None else self.weights
        # In float64: exact for graphs without weights, however many edges a node has.
        total = torch.zeros(self.num_nodes, dtype=torch.float64, device=columns.device)
        total.index_add_(0, rows, weights.double())
        if bool((total < 0).any()):
            node = int((total < 0).nonzero()[0])
            raise ValueError(f"the weights into node {node} add up to {float(total[node]):g}; accepted: 0 or more")
        # A node whose weights add up to 0 gathers nothing.
        scale = total.rsqrt().masked_fill_(total == 0, 0)
        normalized = (weights.double() * (scale[rows] * scale[columns])).to(weights.dtype)
        return Graph(self.row_starts, self.columns, normalized, check=False)

    def beside_identity(self) -> SimpleNamespace:
        """The matrix [A I] and its transpose, as aggregate() takes them: a node gathers from its neighbours in the
        first half of the rows, and from itself in the second. Takes as much memory as A and a separate transpose."""
        return self._once("beside identity", self._make_beside_identity)

    def _make_beside_identity(self) -> SimpleNamespace:
        nodes, edges = self.num_nodes, self.num_edges + self.num_nodes
        index = index_type(max(2 * nodes, edges))
        own = torch.arange(nodes + 1, dtype=index, device=self.device)
        row_starts = self.row_starts.to(index) + own
        last = torch.zeros(edges, dtype=torch.bool, device=self.device)
        last[row_starts[1:].long() - 1] = True

        def with_last(of_edges, of_nodes):
            return of_nodes.new_empty(edges).masked_scatter_(last, of_nodes).masked_scatter_(~last, of_edges)

        columns = with_last(self.columns.to(index), nodes + own[:-1])
        weights = None
        if self.weights is not None:
            weights = with_last(self.weights, self.weights.new_ones(nodes))
        transpose = torch.ops.rtopk.transpose_graph(row_starts, columns, weights, 2 * nodes)
        names = ("row_starts", "columns", "weights", "t_row_starts", "t_columns", "t_weights")
        return SimpleNamespace(**dict(zip(names, (row_starts, columns, weights, *transpose), strict=True)))

    def to(self, device: torch.device | str) -> Graph:
        """The graph on a device, with the transpose if it was made."""
        if self.columns.to(device) is self.columns:
            return self
        moved = Graph(*(None if part is None else part.to(device) for part in self._parts()), check=False)
        if self._transpose is not None:
            own = self._transpose[0] is self.row_starts
            moved._transpose = (
                moved._parts() if own else tuple(None if part is None else part.to(device) for part in self._transpose)
            )
        return moved

    # ---- Properties ----

    @property
    def num_nodes(self) -> int:
        return self.row_starts.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.columns.numel()

    @property
    def device(self) -> torch.device:
        return self.columns.device

    @property
    def t_row_starts(self) -> torch.Tensor:
        return self._transposed()[0]

    @property
    def t_columns(self) -> torch.Tensor:
        return self._transposed()[1]

    @property
    def t_weights(self) -> torch.Tensor | None:
        return self._transposed()[2]

    def matrices(self, reduce: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The graph and its transpose as sparse CSR tensors, with which torch aggregates dense features ("sum" or
        "mean")."""
        check_aggregation(self, reduce)
        if reduce not in self._matrices:
            with torch.inference_mode(False):  # training may use it later
                weights = self._reduction_weights(reduce)
                self._matrices[reduce] = csr_matrices(self.row_starts, self.columns, weights, self.num_nodes)
        return self._matrices[reduce]

    def __getstate__(self) -> dict:
        # For copies and pickles: torch cannot copy sparse tensors.
        return self.__dict__ | {"_matrices": {}}

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        on = "" if self.device.type == "cpu" else f", device='{self.device}'"
        return f"Graph(nodes={self.num_nodes}, edges={self.num_edges}{weighted}{on})"

    def _once(self, name, make):
        if name not in self._derived:
            self._check_executed()
            with torch.inference_mode(False):
                self._derived[name] = make()
        return self._derived[name]

    def prepared(self) -> Graph:
        """This graph, with all that layers derive from it made now: the transpose, self loops and weights for GCN,
        [A I] for GIN. torch.compile, torch.export and tracers need it, because they cannot make it."""
        self._transposed()
        self.beside_identity()
        for graph in (self, self.with_self_loops()):
            with contextlib.suppress(ValueError):  # negative sums of weights: not for GCN
                graph.gcn_normalized()._transposed()
        return self

    def _check_executed(self) -> None:
        """An error while a call is recorded: what is derived here depends on the elements of the graph, which cannot be
        read then."""
        if is_recorded(self.columns):
            raise RuntimeError(
                "the network needs a part of the graph that is not made yet, and that cannot be made while"
                " torch.compile, torch.export or a tracer records the call; accepted: graph.prepared(), called before"
            )

    def _parts(self):
        return self.row_starts, self.columns, self.weights

    def _rows(self) -> torch.Tensor:
        """The row of every edge."""
        degrees = self.row_starts.diff().long()
        return torch.repeat_interleave(torch.arange(self.num_nodes, device=self.device), degrees)

    def _reduction_weights(self, reduce: str) -> torch.Tensor:
        weights = torch.ones(self.num_edges, device=self.device) if self.weights is None else self.weights
        return weights / self.row_starts.diff()[self._rows()] if reduce == "mean" else weights

    def _transposed(self):
        if self._transpose is None:
            self._check_executed()
            with torch.inference_mode(False):
                transpose = torch.ops.rtopk.transpose_graph(self.row_starts, self.columns, self.weights, self.num_nodes)
            same = all(a is b or torch.equal(a, b) for a, b in zip(self._parts(), transpose, strict=True))
            self._transpose = self._parts() if same else transpose
        return self._transpose


def _starts(rows: torch.Tensor, num_rows: int) -> torch.Tensor:
    starts = torch.zeros(num_rows + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(rows, minlength=num_rows).cumsum(0)
    return starts
