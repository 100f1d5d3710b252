"""Graphs as the aggregation kernels take them: compressed rows, and the same of the transpose."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace

import torch

from .._functions import is_unwatched
from .._registrations import selector_dtype
from ._aggregate import check_aggregation

# Edges are sorted by row · nodes + column, in 64 bits.
_MOST_NODES = 3_037_000_499

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def index_type(most: int) -> torch.dtype:
    """The smallest type of indices up to a number."""
    return torch.int32 if most < 2**31 else torch.int64


class Graph:
    """A directed graph as a square matrix in compressed sparse rows. Row i lists the nodes that node i gathers from.

    Indices are int32 where they fit, else int64. An edge may occur several times, and then counts several times. The
    transpose, which the derivative of an aggregation needs, is made once, when it is first asked for; where the graph
    is its own transpose it takes no memory.

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
            row_starts: where each row's edges begin, and at the end their number: nodes + 1 integers.
            columns: the node at the other end of each edge.
            weights: one floating-point number an edge, kept as float32, or None.
            check: False where the arrays are known to be good.
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
        """From PyTorch Geometric's form: sources and targets as two rows. A target gathers from its sources."""
        if not _is_plain(edge_index):
            raise ValueError(f"edge_index is {_described(edge_index)}; accepted: a tensor with two rows of integers")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype not in _INTEGERS:
            raise ValueError(
                f"edge_index has shape {list(edge_index.shape)} and type {edge_index.dtype}; accepted: two rows of"
                " integers"
            )
        source, target = edge_index.to(torch.int64)
        least, most = (int(edge_index.min()), int(edge_index.max())) if edge_index.numel() else (0, -1)
        if num_nodes is None:
            num_nodes = most + 1
        if not hasattr(num_nodes, "__index__") or not 0 <= num_nodes <= _MOST_NODES:
            raise ValueError(f"num_nodes is {num_nodes}; accepted: 0 to {_MOST_NODES}")
        num_nodes = int(num_nodes)
        if least < 0 or most >= num_nodes:
            raise ValueError(f"edge_index names nodes {least} to {most}; accepted: 0 to {num_nodes - 1}")
        check_weights("edge_weight", edge_weight, source)
        order = torch.argsort(target * num_nodes + source, stable=True)
        weights = None if edge_weight is None else edge_weight[order]
        return cls(_starts(target, num_nodes), source[order], weights, check=False)

    @classmethod
    def from_pyg(cls, data) -> Graph:
        """From a torch_geometric.data.Data (or anything with edge_index, num_nodes and perhaps edge_weight)."""
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
                " col_indices() and values() where it is a tensor of torch"
            )
        return cls.from_edge_index(edge_index, data.num_nodes, getattr(data, "edge_weight", None))

    def with_self_loops(self) -> Graph:
        """The same with one edge from every node to itself: the last one that the graph has, with its weight, else a
        new one of weight 1. Made once. PyTorch Geometric's ``add_remaining_self_loops`` does the same."""
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
        """The same with the weights of a graph convolution, as PyTorch Geometric's ``GCNConv`` has them: w divided by
        sqrt(weight into i · weight into j), for the edge over which node i gathers from node j. Made once."""
        return self._once("normalized", self._normalize)

    def _normalize(self) -> Graph:
        rows, columns = self._rows(), self.columns.long()
        weights = torch.ones(self.num_edges, device=columns.device) if self.weights is None else self.weights
        # In float64, where the sums of a million edges are exact for graphs without weights.
        total = torch.zeros(self.num_nodes, dtype=torch.float64, device=columns.device)
        total.index_add_(0, rows, weights.double())
        if bool((total < 0).any()):
            node = int((total < 0).nonzero()[0])
            raise ValueError(f"the weights into node {node} add up to {float(total[node]):g}; accepted: 0 or more")
        # Where they add up to nothing, nothing is gathered.
        scale = total.rsqrt().masked_fill_(total == 0, 0)
        normalized = (weights.double() * (scale[rows] * scale[columns])).to(weights.dtype)
        return Graph(self.row_starts, self.columns, normalized, check=False)

    def beside_identity(self) -> SimpleNamespace:
        """The matrix [A I], and its transpose, as aggregate() takes them: a node gathers from its neighbours in one lot
        of rows and from itself in a second one. Made once; takes as much memory as A with a transpose of its own."""
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
        """The same on a device, with the transpose if it was made."""
        if self.columns.to(device) is self.columns:
            return self
        moved = Graph(*(None if part is None else part.to(device) for part in self._parts()), check=False)
        if self._transpose is not None:
            own = self._transpose[0] is self.row_starts
            moved._transpose = (
                moved._parts() if own else tuple(None if part is None else part.to(device) for part in self._transpose)
            )
        return moved

    # ---- What it is ----

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
        "mean"). Made once."""
        check_aggregation(self, reduce)
        if reduce not in self._matrices:
            with torch.inference_mode(False):  # training may need it later
                weights = self._reduction_weights(reduce)
                self._matrices[reduce] = csr_matrices(self.row_starts, self.columns, weights, self.num_nodes)
        return self._matrices[reduce]

    def __getstate__(self) -> dict:
        # Of a copy or a pickle. torch has no copies of sparse tensors.
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
        """This graph, with all that networks derive from it made now: the transpose, the weights of a GCN, the node's
        own rows of a GIN. torch.compile, torch.export and tracers need it, for they cannot make it."""
        self._transposed()
        self.beside_identity()
        with contextlib.suppress(ValueError):  # of negative degrees, which no GCN can have
            self.gcn_normalized()._transposed()
        return self

    def _check_executed(self) -> None:
        """What is made here depends on the numbers in the graph, which a recorded call has not got."""
        if not is_unwatched(self.columns):
            raise RuntimeError(
                "a part of the graph that the network needs is not made yet, and cannot be while a call is recorded by"
                " torch.compile, torch.export or a tracer; accepted: graph.prepared(), called before"
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


def csr_matrices(row_starts, columns, values, num_columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sparse matrix and its transpose, for :func:`csr_product`."""
    transpose = torch.ops.rtopk.transpose_graph(row_starts, columns, values, num_columns)
    return _csr_tensor(row_starts, columns, values, num_columns), _csr_tensor(*transpose, row_starts.numel() - 1)


