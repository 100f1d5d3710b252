"""What compare_gradient_hooks.py runs: the compared hooks, the network, and the work of one rank.

Started by compare_gradient_hooks.py in one process for each rank, with its task as JSON.
"""

import json
import os
import statistics
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.functional import cross_entropy, embedding_bag
from torch.nn.parallel import DistributedDataParallel

from limited_wire import bytes_sent
from rtopk.distributed import TopKState, topk_hook


def power_sgd(rank, warm_up_steps):
    # Columns of zeros, of which there are some at the start, would otherwise become NaN.
    options = {"start_powerSGD_iter": warm_up_steps, "orthogonalization_epsilon": 1e-8}
    return PowerSGDState(None, matrix_approximation_rank=rank, **options), powerSGD_hook


def topk(k, warm_up_steps, **options):
    return TopKState(k, 256, warm_up_steps=warm_up_steps, **options), topk_hook


#: From a name to a function of the steps to begin with by all-reduce, which gives a state and its hook.
HOOKS = {
    "all-reduce": lambda _: (None, default_hooks.allreduce_hook),
    "fp16": lambda _: (None, default_hooks.fp16_compress_hook),
    "PowerSGD, rank 1": lambda steps: power_sgd(1, steps),
    "PowerSGD, rank 2": lambda steps: power_sgd(2, steps),
    "top-k, 2 of 256": lambda steps: topk(2, steps),
    "top-k, 8 of 256": lambda steps: topk(8, steps),
    "top-k, 8 of 256, float16": lambda steps: topk(8, steps, value_dtype=torch.float16),
}


# ---- The task: the class of a node by its words ----


class Words:
    """The rows of a sparse matrix, as embedding_bag takes them."""

    def __init__(self, matrix):
        self.starts, self.columns, self.values = matrix.crow_indices(), matrix.col_indices(), matrix.values()

    def rows(self, nodes):
        lengths = self.starts[nodes + 1] - self.starts[nodes]
        offsets = lengths.cumsum(0) - lengths
        places = torch.arange(int(lengths.sum())) + (self.starts[nodes] - offsets).repeat_interleave(lengths)
        return self.columns[places], offsets, self.values[places]


class Network(torch.nn.Module):
    """A multi-layer perceptron."""

    def __init__(self, words, classes, hidden=128):
        super().__init__()
        self.first = torch.nn.Linear(words, hidden)
        relu, second = torch.nn.ReLU(), torch.nn.Linear(hidden, hidden)
        self.rest = torch.nn.Sequential(relu, second, torch.nn.ReLU(), torch.nn.Linear(hidden, classes))

    def forward(self, columns, offsets, values):
        # The first layer as it is, but without the products with zero.
        weight = self.first.weight.t()
        sums = embedding_bag(columns, weight, offsets, mode="sum", per_sample_weights=values)
        return self.rest(sums + self.first.bias)


class Trainer:
    """Trains a new network with a hook. Every rank has its share of each batch."""

    def __init__(self, data, hook, seed, warm_up_steps, batch):
        self.rank, self.ranks, self.batch = dist.get_rank(), dist.get_world_size(), batch
        self.data, self.words = data, Words(data.features.matrices[0])
        self.generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        state, function = HOOKS[hook](warm_up_steps)
        # PowerSGD starts collectives when others end, and gloo does not keep these in order if there are two buckets.
        buckets = {"bucket_cap_mb": 1000} if function is powerSGD_hook else {}
        self.ddp = DistributedDataParallel(Network(data.features.shape[1], data.classes), **buckets)
        self.ddp.register_comm_hook(state, function)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.1, momentum=0.9)

    def epoch(self):
        """Yields after every step."""
        order = self.data.train[torch.randperm(len(self.data.train), generator=self.generator)]
        for nodes in order.split(self.batch)[: len(order) // self.batch]:
            own = nodes[self.rank :: self.ranks]
            self.optimizer.zero_grad()
            cross_entropy(self.ddp(*self.words.rows(own)), self.data.labels[own]).backward()
            self.optimizer.step()
            yield

    @torch.no_grad()
    def accuracy(self):
        own = self.data.test[self.rank :: self.ranks]
        found = self.ddp.module(*self.words.rows(own)).argmax(1)
        right = (found == self.data.labels[own]).sum()
        dist.all_reduce(right)
        return right.item() / len(self.data.test)


# ---- One rank, one bucket ----


class BucketOf:
    """The gradients of parameters as DDP hands them to a hook, where no DDP is. Random at first."""

    def __init__(self, parameters):
        self._parameters = parameters
        self._buffer = torch.randn(sum(each.numel() for each in parameters), device=parameters[0].device)

    def index(self):
        return 0

    def is_last(self):
        return True

    def buffer(self):
        return self._buffer

    def parameters(self):
        return self._parameters

    def gradients(self):
        parts = self._buffer.split([each.numel() for each in self._parameters])
        return [part.view(each.shape) for part, each in zip(parts, self._parameters, strict=True)]


@contextmanager
def alone(device):
    """A group of this process alone."""
    dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


# ---- The work of one rank ----


def accuracies(data, task):
    """Test accuracy after some epochs, for every hook and seed."""
    results = {name: [] for name in task["hooks"]}
    warm_up_steps = task["epochs"] * (len(data.train) // task["batch"]) // 10
    for seed in range(task["seeds"]):
        for name in task["hooks"]:
            trainer = Trainer(data, name, seed, warm_up_steps, task["batch"])
            for _ in range(task["epochs"]):
                for _ in trainer.epoch():
                    pass
            results[name].append(trainer.accuracy())
            say(f"{dist.get_world_size()} ranks, seed {seed}, {name}: {results[name][-1]:.2%}")
    return results


def step_times(data, task):
    """Median milliseconds of a step with their quarters, and bytes that this rank's card sends, for every hook. The
    hooks alternate, step by step."""
    warm_up_steps = 2  # PowerSGD needs two
    trainers = {name: Trainer(data, name, 0, warm_up_steps, task["batch"]) for name in task["hooks"]}
    epochs = {name: trainer.epoch() for name, trainer in trainers.items()}
    times, sent = {name: [] for name in epochs}, dict.fromkeys(epochs, 0)
    for turn in range(warm_up_steps + 2 + task["steps"]):
        for name, steps in epochs.items():
            dist.barrier()
            start, before = time.perf_counter(), bytes_sent()
            next(steps)
            if turn >= warm_up_steps + 2:
                times[name].append((time.perf_counter() - start) * 1e3)
                dist.barrier()  # until all have what was sent
                sent[name] += bytes_sent() - before
    results = {}
    for name in epochs:
        low, median, high = statistics.quantiles(times[name], n=4)
        results[name] = {"ms": median, "quarters_ms": [low, high], "bytes": sent[name] / task["steps"]}
        shown = f"{median:.1f} ms a step, {results[name]['bytes'] / 1e6:.3f} MB sent"
        say(f"{dist.get_world_size()} ranks, {task['wire']}, {name}: {shown}")
    return results


def say(text):
    if dist.get_rank() == 0:
        print(text, file=sys.stderr, flush=True)


def main():
    from rtopk.gnn import load

    torch.set_num_threads(1)
    task = json.loads(sys.argv[1])
    dist.init_process_group("gloo")
    data = load(task["graph"])
    results = {"accuracies": accuracies, "step times": step_times}[task["kind"]](data, task)
    if dist.get_rank() == 0:
        Path(os.environ["RTOPK_RESULTS"]).write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
