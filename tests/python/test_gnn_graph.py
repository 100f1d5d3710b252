"""Graphs: every way to make one, and what is computed from it, against dense matrices."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import rtopk
from rtopk.gnn import Dataset, Graph, GraphError, SparseFeatures
from rtopk.gnn._csr import csr_matrices, csr_product


def dense(graph):
    """The adjacency as a matrix: entry (i, j) is the weight with which i gathers from j."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    for row in range(graph.num_nodes):
        for edge in range(int(graph.row_starts[row]), int(graph.row_starts[row + 1])):
            weight = 1.0 if graph.weights is None else float(graph.weights[edge])
            matrix[row, int(graph.columns[edge])] += weight
    return matrix


def transpose(graph):
    return Graph(graph.t_row_starts, graph.t_columns, graph.t_weights)


def random_graph(nodes=17, edges=60, weighted=False):
    edge_index = torch.randint(0, nodes, (2, edges))
    return Graph.from_edge_index(edge_index, nodes, torch.rand(edges) if weighted else None)


def test_a_target_gathers_from_its_sources():
    graph = Graph.from_edge_index(torch.tensor([[0, 2, 2], [1, 1, 0]]), 4)
    expected = torch.zeros(4, 4, dtype=torch.float64)
    expected[1, 0] = expected[1, 2] = expected[0, 2] = 1
    assert torch.equal(dense(graph), expected)
    assert graph.columns.dtype == torch.int32


def test_edges_that_occur_twice_count_twice_and_keep_their_weights():
    graph = Graph.from_edge_index(torch.tensor([[0, 0, 1], [1, 1, 1]]), 2, torch.tensor([0.5, 0.25, 2.0]))
    assert dense(graph).tolist() == [[0, 0], [0.75, 2]]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_transpose(weighted):
    graph = random_graph(weighted=weighted)
    assert torch.equal(dense(transpose(graph)), dense(graph).t())
    assert (graph.t_weights is None) != weighted


def test_a_symmetric_graph_shares_its_memory_with_the_transpose():
    edges = torch.randint(0, 30, (2, 50))
    graph = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1), 30)
    assert graph.t_columns is graph.columns
    assert graph.with_self_loops().gcn_normalized().t_weights is graph.with_self_loops().gcn_normalized().weights


@pytest.mark.parametrize("weighted", [False, True])
def test_every_node_has_one_self_loop(weighted):
    graph = random_graph(weighted=weighted)
    expected = dense(graph)
    expected.fill_diagonal_(1)
    if weighted:  # a loop that is there keeps its weight; of several, the last one is kept
        for row in range(graph.num_nodes):
            for edge in range(int(graph.row_starts[row]), int(graph.row_starts[row + 1])):
                if graph.columns[edge] == row:
                    expected[row, row] = graph.weights[edge].double()
    assert torch.equal(dense(graph.with_self_loops()), expected)


def test_self_loops_where_there_were_none():
    source, target = torch.randint(20, (2, 90))
    edges = torch.stack([source, target])
    loops, without = (Graph.from_edge_index(edges[:, kept], 20) for kept in (source == target, source != target))
    assert loops.num_edges > 0 and loops.has_self_loops() and not without.has_self_loops()
    again = Graph.from_edge_index(edges[:, source != target], 20)
    expected, made = without.with_self_loops(), again.with_self_loops(none_yet=True)
    assert made.row_starts.equal(expected.row_starts) and made.columns.equal(expected.columns)
    assert made.has_self_loops() and made.with_self_loops() is made


@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_of_a_convolution(weighted):
    graph = random_graph(weighted=weighted).with_self_loops()
    matrix = dense(graph)
    into = matrix.sum(1)
    expected = matrix / (into[:, None] * into[None, :]).sqrt()
    torch.testing.assert_close(dense(graph.gcn_normalized()), expected, rtol=1e-6, atol=0)


