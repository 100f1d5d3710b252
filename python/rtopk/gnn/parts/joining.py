"""How the ranks of a training find each other.

The device of the ranks decides how rows travel between them. Ranks that chose differently, or one that has given up,
would leave the others waiting until the timeout. So each rank first tells the others, through the store by which they
find each other, what it was given and what device it has. Nothing else is needed for that.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch
from torch import distributed

from ..._info import info
from .._text import printable
from ..recipe import TrainingError
from ..training.trainer import find_device
from .group import Ranks, check_problems, check_same

TIMEOUT = 300.0  # the default of --timeout
_SILENT_SECONDS = 1.0  # that a rank that has failed may wait for the others without a word
_calls = itertools.count()  # a store may outlive a group; the next group must not read what the last one wrote


def world_size() -> int:
    """The number of ranks that torchrun has started; 1 without torchrun."""
    return _from_environment("WORLD_SIZE", 1)


def _from_environment(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise TrainingError(f"the environment variable {name} is '{text}'; accepted: a number, as torchrun sets it")
    return int(text)


@contextlib.contextmanager
def joined(device: str | None, timeout: float, arguments: dict[str, object] | None = None) -> Iterator[Ranks]:
    """The ranks that torchrun has started. An error on every rank unless all have the same arguments and the same kind
    of device.

    Args:
        device: cpu, or cuda for the GPU whose number is that of the rank on its machine; None: a GPU if there is one.
        timeout: seconds after which a rank that does not answer counts as ended.
        arguments: what else must be the same on every rank, by the names that errors have for it.
    """
    rank, world = _from_environment("RANK", 0), world_size()
    own, found = _seen_here(device, timeout, arguments or {})
    if world == 1:
        check_problems([own.problem])
        yield Ranks(device=found)
        return
    limit = timedelta(seconds=timeout if own.problem is None else TIMEOUT)
    with _rendezvous_errors(own, rank, world):
        store, *_ = next(distributed.rendezvous("env://", rank, world, timeout=limit))
        store = distributed.PrefixStore(f"rtopk/{next(_calls)}", store)
        every = _told_by_all(store, own, rank, world)
    check_same([each.arguments for each in every])
    check_problems([each.problem for each in every])
    check_same([{"the device that --device picks": each.kind} for each in every])
    backend = "nccl" if all(each.takes_nccl for each in every) else "gloo"
    # Default arguments of this module keep the group that exists when it is imported. torch.optim would import it later
    # and keep ours alive; imported now, it finds none.
    importlib.import_module("torch.distributed.nn.functional")
    with _rendezvous_errors(own, rank, world):
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    try:
        yield Ranks(rank, world, found, staged=found.type == "cuda" and backend == "gloo")
    except BaseException as error:
        # A thread of gloo that lets go of a tensor while Python ends aborts the process. So they end before, whatever
        # has happened. NCCL ends so after success alone: it would wait for a rank that has ended.
        if backend == "gloo":
            with _told_if_it_waits(f"rank {rank} has failed ({type(error).__name__}: {error})"):
                distributed.destroy_process_group()
        raise
    distributed.destroy_process_group()


@contextlib.contextmanager
def _told_if_it_waits(problem: str) -> Iterator[None]:
    """For the end of gloo's threads, which wait for what they send and receive: until another rank takes part or has
    ended, or for --timeout. The error of this rank must not be silent for so long."""
    text = f"{printable(problem)} and waits until other ranks take what it sends, or for --timeout"
    timer = threading.Timer(_SILENT_SECONDS, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass
class _Told:
    """What a rank tells the others."""

    arguments: dict[str, str]
    problem: str | None = None  # why it cannot train
    kind: str = ""  # of its device
    takes_nccl: bool = False  # NCCL carries rows between GPUs that each have one rank


def _seen_here(device: str | None, timeout: float, arguments: dict) -> tuple[_Told, torch.device | None]:
    """What this rank tells the others, and its device if it can train."""
    # Ranks may name GPUs of different numbers.
    arguments = arguments | {"--timeout": timeout, "--device": device and device.partition(":")[0]}
    own = _Told({name: "not given" if value is None else str(value) for name, value in arguments.items()})
    found = None
    try:
        if not 0 < timeout < 1e6:
            raise TrainingError(f"timeout is {timeout:g}; accepted: more than 0 and less than a million seconds")
        found, own_gpu = device_of_rank(device)
        own.kind, own.takes_nccl = found.type, own_gpu and distributed.is_nccl_available()
    except (TrainingError, RuntimeError) as error:  # RuntimeError: of CUDA
        own.problem = str(error)
    return own, found


def _told_by_all(store: distributed.Store, own: _Told, rank: int, world: int) -> list[_Told]:
    """What every rank tells, by rank. Rank 0 collects it, so that the store is asked as often as there are ranks."""
    store.set(f"told/{rank}", json.dumps(asdict(own)))
    if rank == 0:
        store.set("told", json.dumps([json.loads(store.get(f"told/{each}")) for each in range(world)]))
    every = [_Told(**told) for told in json.loads(store.get("told"))]
    store.set(f"read/{rank}", "")
    if rank == 0:  # it may have the store, and must not end before the others have read
        store.wait([f"read/{each}" for each in range(world)])
    return every


@contextlib.contextmanager
def _rendezvous_errors(own: _Told, rank: int, world: int) -> Iterator[None]:
    """Names the reason where ranks do not find each other: what torch says, or that this rank cannot train."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise TrainingError(own.problem or f"rank {rank} of {world} did not find the others: {reason}") from error


def device_of_rank(name: str | None) -> tuple[torch.device, bool]:
    """The device of this rank, and whether it is a GPU that no other rank has."""
    count = len(info()["gpus"])
    if (name or "cuda") != "cuda" or count == 0:
        return find_device(name), False
    local, there = _from_environment("LOCAL_RANK", 0), _from_environment("LOCAL_WORLD_SIZE", 1)
    device = find_device(f"cuda:{local % count}")
    torch.cuda.set_device(device)
    return device, there <= count
