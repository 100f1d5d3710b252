"""The ranks of a training: how they find each other, agree on what they do, and end together."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

from ..._info import info
from .._text import Refusal
from ..recipe import TrainingError
from ..training.trainer import find_device


def world_size() -> int:
    """The number of ranks that torchrun has started; 1 without torchrun."""
    return _from_environment("WORLD_SIZE", 1)


def _from_environment(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise TrainingError(f"the environment variable {name} is '{text}'; accepted: a number, as torchrun sets it")
    return int(text)


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, seen from one of them. With one rank nothing is sent.

    Args:
        rank: the number of this process, from 0.
        world: how many there are.
        device: where this one trains.
        staged: whether tensors travel through the memory of the host: gloo with GPUs.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")
    staged: bool = False

    def add_up(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of the tensors of all ranks, in place; the same bits on every rank."""
        if self.world > 1:
            with named_failure():
                travelling = tensor.cpu() if self.staged else tensor
                distributed.all_reduce(travelling)
                tensor.copy_(travelling)
        return tensor

    def gather(self, thing: object) -> list:
        """What every rank has given, by rank. For a few words, not for tensors."""
        things = [thing] * self.world
        if self.world > 1:
            with named_failure():
                distributed.all_gather_object(things, thing)
        return things

    def start_exchange(
        self, rows: torch.Tensor, send_counts: list[int], receive_counts: list[int]
    ) -> Callable[[], torch.Tensor]:
        """Sends rows to the other ranks.

        Args:
            rows: [rows, columns]: first those for rank 0, then those for rank 1, and so on.
            send_counts: how many of the rows are for each rank.
            receive_counts: how many come from each rank.

        Returns:
            A function that waits for the rows of the others and returns them, in the order of the ranks.
        """
        if self.world == 1:
            return lambda: rows
        rows = rows.cpu() if self.staged else rows
        received = rows.new_empty(sum(receive_counts), *rows.shape[1:])
        with named_failure():
            work = distributed.all_to_all_single(received, rows, receive_counts, send_counts, async_op=True)

        def finish() -> torch.Tensor:
            with named_failure():
                work.wait()
            return received.to(self.device)

        return finish

    def agree(self, facts: dict[str, object]) -> None:
        """An error on every rank unless all ranks have the same facts."""
        for rank, theirs in enumerate(every := self.gather(facts)):
            for name, first in every[0].items():
                if theirs.get(name) != first:
                    raise TrainingError(
                        f"{name} is {theirs.get(name)} on rank {rank} and {first} on rank 0; accepted: the same on"
                        " every rank"
                    )

    def together(self, function: Callable[[], object]):
        """What a function returns here. If it is refused on any rank, an error on every rank: no rank waits for one
        that has given up."""
        result = problem = None
        try:
            result = function()
        except (Refusal, OSError) as error:
            problem = str(error)
        problems = self.gather(problem)
        for rank, theirs in enumerate(problems):
            if theirs is not None:
                everywhere = all(other == theirs for other in problems)
                raise TrainingError(theirs if everywhere else f"rank {rank}: {theirs}")
        return result


@contextlib.contextmanager
def named_failure() -> Iterator[None]:
    """For the text of errors: torch's speaks of sockets and of files in its sources."""
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^\[\S+\]", "", str(error).splitlines()[0]).split("This is typically")[0].strip(" .")
        raise TrainingError(
            f"another rank has ended or does not answer ({reason}). See the first error above; --resume continues from"
            " the last checkpoint, which is whole"
        ) from error


@contextlib.contextmanager
def joined(device: str | None, timeout: float) -> Iterator[Ranks]:
    """The ranks that torchrun has started.

    Args:
        device: cpu, or cuda for the GPU whose number is that of the rank on its machine; None: a GPU if there is one.
        timeout: seconds after which a rank that does not answer counts as ended.
    """
    rank, world = _from_environment("RANK", 0), world_size()
    if not 0 < timeout < 1e6:
        raise TrainingError(f"timeout is {timeout:g}; accepted: more than 0 and less than a million seconds")
    device, own_gpu = _device_of_rank(device)
    if world == 1:
        yield Ranks(device=device)
        return
    nccl = own_gpu and distributed.is_nccl_available()
    try:
        distributed.init_process_group("nccl" if nccl else "gloo", timeout=timedelta(seconds=timeout))
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise TrainingError(f"rank {rank} of {world} did not find the others: {reason}") from error
    yield Ranks(rank, world, device, staged=device.type == "cuda" and not nccl)
    # Only after success: with a rank that has ended, NCCL would wait for it.
    distributed.destroy_process_group()


def _device_of_rank(name: str | None) -> tuple[torch.device, bool]:
    """The device of this rank, and whether it is a GPU that no other rank has."""
    count = len(info()["gpus"])
    if (name or "cuda") != "cuda" or count == 0:
        return find_device(name), False
    local, there = _from_environment("LOCAL_RANK", 0), _from_environment("LOCAL_WORLD_SIZE", 1)
    device = find_device(f"cuda:{local % count}")
    torch.cuda.set_device(device)
    return device, there <= count
