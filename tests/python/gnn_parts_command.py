"""A rank that runs `python -m rtopk.gnn`: python gnn_parts_command.py CHANGE ARGUMENTS..., where CHANGE is for rank 1
alone: "die:N" to be killed in epoch N, or "none"."""

import os
import signal
import sys

import torch

from rtopk.gnn import cli
from rtopk.gnn.parts import PartTrainer

change, *arguments = sys.argv[1:]
torch.set_num_threads(1)
if os.environ["RANK"] == "1" and change.startswith("die:"):
    step = PartTrainer.eager_step

    def eager_step(trainer):
        if trainer.epoch + 1 == int(change.removeprefix("die:")):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(trainer)

    PartTrainer.eager_step = eager_step
raise SystemExit(cli.main(arguments))