def _csr_tensor(row_starts, columns, values, num_columns) -> torch.Tensor:
    with warnings.catch_warnings():
        # That they are in beta, and in some versions that they are not checked, though that was asked for.
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)", category=UserWarning)
        return torch.sparse_csr_tensor(
            row_starts, columns, values, (row_starts.numel() - 1, num_columns), check_invariants=False
        )


def _times(matrix: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """matrix @ dense. On a GPU that is cuSPARSE, which adds up in any order, and refuses a matrix without entries or
    with more of them than it has places."""
    cols, entries = dense.shape[1], matrix.values().numel()
    refused = entries == 0 or entries > matrix.shape[0] * matrix.shape[1]
    own = dense.is_cuda and (refused or torch.are_deterministic_algorithms_enabled())
    if own and matrix.dtype == dense.dtype == torch.float32 and 0 < cols <= 65536:
        # A dense row is a compact one with all of its columns.
        selectors = torch.arange(cols, device=dense.device).to(selector_dtype(cols))
        selectors = selectors.expand(dense.shape).contiguous()
        starts, columns, weights = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        return torch.ops.rtopk.aggregate(starts, columns, weights, dense.contiguous(), selectors, cols, False, True)
    # torch's product takes one type, and on a CPU no bfloat16, which autocast would make of both.
    with torch.autocast(dense.device.type, enabled=False):
        return (matrix @ dense.to(matrix.dtype)).to(dense.dtype)


class _CsrProduct(torch.autograd.Function):
    """matrix @ dense. torch's own derivative transposes the matrix again in every step."""

    @staticmethod
    def forward(ctx, dense, matrix, transpose):
        ctx.transpose = transpose
        return _times(matrix, dense)

    @staticmethod
    def backward(ctx, grad):
        return _times(ctx.transpose, grad), None, None


def csr_product(matrices: tuple[torch.Tensor, torch.Tensor], dense: torch.Tensor) -> torch.Tensor:
    """The product of a sparse matrix, given with its transpose, and a dense one; differentiable in the dense one."""
    return _CsrProduct.apply(dense, *matrices)


def _starts(rows: torch.Tensor, num_rows: int) -> torch.Tensor:
    starts = torch.zeros(num_rows + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(rows, minlength=num_rows).cumsum(0)
    return starts


def check_csr(row_starts, columns, num_columns: int | None = None) -> None:
    """A ValueError where compressed rows of a user are not good. Without a number of columns, of a square matrix."""
    for name, tensor in (("row_starts", row_starts), ("columns", columns)):
        if not _is_plain(tensor) or tensor.dim() != 1 or tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name} is {_described(tensor)}; accepted: a tensor with one dimension of int32 or int64")
    _check_device("columns", columns, row_starts)
    problem = csr_problem(row_starts, columns, row_starts.numel() - 1 if num_columns is None else num_columns)
    if problem:
        raise ValueError(problem)


def check_weights(name: str, weights, columns: torch.Tensor) -> None:
    if weights is None:
        return
    if not isinstance(weights, torch.Tensor):
        raise ValueError(f"{name} is {type(weights).__name__}; accepted: a tensor, or None")
    if not _is_plain(weights) or weights.shape != columns.shape or not weights.is_floating_point():
        raise ValueError(
            f"{name} is {_described(weights)}; accepted: a floating-point number for each of {columns.numel()} edges"
        )
    _check_device(name, weights, columns)


def _is_plain(tensor) -> bool:
    """Whether it is a tensor whose elements lie in memory one by one."""
    return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.device.type != "meta"


def _described(tensor) -> str:
    if not isinstance(tensor, torch.Tensor):
        return type(tensor).__name__
    how = "" if _is_plain(tensor) else f", {tensor.layout} on {tensor.device}"
    return f"{list(tensor.shape)} of {tensor.dtype}{how}"


def _check_device(name: str, tensor: torch.Tensor, other: torch.Tensor) -> None:
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}; accepted: {other.device}, where the rest is")


