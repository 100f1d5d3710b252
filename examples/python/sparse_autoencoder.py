#!/usr/bin/env python3
"""Trains a TopK sparse autoencoder on activations that it makes itself: sparse mixtures of hidden directions.

The activation keeps the k largest latents of each sample. It is trained twice from the same start, once with torch.topk
and a scatter, once with rtopk.nn.MaxK; losses agree, and the table says what a step takes.

    python examples/python/sparse_autoencoder.py [--steps 60] [--latents 4096] [--k 32]
"""

import argparse
import time

import torch

import rtopk


class TorchTopK(torch.nn.Module):
    """The activation as it is usually written, with torch.topk."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, latents):
        values, indices = torch.topk(latents, self.k, dim=-1, sorted=False)
        return torch.zeros_like(latents).scatter(-1, indices, values)


class SparseAutoencoder(torch.nn.Module):
    def __init__(self, width, latents, activation):
        super().__init__()
        self.encoder = torch.nn.Linear(width, latents)
        self.activation = activation
        self.decoder = torch.nn.Linear(latents, width)
        # As usual, the decoder starts as the transpose of the encoder.
        self.decoder.weight.data = self.encoder.weight.data.t().clone()

    def forward(self, x):
        return self.decoder(self.activation(self.encoder(x)))


class Activations:
    """Samples for dictionary learning: each is the sum of a few of many directions."""

    def __init__(self, width, directions, device):
        self.directions = torch.nn.functional.normalize(torch.randn(directions, width, device=device), dim=1)

    def batch(self, samples, active=8):
        chosen = torch.randint(len(self.directions), (samples, active), device=self.directions.device)
        strength = 1 + torch.rand(samples, active, 1, device=self.directions.device)
        return (self.directions[chosen] * strength).sum(dim=1)


def trained(activation, arguments, device):
    """(loss of every step, seconds a step)"""
    torch.manual_seed(arguments.seed)
    data = Activations(arguments.width, 2 * arguments.width, device)
    model = SparseAutoencoder(arguments.width, arguments.latents, activation).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses, times = [], []
    for _ in range(arguments.steps):
        x = data.batch(arguments.batch)
        start = now(device)
        loss = torch.nn.functional.mse_loss(model(x), x) / x.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(now(device) - start)
        losses.append(loss.item())
    return losses, sorted(times)[len(times) // 2]


def now(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--latents", type=int, default=4096)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    sizes = f"{arguments.latents} latents, k = {arguments.k}, batches of {arguments.batch} x {arguments.width}"
    print(f"{sizes} on {arguments.device}")
    print(f"\n{'activation':<14} {'first loss':>10} {'last loss':>10} {'ms a step':>10}")
    steps = {}
    for name, activation in (("torch.topk", TorchTopK(arguments.k)), ("rtopk.nn.MaxK", rtopk.nn.MaxK(arguments.k))):
        losses, steps[name] = trained(activation, arguments, arguments.device)
        print(f"{name:<14} {losses[0]:10.4f} {losses[-1]:10.4f} {steps[name] * 1e3:10.2f}")
    ratio = steps["rtopk.nn.MaxK"] / steps["torch.topk"]
    print(f"\na step with rtopk takes {ratio:.2f} of the time of one with torch.topk")


if __name__ == "__main__":
    main()
