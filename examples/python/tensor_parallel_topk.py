#!/usr/bin/env python3
"""Trains a TopK sparse autoencoder whose latents are split over ranks, and checks it against one that is whole.

Each rank has a part of the latents: rows of the encoder and columns of the decoder. The activation keeps the k largest
of all latents, wherever they are: rtopk.distributed.MaxK. The parts of the output are summed up by an all-reduce. Every
rank then trains the whole autoencoder for itself, too, from the same start; losses and weights must agree.

    torchrun --nproc-per-node 2 examples/python/tensor_parallel_topk.py [--steps 40] [--latents 4096] [--k 32]
"""

import argparse
import os
import time

import torch
from torch import distributed

import rtopk.distributed


class SparseAutoencoder(torch.nn.Module):
    """Or the part of it that one rank has."""

    def __init__(self, encoder, decoder, activation, summed=lambda part: part):
        super().__init__()
        self.encoder = torch.nn.Parameter(encoder.clone())  # latents x width
        self.decoder = torch.nn.Parameter(decoder.clone())  # latents x width
        self.activation = activation
        self.summed = summed

    def forward(self, x):
        return self.summed(self.activation(x @ self.encoder.t()) @ self.decoder)


class SumOverRanks(torch.autograd.Function):
    """The sum of all ranks' parts. Every rank has the whole gradient of it, which is the gradient of each part."""

    @staticmethod
    def forward(ctx, part):
        whole = part.clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx, grad):
        return grad


def trained(model, batches):
    """The loss of every step, and seconds a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses, times = [], []
    for x in batches:
        start = time.perf_counter()
        loss = torch.nn.functional.mse_loss(model(x), x) / x.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    return torch.tensor(losses), sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--latents", type=int, default=4096)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--device", default="cuda" if rtopk.info()["gpus"] else "cpu")
    arguments = parser.parse_args()
    device = arguments.device
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()

    torch.manual_seed(0)  # the same weights and batches on every rank
    # In single precision, a sum in another order may select the other of two nearly equal latents.
    torch.set_default_dtype(torch.float64)
    encoder = torch.randn(arguments.latents, arguments.width, device=device) / arguments.width**0.5
    batches = [torch.randn(arguments.batch, arguments.width, device=device) for _ in range(arguments.steps)]
    mine = slice(arguments.latents * rank // ranks, arguments.latents * (rank + 1) // ranks)

    part = SparseAutoencoder(
        encoder[mine], encoder[mine], rtopk.distributed.MaxK(arguments.k), summed=SumOverRanks.apply
    )
    whole = SparseAutoencoder(encoder, encoder, rtopk.nn.MaxK(arguments.k))
    with torch.no_grad():
        # With the same latents, the selection has the same bits as that of one process.
        latents = batches[0] @ encoder.t()
        kept = rtopk.distributed.maxk(latents[:, mine], arguments.k)
        assert torch.equal(kept, rtopk.maxk(latents, arguments.k)[:, mine])
    losses, seconds = trained(part, batches)
    expected, seconds_whole = trained(whole, batches)
    torch.testing.assert_close(losses, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(part.decoder, whole.decoder[mine], rtol=1e-9, atol=1e-12)

    if rank == 0:
        print(f"{arguments.latents} latents over {ranks} ranks, k = {arguments.k}, on {arguments.device}")
        print(f"\n{'':<12} {'first loss':>10} {'last loss':>10} {'ms a step':>10}")
        print(f"{'in parts':<12} {losses[0]:10.4f} {losses[-1]:10.4f} {seconds * 1e3:10.2f}")
        print(f"{'whole':<12} {expected[0]:10.4f} {expected[-1]:10.4f} {seconds_whole * 1e3:10.2f}")
        print("\nlosses and weights agree")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
