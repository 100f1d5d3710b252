"""Input features with few nonzero entries."""

from __future__ import annotations

import torch

from ._aggregate import index_type
from ._csr import check_csr, check_weights, csr_matrices, ranges


class SparseFeatures:
    """Input features with few nonzero entries, such as bags of words, as a sparse matrix and its transpose.

    Args:
        row_starts: [nodes + 1], int32 or int64: where each row's entries begin, and last the number of entries.
        columns: [entries], int32 or int64: the column of each entry.
        values: [entries], floating point.
        cols: the number of columns.
    """

    def __init__(self, row_starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, cols: int) -> None:
        check_csr(row_starts, columns, cols)
        check_weights("values", values, columns)
        index = index_type(max(row_starts.numel(), columns.numel(), cols))
        self.matrices = csr_matrices(row_starts.to(index), columns.to(index), values, cols)
        self.shape = self.matrices[0].shape

    def __deepcopy__(self, memo) -> SparseFeatures:
        return self.of_matrices(*(matrix.clone() for matrix in self.matrices))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"SparseFeatures({self.shape[0]}, {self.shape[1]}, entries={self.matrices[0].values().numel()})"

    @property
    def dtype(self) -> torch.dtype:
        return self.matrices[0].dtype

    @property
    def device(self) -> torch.device:
        return self.matrices[0].device

    def to(self, device: torch.device | str) -> SparseFeatures:
        moved = self.of_matrices(*(matrix.to(device) for matrix in self.matrices))
        return self if moved.matrices[0] is self.matrices[0] else moved

    @classmethod
    def of_matrices(cls, matrix: torch.Tensor, transpose: torch.Tensor) -> SparseFeatures:
        """Of a sparse CSR tensor and its transpose, which are known to be valid."""
        made = object.__new__(cls)
        made.matrices, made.shape = (matrix, transpose), matrix.shape
        return made

    def __getitem__(self, nodes: torch.Tensor) -> SparseFeatures:
        """The rows of some nodes, an int64 tensor on the device of the features."""
        matrix = self.matrices[0]
        starts = matrix.crow_indices()
        lengths = starts.diff()[nodes]
        places = ranges(starts[nodes].long(), lengths.long())
        row_starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(starts.dtype)
        columns, values = matrix.col_indices()[places], matrix.values()[places]
        return self.of_matrices(*csr_matrices(row_starts, columns, values, self.shape[1]))

    def to_dense(self) -> torch.Tensor:
        return self.matrices[0].to_dense()
