"""How the candidates of all ranks come together: one all-gather of bytes, of a size on which the ranks agree.

The buffer of a rank holds the values of its candidates and their columns. Its size follows from the arguments of the
call. If these differed from rank to rank, so would the sizes, and then a collective hangs, mixes up memory or ends the
process. So the size of a gather never follows from what a rank was just called with, but from what all ranks already
know: the calls before. Each rank expects the call that followed when the last ones were made before, and sends a
buffer of its size, with a header that describes the call that it was made with. Then every rank reads every header:

- The headers are those of the expected call: the candidates are there.
- They are of another call: if it needs another buffer, the ranks gather again, with that one. It happens when a call
  is new to the group, or comes in another order.
- They do not fit together: every rank raises the same error.

A program that repeats its calls, such as the layers of a network, so needs one gather for each call from the second
time on.

To read the headers the host waits for a GPU. If the caller gives the sizes of all shards, a rank can tell whether its
call is the expected one before it reads anything. If so it does not wait: the headers are copied to the host, and read
in a later call, when they have arrived. A rank whose call is not the expected one does wait. So where ranks differ at
least one of them raises the error at once, and all gathers still have the same sizes on every rank.

To remember calls as agreed, each by itself and in any order, would not do: a rank that meets a new call has to ask the
others, and one that is called with a remembered one would not answer, but send candidates.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import torch
import torch.distributed

from .._operators import DTYPES, out_of_range

FUNCTIONS = ("topk", "maxk", "topk_mask")
HEADER = 128  # bytes: 16 int64 numbers
_OTHER_DIMS = 6  # as many as fit beside the other numbers
_INDEX_DTYPES = {1: torch.uint8, 2: torch.uint16, 4: torch.int32, 8: torch.int64}
_LONGEST = {1: 2**8, 2: 2**16, 4: 2**31, 8: 2**63}  # shards that have indices of so many bytes
_REMEMBERED = 2048  # calls of a group, of which at least the latter half is kept


# ---- What a rank is called with ----


@dataclass(frozen=True)
class Call:
    """The arguments that must be the same on every rank."""

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]  #: of the input without the selected dimension
    dim: int  #: counted from 0
    k: int
    largest: bool
    sorted: bool

    def words(self) -> tuple[int, ...]:
        """First 1, unlike those of a rank that refused its arguments."""
        # A shape with more dimensions than there are words loses how its first ones are arranged.
        kept = _OTHER_DIMS - 1
        shape = self.shape if len(self.shape) <= _OTHER_DIMS else (prod(self.shape[:-kept]), *self.shape[-kept:])
        dims = [*shape, *[0] * (_OTHER_DIMS - len(shape))]
        numbers = (1, FUNCTIONS.index(self.function), DTYPES.index(self.dtype), len(shape), *dims)
        return (*numbers, self.dim, self.k, int(self.largest), int(self.sorted))

    @staticmethod
    def of(words: Sequence[int]) -> Call:
        _, function, dtype, count, *rest = words
        shape, (dim, k, largest, sorted) = rest[:count], rest[_OTHER_DIMS:]
        return Call(FUNCTIONS[function], DTYPES[dtype], tuple(shape), dim, k, bool(largest), bool(sorted))


_NAMES = {"shape": "the shape of the input without the selected dimension"}


def _mark(sizes: Sequence[int] | None) -> int:
    """A number for the sizes that a rank was given: 0 for none."""
    return 0 if sizes is None else crc32(repr(list(sizes)).encode()) + 1


class Agreed(NamedTuple):
    """A call on which all ranks agree."""

    words: tuple[int, ...]
    sizes: tuple[int, ...]  #: of the selected dimension, on every rank
    layout: Layout

    @staticmethod
    @lru_cache(maxsize=_REMEMBERED)
    def of(words: tuple[int, ...], sizes: tuple[int, ...]) -> Agreed:
        return Agreed(words, sizes, Layout.of(Call.of(words), sizes))

    @staticmethod
    def by(headers: list[list[int]]) -> Agreed:
        """What the headers of all ranks say: the words of a call, the size of a shard, a mark of the sizes. An error if
        a rank refused its arguments, or if they differ: the same on every rank."""
        first, *others = (words[:-2] for words in headers)
        if first[0] != 1 or any(other != first for other in others):
            raise _difference([words[:-2] for words in headers])
        sizes = tuple(words[-2] for words in headers)
        accepted = (0, _mark(sizes))
        wrong = [rank for rank, words in enumerate(headers) if words[-1] not in accepted]
        if wrong:
            raise ValueError(
                f"sizes on rank {wrong[0]} of the group are not those of the shards, {list(sizes)}; accepted: these, or"
                " no sizes"
            )
        return Agreed.of(tuple(first), sizes)


def _difference(calls: list[list[int]]) -> Exception:
    refused = [rank for rank, words in enumerate(calls) if words[0] != 1]
    if refused:
        return RuntimeError(f"rank {refused[0]} of the group refused the arguments that it was called with")
    calls = [Call.of(words) for words in calls]
    name, rank = next(
        (name, rank)
        for name in ("function", "dtype", "shape", "dim", "k", "largest", "sorted")
        for rank, call in enumerate(calls)
        if getattr(call, name) != getattr(calls[0], name)
    )
    first, other = (_shown(getattr(call, name)) for call in (calls[0], calls[rank]))
    return ValueError(
        f"{_NAMES.get(name, name)} is {first} on rank 0 of the group and {other} on rank {rank}; accepted: the same on"
        " every rank"
    )


def _shown(value):
    return list(value) if isinstance(value, tuple) else value


# ---- What lies where ----


@dataclass(frozen=True)
class Layout:
    """The buffer of a rank: a header, then values, then indices. All parts begin at multiples of 8."""

    dtype: torch.dtype
    rows: int
    count: int  #: candidates of a row; a rank with fewer leaves the last ones empty
    index_bytes: int  #: of each candidate; 0: without indices

    @staticmethod
    def of(call: Call, sizes: Sequence[int]) -> Layout:
        """What shards of these sizes need for this call. An error if they have fewer than k elements together."""
        if call.k > sum(sizes):
            raise RuntimeError(f"{out_of_range(call.k, sum(sizes))}, the size of all shards together")
        return Layout._of_longest(call, max(sizes))

    @staticmethod
    def _of_longest(call, size):
        index_bytes = next(bytes for bytes, most in _LONGEST.items() if size <= most)
        with_indices = call.function == "topk"
        return Layout(call.dtype, prod(call.shape), min(call.k, size), index_bytes if with_indices else 0)

    def fits(self, call: Call, size: int) -> bool:
        """Whether the candidates of a rank, whose shard has this size, have a place here."""
        own = self._of_longest(call, size)
        return (
            (self.dtype, self.rows) == (own.dtype, own.rows)
            and self.count >= own.count
            and self.index_bytes >= own.index_bytes
            and (self.index_bytes == 0) == (own.index_bytes == 0)
        )

    @property
    def bytes(self) -> int:
        """Of the buffer of one rank, which is what it sends to every other one."""
        return self._indices_at + _in_eights(self.rows * self.count * self.index_bytes)

    @property
    def _indices_at(self) -> int:
        return HEADER + _in_eights(self.rows * self.count * self.dtype.itemsize)

    def values(self, buffers: torch.Tensor) -> torch.Tensor:
        """Those in the buffers of some ranks, (ranks, rows, count): a view."""
        return self._part(buffers, HEADER, self.dtype)

    def indices(self, buffers: torch.Tensor) -> torch.Tensor:
        return self._part(buffers, self._indices_at, _INDEX_DTYPES[self.index_bytes])

    def _part(self, buffers, begin, dtype):
        length = self.rows * self.count * dtype.itemsize
        return buffers.narrow(1, begin, length).view(dtype).view(len(buffers), self.rows, self.count)


_NO_CALL = Agreed((), (), Layout(torch.uint8, 0, 0, 0))


def _in_eights(bytes):
    return (bytes + 7) // 8 * 8


# ---- What a group remembers ----


class _History:
    """The calls of a group: the same on every rank, since each call counts as the one on which they agreed, or else as
    the expected one."""

    def __init__(self):
        self._calls = [_NO_CALL]
        self._place = 0  # of the expected one
        self._unread = deque()  # headers on their way to the host

    def expected(self) -> Agreed:
        """What followed the last time that the latest calls were made."""
        return self._calls[self._place]

    def add(self, agreed: Agreed) -> None:
        is_expected = agreed == self.expected()
        self._calls.append(agreed)
        self._place = self._place + 1 if is_expected else self._behind_the_same()
        if len(self._calls) == _REMEMBERED:
            del self._calls[: _REMEMBERED // 2]
            self._place = max(self._place - _REMEMBERED // 2, 0)

    def _behind_the_same(self):
        """The place behind the longest stretch of calls that ends as all of them end; of the last one if it is new. If
        there are several as long, of the first that is followed by what follows most of them."""
        latest, count = self._calls[::-1], len(self._calls)
        # The Z algorithm: how many calls before each place are the same as the latest.
        same, left, right = [0] * count, 0, 0
        for back in range(1, count):
            length = min(right - back, same[back - left]) if back < right else 0
            while back + length < count and latest[length] == latest[back + length]:
                length += 1
            same[back] = length
            if back + length > right:
                left, right = back, back + length
        longest = max(same)
        if longest == 0:
            return count - 1
        places = [count - back for back in range(count - 1, 0, -1) if same[back] == longest]
        followers = [self._calls[place] for place in places]
        return places[followers.index(Counter(followers).most_common(1)[0][0])]

    def read_later(self, headers: torch.Tensor) -> None:
        self._unread.append(copied_to_host(headers))

    def read(self) -> None:
        """Compares the headers that have arrived."""
        while self._unread and self._unread[0][1]():
            headers, _ = self._unread.popleft()
            try:
                Agreed.by(headers.tolist())
            except (RuntimeError, ValueError) as error:
                raise type(error)(f"in this call or an earlier one: {error}") from None


_histories: WeakKeyDictionary = WeakKeyDictionary()


def _history_of(group) -> _History:
    return _histories.setdefault(group, _History())


# ---- The gather ----


@dataclass(frozen=True)
class Candidates:
    """Those of all ranks."""

    sizes: list[int]  #: of all shards
    counts: list[int]  #: how many candidates of a row each rank has
    values: torch.Tensor  #: (ranks, rows, the highest count)
    indices: torch.Tensor | None  #: in the shard of the rank, of the same shape; None where nobody needs them


def gather(
    call: Call, size: int, values: torch.Tensor, indices: torch.Tensor, group, sizes: Sequence[int] | None
) -> Candidates:
    """The candidates of all ranks. `values` and `indices` are this one's: (rows, the lower of k and its size). The
    sizes of all shards may be given."""
    history, words = _history_of(group), call.words()
    header = _header((*words, size, _mark(sizes)), values.device)
    own = None if sizes is None else (words, tuple(sizes))
    # In the capture of a CUDA graph nothing may wait, and the host does not see when it runs.
    is_captured = values.is_cuda and torch.cuda.is_current_stream_capturing()
    agreed = history.expected()
    try:
        layout = None
        while layout != agreed.layout:
            layout = agreed.layout
            buffers = _gathered(_filled(layout, header, values, indices, layout.fits(call, size)), group)
            headers = buffers.narrow(1, 0, HEADER).view(torch.int64)
            if agreed[:2] == own and must_wait_for(headers):
                if not is_captured:
                    history.read_later(headers)
            else:
                agreed = Agreed.by(headers.tolist())
    finally:
        history.add(agreed)
    if not is_captured:
        history.read()
    counts = [min(call.k, size) for size in agreed.sizes]
    indices = layout.indices(buffers) if layout.index_bytes else None
    return Candidates(list(agreed.sizes), counts, layout.values(buffers), indices)


def refuse(device: torch.device, group) -> None:
    """Takes the place of gather() on a rank that was called with wrong arguments, so that no other one waits for it."""
    history = _history_of(group)
    agreed = history.expected()
    _gathered(torch.zeros(agreed.layout.bytes, dtype=torch.uint8, device=device), group)
    history.add(agreed)


def must_wait_for(tensor: torch.Tensor) -> bool:
    """Whether to read it is to wait for a GPU."""
    return tensor.is_cuda


def copied_to_host(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], bool]]:
    """A copy of a tensor of a GPU that the host has not waited for, and whether it has arrived."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))
    return copy, event.query


@lru_cache(maxsize=_REMEMBERED)
def _header(words, device):
    """The bytes of the header: made once, since a copy to a GPU takes longer than the rest of it."""
    return torch.tensor([words], device=device).view(torch.uint8)


def _filled(layout, header, values, indices, fits):
    # What is not written here is not read either: the gaps between parts, and the places of candidates that a rank
    # lacks. Where there are no candidates a rank may come to read the header later than them: it finds zeros.
    buffer = (header.new_empty if fits else header.new_zeros)(1, layout.bytes)
    buffer.narrow(1, 0, HEADER).copy_(header)
    if fits:
        count = values.shape[1]
        layout.values(buffer).narrow(2, 0, count).copy_(values)
        if layout.index_bytes:
            layout.indices(buffer).narrow(2, 0, count).copy_(indices)
    return buffer[0]


def _gathered(buffer, group):
    """The buffers of all ranks, (ranks, bytes)."""
    result = buffer.new_empty(group.size(), len(buffer))
    all_gather(result.view(-1), buffer, group=group)
    return result


# torch 2.13 has a new name for it, and warns of the old one.
all_gather = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor
