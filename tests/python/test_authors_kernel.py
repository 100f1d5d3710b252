"""How the kernels of the paper's authors count max_iter, beside rtopk. Both versions are written from a description:

Each counts the elements at or above a threshold, and then looks whether to stop: after max_iter + 1 counts, or at
exactly k elements. If not, the threshold becomes an end of the interval, the lower one if more than k elements reach
it, and the next threshold is the middle. Today's version begins in the middle of the row's extremes; the first one,
and EleutherAI's package, at the maximum. Selected are the first k elements that reach the last threshold, and then the
first others that reach the lower end.
"""

import sys
from pathlib import Path

import pytest
import torch

np = pytest.importorskip("numpy", reason="numpy is not installed")

import rtopk  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from peers import authors_kernel  # noqa: E402

COLS = 256
ROWS = 200


def selected(row, k, max_iter, begin):
    """Ascending indices. Rows are of f32, and max_iter is too small for the interval to become empty."""
    low, high = row.min(), row.max()
    threshold = high if begin == "maximum" else (low + high) / np.float32(2)
    for counted in range(max_iter + 1):
        count = np.count_nonzero(row >= threshold)
        if count == k or counted == max_iter:
            break
        low, high = (threshold, high) if count > k else (low, threshold)
        threshold = (low + high) / np.float32(2)
    first = np.flatnonzero(row >= threshold)[:k]
    others = np.flatnonzero((row >= low) & (row < threshold))[: k - len(first)]
    return np.sort(np.concatenate([first, others]))


def normal(generator):
    return generator.standard_normal((ROWS, COLS), dtype=np.float32)


def with_ties(generator):
    return np.round(4 * normal(generator)) / np.float32(4)


@pytest.mark.parametrize("begin, further", [("middle", 1), ("maximum", 0)])
@pytest.mark.parametrize("k", [16, 32, 100])
@pytest.mark.parametrize("data", [normal, with_ties])
def test_todays_version_makes_one_pass_more(begin, further, k, data):
    rows = data(np.random.default_rng(k))
    for max_iter in range(1, 9):
        theirs = np.stack([selected(row, k, max_iter, begin) for row in rows])
        ours = rtopk.topk(torch.from_numpy(rows), k, sorted=False, max_iter=max_iter + further).indices
        assert np.array_equal(ours.sort().values.numpy(), theirs)


def kernel(begin):
    """The kernel as bench/peers calls it."""

    def select(matrix, k, max_iter):
        indices = torch.stack([torch.from_numpy(selected(row, k, max_iter, begin)) for row in matrix.numpy()])
        return matrix.gather(1, indices), indices

    return select


@pytest.mark.parametrize("begin, further", [("middle", 1), ("maximum", 0)])
def test_the_benchmark_pairs_equal_selections(begin, further, monkeypatch):
    peer = authors_kernel.AuthorsKernel()
    monkeypatch.setenv(authors_kernel.VARIABLE, "clone")
    monkeypatch.setattr(peer, "_from_clone", lambda folder: (kernel(begin), "clone"))
    monkeypatch.setattr(peer, "device", "cpu")
    assert ("n - 1" in peer.find(("f32",))) == bool(further)
    matrix = torch.from_numpy(normal(np.random.default_rng(1)))
    for max_iter in (0, 1, 2, 8):
        theirs = peer.bound(matrix, 32, max_iter)()[1]
        ours = rtopk.topk(matrix, 32, sorted=False, max_iter=max_iter or None).indices
        assert torch.equal(ours.sort().values, theirs.sort().values)


def test_another_version_is_no_peer():
    with pytest.raises(RuntimeError, match="selects 8 from 0 on; known versions: 16 or 24"):
        authors_kernel.midpoints_further(lambda matrix, k, max_iter: torch.topk(matrix, k, largest=False), "cpu")
