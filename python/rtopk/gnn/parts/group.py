"""The ranks of a training: how they agree on what they do, send rows to each other, and end together."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
from torch import distributed

from .._text import Refusal
from ..recipe import TrainingError

_PATIENCE = timedelta(days=365)


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, seen from one of them. With one rank nothing is sent.

    Args:
        rank: the number of this process, from 0.
        world: how many there are.
        device: where this one trains.
        staged: whether tensors travel through the memory of the host: gloo with GPUs.
        gathering: the group of gather(); None: that of everything else.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")
    staged: bool = False
    gathering: distributed.ProcessGroup | None = None

    def add_up(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of the tensors of all ranks, in place; the same bits on every rank."""
        if self.world > 1:
            with named_failure():
                travelling = tensor.cpu() if self.staged else tensor
                distributed.all_reduce(travelling)
                tensor.copy_(travelling)
        return tensor

    def any_of(self, asked: bool) -> bool:
        """Whether any rank says so. Alone, a rank does not wait for its GPU."""
        return asked if self.world == 1 else bool(self.add_up(torch.tensor(int(asked), device=self.device)))

    def gather(self, thing: object) -> list:
        """What every rank has given, by rank. For a few words, not for tensors."""
        things = [thing] * self.world
        if self.world > 1:
            with named_failure():
                distributed.all_gather_object(things, thing, group=self.gathering)
        return things

    @contextlib.contextmanager
    def patient(self) -> Iterator[Ranks]:
        """These ranks, with a gather() that waits for as long as the others live, whatever the timeout is: for work of
        one rank that may take hours. gloo carries it, which sees at once that a process has ended, and answers for one
        that works and does not return to Python, as METIS does."""
        if self.world == 1:
            yield self
            return
        with named_failure():
            group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        try:
            yield replace(self, gathering=group)
        finally:
            distributed.destroy_process_group(group)  # its threads end, also where those of NCCL cannot

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
        return self.all_to_all(rows, send_counts, receive_counts)

    def all_to_all(
        self, rows: torch.Tensor, send_counts: list[int], receive_counts: list[int]
    ) -> Callable[[], torch.Tensor]:
        """start_exchange() in a group of any size: a rank may send rows to itself."""
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
        check_same(self.gather(facts))

    def together(self, function: Callable[[], object]):
        """What a function returns here. If it is refused on any rank, an error on every rank: no rank waits for one
        that has given up."""
        result = problem = None
        try:
            result = function()
        except (Refusal, OSError) as error:
            problem = str(error)
        check_problems(self.gather(problem))
        return result


def check_same(facts: list[dict[str, object]]) -> None:
    """An error unless all ranks have the same facts. They are given by rank."""
    for rank, theirs in enumerate(facts):
        for name, first in facts[0].items():
            if (other := theirs.get(name)) != first:
                raise TrainingError(
                    f"{name} is {other} on rank {rank} and {first} on rank 0; accepted: the same on every rank"
                )


def check_problems(problems: list[str | None]) -> None:
    """An error if any rank has a problem. They are given by rank; None: it has none."""
    for rank, theirs in enumerate(problems):
        if theirs is not None:
            everywhere = all(other == theirs for other in problems)
            raise TrainingError(theirs if everywhere else f"rank {rank}: {theirs}")


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
