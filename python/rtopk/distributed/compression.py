"""topk_hook: a communication hook of DistributedDataParallel that sends the largest gradients of every chunk.

Error feedback (Seide et al. 2014, Stich et al. 2018) keeps what was not sent and adds it to the gradient of the next
step. Every parameter is cut into chunks by itself. So what is sent does not depend on the buckets that DDP makes of the
parameters, which are others in the first step than later.
"""

import numbers
import warnings
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from .._compact import selector_dtype
from ._chunks import Chunks
from .exchange import all_gather

_MAX_CHUNK = 65536  # positions are of 16 bits
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_VALUE_DTYPES = (None, torch.float16, torch.bfloat16)


class CompressionStats(NamedTuple):
    """What a rank has sent so far, counted as ring algorithms send it: of n bytes with P ranks, all-reduce sends
    2 n (P - 1) / P, and all-gather n (P - 1)."""

    rate: float  #: all_reduce_bytes / sent_bytes; 0 if nothing was sent
    all_reduce_bytes: int  #: what all-reduce would have sent
    sent_bytes: int  #: what was sent, in the steps of the warm-up too


class TopKState:
    """The settings of :func:`topk_hook`, and what it keeps from step to step.

    Args:
        k: how many elements of every chunk are sent, 1 to `chunk`.
        chunk: how many elements of a parameter's gradient are a chunk, up to 65536. The last chunk of a parameter may
            be shorter, and is sent whole if it has no more than k elements. A position takes 8 bits in chunks of up to
            256 elements, and 16 in others.
        value_dtype: torch.float16 or torch.bfloat16 to send values in 16 bits. What rounding takes away is kept for
            the next step, too. None: in the dtype of the gradients.
        warm_up_steps: the first steps use all-reduce. Gradients change most in the beginning; a tenth of all steps is
            a usual choice.
        min_compression_rate: gradients are compressed if all-reduce would send more than so many times the bytes for a
            whole chunk, counted as in :class:`CompressionStats`, that is if
            2 chunk bytes(gradient) > rate ranks k (bytes(value) + bytes(position)). Otherwise they are all-reduced,
            with a warning at the first step. 0: always compress.
        process_group: the group of the DDP module; None: the default group.

    All arguments must be the same on every rank. The first step compares them.

    What is kept takes as much memory as the gradients, twice as much where these are of 16 bits: sums of many small
    gradients need float32. It is in the units of the gradients, so a torch.amp.GradScaler that changes its scale, and
    all else that rescales the loss, changes its weight once.

    >>> state = rtopk.distributed.TopKState(k=4, chunk=256, warm_up_steps=100)
    >>> state.compression_stats()
    CompressionStats(rate=0.0, all_reduce_bytes=0, sent_bytes=0)
    """

    def __init__(
        self,
        k: int,
        chunk: int = 256,
        *,
        value_dtype: torch.dtype | None = None,
        warm_up_steps: int = 0,
        min_compression_rate: float = 1.0,
        process_group: dist.ProcessGroup | None = None,
    ):
        _check_integer("chunk", chunk, 1, _MAX_CHUNK)
        _check_integer("k", k, 1, chunk)
        _check_integer("warm_up_steps", warm_up_steps, 0)
        if value_dtype not in _VALUE_DTYPES:
            raise ValueError(f"value_dtype is {value_dtype}; accepted: {', '.join(map(str, _VALUE_DTYPES))}")
        if not isinstance(min_compression_rate, numbers.Real) or not 0 <= min_compression_rate < float("inf"):
            raise ValueError(f"min_compression_rate is {min_compression_rate!r}; accepted: a number, 0 or more")
        self.k, self.chunk = k, chunk
        self.value_dtype = value_dtype
        self.warm_up_steps = warm_up_steps
        self.min_compression_rate = min_compression_rate
        self.process_group = process_group
        self.steps = 0  #: how many steps the hook has seen
        self._all_reduce_bytes = self._sent_bytes = 0
        self._is_checked = self._has_warned = False
        self._kept: dict[torch.Tensor, torch.Tensor] = {}  # of each parameter: flat, a view of its bucket's
        self._buckets: dict[int, Chunks] = {}

    def compression_stats(self) -> CompressionStats:
        """How many bytes this rank has sent, and how many all-reduce would have sent."""
        rate = self._all_reduce_bytes / self._sent_bytes if self._sent_bytes else 0.0
        return CompressionStats(rate, self._all_reduce_bytes, self._sent_bytes)

    def state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """A copy of what training needs to go on as if it had not been interrupted, for torch.save. Every rank has its
        own, and loads its own: each keeps other parts of its gradients.

        Args:
            model: the model, as it is or in DDP. Its parameters' names are the names in "error_feedback", in which
                every tensor is flat.
        """
        kept = {name: self._kept[each].clone() for name, each in _named(model).items() if each in self._kept}
        return {
            "rank": dist.get_rank(self.process_group),
            "ranks": dist.get_world_size(self.process_group),
            "steps": self.steps,
            "bytes": [self._all_reduce_bytes, self._sent_bytes],
            "error_feedback": kept,
        }

    def load_state_dict(self, saved: dict[str, Any], model: torch.nn.Module) -> None:
        """Goes on from what :meth:`state_dict` gave on this rank. The settings are those of this state, and may be
        others than before.

        Args:
            saved: what state_dict() gave.
            model: the model with the same parameters, as it is or in DDP.
        """
        found = f"rank {saved['rank']} of {saved['ranks']}"
        wanted = f"rank {dist.get_rank(self.process_group)} of {dist.get_world_size(self.process_group)}"
        if found != wanted:
            raise ValueError(f"the state was saved by {found}; accepted: one that was saved by {wanted}")
        parameters = _named(model)
        for name, kept in saved["error_feedback"].items():
            size = parameters[name].numel() if name in parameters else "no parameter"
            if kept.numel() != size:
                raise ValueError(
                    f"error_feedback of {name!r} has {kept.numel()} elements, and the model has {size}; accepted: the"
                    " state of a model with the same parameters"
                )
        kept = {parameters[name]: kept.to(parameters[name].device) for name, kept in saved["error_feedback"].items()}
        self._kept, self._buckets = kept, {}
        self.steps, (self._all_reduce_bytes, self._sent_bytes) = saved["steps"], saved["bytes"]
        self._is_checked = False

    # ---- What the hook asks ----

    def _check_once(self, group, device) -> None:
        """Compares the settings with those of the other ranks, the first time."""
        if self._is_checked:
            return
        settings = {
            "k": self.k,
            "chunk": self.chunk,
            "value_dtype": _VALUE_DTYPES.index(self.value_dtype),
            "warm_up_steps": self.warm_up_steps,
            "min_compression_rate": self.min_compression_rate,
            "steps": self.steps,
        }
        own = torch.tensor(list(settings.values()), dtype=torch.float64, device=device)
        every = own.new_empty(group.size() * len(own))
        all_gather(every, own, group=group)
        for name, column in zip(settings, every.view(group.size(), -1).T.tolist(), strict=True):
            if len(set(column)) > 1:
                shown = [_VALUE_DTYPES[int(each)] if name == "value_dtype" else f"{each:g}" for each in column]
                text = ", ".join(f"{each} on rank {rank}" for rank, each in enumerate(shown))
                raise ValueError(f"TopKState: {name} is {text}; accepted: the same on every rank")
        self._is_checked = True

    def _compresses(self, gradient: torch.Tensor, ranks: int) -> bool:
        """Whether gradients of this dtype are worth compressing. Whole chunks decide, so that it is the same for every
        bucket."""
        pair_bytes = (self.value_dtype or gradient.dtype).itemsize + selector_dtype(self.chunk).itemsize
        rate = 2 * self.chunk * gradient.itemsize / (ranks * self.k * pair_bytes)
        if rate > self.min_compression_rate:
            return True
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"TopKState: k is {self.k} and chunk {self.chunk}: with {ranks} ranks, all-reduce sends {rate:.2g}"
                f" times the bytes, and min_compression_rate is {self.min_compression_rate:g}. All-reduce is used.",
                stacklevel=3,
            )
        return False

    def _count(self, ranks: int, dense_bytes: int, packed_bytes: int | None = None) -> None:
        all_reduce_bytes = 2 * dense_bytes * (ranks - 1) // ranks
        self._all_reduce_bytes += all_reduce_bytes
        self._sent_bytes += all_reduce_bytes if packed_bytes is None else packed_bytes * (ranks - 1)

    def _chunks(self, bucket: dist.GradBucket) -> Chunks:
        """The chunks of a bucket. DDP makes new buckets after the first step: what is kept moves to them."""
        parameters = bucket.parameters()
        chunks = self._buckets.get(bucket.index())
        if chunks is None or not chunks.are_of(parameters):
            chunks = Chunks(parameters, bucket.buffer(), self.k, self.chunk, self.value_dtype)
            self._buckets[bucket.index()] = chunks
            views = chunks.kept.split([each.numel() for each in parameters])
            for parameter, view in zip(parameters, views, strict=True):
                if parameter in self._kept:
                    view.copy_(self._kept[parameter])
                self._kept[parameter] = view
        return chunks