def test_weights_of_a_convolution_that_add_up_to_nothing_or_less():
    edges = torch.tensor([[0, 1, 2], [1, 2, 1]])
    weights = Graph.from_edge_index(edges, 3, torch.tensor([0.0, 1.0, 0.0])).gcn_normalized().weights
    assert weights.tolist() == [0, 0, 0]  # nothing goes into node 0, nor, by weight, into node 1
    with pytest.raises(ValueError, match="the weights into node 1 add up to -2; accepted: 0 or more"):
        Graph.from_edge_index(edges, 3, torch.tensor([0.0, 1.0, -2.0])).gcn_normalized()


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_weights_are_kept_as_the_kernels_take_them(kind):
    weights = torch.rand(2, dtype=kind)
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2, weights)
    assert graph.weights.dtype == torch.float32 and graph.weights.equal(weights.flip(0).float())


def test_copies_and_pickles():
    graph = random_graph(weighted=True)
    graph.matrices("mean"), graph.t_columns, graph.beside_identity(), graph.gcn_normalized().matrices("sum")
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert torch.equal(dense(other), dense(graph)) and torch.equal(dense(transpose(other)), dense(graph).t())
        assert torch.equal(other.matrices("mean")[0].to_dense(), graph.matrices("mean")[0].to_dense())


def test_nodes_without_edges_and_no_nodes_at_all():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 5)
    assert (graph.num_nodes, graph.num_edges) == (5, 0)
    assert dense(transpose(graph)).count_nonzero() == 0
    assert dense(graph.gcn_normalized()).count_nonzero() == 0
    assert dense(graph.with_self_loops()).equal(torch.eye(5, dtype=torch.float64))
    assert Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64)).num_nodes == 0


def test_moved_to_a_device(device):
    graph = random_graph(weighted=True)
    before = dense(transpose(graph))
    moved = graph.to(device)
    assert moved.device.type == device and moved.t_columns.device.type == device
    assert torch.equal(dense(transpose(moved).to("cpu")), before)
    assert moved.to(device) is moved


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("cols", [1, 40, 300])
def test_products_with_sparse_matrices(cols, index_dtype, baseline, device):
    matrix = torch.randn(60, 30) * (torch.rand(60, 30) < 0.2)
    matrix[7], matrix[:, 3] = 0, 0
    csr = matrix.to_sparse_csr()
    matrices = csr_matrices(csr.crow_indices().to(index_dtype), csr.col_indices().to(index_dtype), csr.values(), 30)
    matrices = tuple(part.to(device) for part in matrices)
    x, grad, exact = torch.randn(30, cols, device=device, requires_grad=True), torch.randn(60, cols), matrix.double()
    result = csr_product(matrices, x, baseline)
    torch.testing.assert_close(result.cpu().double(), exact @ x.detach().cpu().double(), rtol=1e-5, atol=1e-5)
    (of_x,) = torch.autograd.grad(result, x, grad.to(device))
    torch.testing.assert_close(of_x.cpu().double(), exact.T @ grad.double(), rtol=1e-5, atol=1e-5)


def test_products_of_sparse_matrices_have_second_derivatives():
    matrix = torch.randn(60, 30) * (torch.rand(60, 30) < 0.2)
    csr, x = matrix.to_sparse_csr(), torch.randn(30, 40, requires_grad=True)
    matrices = csr_matrices(csr.crow_indices(), csr.col_indices(), csr.values(), 30)
    of_x, exact = [], x.detach().double().requires_grad_()
    for product, rows in ((csr_product(matrices, x), x), (matrix.double() @ exact, exact)):
        (first,) = torch.autograd.grad(product.square().sum(), rows, create_graph=True)
        of_x.append(torch.autograd.grad(first.square().sum(), rows)[0].double())
    torch.testing.assert_close(*of_x, rtol=1e-4, atol=1e-4)


