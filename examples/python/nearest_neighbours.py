#!/usr/bin/env python3
"""Searches nearest neighbours with an inverted file, and exactly.

Vectors are put into lists by their nearest centre. A query looks into the lists of the nearest centres alone, so the
queries have candidates in different numbers: one flat array of distances with offsets, and the ids of the candidates
beside it. rtopk.topk_segments selects from it as it lies. The table shows how many of the true neighbours are found,
by how many lists are searched.

    python examples/python/nearest_neighbours.py [--vectors 20000] [--lists 64] [--k 10]
"""

import argparse
import time

import torch

import rtopk


class InvertedFile:
    def __init__(self, vectors, lists):
        self.vectors = vectors
        self.centres = vectors[torch.randperm(len(vectors))[:lists]]
        for _ in range(5):  # k-means
            nearest = torch.cdist(vectors, self.centres).argmin(1)
            sums = torch.zeros_like(self.centres).index_add_(0, nearest, vectors)
            counts = torch.bincount(nearest, minlength=lists).clamp(min=1)
            self.centres = sums / counts[:, None]
        nearest = torch.cdist(vectors, self.centres).argmin(1)
        self.ids = nearest.sort(stable=True).indices
        self.sizes = torch.bincount(nearest, minlength=lists)
        self.starts = self.sizes.cumsum(0) - self.sizes

    def search(self, queries, k, probes):
        """Squared distances and ids of the nearest vectors in the nearest lists, and the number of candidates."""
        lists = rtopk.topk(torch.cdist(queries, self.centres), probes, largest=False).indices
        sizes = self.sizes[lists].flatten()
        # Candidate c of all is number c - first of its list.
        owner = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
        first = sizes.cumsum(0) - sizes
        number = torch.arange(len(owner), device=sizes.device) - first[owner]
        ids = self.ids[self.starts[lists].flatten()[owner] + number]
        distances = (self.vectors[ids] - queries[owner // probes]).square().sum(1)
        totals = sizes.view(-1, probes).sum(1)
        offsets = torch.nn.functional.pad(totals.cumsum(0), (1, 0))
        found = rtopk.topk_segments(distances, offsets, k, ids=ids, largest=False)
        return found.values, found.indices, len(owner)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=20000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lists", type=int, default=64)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    groups = 4 * torch.randn(arguments.lists, arguments.width)
    points = groups[torch.randint(arguments.lists, (arguments.vectors + arguments.queries,))]
    points = (points + torch.randn_like(points)).to(arguments.device)
    vectors, queries = points[: arguments.vectors], points[arguments.vectors :]
    file = InvertedFile(vectors, arguments.lists)
    exact = rtopk.topk(torch.cdist(queries, vectors), arguments.k, largest=False).indices
    print(f"{arguments.k} neighbours of {arguments.queries} queries among {arguments.vectors} vectors\n")
    print(f"{'lists':>6} {'candidates':>11} {'found':>8} {'ms':>8}")
    share = 0.0
    for probes in sorted({1, 2, 4, arguments.lists}):
        start = time.perf_counter()
        _, ids, candidates = file.search(queries, arguments.k, probes)
        share = float((ids[:, :, None] == exact[:, None, :]).any(1).float().mean())
        milliseconds = (time.perf_counter() - start) * 1e3
        print(f"{probes:6} {candidates / arguments.queries:11.0f} {share:8.1%} {milliseconds:8.1f}")
    return 0 if share > 0.999 else 1  # all lists have all neighbours


if __name__ == "__main__":
    raise SystemExit(main())