def topk_hook(state: TopKState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DistributedDataParallel: averages the k largest elements by magnitude of every chunk.

        ddp.register_comm_hook(rtopk.distributed.TopKState(k=4, chunk=256), rtopk.distributed.topk_hook)

    The gradient of every parameter, plus what is kept of it, is cut into chunks. Values and positions of the largest
    are packed into one buffer of bytes, and one asynchronous all-gather brings them to every rank while backward goes
    on. Each rank adds them up in the order of ranks, starting from 0, and divides by the number of ranks. Gradients of
    16 bits are summed in float32 and rounded once. So the result is the same bits on every rank and in every run. What
    was not sent is kept: each element is sent, kept, or with a `value_dtype` sent in part and kept for the rest.

    NaN and infinity are the largest by magnitude: every chunk that has any sends some, and the average is not finite
    there, as with all-reduce. They are never kept, so that the step after may be a good one again. A finite value too
    large for `value_dtype` is sent as its largest number; the rest is kept.

    Args:
        state: settings, and what is kept.
        bucket: the gradients that DDP wants averaged: float32, float16, bfloat16 or float64.

    Returns:
        The future of the averaged gradients, which are in the bucket's own memory.
    """
    if not isinstance(state, TopKState):
        raise TypeError(f"topk_hook(): argument 'state' is {type(state).__name__}; accepted: TopKState")
    group = dist.group.WORLD if state.process_group is None else state.process_group
    gradient, ranks = bucket.buffer(), group.size()
    if gradient.dtype not in _DTYPES:
        raise TypeError(f"topk_hook(): gradients are {gradient.dtype}; accepted: {', '.join(map(str, _DTYPES))}")
    state._check_once(group, gradient.device)
    is_warm = state.steps >= state.warm_up_steps
    state.steps += bucket.is_last()
    if not is_warm or not state._compresses(gradient, ranks):
        state._count(ranks, gradient.nbytes)
        return allreduce_hook(group, bucket)

    chunks = state._chunks(bucket)
    packed = chunks.pack(gradient)
    state._count(ranks, gradient.nbytes, packed.nbytes)
    gathered = packed.new_empty(ranks, packed.numel())
    work = all_gather(gathered.view(-1), packed, group=group, async_op=True)

    def average(future):
        future.wait()  # an error if the all-gather failed
        return chunks.average(gathered, gradient)

    return work.get_future().then(average)


def _named(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict((model.module if isinstance(model, DistributedDataParallel) else model).named_parameters())


def _check_integer(name: str, value: Any, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}; accepted: an int")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} is {value}; accepted: {least} {'or more' if most is None else f'to {most}'}")
