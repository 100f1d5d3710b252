"""Hugging Face transformers: small models with random weights, and every place where they select.

Routers of mixtures of experts, ways to generate text, sparse attention, and the proposals of a detector.
"""

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from comparison import gradients, same_both_ways

SMALL = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LATENT = {  # attention over latent keys and values
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 16,
    "num_key_value_heads": 4,
}
GROUPED = {"n_group": 4, "topk_group": 2, "num_experts_per_tok": 4, "first_k_dense_replace": 1}
EXPERTS = {
    "Mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "Qwen2Moe": {"num_experts": 16, "num_experts_per_tok": 4, "shared_expert_intermediate_size": 24},
    "Qwen3Moe": {"num_experts": 16, "num_experts_per_tok": 4},
    "Olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
    "GptOss": {"num_local_experts": 8, "num_experts_per_tok": 4},
    "GraniteMoe": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "Ernie4_5_Moe": {"moe_num_experts": 8, "moe_k": 2},
    "MiniMax": {"num_local_experts": 8, "num_experts_per_tok": 2, "layer_types": ["full_attention"] * 2},
    "DeepseekV2": LATENT | GROUPED | {"topk_method": "group_limited_greedy"},
    "DeepseekV3": LATENT | GROUPED,
    "Glm4Moe": {"n_routed_experts": 16, "first_k_dense_replace": 1, "num_experts_per_tok": 4},
}


def model_of(name, **options):
    config = getattr(transformers, f"{name}Config")(**(SMALL | options))
    return AutoModelForCausalLM.from_config(config)


def tokens(rows=3, columns=24):
    return torch.randint(3, 128, (rows, columns))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", EXPERTS)
def test_experts(name, dtype):
    def train():
        model = model_of(name, **EXPERTS[name]).to(dtype)
        output = model(tokens(), labels=tokens(), use_cache=False)
        output.loss.backward()
        return output.loss, output.logits, gradients(model)

    same_both_ways(train)


@pytest.mark.parametrize("name", ["Mixtral", "Qwen2Moe"])
def test_losses_of_routers(name):
    def train():
        model = model_of(name, **EXPERTS[name], output_router_logits=True)
        output = model(tokens(), labels=tokens())
        output.loss.backward()
        return output.loss, output.aux_loss, list(output.router_logits), gradients(model)

    same_both_ways(train)


GENERATION = {
    "top-k sampling": {"do_sample": True, "top_k": 20},
    "top-k of all": {"do_sample": True, "top_k": 127},
    "top-k and top-p": {"do_sample": True, "top_k": 30, "top_p": 0.9},
    "beam search": {"num_beams": 4},
    "beams that are all returned": {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 0.8},
    "sampled beams": {"num_beams": 3, "do_sample": True, "top_k": 20},
}


@pytest.mark.parametrize("name", ["Llama", "Mixtral"])
@pytest.mark.parametrize("way", GENERATION)
def test_generation(name, way):
    def generate():
        model = model_of(name, **EXPERTS.get(name, {})).eval()
        output = model.generate(
            tokens(2, 8), max_new_tokens=12, return_dict_in_generate=True, output_scores=True, **GENERATION[way]
        )
        return output.sequences, list(output.scores), output.get("sequences_scores")

    same_both_ways(generate)


def test_generation_with_an_assistant():
    def generate():
        model, assistant = model_of("Llama").eval(), model_of("Llama", num_hidden_layers=1).eval()
        return model.generate(tokens(1, 8), max_new_tokens=12, assistant_model=assistant, do_sample=True, top_k=20)

    same_both_ways(generate)


def test_sparse_attention_of_forecasts():
    """Without dropout: it selects with sorted=False, and the masks of dropout go by the order of what is selected."""

    def train():
        config = transformers.InformerConfig(
            prediction_length=8, context_length=24, lags_sequence=[1, 2], num_time_features=1, d_model=16,
            encoder_layers=2, decoder_layers=2, encoder_ffn_dim=16, decoder_ffn_dim=16, sampling_factor=2,
            dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
        )  # fmt: skip
        model = transformers.InformerForPrediction(config)
        past, future = 26, 8
        output = model(
            past_values=torch.randn(4, past),
            past_time_features=torch.randn(4, past, 1),
            past_observed_mask=torch.ones(4, past),
            future_values=torch.randn(4, future),
            future_time_features=torch.randn(4, future, 1),
        )
        output.loss.backward()
        return output.loss, gradients(model)

    same_both_ways(train)


def test_proposals_of_a_detector():
    def train():
        backbone = transformers.RTDetrResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        )  # fmt: skip
        config = transformers.RTDetrConfig(
            backbone_config=backbone, encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32], feat_strides=[8, 16, 32],
            encoder_ffn_dim=32, encoder_attention_heads=4, d_model=32, num_queries=30, decoder_in_channels=[32, 32, 32],
            decoder_ffn_dim=32, num_feature_levels=3, decoder_layers=2, decoder_attention_heads=4, num_denoising=0,
        )  # fmt: skip
        model = transformers.RTDetrForObjectDetection(config)
        output = model(torch.randn(2, 3, 128, 128))
        (output.logits.square().sum() + output.pred_boxes.square().sum()).backward()
        return output.logits, output.pred_boxes, gradients(model)

    same_both_ways(train)
