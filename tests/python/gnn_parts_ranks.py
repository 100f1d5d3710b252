"""What each rank of test_gnn_parts.py does: python gnn_parts_ranks.py FOLDER, with the graphs in FOLDER/NAME-WORLD."""

import hashlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import distributed

from ranks import run_cases
from rtopk.gnn._text import Refusal
from rtopk.gnn.parts import PartTrainer, Ranks, load_part
from rtopk.gnn.recipe import Recipe
from rtopk.gnn.training.checkpoint import CHECKPOINT

FOLDER = Path(sys.argv[1])
MODELS = ("sage", "gcn", "gin")
TINY = ("one-node", "apart", "crossing", "few")


def ranks():
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def loaded(name, dense=False, seen_by=None):
    folder = str(FOLDER / f"{name}-{distributed.get_world_size()}")
    return load_part(folder, None, None, seen_by or ranks(), dense=dense)


def new_trainer(name, dense=False, seen_by=None, **changes):
    seen_by = seen_by or ranks()
    part, facts = loaded(name, dense, seen_by)
    return PartTrainer(part, facts, Recipe(**changes), seen_by)


def trained(trainer, epochs):
    """The losses and scores of epochs, exactly, and what the parameters are after them."""
    entries = [trainer.evaluate(trainer.step()) for _ in range(epochs)]
    every = torch.cat([parameter.detach().flatten() for parameter in trainer.network.parameters()])
    digest = hashlib.sha256(every.numpy().tobytes()).hexdigest()
    return {"losses": [entry["loss"].hex() for entry in entries], "last": entries[-1], "parameters": digest}


def trains(name, epochs=4, dense=False, **changes):
    return lambda: trained(new_trainer(name, dense, **changes), epochs)


@dataclass(frozen=True)
class LateRanks(Ranks):
    """The ranks seen from one that sleeps whenever it comes to a place."""

    place: str | None = None

    def start_exchange(self, *arguments):
        self.sleep_at("before it sends")
        finish = super().start_exchange(*arguments)

        def late_finish():
            self.sleep_at("before it receives")
            return finish()

        return late_finish

    def add_up(self, tensor):
        self.sleep_at("before sums")
        return super().add_up(tensor)

    def sleep_at(self, place):
        if place == self.place:
            time.sleep(0.02)


def trains_late(place, late_rank):
    """As the case "signs sage", with one rank that is late."""

    def case():
        rank, world = distributed.get_rank(), distributed.get_world_size()
        seen_by = LateRanks(rank, world, place=place if rank == late_rank % world else None)
        trainer = new_trainer("signs", seen_by=seen_by, model="sage", **SMALL)
        for layer in trainer.network.convolutions:
            layer.register_forward_pre_hook(lambda *_: seen_by.sleep_at("between layers"))
        return trained(trainer, 4)

    return case


def resumes():
    """Two epochs, a checkpoint and two more; and from the same checkpoint again, after random numbers were drawn."""
    settings = {"model": "sage", "hidden": 32, "k": 8, "layers": 2, "dropout": 0.5, "epochs": 4}
    whole = trained(new_trainer("signs", **settings), 4)
    first = new_trainer("signs", **settings)
    trained(first, 2)
    path = FOLDER / f"resumed-{distributed.get_world_size()}" / CHECKPOINT
    if distributed.get_rank() == 0:
        first.save(path)
    distributed.barrier()
    second = new_trainer("signs", **settings)
    torch.rand(distributed.get_rank() + 1)
    second.resume(path)
    return {"whole": whole, "resumed": trained(second, 2)}


def begins():
    trainer = new_trainer("cora", **CONTINUED)
    result = trained(trainer, 3)
    if distributed.get_rank() == 0:
        trainer.save(FOLDER / f"of-{distributed.get_world_size()}" / CHECKPOINT)
    return result


def learns():
    """With dropout, whose random numbers are others than those of one rank."""
    trainer = new_trainer("cora", model="sage", hidden=64, k=16, layers=2, lr=1e-2, epochs=25, eval_every=5)
    while trainer.epoch < trainer.recipe.epochs:
        loss = trainer.step()
        if trainer.due():
            trainer.evaluate(loss)
    return trainer.best


def continues(world):
    """From a checkpoint of another number of ranks, or of a single process without parts."""

    def case():
        trainer = new_trainer("cora", **CONTINUED)
        trainer.resume(FOLDER / f"of-{world}" / CHECKPOINT)
        return trained(trainer, 3)

    return case


CONTINUED = {"model": "gcn", "hidden": 32, "k": 8, "layers": 2, "dropout": 0.0, "lr": 1e-2, "epochs": 6}


