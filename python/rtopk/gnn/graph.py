"""Graphs in the form of the aggregation kernels: compressed sparse rows (CSR), with the transpose."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from .._torch_internals import is_recorded
from ._aggregate import aggregate, check_aggregation, index_type
from ._csr import check_csr, check_weights, csr_matrices, described, is_plain
from ._text import short

_OPS = torch.ops.rtopk

# Edges are sorted by row * nodes + column, which has to fit in 64 bits.
_MAX_NODES = 3_037_000_499

# Kinds of edges that every row gets: gnn::OwnEdge in src/internal/own_edges.hpp.
_NO_EDGE, _SELF_LOOP, _IDENTITY = 0, 1, 2

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Graph:
    """A directed graph as a matrix in compressed sparse rows. Row i lists the nodes that node i gathers from.

    The matrix is square, or has a row for each target and a column for each source, as in the layers of a mini-batch.
    Then the targets are the first of the sources, unless a layer is given the rows of both.

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
        num_sources: int | None = None,
        check: bool = True,
    ) -> None:
        """
        Args:
            row_starts: [nodes + 1], int32 or int64: where each row's edges begin, and last the number of edges.
            columns: [edges], int32 or int64: the node that each edge gathers from.
            weights: [edges], floating point, kept as float32; or None.
            num_sources: how many nodes there are to gather from; None: as many as rows.
            check: False if the tensors are known to be valid.
        """
        if check:
            if num_sources is not None:
                _checked_count("num_sources", num_sources)
            check_csr(row_starts, columns, num_sources)
            check_weights("weights", weights, columns)
        nodes = row_starts.numel() - 1
        self.num_sources = nodes if num_sources is None else int(num_sources)
        index = index_type(max(nodes, self.num_sources, columns.numel()))
        self.row_starts = _as_kept(row_starts, index)
        self.columns = _as_kept(columns, index)
        self.weights = None if weights is None else _as_kept(weights, torch.float32)
        self._transpose: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None = None
        self._matrices: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._derived: dict[str, Graph] = {}
        self._known_starts: dict[int, int] = {}  # some of row_starts, by row
        self._others_have_loops = False  # whether sources that are no targets count as having a self loop

    # ---- Ways to make one ----

    @classmethod
    def from_edge_index(
        cls,
        edge_index: torch.Tensor,
        num_nodes: int | None = None,
        edge_weight: torch.Tensor | None = None,
        size: tuple[int, int] | None = None,
    ) -> Graph:
        """From PyTorch Geometric's form.

        Args:
            edge_index: [2, edges], integers: the source and the target of each edge. A target gathers from its sources.
            num_nodes: the number of nodes; None: one more than the largest in edge_index.
            edge_weight: [edges], floating point; or None.
            size: (sources, targets) instead of num_nodes, for mini-batches. The edges of a target are then in the order
                in which they are given, without a sort, if the targets in edge_index ascend; otherwise, and always
                without a size, edges are sorted by target and source.
        """
        return cls._from_edges(_int64_edges(edge_index), num_nodes, edge_weight, size)

    @classmethod
    def from_mini_batch(cls, edge_index: torch.Tensor, size: tuple[int, int], cuts: Sequence[int]) -> Graph:
        """from_edge_index() with a size. Also reads where the edges of the targets in `cuts` begin, for
        :meth:`starts_at`: a mini-batch is cut there, and whenever something is read, the host waits for a GPU."""
        return cls._from_edges(_int64_edges(edge_index), None, None, size, cuts)

    @classmethod
    def _from_edges(cls, edge_index, num_nodes, edge_weight, size, cuts: Sequence[int] = ()) -> Graph:
        starts = None
        if size is not None:
            num_sources, num_targets = checked_size(size, num_nodes)
            starts = starts_of(edge_index[1], num_targets)
            cuts = [cut for cut in cuts if 0 <= cut <= num_targets]
        of_source, of_target, ascending, *starts_at_cuts = _read_edges(edge_index, starts, cuts)
        of_nodes = (min(of_source[0], of_target[0]), max(of_source[1], of_target[1]))
        if size is None:
            num_nodes = of_nodes[1] + 1 if num_nodes is None else num_nodes
            num_sources = num_targets = _checked_count("num_nodes", num_nodes)
        if num_sources == num_targets:
            _check_names("nodes", of_nodes, num_targets)
        _check_names("sources", of_source, num_sources)
        _check_names("targets", of_target, num_targets)
        source, target = edge_index
        check_weights("edge_weight", edge_weight, source)
        if size is None or not ascending:
            order = torch.argsort(target * num_sources + source, stable=True)
            source, starts = source[order], starts_of(target[order], num_targets)
            edge_weight, starts_at_cuts = None if edge_weight is None else edge_weight[order], ()
        graph = cls(starts, source, edge_weight, num_sources=num_sources, check=False)
        graph._known_starts = dict(zip(cuts, starts_at_cuts, strict=False))
        return graph

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

    def starts_at(self, rows: list[int]) -> list[int]:
        """Where the edges of some rows begin. Waits for a GPU, unless they are known."""
        if any(row not in self._known_starts for row in rows):
            self._known_starts |= dict(zip(rows, self.row_starts[rows].tolist(), strict=True))
        return [self._known_starts[row] for row in rows]

    def first_targets(self, targets: int, sources: int, edges: int) -> Graph:
        """The graph of the first targets alone, which have this many edges together and gather from the first
        sources. What a layer of a mini-batch has; without copies."""
        weights = None if self.weights is None else self.weights[:edges]
        return Graph(self.row_starts[: targets + 1], self.columns[:edges], weights, num_sources=sources, check=False)

    def with_self_loops(self, *, none_yet: bool = False) -> Graph:
        """The graph with exactly one edge from every node to itself. If a node has such edges, the last one is kept
        with its weight; otherwise a new one has weight 1. PyTorch Geometric's ``add_remaining_self_loops`` does the
        same. Sources that are no targets have no row; :meth:`gcn_normalized` counts their new edge.

        Args:
            none_yet: the caller knows that no node has such an edge. Then nothing waits for a GPU.
        """
        return self if self._others_have_loops else self._once("self loops", lambda: self._add_self_loops(none_yet))

    def has_self_loops(self) -> bool:
        """Whether any node has an edge to itself. Waits for a GPU."""
        nodes = torch.arange(self.num_nodes, dtype=self.columns.dtype, device=self.device)
        rows = torch.repeat_interleave(nodes, self.row_starts.diff(), output_size=self.num_edges)
        return bool((rows == self.columns).any())

    def _add_self_loops(self, none_yet: bool) -> Graph:
        self._check_targets_among_sources()
        starts, columns, weights, _ = self._with_own_edges(_SELF_LOOP)
        kept = columns >= 0  # the others are empty places, where loops were that went away
        if not none_yet and not bool(kept.all()):
            starts = _partial_sums(kept)[starts.long()]
            columns, weights = columns[kept], None if weights is None else weights[kept]
        with_loops = Graph(starts, columns, weights, num_sources=self.num_sources, check=False)
        with_loops._others_have_loops = True
        return with_loops

    def _with_own_edges(self, edge: int, normalized: bool = False):
        """Row starts, columns, weights, and factors of the rows, by the operator (src/internal/own_edges.hpp). Does not
        wait for a GPU."""
        row_starts, columns, weights = self._parts()
        if edge != _NO_EDGE:
            index = index_type(max(self.num_sources, self.num_edges) + self.num_nodes)
            row_starts, columns = row_starts.to(index), columns.to(index)
        others = self._others_have_loops
        made = _OPS._own_edges.default(row_starts, columns, weights, self.num_sources, edge, normalized, others)
        if normalized and weights is not None and bool(made[3].isnan().any()):
            graph = self if edge == _NO_EDGE else self.with_self_loops()
            total = torch.zeros(self.num_nodes, dtype=torch.float64, device=self.device)
            total.index_add_(0, graph._rows(), graph.weights.double())
            if bool((total < 0).any()):
                node = int((total < 0).nonzero()[0])
                raise ValueError(f"the weights into node {node} add up to {float(total[node]):g}; accepted: 0 or more")
        return made

    def gcn_normalized(self) -> Graph:
        """The graph with the weights of a graph convolution, as in PyTorch Geometric's ``GCNConv``: the edge over which
        node i gathers from node j has w_ij / sqrt(d_i * d_j), where d is the sum of the weights into a node. If targets
        are fewer than sources, the result is the first rows of that of the square matrix."""
        return self._once("normalized", self._normalize)

    def _normalize(self) -> Graph:
        self._check_targets_among_sources()
        weights = self._with_own_edges(_NO_EDGE, normalized=True)[2]
        return Graph(self.row_starts, self.columns, weights, num_sources=self.num_sources, check=False)

    def gcn_with_self_loops(self) -> Graph:
        """with_self_loops().gcn_normalized(), for sums of compact rows and nothing else: made in one step, in which
        edges that go away leave empty places (column -1), so that nothing waits for a GPU."""
        if self._others_have_loops:
            return self.gcn_normalized()
        return self._once("normalized, with self loops", self._make_gcn_with_self_loops)

    def _make_gcn_with_self_loops(self) -> Graph:
        self._check_targets_among_sources()
        parts = self._with_own_edges(_SELF_LOOP, normalized=True)[:3]
        return Graph(*parts, num_sources=self.num_sources, check=False)

    def _check_targets_among_sources(self) -> None:
        if self.num_nodes > self.num_sources:
            raise ValueError(
                f"the graph has {self.num_nodes} targets and {self.num_sources} sources; accepted: targets that are the"
                " first of the sources"
            )

    def beside_identity(self) -> Graph:
        """The matrix [A I]: a node gathers from its neighbours in the first rows, one for each source, and from itself
        in the rows after them, one for each target. Takes as much memory as A and a separate transpose."""
        return self._once("beside identity", self._make_beside_identity)

    def _make_beside_identity(self) -> Graph:
        parts = self._with_own_edges(_IDENTITY)[:3]
        return Graph(*parts, num_sources=self.num_sources + self.num_nodes, check=False)

    def to(self, device: torch.device | str) -> Graph:
        """The graph on a device, with the transpose if it was made."""
        if self.columns.to(device) is self.columns:
            return self
        parts = (None if part is None else part.to(device) for part in self._parts())
        moved = Graph(*parts, num_sources=self.num_sources, check=False)
        moved._others_have_loops = self._others_have_loops
        if self._transpose is not None:
            own = self._transpose[0] is self.row_starts
            moved._transpose = (
                moved._parts() if own else tuple(None if part is None else part.to(device) for part in self._transpose)
            )
        return moved

    # ---- Properties ----

    @property
    def num_nodes(self) -> int:
        """The number of rows: of nodes, or of targets."""
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

    @property
    def maps_first(self) -> bool:
        """Whether a CPU may map rows before it sums them. More sources than targets are more to map than to sum."""
        return self.num_sources == self.num_nodes

    def aggregate(self, values: torch.Tensor, selectors: torch.Tensor, cols: int, reduce: str) -> torch.Tensor:
        """The "sum" or "mean" of the neighbours' compact rows: [nodes, cols], dense."""
        transpose = self.transpose_for_gradient(torch.are_deterministic_algorithms_enabled())
        return aggregate(self, values, selectors, cols, reduce, transpose)

    def transpose_for_gradient(self, deterministic: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """The transpose for the gradient of an aggregation. Atomic additions do not read it: tensors of its shapes with
        any content stand in for it. So a graph that is used once is not transposed."""
        if self.device.type == "cuda" and not deterministic and self._transpose is None:
            return self.row_starts.new_empty(self.num_sources + 1), self.columns, self.weights
        return self._transposed()

    def matrices(self, reduce: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The graph and its transpose as sparse CSR tensors, with which torch aggregates dense features ("sum" or
        "mean")."""
        check_aggregation(self, reduce)
        if reduce not in self._matrices:
            with torch.inference_mode(False):  # training may use it later
                weights = self._reduction_weights(reduce)
                self._matrices[reduce] = csr_matrices(self.row_starts, self.columns, weights, self.num_sources)
        return self._matrices[reduce]

    def __getstate__(self) -> dict:
        # For copies and pickles: torch cannot copy sparse tensors.
        return self.__dict__ | {"_matrices": {}}

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        on = "" if self.device.type == "cpu" else f", device='{self.device}'"
        square = self.num_nodes == self.num_sources
        nodes = f"nodes={self.num_nodes}" if square else f"sources={self.num_sources}, targets={self.num_nodes}"
        return f"Graph({nodes}, edges={self.num_edges}{weighted}{on})"

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
        self.beside_identity()._transposed()
        self.with_self_loops()
        for normalized in (self.gcn_normalized, self.gcn_with_self_loops):
            with contextlib.suppress(ValueError):  # negative sums of weights: not for GCN
                normalized()._transposed()
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
        nodes = torch.arange(self.num_nodes, device=self.device)
        return torch.repeat_interleave(nodes, self.row_starts.diff(), output_size=self.num_edges)

    def _reduction_weights(self, reduce: str) -> torch.Tensor:
        weights = torch.ones(self.num_edges, device=self.device) if self.weights is None else self.weights
        return weights / self.row_starts.diff()[self._rows()] if reduce == "mean" else weights

    def _transposed(self):
        if self._transpose is None:
            self._check_executed()
            with torch.inference_mode(False):
                transpose = torch.ops.rtopk.transpose_graph(*self._parts(), self.num_sources)
            same = self.num_nodes == self.num_sources and all(
                a is b or torch.equal(a, b) for a, b in zip(self._parts(), transpose, strict=True)
            )
            self._transpose = self._parts() if same else transpose
        return self._transpose


def _as_kept(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in a type, contiguous. Mostly it is already, and torch takes longer to say so than to be asked."""
    if tensor.dtype is dtype and tensor.is_contiguous():
        return tensor
    return tensor.to(dtype).contiguous()


def checked_size(size, num_nodes: int | None = None) -> tuple[int, int]:
    """PyTorch Geometric's size of a bipartite graph: (sources, targets), both known."""
    if num_nodes is not None:
        raise ValueError(f"num_nodes is {num_nodes} with a size; accepted: one of them")
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ValueError(f"size is {short(size)}; accepted: (sources, targets)")
    return _checked_count("size[0]", size[0]), _checked_count("size[1]", size[1])


def _checked_count(name: str, count) -> int:
    if not hasattr(count, "__index__") or not 0 <= count <= _MAX_NODES:
        raise ValueError(f"{name} is {short(count)}; accepted: 0 to {_MAX_NODES}")
    return int(count)


def _check_names(what: str, ends: tuple[int, int], count: int) -> None:
    if ends[0] < 0 or ends[1] >= count:
        raise ValueError(f"edge_index names {what} {ends[0]} to {ends[1]}; accepted: 0 to {count - 1}")


def check_edge_index(edge_index) -> None:
    """Raises a ValueError unless these are two rows of integers."""
    if not is_plain(edge_index):
        raise ValueError(f"edge_index is {described(edge_index)}; accepted: a tensor with two rows of integers")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype not in _INTEGERS:
        raise ValueError(
            f"edge_index has shape {list(edge_index.shape)} and type {edge_index.dtype}; accepted: two rows of integers"
        )


def _int64_edges(edge_index) -> torch.Tensor:
    check_edge_index(edge_index)
    return edge_index.to(torch.int64)


def _read_edges(edge_index: torch.Tensor, starts: torch.Tensor | None, cuts: Sequence[int]) -> list:
    """The lowest and the highest source, the same of the targets, whether targets ascend, and the starts of some rows.
    Waits for a GPU once."""
    if edge_index.shape[1] == 0:
        return [(0, -1), (0, -1), True, *[0] * len(cuts)]
    target = edge_index[1]
    ascending = (target[1:] >= target[:-1]).all()
    at_cuts = [starts[cut : cut + 1] for cut in cuts] if starts is not None else []
    facts = torch.cat([*edge_index.aminmax(dim=1), ascending.view(1), *at_cuts]).tolist()
    return [(facts[0], facts[2]), (facts[1], facts[3]), bool(facts[4]), *facts[5:]]


def starts_of(ascending: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Where the edges of each row begin, from the ascending rows of all edges. Does not wait for a GPU."""
    rows = torch.arange(num_rows + 1, device=ascending.device)
    return torch.searchsorted(ascending.contiguous(), rows, out_int32=ascending.numel() < 2**31)


def _partial_sums(flags: torch.Tensor) -> torch.Tensor:
    """How many flags are set before each place, and last all of them."""
    return F.pad(flags.cumsum(0), (1, 0))
