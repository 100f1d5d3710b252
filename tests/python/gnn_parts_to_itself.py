"""One rank whose rows travel to itself: python gnn_parts_to_itself.py BACKEND. NCCL needs a GPU for each rank, so with
one GPU this is how it carries rows."""

import sys

import torch

from gnn_parts_ranks import rows_of, upstream_of
from ranks import run_cases
from rtopk.gnn import Graph
from rtopk.gnn._aggregate import aggregate
from rtopk.gnn.parts import Ranks
from rtopk.gnn.parts.exchange import Exchange
from rtopk.gnn.parts.graph import CsrMatrix, PartGraph

BACKEND = sys.argv[1] if len(sys.argv) > 1 else "gloo"
DEVICE = torch.device("cuda", 0) if BACKEND == "nccl" else torch.device("cpu")
NODES, COLS, K = 300, 40, 3


class OneRank(Ranks):
    """A group of one whose rows are sent and received."""

    start_exchange = Ranks.all_to_all


def whole_graph():
    generator = torch.Generator().manual_seed(1)
    return Graph.from_edge_index(torch.randint(NODES, (2, 2000), generator=generator), NODES)


def cut(graph, dense):
    """The graph as the only part, where edges between even and odd nodes go through the exchange, which has the nodes
    in descending order."""
    columns = graph.columns.long()
    rows = torch.repeat_interleave(torch.arange(NODES), graph.row_starts.diff().long())
    travels = (rows + columns) % 2 == 1

    def starts_of(kept):
        return torch.nn.functional.pad(torch.bincount(rows[kept], minlength=NODES).cumsum(0), (1, 0)).int()

    local = Graph(starts_of(~travels), columns[~travels].int())
    boundary = CsrMatrix(starts_of(travels), (NODES - 1 - columns[travels]).int(), None, NODES)
    exchange = Exchange(OneRank(device=DEVICE), torch.arange(NODES).flip(0), [NODES], [NODES], dense=dense)
    return PartGraph(local, boundary, exchange).to(DEVICE)


def sums(graph, aggregated):
    """The sums and gradients of whole numbers, which are exact on every device and in every order."""
    ids = torch.arange(NODES)
    values, selectors = (rows.to(graph.device) for rows in rows_of(ids, COLS, K))
    values.requires_grad_(True)
    result = aggregated(graph, values, selectors)
    result.backward(upstream_of(ids, COLS).to(graph.device))
    return result.detach().cpu(), values.grad.cpu()


def travels(dense):
    def case():
        graph = whole_graph()
        part = cut(graph, dense)
        expected = sums(graph, lambda graph, values, selectors: aggregate(graph, values, selectors, COLS))
        found = sums(part, lambda part, *rows: part.aggregate(*rows, COLS, "sum"))
        return {
            "exact": [torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True)],
            "bytes": part.exchange.bytes_sent,
        }

    return case


def numbers():
    own = torch.arange(NODES, dtype=torch.float32, device=DEVICE)
    return torch.equal(cut(whole_graph(), False).exchange.of_others(own), own.flip(0))


CASES = {"compact": travels(False), "dense": travels(True), "numbers": numbers}


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_cases(CASES, BACKEND)
