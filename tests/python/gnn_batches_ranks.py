"""Run by two ranks: training by sampled neighbourhoods, from Python and from the command line. Run by four: from Python
alone. With a second argument, a training in whose second epoch rank 1 is killed."""

import contextlib
import hashlib
import io
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

import rtopk.gnn.batches.command
from ranks import report
from rtopk.gnn import Graph, cli, load
from rtopk.gnn.batches import SampledTrainer
from rtopk.gnn.data import make_dataset
from rtopk.gnn.parts import joined
from rtopk.gnn.recipe import Recipe

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
ALL_NEIGHBOURS = {"hidden": 16, "k": 4, "layers": 2, "dropout": 0.0, "sample": "-1,-1", "lr": 1e-2}
OPTIONS = ["train", "--graph", CORA, "--model", "gin", "--hidden", "16", "--k", "4", "--layers", "2", "--device", "cpu"]
OPTIONS += ["--sample", "5,3", "--deterministic"]


def bits(network):
    digest = hashlib.sha256()
    for value in network.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def of_ranks(dataset, model, batch, ranks):
    """Two epochs: losses, scores, the parameters' bits and their sums."""
    trainer = SampledTrainer(dataset, Recipe(**ALL_NEIGHBOURS, model=model, batch=batch, epochs=2), ranks)
    entries = [trainer.evaluate(trainer.step()) for _ in range(2)]
    shares = [len(seeds) for seeds, _ in trainer.mini_batches()]
    sums = [float(value.double().sum()) for value in trainer.network.state_dict().values()]
    return {"history": entries, "bits": bits(trainer.network), "sums": sums, "shares": shares}


# By ranks and case: the nodes of a mini-batch on each rank. Of seven nodes, the last step leaves the last rank none.
BATCHES = {2: {"cora": 128, "few": 3, "few gin": 3}, 4: {"cora": 64, "few": 1, "few gin": 1}}


def few_nodes():
    """Seven nodes to train on."""
    generator = torch.Generator().manual_seed(2)
    masks = torch.zeros(3, 12, dtype=torch.bool)
    masks[0, :7] = masks[1, 7:9] = masks[2, 9:] = True
    graph = Graph.from_edge_index(torch.randint(12, (2, 30), generator=generator), 12)
    return make_dataset("few", graph, torch.randn(12, 5, generator=generator), torch.arange(12) % 3, tuple(masks))


def command(*arguments):
    """The exit status and all that is printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = cli.main([str(word) for word in (*OPTIONS, *arguments)])
    torch.use_deterministic_algorithms(False)
    return {"status": status, "text": text.getvalue()}


@contextlib.contextmanager
def rank_1_gets(number, when):
    """A signal before the update for which `when` holds, of the trainer and the nodes of the epoch before it."""
    train_on = SampledTrainer._train_on

    def signalled(trainer, seeds, nodes_of_step, done):
        if when(trainer, done):
            os.kill(os.getpid(), number)
        return train_on(trainer, seeds, nodes_of_step, done)

    if os.environ["RANK"] == "1":
        SampledTrainer._train_on = signalled
    yield
    SampledTrainer._train_on = train_on


def stop_in_the_second_epoch(*arguments):
    with rank_1_gets(signal.SIGTERM, lambda trainer, done: trainer.epoch == 1 and done == 512):
        return command(*arguments)


def die_in_the_second_epoch(out):
    with rank_1_gets(signal.SIGKILL, lambda trainer, done: trainer.epoch == 1):
        sys.exit(cli.main([str(word) for word in (*OPTIONS, "--epochs", 4, "--out", out, "--timeout", 60)]))


def main():
    with joined("cpu", 60) as ranks:
        results = {case: of_ranks(*case_of(case), batch, ranks) for case, batch in BATCHES[ranks.world].items()}
        if ranks.world == 2:
            results |= from_the_command_line(Path(sys.argv[1]), ranks)
    report(results)


def case_of(case):
    """The graph and the model of a case."""
    return load(CORA) if case == "cora" else few_nodes(), "gin" if case == "few gin" else "sage"


def from_the_command_line(out, ranks):
    rtopk.gnn.batches.command.joined_by = lambda _: contextlib.nullcontext(ranks)  # one group for all cases
    results = {"whole": command("--epochs", 4, "--out", out / "whole")}
    results["stopped"] = command("--epochs", 2, "--out", out / "resumed")
    results["resumed"] = command("--epochs", 4, "--out", out / "resumed", "--resume")
    on_host = ("--store", "host", "--out", out / "host")
    results["host"] = command("--epochs", 2, *on_host)
    results["host resumed"] = command("--epochs", 4, *on_host, "--resume")
    often = ("--batch", 128, "--epochs", 3)
    results["often"] = command(*often, "--out", out / "often")
    results["within"] = stop_in_the_second_epoch(*often, "--out", out / "within")
    if ranks.rank == 0:
        shutil.copytree(out / "within", out / "by-one")
    results["continued"] = command(*often, "--out", out / "within", "--resume")
    return results


if __name__ == "__main__":
    main() if len(sys.argv) == 2 else die_in_the_second_epoch(sys.argv[1])
