"""dictionary_learning: training steps of its top-k dictionaries, with dead features, and their use afterwards."""

import pytest
import torch
from dictionary_learning.trainers.batch_top_k import BatchTopKTrainer
from dictionary_learning.trainers.matryoshka_batch_top_k import MatryoshkaBatchTopKTrainer
from dictionary_learning.trainers.top_k import TopKTrainer

from comparison import gradients, same_both_ways

TRAINERS = {
    "TopK": (TopKTrainer, {}),
    "BatchTopK": (BatchTopKTrainer, {}),
    "Matryoshka": (MatryoshkaBatchTopKTrainer, {"group_fractions": [0.25, 0.75]}),
}


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("name", TRAINERS)
def test_training(name, dead):
    def train():
        make, options = TRAINERS[name]
        trainer = make(
            steps=20, activation_dim=64, dict_size=512, k=16, layer=0, lm_name="none", warmup_steps=2,
            threshold_start_step=1, seed=1, device="cpu", **options,
        )  # fmt: skip
        trainer.dead_feature_threshold = 100 if dead else 10**9
        losses, last = [], None
        for step in range(4):
            batch = torch.randn(128, 64)
            losses.append(trainer.update(step, batch))
            last = trainer.loss(batch, step=step, logging=True)
        trainer.ae.zero_grad()
        trainer.loss(torch.randn(128, 64), step=4).backward()
        return {
            "losses": losses,
            "reconstruction": last.x_hat,
            "features": last.f,
            "fired": trainer.num_tokens_since_fired,
            "state": dict(trainer.ae.state_dict()),
            "gradients": gradients(trainer.ae),
        }

    same_both_ways(train)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_encoding(dtype):
    def encode():
        from dictionary_learning.trainers.top_k import AutoEncoderTopK

        dictionary = AutoEncoderTopK(64, 4096, 32).to(dtype)
        x = torch.randn(32, 64, dtype=dtype, requires_grad=True)
        reconstruction, features = dictionary(x, output_features=True)
        reconstruction.square().sum().backward()
        return reconstruction, features, x.grad, gradients(dictionary)

    same_both_ways(encode)
