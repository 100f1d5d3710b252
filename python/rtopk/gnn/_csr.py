"""Sparse matrices in compressed rows (CSR): checks of those that users give, and products with dense matrices."""

from __future__ import annotations

import warnings

import torch

from .._compact import selector_dtype


def csr_matrices(row_starts, columns, values, num_columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A sparse matrix and its transpose, for :func:`csr_product`."""
    transpose = torch.ops.rtopk.transpose_graph(row_starts, columns, values, num_columns)
    return csr_tensor(row_starts, columns, values, num_columns), csr_tensor(*transpose, row_starts.numel() - 1)


def csr_tensor(row_starts, columns, values, num_columns) -> torch.Tensor:
    """A sparse matrix as torch has it. Does not wait for a GPU."""
    with warnings.catch_warnings():
        # torch says that CSR tensors are in beta; some versions also say that this one is not checked, as asked.
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)", category=UserWarning)
        return torch.sparse_csr_tensor(
            row_starts, columns, values, (row_starts.numel() - 1, num_columns), check_invariants=False
        )


def _times(matrix: torch.Tensor, dense: torch.Tensor, baseline: bool) -> torch.Tensor:
    """matrix @ dense. On a CPU rtopk's aggregation is faster than torch's product. On a GPU torch calls cuSPARSE. It
    does not fix the order of additions, and refuses a matrix without entries or with more entries than elements: those
    go to the aggregation, too."""
    cols, entries = dense.shape[1], matrix.values().numel()
    refused = entries == 0 or entries > matrix.shape[0] * matrix.shape[1]
    if dense.is_cuda:
        own = refused or torch.are_deterministic_algorithms_enabled()
    else:
        own = dense.device.type == "cpu" and not baseline
    if own and matrix.dtype == dense.dtype == torch.float32 and 0 < cols <= 65536:
        # A dense row is a compact row with every column selected.
        selectors = torch.arange(cols, device=dense.device).to(selector_dtype(cols))
        selectors = selectors.expand(dense.shape).contiguous()
        starts, columns, weights = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        return torch.ops.rtopk.aggregate(starts, columns, weights, dense.contiguous(), selectors, cols, False, True)
    # torch's product needs one dtype for both. Autocast would make both bfloat16, which it does not take on a CPU.
    with torch.autocast(dense.device.type, enabled=False):
        return (matrix @ dense.to(matrix.dtype)).to(dense.dtype)


class _CsrProduct(torch.autograd.Function):
    """matrix @ dense. torch's own derivative would transpose the matrix in every step."""

    @staticmethod
    def forward(ctx, dense, matrix, transpose, baseline):
        ctx.transpose, ctx.baseline = transpose, baseline
        return _times(matrix, dense, baseline)

    @staticmethod
    def backward(ctx, grad):
        return _times(ctx.transpose, grad, ctx.baseline), None, None, None


def csr_product(
    matrices: tuple[torch.Tensor, torch.Tensor], dense: torch.Tensor, baseline: bool = False
) -> torch.Tensor:
    """The product of a sparse matrix, given with its transpose, and a dense one; differentiable in the dense one. In
    the baseline, torch's."""
    return _CsrProduct.apply(dense, *matrices, baseline)


def ranges(starts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """starts[0], starts[0] + 1, ... up to its length, then those of starts[1], and so on: the places of the entries of
    some rows."""
    ends = lengths.cumsum(0)
    offsets = (starts - ends + lengths).repeat_interleave(lengths)
    return offsets + torch.arange(len(offsets), device=starts.device)


def check_csr(row_starts, columns, num_columns: int | None = None) -> None:
    """Raises a ValueError if compressed rows are not valid. Without a number of columns the matrix is square."""
    for name, tensor in (("row_starts", row_starts), ("columns", columns)):
        if not is_plain(tensor) or tensor.dim() != 1 or tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name} is {described(tensor)}; accepted: a tensor with one dimension of int32 or int64")
    _check_device("columns", columns, row_starts)
    problem = csr_problem(row_starts, columns, row_starts.numel() - 1 if num_columns is None else num_columns)
    if problem:
        raise ValueError(problem)


def check_weights(name: str, weights, columns: torch.Tensor) -> None:
    if weights is None:
        return
    if not isinstance(weights, torch.Tensor):
        raise ValueError(f"{name} is {type(weights).__name__}; accepted: a tensor, or None")
    if not is_plain(weights) or weights.shape != columns.shape or not weights.is_floating_point():
        raise ValueError(
            f"{name} is {described(weights)}; accepted: a floating-point number for each of {columns.numel()} edges"
        )
    _check_device(name, weights, columns)


def is_plain(tensor) -> bool:
    """Whether this is a dense tensor with elements."""
    return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.device.type != "meta"


def described(tensor) -> str:
    if not isinstance(tensor, torch.Tensor):
        return type(tensor).__name__
    how = "" if is_plain(tensor) else f", {tensor.layout} on {tensor.device}"
    return f"{list(tensor.shape)} of {tensor.dtype}{how}"


def _check_device(name: str, tensor: torch.Tensor, other: torch.Tensor) -> None:
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}; accepted: {other.device}, as for the other tensors")


def csr_problem(row_starts: torch.Tensor, columns: torch.Tensor, num_columns: int) -> str | None:
    """A description of what is wrong with compressed rows, or None."""
    return starts_problem(row_starts, columns.numel()) or columns_problem(columns, num_columns)


def starts_problem(row_starts: torch.Tensor, entries: int) -> str | None:
    """A description of what is wrong with the starts of rows that have this many entries together, or None."""
    if row_starts.numel() == 0:
        return "row_starts is empty; accepted: one more than there are rows"
    if int(row_starts[0]) != 0 or int(row_starts[-1]) != entries:
        return (
            f"row_starts goes from {int(row_starts[0])} to {int(row_starts[-1])}; accepted: from 0 to the number of"
            f" entries, {entries}"
        )
    # Compared, not subtracted: a difference may wrap around. Ascending between valid ends, all of them are valid.
    falls = row_starts[1:] < row_starts[:-1]
    if bool(falls.any()):
        row = int(falls.nonzero()[0])
        return f"row_starts falls at row {row}; accepted: each at least as large as the one before"
    return None


def columns_problem(columns: torch.Tensor, num_columns: int) -> str | None:
    """A description of what is wrong with the columns of entries, or None."""
    if columns.numel() and (int(columns.min()) < 0 or int(columns.max()) >= num_columns):
        return f"columns go from {int(columns.min())} to {int(columns.max())}; accepted: 0 to {num_columns - 1}"
    return None
