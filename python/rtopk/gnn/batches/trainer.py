"""Training of one network on mini-batches of sampled neighbourhoods."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from .._copies import rows_on
from ..captured import CapturedBatchStep
from ..data import Dataset
from ..graph import Graph
from ..parts.group import Ranks, named_failure
from ..recipe import Recipe
from ..sampling import NeighborSampler
from ..training.checkpoint import WithinEpoch
from ..training.trainer import Trainer, matmul_precision, score_counts
from .layerwise import Layerwise
from .store import data_device


@contextlib.contextmanager
def _named_wire_failure() -> Iterator[None]:
    """For DistributedDataParallel, which sends while it computes: names errors of the sending alone."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
            raise
        with named_failure():
            raise


class SampledTrainer(Trainer):
    """A :class:`Trainer` whose epoch is a pass over the training nodes, in mini-batches and in random order.

    With several ranks, each update takes a mini-batch on every rank, and torch's DistributedDataParallel averages the
    gradients. All random numbers of an update follow from seed, epoch, rank, and how many nodes the epoch has trained
    on before it. So a run that is stopped between two updates, and resumed by as many ranks, gives the same bits.
    Scores are those of the whole graph, with all neighbours, layer by layer; every rank computes them.

    Args:
        dataset: what to train on.
        recipe: the settings of the network and of the training, with `sample` and `batch`. `store` "host": graph,
            features and labels stay on the host. Neighbourhoods are sampled there, and copied to the device.
        ranks: those that train, each with the whole graph.
    """

    def __init__(self, dataset: Dataset, recipe: Recipe, ranks: Ranks) -> None:
        self._ranks = ranks
        where = data_device(recipe, ranks.device)
        dataset = dataset.to(where)
        super().__init__(dataset, recipe, ranks.device, eager=True, data_device=where)
        # Without self loops: every layer of a mini-batch adds them, where the recipe asks for them. GCN does so itself.
        graph = dataset.graph
        self._adds_loops = recipe.self_loops and recipe.model != "gcn"
        self._has_none = self._adds_loops and not graph.has_self_loops()
        self.sampler = NeighborSampler(graph, recipe.fanouts)
        self._generator = torch.Generator(where)  # of the sampler
        self._layerwise = Layerwise(self.network, self.data.graph, self.data.features, self.device)
        self._trained = self.network if ranks.world == 1 else DistributedDataParallel(self.network)
        # A captured step can wait neither for other ranks nor for an answer whether a mini-batch has self loops.
        self._may_have_loops = self._adds_loops and not self._has_none
        captures = recipe.capture and ranks.world == 1 and not self._may_have_loops and graph.weights is None
        self.captured_step = self._make_captured_step() if captures else None

    def why_not_captured(self) -> str | None:
        """Why steps are not captured, though the recipe asks for it; None: they are, or it does not ask."""
        if self.captured_step is not None and (why := self.captured_step.why_not_captured()) is not None:
            return why
        reasons = (
            (self._ranks.world > 1, f"there are {self._ranks.world} ranks"),
            (self.device.type != "cuda", f"the device is {self.device}"),
            (self._may_have_loops, "the graph has self loops of its own"),
            (self.sampler.graph.weights is not None, "the graph has weights"),
        )
        found = ", ".join(text for holds, text in reasons if holds)
        return found if self.recipe.capture and found else None

    def _make_captured_step(self) -> CapturedBatchStep:
        loss = F.binary_cross_entropy_with_logits if self.data.multilabel else F.cross_entropy
        transform = self._with_self_loops if self._adds_loops else None
        return CapturedBatchStep(self.network, self.optimizer, loss, transform=transform)

    def _with_self_loops(self, graph: Graph) -> Graph:
        return graph.with_self_loops(none_yet=self._has_none)

    def step(self, asked: Callable[[], bool] = lambda: False) -> torch.Tensor | None:
        """The mini-batches that are left of the epoch. Returns the mean loss of the training nodes; None if any rank
        was asked to stop between two of them."""
        self.network.train()
        done, total = self._done(), self._own_loss()
        with matmul_precision(self.recipe.precision), _named_wire_failure():
            for count, (seeds, nodes_of_step) in enumerate(self.mini_batches()):
                if count > 0 and self.on_any_rank(asked()):
                    self.within_epoch = WithinEpoch(done, self._of_every_rank(total))
                    return None
                total += self._train_on(seeds, nodes_of_step, done)
                done += nodes_of_step
        self.epoch, self.within_epoch = self.epoch + 1, None
        return self._ranks.add_up(total) / len(self.data.train)

    def mini_batches(self) -> Iterator[tuple[torch.Tensor, int]]:
        """The nodes of this rank in each update that is left of the epoch, and how many all ranks have together. Every
        rank takes as many updates; in the last one a rank may have fewer nodes, or none."""
        generator = torch.Generator().manual_seed(self._seed("order"))
        order = torch.randperm(len(self.data.train), generator=generator).to(self.data.train.device)
        for part in self.data.train[order[self._done() :]].split(self.recipe.batch * self._ranks.world):
            yield part[self._ranks.rank :: self._ranks.world], len(part)

    def _done(self) -> int:
        """The nodes of the epoch that have been trained on."""
        return 0 if self.within_epoch is None else self.within_epoch.nodes

    def _own_loss(self) -> torch.Tensor:
        """The sum of the losses of this rank in the epoch. Where other ranks continue than were stopped, the first one
        has the sum of all."""
        losses = [0.0] if self.within_epoch is None else self.within_epoch.losses
        if len(losses) != self._ranks.world:
            losses = [sum(losses)] + [0.0] * (self._ranks.world - 1)
        return torch.tensor(losses[self._ranks.rank], device=self.device)

    def _of_every_rank(self, number: torch.Tensor) -> list[float]:
        numbers = torch.zeros(self._ranks.world, device=self.device)
        numbers[self._ranks.rank] = number
        return self._ranks.add_up(numbers).tolist()

    def _train_on(self, seeds: torch.Tensor, nodes_of_step: int, done: int) -> torch.Tensor:
        """One update. Returns the sum of the losses of the seeds."""
        torch.manual_seed(self._seed("dropout", self._ranks.rank, done))
        self._generator.manual_seed(self._seed("sampling", self._ranks.rank, done))
        batch = self.sampler.sample(seeds, self._generator)
        x = rows_on(self.data.features, batch.nodes, self.device)
        y = rows_on(self.data.labels, seeds, self.device)
        batch = batch.to(self.device)
        if self.captured_step is not None:
            hops = (batch.num_sampled_nodes, batch.num_sampled_edges)
            return self.captured_step(x, y, batch.edge_index, *hops) * len(seeds)
        graphs = batch.graphs()
        if self._adds_loops:
            graphs = list(map(self._with_self_loops, graphs))
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._summed_loss(self._trained(x, graphs), y)
        # Gradients are averaged over the ranks: of sums that are scaled so, the average is the mean over the nodes.
        (loss * (self._ranks.world / nodes_of_step)).backward()
        self.optimizer.step()
        return loss.detach()

    def scores(self) -> dict[str, torch.Tensor]:
        counts = {name: torch.zeros(2, dtype=torch.int64, device=self.device) for name in self.data.split}
        for name, nodes, result in self._layerwise.results(self.data.split):
            labels = rows_on(self.data.labels, nodes, self.device)
            counts[name] += torch.stack(score_counts(result, labels))
        return {name: right / all_.clamp(min=1) for name, (right, all_) in counts.items()}

    def _summed_loss(self, result: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not self.data.multilabel:
            return F.cross_entropy(result, labels, reduction="sum")
        return F.binary_cross_entropy_with_logits(result, labels, reduction="sum") / self.data.classes

    def _seed(self, purpose: str, *more: int) -> int:
        """A seed that follows from the recipe's, the epoch and a purpose."""
        words = [self.recipe.seed % 2**64, self.epoch, *purpose.encode(), *more]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])

    def on_any_rank(self, asked: bool) -> bool:
        return self._ranks.any_of(asked)

    def position(self) -> str:
        within = "" if self.within_epoch is None else f" and {self._done():,} of {self.train_count():,} nodes"
        return super().position() + within

    def result(self) -> dict:
        step = self.captured_step
        facts = {"captured": 0, "replays": 0} if step is None else {"captured": step.captured, "replays": step.replays}
        return super().result() | {"ranks": self._ranks.world, "nodes_of_next_epoch": self._done()} | facts
