"""How the candidates of all ranks come together: one all-gather of bytes, of a size on which the ranks agree.

The buffer of a rank holds the values of its candidates and their columns. Its size follows from the arguments of the
call. If these differed from rank to rank, so would the sizes, and then a collective hangs or mixes up memory. So the
size of a gather never follows from what a rank was just called with, but from what all ranks already know: the layouts
of the calls before. Each rank expects the layout that came after the last one when that was last seen, and sends a
buffer of that layout, with a header that describes its call. Then every rank reads every header:

- The headers ask for the expected layout: the candidates are there.
- They ask for another one: the ranks gather again, with that one. It happens when a call is new to the group.
- They do not fit together: every rank raises the same error.

A program that repeats its calls, such as the layers of a network, so needs one gather for each call from the second
time on. Reading the headers waits for a GPU. If the caller gives the sizes of all shards there is no header, and
nothing waits; that ranks agree is then the caller's promise, as for the collectives of torch.distributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from weakref import WeakKeyDictionary

import torch
import torch.distributed

from .._operators import DTYPES, out_of_range

FUNCTIONS = ("topk", "maxk", "topk_mask")
_WORDS = 16  # int64 numbers of a header
_HEADER = 8 * _WORDS
_OTHER_DIMS = 7  # as many as fit behind the other words
_INDEX_DTYPES = {1: torch.uint8, 2: torch.uint16, 4: torch.int32, 8: torch.int64}
_LONGEST = {1: 2**8, 2: 2**16, 4: 2**31, 8: 2**63}  # shards that have indices of so many bytes
_REMEMBERED = 256  # layouts of a group; more are no cycle of calls


# ---- What a rank is called with ----


@dataclass(frozen=True)
class Call:
    """The arguments of a rank, of which all but `size` must be the same on every rank."""

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]  #: of the input without the selected dimension
    dim: int  #: counted from 0
    k: int
    largest: bool
    sorted: bool
    size: int  #: of the selected dimension on this rank

    def words(self) -> list[int]:
        """The header: first 1, unlike that of a rank that refused its arguments."""
        # A shape with more dimensions than there are words loses how its first ones are arranged.
        shape = self.shape if len(self.shape) <= _OTHER_DIMS else (prod(self.shape[:-6]), *self.shape[-6:])
        dims = [*shape, *[0] * (_OTHER_DIMS - len(shape))]
        numbers = [1, FUNCTIONS.index(self.function), DTYPES.index(self.dtype), len(shape), *dims]
        return [*numbers, self.dim, self.k, self.largest, self.sorted, self.size]

    @staticmethod
    def of(words: list[int]) -> Call:
        _, function, dtype, count, *rest = words
        shape, (dim, k, largest, sorted, size) = rest[:count], rest[_OTHER_DIMS:]
        order = (bool(largest), bool(sorted))
        return Call(FUNCTIONS[function], DTYPES[dtype], tuple(shape), dim, k, *order, size)


_NAMES = {"shape": "the shape of the input without the selected dimension"}


def agreed_sizes(headers: list[list[int]]) -> list[int]:
    """The size of every rank's shard, which is the last word. An error if a rank refused its arguments, or if they
    differ: the same on every rank."""
    if any(words[:-1] != headers[0][:-1] for words in headers) or headers[0][0] != 1:
        raise _difference(headers)
    return [words[-1] for words in headers]


def _difference(headers: list[list[int]]) -> Exception:
    refused = [rank for rank, words in enumerate(headers) if words[0] != 1]
    if refused:
        return RuntimeError(f"rank {refused[0]} of the group refused the arguments that it was called with")
    calls = [Call.of(words) for words in headers]
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
    """The buffer of a rank: a header if there is one, then values, then indices. All parts begin at multiples of 8."""

    header: int  #: bytes
    dtype: torch.dtype
    rows: int
    count: int  #: candidates of a row; a rank with fewer leaves the last ones empty
    index_bytes: int  #: of each candidate; 0: without indices

    @staticmethod
    def of(call: Call, sizes: Sequence[int], header: bool) -> Layout:
        """What shards of these sizes need for this call. An error if they have fewer than k elements together."""
        if call.k > sum(sizes):
            raise RuntimeError(f"{out_of_range(call.k, sum(sizes))}, the size of all shards together")
        count = min(call.k, max(sizes))
        index_bytes = next(bytes for bytes, most in _LONGEST.items() if max(sizes) <= most)
        return Layout(
            _HEADER * header, call.dtype, prod(call.shape), count, index_bytes if call.function == "topk" else 0
        )

    def fits(self, call: Call) -> bool:
        """Whether the candidates of a rank have a place here."""
        own = Layout.of(replace(call, k=min(call.k, call.size)), [call.size], header=True)
        return (
            (self.dtype, self.rows) == (own.dtype, own.rows)
            and self.count >= own.count
            and self.index_bytes >= own.index_bytes
            and (self.index_bytes == 0) == (own.index_bytes == 0)
        )

    @property
    def bytes(self) -> int:
        """Of the buffer of one rank, which is what it sends to every other one. Never 0."""
        return max(self._indices_at + _in_eights(self.rows * self.count * self.index_bytes), 8)

    @property
    def _indices_at(self) -> int:
        return self.header + _in_eights(self.rows * self.count * self.dtype.itemsize)

    def values(self, buffers: torch.Tensor) -> torch.Tensor:
        """Those in the buffers of some ranks, (ranks, rows, count): a view."""
        return self._part(buffers, self.header, self.dtype)

    def indices(self, buffers: torch.Tensor) -> torch.Tensor:
        return self._part(buffers, self._indices_at, _INDEX_DTYPES[self.index_bytes])

    def _part(self, buffers, begin, dtype):
        length = self.rows * self.count * dtype.itemsize
        return buffers.narrow(1, begin, length).view(dtype).view(len(buffers), self.rows, self.count)


_NO_CALL = Layout(_HEADER, torch.uint8, 0, 0, 0)


def _in_eights(bytes):
    return (bytes + 7) // 8 * 8


# ---- What a group remembers ----


@dataclass
class _History:
    """The layouts of a group's calls: the same on every rank, since all of them saw the same headers."""

    last: Layout = _NO_CALL
    after: dict[Layout, Layout] = field(default_factory=dict)

    def expected(self) -> Layout:
        return self.after.get(self.last, self.last)

    def add(self, layout: Layout) -> None:
        if len(self.after) == _REMEMBERED:
            self.after.clear()
        self.after[self.last] = layout
        self.last = layout


