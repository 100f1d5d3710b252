#!/usr/bin/env python3
"""Classifies graphs of different sizes with top-k pooling, which keeps the best half of every graph's nodes.

Each graph is a ring with one cluster of nodes that are alike; the class is the kind of that cluster. A score is learnt
for every node, the nodes of a batch lie one behind the other, and rtopk.topk_segments keeps a share of each graph: k
differs from graph to graph. The gradient goes through the scores of the nodes that are kept. Needs no other package;
docs/graph-pooling.md has the same for PyTorch Geometric.

    python examples/python/graph_pooling.py [--graphs 64] [--ratio 0.5]
"""

import argparse
import time

import torch

import rtopk

CLASSES, WIDTH = 4, 16


def batch_of(arguments):
    """Features of nodes, the beginning of each graph, and its class."""
    sizes = torch.randint(4, arguments.nodes, (arguments.graphs,))
    offsets = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
    labels = torch.randint(CLASSES, (arguments.graphs,))
    graph = torch.repeat_interleave(torch.arange(arguments.graphs), sizes)
    place = torch.arange(int(offsets[-1])) - offsets[graph]
    x = torch.randn(len(graph), WIDTH)
    in_cluster = place < sizes[graph].div(4, rounding_mode="floor").clamp(min=1)
    x[in_cluster, labels[graph[in_cluster]]] += 3
    x[in_cluster, CLASSES] += 2  # what tells a cluster from the rest
    return x.to(arguments.device), offsets.to(arguments.device), labels.to(arguments.device)


class Classifier(torch.nn.Module):
    def __init__(self, ratio, most):
        super().__init__()
        self.ratio, self.most = ratio, most
        self.node = torch.nn.Sequential(torch.nn.Linear(WIDTH, 32), torch.nn.ReLU())
        self.score = torch.nn.Linear(32, 1)
        self.output = torch.nn.Linear(32, CLASSES)

    def forward(self, x, offsets):
        x = self.node(x)
        scores = self.score(x).tanh()[:, 0]
        row_k = (self.ratio * offsets.diff()).ceil().long()
        # The greatest k, and the greatest size, are known without a look at the offsets: nothing waits for a GPU.
        width = -int(-self.ratio * self.most // 1)
        kept, nodes = rtopk.topk_segments(scores, offsets, width, row_k=row_k, max_length=self.most, sorted=False)
        kept = kept.masked_fill(nodes < 0, 0)  # -infinity behind the nodes of smaller graphs
        pooled = (x[nodes.clamp(min=0)] * kept[..., None]).sum(1) / row_k[:, None]
        return self.output(pooled), nodes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=64, help="of a batch")
    parser.add_argument("--nodes", type=int, default=60, help="of the largest graph")
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = Classifier(arguments.ratio, arguments.nodes).to(arguments.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    print(f"graphs of 4 to {arguments.nodes - 1} nodes on {arguments.device}, {arguments.ratio:.0%} of them kept\n")
    print(f"{'step':>6} {'loss':>8} {'right':>8} {'nodes kept':>11}")
    start = time.perf_counter()
    for step in range(1, arguments.steps + 1):
        x, offsets, labels = batch_of(arguments)
        logits, nodes = model(x, offsets)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(arguments.steps // 5, 1) == 0:
            right = float((logits.argmax(1) == labels).float().mean())
            print(f"{step:6} {float(loss.detach()):8.3f} {right:8.1%} {int((nodes >= 0).sum()):5} of {len(x)}")
    print(f"\n{(time.perf_counter() - start) / arguments.steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
