"""Pooling over graphs: the nodes of PyTorch Geometric's own code."""

import pytest
import torch

import rtopk.pyg
from rtopk.pyg import topk

SIZES = [5, 1, 0, 30, 7, 2, 12]
RATIOS = [0.5, 0.8, 0.1, 1 / 3, 0.999, 1, 3, 1000, 2.7]


def batch_of(sizes, device="cpu"):
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(device)


def scores(count, ties, dtype=torch.float32, device="cpu"):
    x = torch.randn(count)
    return ((x * 2).round() if ties else x).to(dtype).to(device)


def by_loops(x, ratio, batch):
    """Graph by graph."""
    result = []
    for graph in range(int(batch.max()) + 1):
        nodes = (batch == graph).nonzero()[:, 0]
        size = torch.tensor(len(nodes), dtype=x.dtype)
        k = min(int(ratio), len(nodes)) if ratio >= 1 else int((float(ratio) * size).ceil())
        result.append(nodes[x[nodes].sort(descending=True, stable=True).indices[:k]])
    return torch.cat(result)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("ties", [False, True])
def test_nodes(ratio, ties, device):
    batch = batch_of(SIZES, device)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = scores(len(batch), ties, dtype, device)
        assert torch.equal(topk(x, ratio, batch), by_loops(x, ratio, batch))
        mixed = torch.randperm(len(batch), device=device)
        assert torch.equal(topk(x, ratio, batch[mixed]), by_loops(x, ratio, batch[mixed]))
        assert torch.equal(topk(x[:, None], ratio, batch), topk(x, ratio, batch))


def test_scores_of_any_size(device):
    """Padding is not a number that a score could be."""
    x = torch.tensor([-1e30, -float("inf"), float("nan"), -70000.0, -float("inf")], device=device)
    batch = torch.tensor([0, 0, 0, 1, 1], device=device)
    assert topk(x, 2, batch).tolist() == [2, 0, 3, 4]


def test_one_large_graph_among_small_ones(device):
    """Where results of the greatest width would be mostly padding."""
    batch = batch_of([2] * 500 + [400], device)
    for ties in (False, True):
        x = scores(len(batch), ties, device=device)
        assert torch.equal(topk(x, 0.5, batch), by_loops(x, 0.5, batch))
        mixed = torch.randperm(len(batch), device=device)
        assert torch.equal(topk(x, 0.5, batch[mixed]), by_loops(x, 0.5, batch[mixed]))


def test_what_is_refused():
    x, batch = torch.randn(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match="ratio and min_score are None; accepted: at least one"):
        topk(x, None, batch)
    with pytest.raises(ValueError, match="batch has 3 elements; accepted: 4"):
        topk(x, 0.5, batch[:3])
    assert topk(x[:0], 0.5, batch[:0]).shape == (0,)


# ---- Beside PyTorch Geometric ----

REASON = "PyTorch Geometric is not installed: pip install torch_geometric"


@pytest.fixture
def theirs():
    pytest.importorskip("torch_geometric", reason=REASON)
    from torch_geometric.nn.pool.select.topk import topk

    return topk


@pytest.mark.parametrize("ratio", RATIOS)
def test_nodes_beside_theirs(theirs, ratio, device):
    batch = batch_of(SIZES, device)
    x = scores(len(batch), ties=False, device=device)
    assert torch.equal(topk(x, ratio, batch), theirs(x, ratio, batch))
    mixed = torch.randperm(len(batch), device=device)
    assert torch.equal(topk(x, ratio, batch[mixed]), theirs(x, ratio, batch[mixed]))


@pytest.mark.parametrize("ratio", RATIOS)
def test_ties_beside_theirs(theirs, ratio, device, monkeypatch):
    """Their sort leaves open which of equal scores come first, so the scores are the same; with a sort that is stable,
    so are the nodes."""
    batch = batch_of(SIZES, device)
    x = scores(len(batch), ties=True, device=device)
    ours = topk(x, ratio, batch)
    assert torch.equal(x[ours], x[theirs(x, ratio, batch)])
    sort = torch.sort
    monkeypatch.setattr(torch, "sort", lambda *args, **options: sort(*args, **(options | {"stable": True})))
    assert torch.equal(ours, theirs(x, ratio, batch))


@pytest.mark.parametrize("min_score", [-1.0, 0.0, 0.5, 1.5, 100.0])
def test_min_score_beside_theirs(theirs, min_score, device):
    for sizes in (SIZES, [4, 3, 9]):
        batch = batch_of(sizes, device)
        for ties in (False, True):
            x = scores(len(batch), ties, device=device)
            assert torch.equal(topk(x, None, batch, min_score), theirs(x, None, batch, min_score))
            assert torch.equal(topk(x, 0.5, batch, min_score, 0.3), theirs(x, 0.5, batch, min_score, 0.3))
            mixed = torch.randperm(len(batch), device=device)
            assert torch.equal(topk(x, None, batch[mixed], min_score), theirs(x, None, batch[mixed], min_score))


@pytest.mark.parametrize("options", [{"ratio": 0.5}, {"ratio": 0.8}, {"ratio": 3}, {"min_score": 0.05}], ids=str)
@pytest.mark.parametrize("name", ["TopKPooling", "SAGPooling"])
def test_poolings(theirs, name, options, device):
    """Nodes, features, edges and gradients of the modules, with their selection and with ours."""
    import torch_geometric.nn

    batch = batch_of([5, 1, 30, 7, 2, 12], device)
    nodes = len(batch)
    x = torch.randn(nodes, 8, device=device)
    edges = torch.randint(nodes, (2, 300), device=device)
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    pool = getattr(torch_geometric.nn, name)(8, **options).to(device)
    outcomes = []
    for accelerated in (False, True):
        leaf = x.clone().requires_grad_()
        pool.zero_grad()
        if accelerated:
            with rtopk.pyg.accelerate():
                results = pool(leaf, edges, batch=batch)
        else:
            results = pool(leaf, edges, batch=batch)
        (results[0] * torch.linspace(1, 2, 8, device=device)).sum().backward()
        weights = [weight.grad for weight in pool.parameters() if weight.grad is not None]
        outcomes.append([each for each in results if each is not None] + [leaf.grad, *weights])
    assert len(outcomes[0]) >= 7
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)  # PyG adds in any order on a GPU
        if not one.is_floating_point():
            assert torch.equal(one, other)


def test_theirs_is_put_back(theirs):
    from torch_geometric.nn.pool.select import topk as module

    with rtopk.pyg.accelerate():
        assert module.topk is topk
        with rtopk.pyg.accelerate():
            pass
        assert module.topk is topk
    assert module.topk is theirs

    @rtopk.pyg.accelerate()
    def fails():
        assert module.topk is topk
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert module.topk is theirs
