"""SAELens: training steps of its top-k autoencoders, with dead neurons, and inference.

Activations are dense: the backward pass of its sparse ones is not there on a CPU.
"""

import pytest
import torch
from sae_lens import saes
from sae_lens.saes.sae import TrainStepInput

from comparison import gradients, same_both_ways

TRAINED = {
    "TopK": (saes.TopKTrainingSAE, saes.TopKTrainingSAEConfig, {"use_sparse_activations": False}),
    "AbsTopK": (saes.AbsTopKTrainingSAE, saes.AbsTopKTrainingSAEConfig, {"use_sparse_activations": False}),
    "BatchTopK": (saes.BatchTopKTrainingSAE, saes.BatchTopKTrainingSAEConfig, {"use_sparse_activations": False}),
    "Matryoshka": (
        saes.MatryoshkaBatchTopKTrainingSAE,
        saes.MatryoshkaBatchTopKTrainingSAEConfig,
        {"use_sparse_activations": False, "matryoshka_widths": [128, 512]},
    ),
}
INFERRED = {
    "TopK": (saes.TopKSAE, saes.TopKSAEConfig, {"k": 16}),
    "AbsTopK": (saes.AbsTopKSAE, saes.AbsTopKSAEConfig, {"k": 16}),
    "Temporal": (
        saes.TemporalSAE,
        saes.TemporalSAEConfig,
        {"kval_topk": 16, "n_heads": 4, "bottleneck_factor": 16},
    ),
}


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("name", TRAINED)
def test_training(name, dead):
    def train():
        make, config, options = TRAINED[name]
        sae = make(config(d_in=64, d_sae=512, k=16, device="cpu", **options))
        optimizer = torch.optim.Adam(sae.parameters(), 1e-3)
        outputs = []
        for step in range(3):
            output = sae.training_forward_pass(
                TrainStepInput(
                    sae_in=torch.randn(96, 64),
                    coefficients={},
                    dead_neuron_mask=torch.rand(512) < 0.3 if dead else None,
                    n_training_steps=step,
                    is_logging_step=False,
                )
            )
            optimizer.zero_grad()
            output.loss.backward()
            optimizer.step()
            outputs.append((output.sae_out, output.loss, output.losses, output.feature_acts))
        return outputs, gradients(sae), dict(sae.state_dict())

    same_both_ways(train)


@pytest.mark.parametrize("name", INFERRED)
def test_inference(name):
    def infer():
        make, config, options = INFERRED[name]
        sae = make(config(d_in=64, d_sae=1024, device="cpu", **options))
        x = torch.randn(4, 32, 64, requires_grad=True)
        features = sae.encode(x)
        output = sae(x)
        output.square().sum().backward()
        return features, output, x.grad

    same_both_ways(infer)
