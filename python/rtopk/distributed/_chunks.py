"""The gradients of one bucket: cut into chunks, their largest elements packed, and those of all ranks added up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._compact import selector_dtype
from .._segments import topk_segments

# The parts of the ranks lie one behind the other: each begins where values of any dtype may.
_ALIGNMENT = 8


class Chunks:
    """The chunks of a bucket's gradients, and what is kept of these from step to step."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        gradient: torch.Tensor,
        k: int,
        chunk: int,
        value_dtype: torch.dtype | None,
    ):
        self.parameters = parameters
        self.k, self.chunk = k, chunk
        self.value_dtype = value_dtype or gradient.dtype
        # Sums of many small gradients need more bits than a gradient of 16 has.
        self.kept = gradient.new_zeros(gradient.shape, dtype=torch.promote_types(gradient.dtype, torch.float32))

        sizes = torch.tensor([each.numel() for each in parameters])
        counts = (sizes + chunk - 1) // chunk  # of chunks in each parameter
        first = (counts.cumsum(0) - counts).repeat_interleave(counts)  # the first chunk of the same parameter
        starts = (sizes.cumsum(0) - sizes).repeat_interleave(counts) + (torch.arange(len(first)) - first) * chunk
        offsets = torch.cat([starts, sizes.sum().view(1)])
        sent = offsets.diff().clamp(max=k)  # from each chunk
        is_sent = torch.arange(k) < sent.unsqueeze(1)
        device = gradient.device
        self.offsets = offsets.to(device)
        #: Where the results of chunks shorter than k end; None if there are none.
        self.slots = None if is_sent.all() else is_sent.flatten().nonzero().squeeze(1).to(device)
        #: The start of the chunk of every element that is sent.
        self.starts = starts.repeat_interleave(sent).to(device)
        self.value_bytes = len(self.starts) * self.value_dtype.itemsize
        self.position_bytes = len(self.starts) * selector_dtype(chunk).itemsize

    def are_of(self, parameters: Sequence[torch.Tensor]) -> bool:
        return len(parameters) == len(self.parameters) and all(map(lambda a, b: a is b, parameters, self.parameters))

    def pack(self, gradient: torch.Tensor) -> torch.Tensor:
        """The values and positions of the largest elements of gradient and kept, as bytes. All others are kept."""
        self.kept += gradient
        options = {"max_length": self.chunk, "sorted": False, "magnitude": True}
        values, places = (each.flatten() for each in topk_segments(self.kept, self.offsets, self.k, **options))
        if self.slots is not None:
            values, places = values[self.slots], places[self.slots]
        sent = _rounded(values, self.value_dtype)
        # Where an infinity was sent the difference is NaN, and chunks may have more of both than they can send.
        self.kept.scatter_(0, places, values - sent).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        bytes = self.value_bytes + self.position_bytes
        packed = torch.zeros(-(-bytes // _ALIGNMENT) * _ALIGNMENT, dtype=torch.uint8, device=values.device)
        packed_values, packed_positions = self._parts(packed)
        packed_values.copy_(sent)
        packed_positions.copy_(places - self.starts)
        return packed

    def average(self, gathered: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Writes the sum of what all ranks packed, in the order of ranks, divided by their number, into `gradient`."""
        sums = gradient.zero_() if gradient.dtype == self.kept.dtype else torch.zeros_like(self.kept)
        values, positions = self._parts(gathered)
        values, places = values.to(sums.dtype), self.starts + positions.to(torch.int64)
        for rank in range(len(gathered)):
            sums.scatter_add_(0, places[rank], values[rank])  # the places of a rank are distinct: no order to depend on
        return gradient.copy_(sums.div_(len(gathered)))

    def _parts(self, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The values and positions in packed bytes, as views."""
        values, positions, _ = packed.tensor_split([self.value_bytes, self.value_bytes + self.position_bytes], dim=-1)
        return values.view(self.value_dtype), positions.view(selector_dtype(self.chunk))


def _rounded(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values in another dtype. Finite ones remain finite."""
    if dtype == values.dtype:
        return values
    largest = torch.finfo(dtype).max
    return torch.where(values.isinf(), values, values.clamp(-largest, largest)).to(dtype)
