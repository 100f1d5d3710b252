"""Mini-batches of PyTorch Geometric's loaders: layers and networks beside its own, and captured steps."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")

from torch_geometric import nn, typing  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import ClusterData, ClusterLoader, NeighborLoader  # noqa: E402
from torch_geometric.transforms import ToSparseTensor  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import rtopk  # noqa: E402
from captured_batches import close as close_steps  # noqa: E402
from captured_batches import of_step, sgd  # noqa: E402
from geometric_loader import node_loader  # noqa: E402
from rtopk.gnn import CapturedBatchStep, MaxKGCNConv, MaxKGINConv, MaxKGNN, MaxKSAGEConv, hops_of  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from test_gnn_batches import close, gradients, random_parameters  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from batch_networks import GeometricNetwork  # noqa: E402

NODES, COLS, OUT, K, CLASSES = 300, 24, 16, 5, 4

pytestmark = pytest.mark.usefixtures("one_thread")


def batches_of(loader):
    edge_index = torch.randint(0, NODES, (2, 4000)).unique(dim=1)  # ToSparseTensor may add up edges that come twice
    data = Data(x=torch.randn(NODES, COLS), edge_index=edge_index)
    data.y = torch.randint(CLASSES, (NODES,))
    batches = list(loader(data, num_neighbors=[5, 4, 3], batch_size=100, shuffle=True))
    assert len(batches) == 3 and all(isinstance(batch, Data) for batch in batches)
    return batches


@pytest.fixture(scope="module", params=["NodeLoader", "NodeLoader, hops counted", "NeighborLoader"])
def neighbor_batches(request):
    """Mini-batches with the numbers of their hops, which torch-sparse leaves out."""
    torch.manual_seed(3)
    if request.param == "NeighborLoader":
        if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
            pytest.skip("neither pyg-lib nor torch-sparse is installed, and NeighborLoader needs one")
        batches = batches_of(NeighborLoader)
    else:
        batches = batches_of(node_loader)
    if "counted" in request.param:
        given = [hops_of(batch, 3) for batch in batches]
        for batch in batches:
            del batch.num_sampled_nodes, batch.num_sampled_edges
        assert [hops_of(batch, 3) for batch in batches] == given
    return [(batch, hops_of(batch, 3)) for batch in batches]


def test_the_batches_of_the_stand_in_are_edges_of_the_graph_and_seeds_come_first():
    edge_index, labels = torch.randint(0, NODES, (2, 4000)), torch.arange(NODES)
    data = Data(x=torch.randn(NODES, COLS), edge_index=edge_index, y=labels)
    edges, seeds = set(map(tuple, edge_index.t().tolist())), []
    for batch in node_loader(data, [5, 4], batch_size=100):
        assert set(map(tuple, batch.n_id[batch.edge_index].t().tolist())) <= edges
        assert torch.equal(batch.x, data.x[batch.n_id]) and batch.input_id.equal(batch.n_id[: batch.batch_size])
        seeds.append(batch.y[: batch.batch_size])
    assert torch.cat(seeds).equal(labels)


def geometric_twin(conv):
    """PyTorch Geometric's layer with the parameters of ours, which selects all columns; a function of rows and
    edges."""
    if isinstance(conv, MaxKSAGEConv):
        theirs = nn.SAGEConv(COLS, COLS)
        theirs.lin_l, theirs.lin_r = conv.neighbours, conv.own
        return theirs
    if isinstance(conv, MaxKGCNConv):
        theirs = nn.GCNConv(COLS, COLS)
        theirs.lin, theirs.bias = conv.linear, conv.bias
        return theirs
    theirs = nn.GINConv(torch.nn.Identity(), eps=float(conv.epsilon.detach()))
    return lambda x, edges: theirs(conv.linear(x), edges)


@pytest.mark.parametrize("model", MODELS)
def test_layers_in_neighbor_loader_are_those_of_pytorch_geometric(neighbor_batches, model):
    layers = [random_parameters(MODELS[model](COLS, COLS, COLS)) for _ in range(3)]
    twins = list(map(geometric_twin, layers))
    for batch, hops in neighbor_batches:
        outcomes = []
        for convolutions in (layers, twins):
            first = batch.x.clone().requires_grad_()
            x, edge_index = first, batch.edge_index
            for i, conv in enumerate(convolutions):
                x, edge_index, _ = trim_to_layer(i, *hops.values(), x, edge_index)
                x = conv(x, edge_index)
            outcomes.append(gradients(x[: batch.batch_size], [first]))
        greatest = [theirs.abs().max() for theirs in outcomes[1]]  # GIN's sums grow from layer to layer
        close(*([part / most for part, most in zip(outcome, greatest, strict=True)] for outcome in outcomes))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_networks_in_neighbor_loader_are_trimmed(neighbor_batches, model):
    network = random_parameters(MaxKGNN(model, COLS, COLS, 4, num_layers=3, k=K))
    for batch, hops in neighbor_batches:
        trimmed = network(batch.x, batch.edge_index, **hops)
        assert trimmed.shape == (batch.batch_size, 4)
        adj_t = ToSparseTensor()(batch.clone()).adj_t  # torch_sparse's, if that is installed
        close([network(batch.x, adj_t, **hops)], [trimmed])
        whole = network(batch.x, batch.edge_index)
        close([network(batch.x, adj_t)], [whole])
        if model != "gcn":  # whose degrees are those of the trimmed graph
            close([whole[: batch.batch_size]], [trimmed])


@pytest.mark.parametrize("layer", MODELS.values())
def test_batches_of_clusters(layer):
    """A ClusterLoader's batch is a square graph: the edges between the nodes of a few clusters. The loader's own, where
    its partitioner is installed."""
    edges = torch.randint(0, 300, (2, 2000))  # in both directions: METIS takes no others
    whole = Data(x=torch.randn(300, COLS), edge_index=torch.cat([edges, edges.flip(0)], 1))
    try:
        batches = list(ClusterLoader(ClusterData(whole, 6, log=False), batch_size=2))
    except ImportError:
        batches = [whole.subgraph(part) for part in torch.randperm(300).split(100)]
    conv = random_parameters(layer(COLS, OUT, K))
    assert len(batches) == 3
    for batch in batches:
        adjacency = torch.zeros(batch.num_nodes, batch.num_nodes)
        adjacency.index_put_((batch.edge_index[1], batch.edge_index[0]), torch.ones(()), accumulate=True)
        dense = random_parameters(layer(COLS, OUT, K, dense=True))
        dense.load_state_dict(conv.state_dict())
        close([conv(batch.x, batch.edge_index)], [dense(batch.x, batch.edge_index)])
        close([conv(batch.x, batch)], [conv(batch.x, batch.edge_index)])
        if layer is MaxKGINConv:
            rows = rtopk.maxk(conv.linear(batch.x), K)
            close([conv(batch.x, batch.edge_index)], [adjacency @ rows + (1 + conv.epsilon) * rows])


# ---- Captured steps, which on a CPU are computed one by one ----


@pytest.mark.parametrize("pad", [None, True], ids=["", "rounded"])
@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_are_those_of_pytorch_geometric(neighbor_batches, model, pad, device):
    """With all columns selected: the loss and all gradients of its convolutions, on batches that are not rounded. Three
    times the same batches: on a GPU the first time is not captured, the second is, and the third is replayed."""
    network = random_parameters(MaxKGNN(model, COLS, OUT, CLASSES, num_layers=3, k=OUT)).to(device)
    theirs, parameters = GeometricNetwork(network, pairs=False).to(device), list(network.parameters())
    step = CapturedBatchStep(network, sgd(network, lr=1e-5), pad=pad)
    for batch, hops in 3 * neighbor_batches:
        batch = batch.clone().to(device)
        y = batch.y[: batch.batch_size]
        loss = F.cross_entropy(theirs(batch.x, batch.edge_index, *hops.values()), y)
        expected = [loss.detach(), *torch.autograd.grad(loss, parameters)]
        close_steps(of_step(step, (batch.x, y, batch.edge_index, *hops.values())), expected)


@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_train_as_the_network_does(neighbor_batches, model, device):
    """With a selection, in batches of a loader: the network after its updates."""
    networks = [MaxKGNN(model, COLS, OUT, CLASSES, num_layers=3, k=K).to(device) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    optimizer, step = sgd(networks[0]), CapturedBatchStep(networks[1], sgd(networks[1]))
    for batch, hops in 2 * neighbor_batches:
        batch = batch.clone().to(device)
        y = batch.y[: batch.batch_size]
        optimizer.zero_grad()
        loss = F.cross_entropy(networks[0](batch.x, batch.edge_index, **hops), y)
        loss.backward()
        optimizer.step()
        close_steps([step(batch.x, y, batch.edge_index, **hops)], [loss.detach()])
    close_steps(*([parameter.detach() for parameter in network.parameters()] for network in networks))