def sums(name, reduce, normalized=False, dense=False):
    """Sums and gradients of whole numbers: exact, so that the order of additions does not matter. Nodes are by their
    number in the whole graph."""

    def case():
        part, _ = loaded(name, dense)
        graph = part.graph.with_self_loops().gcn_normalized() if normalized else part.graph
        cols, k = 40, 3
        ids = torch.load(FOLDER / f"{name}-ids-{distributed.get_world_size()}-{distributed.get_rank()}.pt")
        values, selectors = rows_of(ids, cols, k)
        values.requires_grad_(True)
        result = graph.aggregate(values, selectors, cols, reduce)
        result.backward(upstream_of(ids, cols))
        return {"ids": ids.tolist(), "sums": result.tolist(), "gradients": values.grad.tolist()}

    return case


def rows_of(ids, cols, k):
    """Compact rows that follow from the numbers of nodes."""
    first = (ids * 7) % (cols - k)
    selectors = (first.unsqueeze(1) + torch.arange(k)).to(torch.uint8)
    return ((ids.unsqueeze(1) * 5 + torch.arange(k)) % 9 - 4).float(), selectors


def upstream_of(ids, cols):
    return ((ids.unsqueeze(1) * 3 + torch.arange(cols)) % 7 - 3).float()


def travelled():
    trainer = new_trainer("cora", model="sage", hidden=256, k=32, layers=1, dropout=0.0)
    before = trainer.exchange.bytes_sent
    with torch.no_grad():
        trainer.network(trainer.data.features, trainer.data.graph)
    forward = trainer.exchange.bytes_sent - before
    trainer.step()
    step = trainer.exchange.bytes_sent - before - forward
    return {"rows": sum(trainer.exchange.send_counts), "received": sum(trainer.exchange.receive_counts)} | {
        "forward": forward,
        "back": step - forward,
    }


def refused(function):
    def case():
        try:
            function()
        except Refusal as error:
            return str(error)
        return "not refused"

    return case


def disagrees():
    last = distributed.get_world_size() - 1
    ranks().agree({"--k": 8 if distributed.get_rank() == last else 16, "--hidden": 32})


def one_fails():
    def load():
        if distributed.get_rank() == 1:
            raise Refusal("its disk is gone")

    ranks().together(load)


def other_counts():
    """Parts that do not belong together, though each is whole."""
    part, _ = loaded("cora")
    from rtopk.gnn.parts.loading import _check_counts

    if distributed.get_rank() == 1:
        part.graph.exchange.send_counts[0] += 1
    _check_counts(part, ranks())


# Where a rank is late, and which: the first or the last.
LATE = [
    (place, late_rank)
    for place in ("before it sends", "before it receives", "before sums", "between layers")
    for late_rank in (0, -1)
]
SMALL = {"hidden": 32, "k": 8, "layers": 2, "dropout": 0.0, "lr": 1e-2}
CASES = {
    **{f"cora {model}": trains("cora", 3, model=model, **SMALL) for model in MODELS},
    **{f"signs {model}": trains("signs", model=model, **SMALL) for model in MODELS},
    **{f"signs {model} again": trains("signs", model=model, **SMALL) for model in MODELS},
    **{f"signs {model} dense": trains("signs", dense=True, model=model, **SMALL) for model in MODELS},
    **{f"late {place}, {late_rank}": trains_late(place, late_rank) for place, late_rank in LATE},
    "by metis": trains("signs-metis", model="gin", **SMALL),
    "wide": trains("signs", model="sage", **SMALL | {"hidden": 300, "layers": 1}),
    **{f"{name} {model}": trains(name, 2, model=model, **SMALL) for name in TINY for model in MODELS},
    "learns": learns,
    "resumes": resumes,
    "begins": begins,
    "continues 1": continues(1),
    "continues 2": continues(2),  # 4 ranks run after 2
    **{f"{name} sum": sums(name, "sum") for name in ("small", *TINY)},
    "small sum dense": sums("small", "sum", dense=True),
    "small mean": sums("small", "mean"),
    "small gcn": sums("small", "sum", normalized=True),
    "travelled": travelled,
    "disagrees": refused(disagrees),
    "one fails": refused(one_fails),
    "other counts": refused(other_counts),
    "too few ranks": refused(lambda: load_part(str(FOLDER / "cora-3"), None, None, ranks())),
    "no such folder": refused(lambda: load_part(str(FOLDER / "cora-0"), lambda: missing(), None, ranks())),
    "dense baseline": refused(lambda: new_trainer("cora", model="sage", baseline="dense", **SMALL)),
}


def missing():
    raise Refusal("there is no graph")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_cases(CASES)
