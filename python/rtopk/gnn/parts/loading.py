"""The part of this rank, from a folder of parts, or from a graph that rank 0 cuts first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ..data import Dataset
from ..recipe import TrainingError
from .files import Facts, is_folder_of_parts, read_facts, read_part
from .group import Ranks
from .reuse import keep_parts


def load_part(
    graph: str, load: Callable[[], Dataset], folder_for: Callable[[str], Path], ranks: Ranks, *, dense: bool = False
) -> tuple[Dataset, Facts]:
    """The part of this rank, and what is known of the whole graph. Every rank calls it.

    Args:
        graph: a folder of parts; or the name or path of a whole graph.
        load: loads a whole graph. Only rank 0 calls it, sees to it that its parts are on disk, and forgets it before
            the training. The others wait for as long as that takes.
        folder_for: from the name of a whole graph to the folder for its parts.
        ranks: those that train.
        dense: let the exchange send dense rows.
    """

    def cut() -> str:
        if ranks.rank > 0:
            return ""
        dataset = load()
        folder = folder_for(dataset.name)
        keep_parts(dataset, folder, ranks.world)
        return str(folder)

    folder = Path(graph)
    if not ranks.gather(is_folder_of_parts(graph))[0]:
        with ranks.patient() as waiting:
            folder = Path(waiting.gather(waiting.together(cut))[0])
    facts = ranks.together(lambda: read_facts(folder))
    ranks.agree({"the SHA-256 of the partition": hashlib.sha256(repr(facts).encode()).hexdigest()})
    part = ranks.together(lambda: read_part(folder, facts, ranks, dense=dense))
    _check_counts(part, ranks)
    return part, facts


def _check_counts(part: Dataset, ranks: Ranks) -> None:
    """An error unless every rank expects what the others send: otherwise they would wait for each other."""
    exchange = part.graph.exchange
    counts = ranks.gather((exchange.send_counts, exchange.receive_counts))
    for sender, (sent, _) in enumerate(counts):
        for receiver, (_, expected) in enumerate(counts):
            if sent[receiver] != expected[sender]:
                raise TrainingError(
                    f"rank {sender} has {sent[receiver]} rows for rank {receiver}, which expects {expected[sender]};"
                    " accepted: parts that `partition` wrote together"
                )
