#!/usr/bin/env python3
"""Trains a router of a mixture-of-experts layer, which sends every token to k of many experts.

A load-balancing loss teaches it to spread tokens evenly over the experts. It is trained with torch.topk, with
rtopk.topk, and with rtopk.moe.route, which makes weights of logits in one step: all choose the same experts, and the
table compares their times.

    python examples/python/expert_router.py [--tokens 8192] [--experts 256] [--k 8]
"""

import argparse
import time

import torch

import rtopk


class Router(torch.nn.Module):
    """Scores for every token and expert; the k best experts, and their weights."""

    def __init__(self, width, experts, k, select):
        super().__init__()
        self.score = torch.nn.Linear(width, experts, bias=False)
        self.k, self.select = k, select

    def forward(self, tokens):
        scores = self.score(tokens)
        return scores, *self.select(scores, self.k)


def by(topk):
    def select(scores, k):
        values, experts = topk(scores, k, dim=-1)
        return values.softmax(dim=-1), experts

    return select


SELECTIONS = {"torch.topk": by(torch.topk), "rtopk.topk": by(rtopk.topk), "rtopk.moe": rtopk.moe.route}


def balance_loss(scores, experts):
    """The usual loss of routers: the sum over experts of the share of tokens times the mean probability. It is smallest
    if both are even."""
    count = scores.shape[1]
    share = torch.bincount(experts.flatten(), minlength=count).to(scores.dtype) / experts.numel()
    return count * (share * scores.softmax(dim=-1).mean(dim=0)).sum()


def now(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def trained(select, arguments):
    """(load of the busiest expert before and after, milliseconds of forward and backward, chosen experts)"""
    torch.manual_seed(arguments.seed)
    router = Router(arguments.width, arguments.experts, arguments.k, select).to(arguments.device)
    optimizer = torch.optim.Adam(router.parameters(), lr=3e-3)
    # Similar tokens, which an untrained router sends to the same experts.
    shift = torch.randn(arguments.width, device=arguments.device)
    loads, times = [], []
    for _ in range(arguments.steps):
        tokens = torch.randn(arguments.tokens, arguments.width, device=arguments.device) + shift
        start = now(arguments.device)
        scores, weights, experts = router(tokens)
        # The loss uses the weights, so the gradient goes through the selection.
        loss = balance_loss(scores, experts) + 1e-3 * weights.square().mean()
        optimizer.zero_grad()
        loss.backward()
        times.append(now(arguments.device) - start)
        optimizer.step()
        even = experts.numel() / arguments.experts
        loads.append(float(torch.bincount(experts.flatten(), minlength=arguments.experts).max()) / even)
    return loads[0], loads[-1], sorted(times)[len(times) // 2] * 1e3, experts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    print(f"{arguments.tokens} tokens to {arguments.k} of {arguments.experts} experts on {arguments.device}")
    print("the busiest expert's load, as a multiple of an even share\n")
    print(f"{'selection':<12} {'at first':>9} {'at last':>9} {'ms a step':>10}")
    chosen = {}
    for name, select in SELECTIONS.items():
        first, last, milliseconds, chosen[name] = trained(select, arguments)
        print(f"{name:<12} {first:9.2f} {last:9.2f} {milliseconds:10.2f}")
    print()
    for name in ("rtopk.topk", "rtopk.moe"):
        same = (chosen["torch.topk"] == chosen[name]).float().mean()
        print(f"{same:.2%} of the last step's choices are the same by {name} and torch.topk")


if __name__ == "__main__":
    main()
