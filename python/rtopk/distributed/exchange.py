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
        numbers = [1, FUNCTIONS.index(self.function), DTYPES.index(self.dtype), len(self.shape), *dims]
        return [*numbers, self.dim, self.k, self.largest, self.sorted, self.size]

    @staticmethod
    def of(words: list[int]) -> Call:
        _, function, dtype, count, *rest = words
        shape, (dim, k, largest, sorted, size) = rest[: min(count, _OTHER_DIMS)], rest[_OTHER_DIMS:]
        order = (bool(largest), bool(sorted))
        return Call(FUNCTIONS[function], DTYPES[dtype], tuple(shape), dim, k, *order, size)


_NAMES = {"shape": "the shape of the input without the selected dimension"}


def agreed(headers: list[list[int]]) -> list[Call]:
    """The calls of all ranks. An error if a rank refused its arguments, or if they differ: the same on every rank."""
    refused = [rank for rank, words in enumerate(headers) if words[0] != 1]
    if refused:
        raise RuntimeError(f"rank {refused[0]} of the group refused the arguments that it was called with")
    calls = [Call.of(words) for words in headers]
    for name in ("function", "dtype", "shape", "dim", "k", "largest", "sorted"):
        values = [getattr(call, name) for call in calls]
        for rank, value in enumerate(values):
            if value != values[0]:
                raise ValueError(
                    f"{_NAMES.get(name, name)} is {_shown(values[0])} on rank 0 of the group and {_shown(value)} on"
                    f" rank {rank}; accepted: the same on every rank"
                )
    return calls


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
        return buffers[:, begin : begin + length].view(dtype).unflatten(1, (self.rows, self.count))


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
        buffers = _gathered(_filled(layout, [], values, indices), group)
    else:
        history = _histories.setdefault(group, _History())
        layout, wanted = None, history.expected()
        while layout != wanted:
            layout = wanted
            buffers = _gathered(_filled(layout, call.words(), values, indices, layout.fits(call)), group)
            sizes = [each.size for each in agreed(buffers[:, :_HEADER].view(torch.int64).tolist())]
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


def _filled(layout, words, values, indices, fits=True):
    buffer = torch.zeros(1, layout.bytes, dtype=torch.uint8, device=values.device)
    if words:
        buffer[:, :_HEADER].view(torch.int64).copy_(torch.tensor([words]))
    if fits:
        count = values.shape[1]
        layout.values(buffer)[0, :, :count] = values
        if layout.index_bytes:
            layout.indices(buffer)[0, :, :count] = indices
    return buffer[0]


def _gathered(buffer, group):
    """The buffers of all ranks, (ranks, bytes)."""
    result = buffer.new_empty(group.size(), len(buffer))
    all_gather(result.view(-1), buffer, group=group)
    return result


# torch 2.13 has a new name for it, and warns of the old one.
all_gather = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor
