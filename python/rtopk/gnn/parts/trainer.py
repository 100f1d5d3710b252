"""Full-batch training of one network by several ranks, each with its part of the nodes."""

from __future__ import annotations

import numpy as np
import torch

from ..data import Dataset
from ..recipe import Recipe, TrainingError
from ..training.trainer import Trainer, score_counts
from .files import Facts
from .group import Ranks


class PartTrainer(Trainer):
    """A :class:`Trainer` of one rank among several. Parameters and optimizer are the same bits on every rank.

    The loss is the mean over the training nodes of all ranks, and gradients are summed over ranks. The random numbers
    of an epoch follow from seed, epoch and rank, so a checkpoint need not hold them for every rank.

    Args:
        part: the part of this rank, whose graph is a PartGraph.
        facts: of the whole graph.
        recipe: the settings of the network and of the training.
        ranks: those that train.
    """

    def __init__(self, part: Dataset, facts: Facts, recipe: Recipe, ranks: Ranks) -> None:
        if recipe.baseline is not None:
            raise TrainingError(f"baseline is {recipe.baseline} with a graph in parts; accepted: none")
        self._facts, self._ranks = facts, ranks
        super().__init__(part, recipe, ranks.device, eager=True)
        edges = torch.tensor(self.data.graph.all_edges, device=self.device)
        self._edges = int(ranks.add_up(edges))  # of all ranks, with self loops

    @property
    def exchange(self):
        return self.data.graph.exchange

    def train_count(self) -> int:
        return self._facts.train

    def eager_step(self) -> torch.Tensor:
        seeds = np.random.SeedSequence([self.recipe.seed % 2**64, self.epoch, self._ranks.rank])
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        return super().eager_step()

    def over_ranks(self, loss: torch.Tensor) -> torch.Tensor:
        parameters = list(self.network.parameters())
        # All in one message. A parameter that no row of this rank has used has no gradient.
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters] + [loss]
        together = self._ranks.add_up(torch.cat([part.flatten() for part in parts]))
        *gradients, loss = together.split([part.numel() for part in parts])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return loss.view(())

    def on_any_rank(self, asked: bool) -> bool:
        return self._ranks.any_of(asked)

    def scores(self) -> dict[str, torch.Tensor]:
        result = self.network(self.data.features, self.data.graph)
        counts = {name: score_counts(result[nodes], self.data.labels[nodes]) for name, nodes in self.data.split.items()}
        totals = self._ranks.add_up(torch.stack([count for pair in counts.values() for count in pair]))
        return {name: right / all_ for name, (right, all_) in zip(counts, totals.view(-1, 2), strict=True)}

    def graph_facts(self) -> dict:
        facts = {name: getattr(self._facts, name) for name in ("name", "nodes", "features", "classes")}
        return facts | {"edges": self._edges}

    def result(self) -> dict:
        exchange = "dense" if self.exchange.dense else "compact"
        names = ("parts", "method", "boundary")
        return super().result() | {
            "parts": {name: getattr(self._facts, name) for name in names} | {"exchange": exchange}
        }