_histories: WeakKeyDictionary = WeakKeyDictionary()


# ---- The gather ----


@dataclass(frozen=True)
class Candidates:
    """Those of all ranks."""

    sizes: list[int]  #: of all shards
    counts: list[int]  #: how many candidates of a row each rank has
    values: torch.Tensor  #: (ranks, rows, the highest count)
    indices: torch.Tensor | None  #: in the shard of the rank, of the same shape; None where nobody needs them


def gather(call: Call, values: torch.Tensor, indices: torch.Tensor, group, sizes: Sequence[int] | None) -> Candidates:
    """The candidates of all ranks. `values` and `indices` are this one's: (rows, the lower of k and its size)."""
    if sizes is not None:
        layout = Layout.of(call, sizes, header=False)
        buffers = _gathered(_filled(layout, None, values, indices), group)
    else:
        history = _histories.setdefault(group, _History())
        layout, wanted = None, history.expected()
        while layout != wanted:
            layout = wanted
            header = _header(call, values.device)
            buffers = _gathered(_filled(layout, header, values, indices, layout.fits(call)), group)
            sizes = agreed_sizes(buffers.narrow(1, 0, _HEADER).view(torch.int64).tolist())
            wanted = Layout.of(call, sizes, header=True)
        history.add(layout)
    counts = [min(call.k, size) for size in sizes]
    return Candidates(
        list(sizes), counts, layout.values(buffers), layout.indices(buffers) if layout.index_bytes else None
    )


def refuse(device: torch.device, group) -> None:
    """Takes the place of gather() on a rank that was called with wrong arguments, so that no other one waits for it."""
    layout = _histories.setdefault(group, _History()).expected()
    _gathered(torch.zeros(layout.bytes, dtype=torch.uint8, device=device), group)


@lru_cache(maxsize=_REMEMBERED)
def _header(call, device):
    """The bytes of the header: made once, since a copy to a GPU takes longer than the rest of it."""
    return torch.tensor([call.words()], device=device).view(torch.uint8)


def _filled(layout, header, values, indices, fits=True):
    # What is not written here is not read either: the gaps between parts, and the places of candidates that a rank
    # lacks; of a layout that does not fit, all but the header.
    buffer = torch.empty(1, layout.bytes, dtype=torch.uint8, device=values.device)
    if header is not None:
        buffer.narrow(1, 0, _HEADER).copy_(header)
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