def csr_problem(row_starts: torch.Tensor, columns: torch.Tensor, num_columns: int) -> str | None:
    """What is wrong with compressed rows, or None."""
    return starts_problem(row_starts, columns.numel()) or columns_problem(columns, num_columns)


def starts_problem(row_starts: torch.Tensor, entries: int) -> str | None:
    """What is wrong with the starts of rows that have so many entries together, or None."""
    if row_starts.numel() == 0:
        return "row_starts is empty; accepted: one more than there are rows"
    if int(row_starts[0]) != 0 or int(row_starts[-1]) != entries:
        return (
            f"row_starts goes from {int(row_starts[0])} to {int(row_starts[-1])}; accepted: from 0 to the number of"
            f" entries, {entries}"
        )
    # Compared, not subtracted: a difference may wrap around. Together with both ends this bounds every one.
    falls = row_starts[1:] < row_starts[:-1]
    if bool(falls.any()):
        row = int(falls.nonzero()[0])
        return f"row_starts falls at row {row}; accepted: each at least as large as the one before"
    return None


def columns_problem(columns: torch.Tensor, num_columns: int) -> str | None:
    if columns.numel() and (int(columns.min()) < 0 or int(columns.max()) >= num_columns):
        return f"columns go from {int(columns.min())} to {int(columns.max())}; accepted: 0 to {num_columns - 1}"
    return None
