"""From a graph and the owner of each node to the parts of the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..data import Dataset
from ..features import SparseFeatures

# The columns of features and labels, and the roles of nodes, are as in .npz files of whole graphs.
ROLES = {"train_mask": "train", "val_mask": "validation", "test_mask": "test"}


@dataclass(frozen=True)
class Part:
    """What a rank has of a graph. Nodes have the numbers 0 to own - 1 here; the last ones have neighbours elsewhere.

    `arrays` has, as tensors on the CPU:
        ids: [own]: the number of each node in the whole graph.
        indptr, indices: the edges between own nodes, by rows.
        boundary: [boundary]: the nodes of other ranks that own nodes gather from, by rank, ascending.
        boundary_indptr, boundary_indices: the edges from these, of the last own nodes.
        send_rows: the own nodes that others gather from: by rank, and ascending in the whole graph.
        send_counts, receive_counts: [parts]: how many of send_rows go to each rank; how many of boundary come from it.
        x, or x_shape, x_indptr, x_indices and x_data; y; train_mask, val_mask, test_mask: of the own nodes.
    """

    arrays: dict[str, torch.Tensor]

    @property
    def nodes(self) -> int:
        return self.arrays["ids"].numel()

    @property
    def edges(self) -> int:
        return self.arrays["indices"].numel() + self.arrays["boundary_indices"].numel()


def split(dataset: Dataset, owners: torch.Tensor, parts: int) -> Iterator[Part]:
    """The parts of a graph on the CPU, one after the other.

    Args:
        dataset: the whole graph, without weights.
        owners: [nodes]: the part of each node.
        parts: how many.
    """
    graph = dataset.graph
    nodes, starts, columns = graph.num_nodes, graph.row_starts.long(), graph.columns.long()
    reader = torch.repeat_interleave(owners, starts.diff())  # of each edge
    crossing = reader != owners[columns]
    at_boundary = torch.zeros(nodes, dtype=torch.bool)  # nodes with neighbours elsewhere
    rows = torch.repeat_interleave(torch.arange(nodes), starts.diff())
    at_boundary[rows[crossing]] = True
    # Each node that is needed elsewhere, once for each part that needs it: in the order of part and node.
    needed = (reader[crossing] * nodes + columns[crossing]).unique()
    needed_by, needed = needed // nodes, needed % nodes
    roles = {mask: torch.zeros(nodes, dtype=torch.bool) for mask in ROLES}
    for mask, name in ROLES.items():
        roles[mask][getattr(dataset, name)] = True

    number = torch.empty(nodes, dtype=torch.int64)  # of each node in its part
    of_part = []
    for part in range(parts):
        ids = (owners == part).nonzero().squeeze(1)
        ids = torch.cat([ids[~at_boundary[ids]], ids[at_boundary[ids]]])
        number[ids] = torch.arange(len(ids))
        of_part.append(ids)
    for part, ids in enumerate(of_part):
        own_starts, edges = _entries(starts, ids)
        sources = columns[edges]
        local = owners[sources] == part
        boundary = needed[needed_by == part]
        boundary = boundary[owners[boundary].argsort(stable=True)]
        place = torch.empty(nodes, dtype=torch.int64)
        place[boundary] = torch.arange(len(boundary))
        first = len(ids) - int(at_boundary[ids].sum())
        leaves = owners[needed] == part
        yield Part(
            {
                "ids": ids,
                "indptr": _starts_of(own_starts, local),
                "indices": number[sources[local]],
                "boundary": boundary,
                "boundary_indptr": _starts_of(own_starts, ~local)[first:],
                "boundary_indices": place[sources[~local]],
                "send_rows": number[needed[leaves]],
                "send_counts": torch.bincount(needed_by[leaves], minlength=parts),
                "receive_counts": torch.bincount(owners[boundary], minlength=parts),
                **_features(dataset.features, ids),
                "y": dataset.labels[ids],
                **{mask: role[ids] for mask, role in roles.items()},
            }
        )


def _entries(starts: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The starts of rows that are picked from compressed rows, and the places of their entries."""
    lengths = starts[rows + 1] - starts[rows]
    picked = torch.zeros(len(rows) + 1, dtype=torch.int64)
    picked[1:] = lengths.cumsum(0)
    offsets = torch.repeat_interleave(starts[rows] - picked[:-1], lengths)
    return picked, offsets + torch.arange(int(picked[-1]))


def _starts_of(starts: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The starts of rows of which only the entries that are `kept` stay."""
    before = torch.zeros(len(kept) + 1, dtype=torch.int64)
    before[1:] = kept.cumsum(0)
    return before[starts]


def _features(features: torch.Tensor | SparseFeatures, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    if not isinstance(features, SparseFeatures):
        return {"x": features[ids]}
    matrix = features.matrices[0]
    starts, entries = _entries(matrix.crow_indices().long(), ids)
    return {
        "x_shape": torch.tensor([len(ids), features.shape[1]]),
        "x_indptr": starts,
        "x_indices": matrix.col_indices().long()[entries],
        "x_data": matrix.values()[entries],
    }
