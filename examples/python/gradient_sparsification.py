#!/usr/bin/env python3
"""Sends only the largest 1 % of a gradient, as distributed training does to save bandwidth, and the rest later.

Several workers train one model on their own data. Each adds what it has not sent yet to its gradient, selects the
largest elements by magnitude, and sends values and indices (error feedback). The table compares losses and bytes with
sending everything; the workers are simulated in one process.

    python examples/python/gradient_sparsification.py [--share 0.01] [--workers 4]
"""

import argparse
import time

import torch

import rtopk


def problem(arguments):
    """A classification task that a linear model cannot solve, and a generator for fresh batches of it."""
    teacher = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)).to(
        arguments.device
    )

    def batch():
        x = torch.randn(arguments.batch, 64, device=arguments.device)
        return x, teacher(x).argmax(dim=1)

    return batch


def model_of(arguments):
    layers = torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
    return torch.nn.Sequential(*layers).to(arguments.device)


class Worker:
    """Selects the part of its gradient to send, and keeps the rest for later."""

    def __init__(self, size, k, device):
        self.unsent = torch.zeros(size, device=device)
        self.k = k

    def message(self, gradient):
        self.unsent += gradient
        # int32 indices take half the bandwidth of int64.
        options = {"sorted": False, "magnitude": True, "index_dtype": torch.int32}
        values, indices = rtopk.topk(self.unsent, self.k, **options)
        indices = indices.long()
        self.unsent[indices] = 0
        return values, indices


def trained(share, arguments):
    """(loss at the end, bytes a worker sends in a step, milliseconds that selecting takes)"""
    torch.manual_seed(arguments.seed)
    batch, model = problem(arguments), model_of(arguments)
    parameters = list(model.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    k = max(1, int(size * share))
    workers = [Worker(size, k, arguments.device) for _ in range(arguments.workers)]
    optimizer = torch.optim.SGD(parameters, lr=0.2, momentum=0.9)
    losses, selecting, sent = [], 0.0, 0
    for _ in range(arguments.steps):
        total = torch.zeros(size, device=arguments.device)
        for worker in workers:
            x, labels = batch()
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])
            losses.append(loss.item())
            if share == 1:
                total += gradient
                sent = gradient.nbytes
                continue
            start = time.perf_counter()
            values, indices = worker.message(gradient)
            if arguments.device == "cuda":
                torch.cuda.synchronize()
            selecting += time.perf_counter() - start
            total.index_add_(0, indices, values)
            sent = values.nbytes + 4 * indices.numel()
        parts = (total / arguments.workers).split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
    last = losses[-len(workers) * 10 :]
    return sum(last) / len(last), sent, selecting / arguments.steps / arguments.workers * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.01, help="of the gradient that is sent; default %(default)s")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    print(f"{arguments.workers} workers, {arguments.steps} steps on {arguments.device}\n")
    print(f"{'sent':<10} {'loss':>7} {'bytes a step':>13} {'selecting, ms':>14}")
    for share in (1, arguments.share):
        loss, sent, selecting = trained(share, arguments)
        print(f"{share:<10.1%} {loss:7.3f} {sent:13,} {selecting:14.3f}")


if __name__ == "__main__":
    main()
