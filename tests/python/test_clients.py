"""What others do with torch.topk, written in plain torch: the same results and gradients with accelerate() on and off.

tests/clients has the packages themselves, for `make clients`; what it compares with is tested here too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rtopk

CLIENTS = Path(__file__).parent.parent / "clients"
sys.path.append(str(CLIENTS))

import comparison  # noqa: E402
from comparison import gradients, same_both_ways  # noqa: E402
from watch import Watch, assert_that_watches_see, mistake  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(not rtopk.info()["highway"], reason="without Highway torch.topk on the CPU is left to torch"),
]


def same_on_rtopk(function):
    """The same both ways, and rtopk was at work."""
    before = comparison.total.routed
    same_both_ways(function)
    assert comparison.total.routed > before


class Experts(nn.Module):
    """A mixture of experts: a router takes k of them for every token."""

    def __init__(self, experts, k, width=32):
        super().__init__()
        self.k = k
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        output = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            output = output.index_add(0, token, expert(x[token]) * weights[token, place, None])
        return output


@pytest.mark.parametrize(("experts", "k"), [(8, 2), (64, 6)])
def test_router_of_experts(experts, k):
    def train():
        model, x = Experts(experts, k), torch.randn(96, 32, requires_grad=True)
        output = model(x)
        output.square().sum().backward()
        return output, x.grad, gradients(model)

    same_on_rtopk(train)


def test_router_by_groups():
    """The best groups, by the sum of their two best experts, and the best experts of those."""

    def route():
        logits = torch.randn(200, 32, requires_grad=True)
        scores = logits.sigmoid()
        of_groups = scores.view(-1, 4, 8).topk(2, dim=-1).values.sum(-1)
        allowed = torch.zeros_like(of_groups).scatter(1, of_groups.topk(2, dim=-1, sorted=False).indices, 1)
        masked = scores.masked_fill(allowed.repeat_interleave(8, dim=1) == 0, 0.0)
        chosen = masked.topk(4, dim=-1, sorted=False).indices
        weights = scores.gather(1, chosen)
        weights.square().sum().backward()
        return chosen.sort().values, weights.sort().values, logits.grad

    same_on_rtopk(route)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_k_sampling(dtype):
    def generate():
        table, token, tokens = torch.randn(500, 500, dtype=dtype), torch.arange(4), []
        for _ in range(20):
            logits = table[token]
            kth = torch.topk(logits, 50)[0][..., -1, None]
            token = torch.multinomial(logits.masked_fill(logits < kth, -torch.inf).softmax(-1), 1).squeeze(1)
            tokens.append(token)
        return tokens

    same_on_rtopk(generate)


def test_beam_search():
    def search():
        table, beams, vocabulary = torch.randn(300, 300).log_softmax(-1), 4, 300
        scores, sequences = torch.tensor([[0.0] + [-1e9] * (beams - 1)] * 3), torch.zeros(3, beams, 1, dtype=torch.long)
        for _ in range(12):
            candidates = scores[..., None] + table[sequences[..., -1]]
            scores, places = candidates.flatten(1).topk(2 * beams, dim=1, largest=True, sorted=True)
            scores, places = scores[:, :beams], places[:, :beams]
            parents, tokens = places // vocabulary, places % vocabulary
            sequences = torch.cat([sequences.gather(1, parents[..., None].expand_as(sequences)), tokens[..., None]], -1)
        return scores, sequences

    same_on_rtopk(search)


class Autoencoder(nn.Module):
    """A sparse autoencoder that keeps k features of a row, or of all rows together."""

    def __init__(self, k, together):
        super().__init__()
        self.k, self.together = k, together
        self.encoder, self.decoder = nn.Linear(32, 512), nn.Linear(512, 32)

    def forward(self, x):
        features = self.encoder(x).relu()
        flat = features.flatten() if self.together else features
        values, indices = flat.topk(self.k * len(x) if self.together else self.k, dim=-1, sorted=False)
        return self.decoder(torch.zeros_like(flat).scatter_(-1, indices, values).view_as(features)), features


@pytest.mark.parametrize("together", [False, True])
def test_sparse_autoencoder(together):
    def train():
        model = Autoencoder(16, together)
        optimizer, losses = torch.optim.Adam(model.parameters()), []
        for _ in range(4):
            x = torch.randn(64, 32)
            output, features = model(x)
            # Features that have died are asked to explain what is left.
            dead = torch.rand(512) < 0.4
            spare = features.masked_fill(~dead, -torch.inf).topk(16, sorted=False)
            rest = model.decoder(torch.zeros_like(features).scatter(-1, spare.indices, spare.values))
            losses.append(F.mse_loss(output, x) + F.mse_loss(rest, (x - output).detach()) / 32)
            optimizer.zero_grad()
            losses[-1].backward()
            optimizer.step()
        return losses, gradients(model), dict(model.state_dict())

    same_on_rtopk(train)


@pytest.mark.parametrize("k", [1, 8])
def test_sparse_attention(k):
    def attend():
        q, key, value = (torch.randn(2, 4, 24, 16, requires_grad=True) for _ in range(3))
        scores = q @ key.transpose(-1, -2) / 4
        scores = scores.masked_fill(torch.ones(24, 24).triu(1).bool(), -torch.finfo(scores.dtype).max)
        kth = scores.topk(k, dim=-1).values[..., -1:]
        output = scores.masked_fill(scores < kth, -torch.inf).softmax(-1) @ value
        output.square().sum().backward()
        return output, q.grad, key.grad, value.grad

    same_on_rtopk(attend)


def test_top_k_accuracy():
    def measure():
        output, target = torch.randn(128, 1000), torch.randint(1000, (128,))
        right = output.topk(5, 1, True, True)[1].t().eq(target.expand(5, -1))
        return [right[:k].float().sum() for k in (1, 5)]

    same_on_rtopk(measure)


def test_proposals_of_a_detector():
    def propose():
        scores, boxes = (
            torch.randn(2, 3 * 25 * 25, requires_grad=True),
            torch.rand(2, 3 * 25 * 25, 4, requires_grad=True),
        )
        best, places = scores.topk(300, dim=1)
        chosen = boxes.gather(1, places[..., None].expand(-1, -1, 4))
        (chosen * best.sigmoid()[..., None]).square().sum().backward()
        return chosen, scores.grad, boxes.grad

    same_on_rtopk(propose)


def equal_importance():
    """The features that a mask of zeros and ones calls the most important: nearly all are ties."""
    return (torch.rand(20, 4096) < 0.5).float().sum(0).topk(30).indices


def test_ties_are_those_of_a_stable_sort():
    before = comparison.total.by_ties
    same_on_rtopk(equal_importance)
    assert comparison.total.by_ties == before + 1


def test_a_difference_is_found():
    with pytest.raises(AssertionError, match="stable sort"):
        same_both_ways(lambda: torch.topk(torch.randn(50), 5).values + float(rtopk.is_accelerated()))
    with pytest.raises(AssertionError, match="no ties"):  # someone relies on an order that is open
        same_both_ways(lambda: torch.topk(torch.randn(4000), 50, sorted=False).indices)
    with pytest.raises(AssertionError, match="called"):
        same_both_ways(lambda: torch.arange(5))


X = torch.tensor([[1.0, 5.0, 5.0, 3.0]])


@pytest.mark.parametrize(
    ("values", "indices", "expected"),
    [
        ([5.0, 5.0, 3.0], [2, 1, 3], None),
        ([5.0, 5.0, 3.0], [1, 1, 3], "twice"),
        ([5.0, 5.0, 3.0], [1, 2, 0], "stands"),
        ([5.0, 5.0, 1.0], [1, 2, 0], "best"),
        ([5.0, 3.0, 5.0], [1, 3, 2], "order"),
    ],
)
def test_mistakes_are_found(values, indices, expected):
    found = mistake(X, 3, 1, True, True, torch.tensor([values]), torch.tensor([indices]))
    assert found is None if expected is None else expected in found


def test_watch_sees_who_selects():
    assert_that_watches_see()
    with rtopk.accelerate(), Watch() as watch:
        torch.topk(torch.randn(9, 300), 4)
        torch.topk(torch.arange(300), 4)
        torch.vmap(lambda row: row.topk(4).values)(torch.randn(9, 300))
    assert watch.by_rtopk == [True, False, True] and watch.mistakes == []


THEIR_TESTS = """
import pytest, torch
def test_passes(): assert torch.equal(torch.topk(torch.zeros(4096), 100).indices, torch.arange(100))
def test_fails(): assert torch.topk(torch.zeros(4096), 100).values.any()
def test_skipped(): pytest.skip("no")
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_errs(broken): pass
"""


def test_plugin_reports_outcomes_and_calls(tmp_path):
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    site = Path(rtopk.__file__).parent.parent
    plugin = ["-p", "rtopk_accelerated", "--rtopk", "on", "--rtopk-report", tmp_path / "report"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", CLIENTS / "pytest.ini", *plugin, tmp_path / "test_theirs.py"],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join((str(site), str(CLIENTS))), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    *tests, totals = map(json.loads, (tmp_path / "report").read_text().splitlines())
    outcomes = {entry["test"].split("::")[-1]: entry["outcome"] for entry in tests}
    assert outcomes == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_errs": "error",
    }
    assert (totals["calls"], totals["routed"], totals["mistakes"]) == (2, 2, [])
