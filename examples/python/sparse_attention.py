#!/usr/bin/env python3
"""Decodes with sparse attention from a paged cache: each step reads the k best tokens of every sequence.

Sequences of different lengths share a cache of pages. In every step an indexer scores all tokens of each sequence, the
places of the k best are found, and attention reads those alone. With PyTorch that is a mask, torch.topk and a lookup in
the page table; with rtopk it is one call, whose lengths and tables may change from step to step. The table compares
both, and how close sparse attention comes to attention over all tokens.

    python examples/python/sparse_attention.py [--sequences 8] [--tokens 4096] [--k 256]
"""

import argparse
import time

import torch

import rtopk


class Cache:
    """Keys and values of all sequences in pages, in any order."""

    def __init__(self, arguments):
        self.page_size = arguments.page_size
        pages = -(-arguments.tokens // self.page_size)
        device = arguments.device
        order = torch.randperm(arguments.sequences * pages)
        self.table = order.view(arguments.sequences, pages).to(device, torch.int32)
        tokens = arguments.sequences * pages * self.page_size
        self.keys = torch.randn(tokens, arguments.width, device=device)
        self.values = torch.randn(tokens, arguments.width, device=device)

    def tokens(self, sequence, count):
        """The places of a sequence's first tokens."""
        j = torch.arange(count, device=self.table.device)
        return self.table[sequence, j // self.page_size].long() * self.page_size + j % self.page_size


def places_by_torch(scores, k, lengths, cache):
    outside = torch.arange(scores.shape[1], device=scores.device) >= lengths[:, None]
    indices = scores.masked_fill(outside, -float("inf")).topk(k).indices
    places = cache.table.gather(1, indices // cache.page_size) * cache.page_size + indices % cache.page_size
    return places.masked_fill(indices >= lengths[:, None], -1).int()


def places_by_rtopk(scores, k, lengths, cache):
    return rtopk.topk_paged(scores, k, lengths, cache.table, cache.page_size)


def attention(query, places, cache):
    """One query of each sequence over the tokens at these places. -1 is no token."""
    keys, values = cache.keys[places.long().clamp(min=0)], cache.values[places.long().clamp(min=0)]
    logits = (keys * query[:, None]).sum(-1) / query.shape[-1] ** 0.5
    return (logits.masked_fill(places < 0, -float("inf")).softmax(-1)[..., None] * values).sum(1)


def now(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=4096, help="of the longest sequence")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--k", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    cache = Cache(arguments)
    lengths = torch.randint(1, arguments.tokens - arguments.steps, (arguments.sequences,))
    lengths = lengths.to(arguments.device, torch.int32)
    print(
        f"{arguments.sequences} sequences of {lengths.min()} to {lengths.max()} tokens on {arguments.device}, ", end=""
    )
    print(f"{arguments.k} of them for each query\n")
    times = {places_by_torch: [], places_by_rtopk: []}
    differences, same = [], True
    for _ in range(arguments.steps):
        lengths += 1  # each sequence has one token more
        query = 3 * torch.randn(arguments.sequences, arguments.width, device=arguments.device)
        scores = torch.zeros(arguments.sequences, arguments.tokens, device=arguments.device)
        everything = torch.empty_like(query)
        for i, length in enumerate(lengths.tolist()):
            places = cache.tokens(i, length)
            scores[i, :length] = cache.keys[places] @ query[i]
            everything[i] = attention(query[i : i + 1], places[None], cache)[0]
        found = []
        for function in times:
            start = now(arguments.device)
            found.append(function(scores, arguments.k, lengths, cache))
            times[function].append(now(arguments.device) - start)
        same = same and torch.equal(found[0].sort().values, found[1].sort().values)
        difference = (attention(query, found[1], cache) - everything).norm() / everything.norm()
        differences.append(float(difference))
    print(f"{'selection':<12} {'us a step':>10}")
    for name, function in (("torch", places_by_torch), ("rtopk", places_by_rtopk)):
        print(f"{name:<12} {sorted(times[function])[arguments.steps // 2] * 1e6:10.0f}")
    print(f"\n{'the same tokens' if same else 'other tokens'} in every step; ", end="")
    print(f"{sum(differences) / len(differences):.2%} away from attention over all of them")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
