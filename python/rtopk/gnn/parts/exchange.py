"""Rows of nodes that are neighbours of nodes on other ranks: compact (CBSR) on their way there, and their gradients
back."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..._compact import selector_dtype
from .._aggregate import at_selectors, expanded
from .group import Ranks

EXCHANGES = ("compact", "dense")


class Exchange:
    """What this rank sends to the others in a layer, and what it receives.

    A compact row travels as the bytes of its k values and of its k selectors: 160 bytes instead of 1,024 with 256
    columns of float32 and k = 32. Back travel the gradients of the k values: the owner knows their columns.

    Args:
        ranks: who takes part.
        send_rows: [sent], int64: the own rows that others need, by rank and in the order in which that rank expects
            them. A row that several ranks need occurs several times.
        send_counts: how many of them each rank needs.
        receive_counts: how many rows each rank sends here.
        dense: send all columns of a row, with their zeros, and get the gradient of all of them: for comparison.
    """

    def __init__(
        self,
        ranks: Ranks,
        send_rows: torch.Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        *,
        dense: bool = False,
    ) -> None:
        self.ranks = ranks
        self.send_rows = send_rows
        self.send_counts = send_counts
        self.receive_counts = receive_counts
        self.dense = dense
        self.bytes_sent = 0

    def to(self, device: torch.device | str) -> Exchange:
        return Exchange(self.ranks, self.send_rows.to(device), self.send_counts, self.receive_counts, dense=self.dense)

    def start_rows(
        self, values: torch.Tensor, selectors: torch.Tensor, cols: int
    ) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
        """Sends rows to those who need them. Returns a function that waits for theirs: their values and selectors."""
        values, selectors = self._sent(values), self._sent(selectors)
        if self.dense:
            finish = self._start(_bytes_of(expanded(values, selectors, cols)))
        else:
            finish = self._start(torch.cat([_bytes_of(values), _bytes_of(selectors)], 1))
        dtype, k = values.dtype, values.shape[1]

        def received() -> tuple[torch.Tensor, torch.Tensor]:
            rows = finish()
            if self.dense:
                every = torch.arange(cols, device=rows.device).to(selector_dtype(cols))
                return rows.view(dtype), every.expand(len(rows), cols).contiguous()
            of_values, of_selectors = rows.split([k * dtype.itemsize, k * selectors.dtype.itemsize], 1)
            return _side_by_side(of_values).view(dtype), _side_by_side(of_selectors).view(selectors.dtype)

        return received

    def start_gradients(self, gradients: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """Sends the gradients of received values back to their owners. Returns a function of the gradients of the own
        values and of their selectors that waits, and adds to them what came back: in the order of the ranks, so that
        the sums do not depend on who was quicker."""
        finish = self._start(_bytes_of(gradients), back=True)

        def add_to(own: torch.Tensor, selectors: torch.Tensor) -> None:
            returned = finish().view(gradients.dtype)
            if self.dense:
                returned = at_selectors(returned, self._sent(selectors))
            for rows, part in zip(
                self.send_rows.split(self.send_counts), returned.split(self.send_counts), strict=True
            ):
                own.index_add_(0, rows, part)  # a rank needs a row once

        return add_to

    def of_others(self, numbers: torch.Tensor) -> torch.Tensor:
        """One number of each received row, from one of each own row."""
        finish = self._start(_bytes_of(numbers[self.send_rows].unsqueeze(1)))
        return finish().view(numbers.dtype).squeeze(1)

    def _sent(self, rows: torch.Tensor) -> torch.Tensor:
        return _bytes_of(rows).index_select(0, self.send_rows).view(rows.dtype)  # as bytes: torch lacks it for uint16

    def _start(self, rows: torch.Tensor, back: bool = False) -> Callable[[], torch.Tensor]:
        counts = (self.send_counts, self.receive_counts)
        self.bytes_sent += rows.numel()
        return self.ranks.start_exchange(rows, *(reversed(counts) if back else counts))


def _bytes_of(rows: torch.Tensor) -> torch.Tensor:
    return rows.contiguous().view(torch.uint8)


def _side_by_side(rows: torch.Tensor) -> torch.Tensor:
    return rows.clone(memory_format=torch.contiguous_format)  # contiguous() would keep the stride of a single row