def test_matrices_for_dense_features():
    graph = random_graph()
    matrix = dense(graph)
    for reduce, expected in (("sum", matrix), ("mean", matrix / matrix.sum(1, keepdim=True).clamp(min=1))):
        forward, backward = graph.matrices(reduce)
        torch.testing.assert_close(forward.to_dense().double(), expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(backward.to_dense(), forward.to_dense().t())


@pytest.mark.parametrize(
    "arguments, text",
    [
        (([0, 2], [0]), "row_starts goes from 0 to 2"),
        (([0, 2, 1, 3], [0, 1, 2]), "row_starts falls at row 1"),
        (([1, 2], [0, 0]), "row_starts goes from 1"),
        (([0, 1], [1]), "columns go from 1 to 1; accepted: 0 to 0"),
        (([0, 1], [-1]), "columns go from -1"),
        (([], []), "row_starts is empty"),
        (([0, 2**62 + 2**31 - 1, -(2**62), 1], [0]), "row_starts falls at row 1"),  # differences wrap around
        (([0, 2**63 - 1, -(2**63), 1], [0]), "row_starts falls at row 1"),
    ],
)
def test_bad_rows_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        Graph(*(torch.tensor(part, dtype=torch.int64) for part in arguments))


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="row_starts is .* of torch.float32"):
        Graph(torch.zeros(2), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="weights is"):
        Graph(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(2))
    with pytest.raises(ValueError, match="two rows of integers"):
        Graph.from_edge_index(torch.zeros(3, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="names nodes 0 to 7; accepted: 0 to 4"):
        Graph.from_edge_index(torch.tensor([[0, 7], [1, 2]]), 5)
    edges = torch.tensor([[0], [1]])
    for weights, text in (
        (torch.ones(3), r"edge_weight is \[3\] of torch.float32; accepted: a floating-point number for each of 1"),
        (torch.ones(1, dtype=torch.int64), "edge_weight is .* of torch.int64"),
        ([1.0], "edge_weight is list"),
    ):
        with pytest.raises(ValueError, match=text):
            Graph.from_edge_index(edges, 2, weights)
    with pytest.raises(ValueError, match="edge_index is list; accepted: a tensor"):
        Graph.from_edge_index([[0], [1]])
    with pytest.raises(ValueError, match="type torch.bool"):
        Graph.from_edge_index(edges.bool())
    for nodes in (-1, 2.5, 2**62, "3"):
        with pytest.raises(ValueError, match="num_nodes is .*; accepted: 0 to 3037000499"):
            Graph.from_edge_index(edges[:, :0], nodes)
    for tensor in (edges.to_sparse(), edges.to("meta")):
        with pytest.raises(ValueError, match="edge_index is .* of torch.int64, .* on "):
            Graph.from_edge_index(tensor)
    with pytest.raises(ValueError, match="columns is .* of torch.int64, torch.strided on meta"):
        Graph(torch.tensor([0, 1]), torch.tensor([0]).to("meta"))
    with pytest.raises(ValueError, match="reduce is 'max'"):
        Graph.from_edge_index(edges).matrices("max")


@pytest.mark.parametrize(
    "starts, columns, values, cols, text",
    [
        ([0, 2**62 + 2**31 - 1, -(2**62), 1], [0], [1.0], 3, "row_starts falls at row 1"),
        ([0, 1], [3], [1.0], 3, "columns go from 3 to 3; accepted: 0 to 2"),
        ([0, 1], [0], [1.0, 2.0], 3, r"values is \[2\] of torch.float32"),
        ([0, 1], [0], [1], 3, "values is .* of torch.int64"),
    ],
)
def test_bad_sparse_features_are_refused(starts, columns, values, cols, text):
    with pytest.raises(ValueError, match=text):
        SparseFeatures(torch.tensor(starts), torch.tensor(columns), torch.tensor(values), cols)


def pyg_data(**fields):
    """PyTorch Geometric's own object where it is installed, else one that looks like it."""
    try:
        from torch_geometric.data import Data
    except ImportError:
        return SimpleNamespace(num_nodes=len(fields["x"]), **fields)
    return Data(**fields)


def test_data_of_pytorch_geometric():
    masks = torch.zeros(3, 6, dtype=torch.bool)
    masks[0, :3] = masks[1, 3] = masks[2, 4:] = True
    fields = {"edge_index": torch.tensor([[0, 1, 4], [1, 2, 5]]), "x": torch.rand(6, 3), "y": torch.arange(6) % 2}
    names = dict(zip(("train_mask", "val_mask", "test_mask"), masks, strict=True))
    dataset = Dataset.from_pyg(pyg_data(**fields, **names), "mine")
    assert dense(dataset.graph)[1, 0] == 1 and dataset.classes == 2
    assert [part.tolist() for part in (dataset.train, dataset.validation, dataset.test)] == [[0, 1, 2], [3], [4, 5]]
    for changes, text in (
        ({"y": None}, "mine: the Data object has no y"),
        ({"x": torch.rand(6)}, r"mine: x is \[6\] of torch.float32, torch.strided; accepted: a dense row of numbers"),
        ({"x": torch.rand(6, 3).to_sparse()}, "mine: x is .* torch.sparse_coo"),
        ({"x": torch.full((6, 3), torch.nan)}, "mine: x holds a NaN"),
        ({"edge_index": torch.tensor([[0], [7]])}, "mine: edge_index names nodes 0 to 7; accepted: 0 to 5"),
        ({"train_mask": masks[0]}, "mine: there is no val_mask and no test_mask"),
    ):
        with pytest.raises(GraphError, match=text):
            Dataset.from_pyg(pyg_data(**fields | changes), "mine")
    whole_numbers = {"x": torch.ones(6, 3, dtype=torch.int64), "y": fields["y"][:, None]}
    counts = Dataset.from_pyg(pyg_data(**fields | whole_numbers))
    assert counts.features.dtype == torch.float32 and counts.labels.equal(fields["y"])
    with pytest.raises(ValueError, match="edge_index is NoneType"):
        Graph.from_pyg(pyg_data(**fields | {"edge_index": None}))


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nodes,edges", [(17, 60), (5, 2), (3, 0), (1, 2), (0, 0)])
def test_beside_the_identity(nodes, edges, weighted, index, monkeypatch):
    monkeypatch.setattr("rtopk.gnn.graph.index_type", lambda most: index)
    edge_index = torch.randint(0, max(nodes, 1), (2, edges))
    graph = Graph.from_edge_index(edge_index, nodes, torch.rand(edges) if weighted else None)
    wide = graph.beside_identity()
    assert wide.columns.dtype == index

    def matrix(row_starts, columns, weights, shape):
        rows = torch.repeat_interleave(torch.arange(shape[0]), row_starts.diff().long())
        values = torch.ones(len(columns), dtype=torch.float64) if weights is None else weights.double()
        return torch.zeros(shape, dtype=torch.float64).index_put_((rows, columns.long()), values, accumulate=True)

    expected = torch.cat([dense(graph), torch.eye(nodes, dtype=torch.float64)], dim=1)
    assert torch.equal(matrix(wide.row_starts, wide.columns, wide.weights, (nodes, 2 * nodes)), expected)
    transposed = matrix(wide.t_row_starts, wide.t_columns, wide.t_weights, (2 * nodes, nodes))
    assert torch.equal(transposed, expected.t())


def test_what_was_made_in_inference_mode_can_train():
    graph = random_graph(weighted=True)
    with torch.inference_mode():
        graph.t_columns, graph.matrices("mean"), graph.beside_identity(), graph.gcn_normalized()
    for tensor in (graph.t_weights, graph.beside_identity().columns, graph.gcn_normalized().weights):
        assert not tensor.is_inference()
    assert not graph.matrices("mean")[0].is_inference()


def test_torch_does_not_warn_of_what_users_did_not_do():
    """In a process of its own: torch warns once."""
    program = "import torch, rtopk.gnn; rtopk.gnn.Graph(torch.tensor([0, 1]), torch.tensor([0])).matrices('sum')"
    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
