"""x-transformers: sparse top-k attention, sampling and beam search, and the places where it drops or masks tokens."""

import pytest
import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, NonAutoregressiveWrapper, TransformerWrapper
from x_transformers.autoregressive_wrapper import top_k

from comparison import gradients, same_both_ways


def language_model(**options):
    return TransformerWrapper(num_tokens=256, max_seq_len=64, attn_layers=Decoder(dim=64, depth=2, heads=4, **options))


@pytest.mark.parametrize("straight_through", [False, True])
@pytest.mark.parametrize("k", [1, 8, 32])
def test_sparse_attention(k, straight_through):
    def train():
        model = AutoregressiveWrapper(
            language_model(attn_sparse_topk=k, attn_sparse_topk_straight_through=straight_through)
        )
        loss = model(torch.randint(256, (4, 64)))
        loss.backward()
        return loss, gradients(model)

    same_both_ways(train)


def test_masked_tokens_in_training():
    def train():
        model = AutoregressiveWrapper(language_model(), mask_prob=0.3)
        loss = model(torch.randint(256, (4, 64)))
        loss.backward()
        return loss, gradients(model)

    same_both_ways(train)


def test_dropped_tokens_of_cross_attention():
    def train():
        model = Decoder(dim=64, depth=2, heads=4, cross_attend=True, cross_attn_tokens_dropout=0.5)
        x, context = torch.randn(4, 32, 64, requires_grad=True), torch.randn(4, 40, 64, requires_grad=True)
        output = model(x, context=context)
        output.square().sum().backward()
        return output, x.grad, context.grad, gradients(model)

    same_both_ways(train)


@pytest.mark.parametrize("filter_kwargs", [{"k": 5}, {"frac_num_tokens": 0.25}])
def test_sampling(filter_kwargs):
    def generate():
        model = AutoregressiveWrapper(language_model(attn_sparse_topk=8))
        return model.generate(torch.randint(256, (3, 8)), 24, filter_logits_fn=top_k, filter_kwargs=filter_kwargs)

    same_both_ways(generate)


def test_beam_search():
    def generate():
        model = AutoregressiveWrapper(language_model())
        return model.beam_search(torch.randint(256, (3, 8)), 16, beams=4, return_beams_and_scores=True)

    same_both_ways(generate)


def test_non_autoregressive():
    def run():
        network = TransformerWrapper(num_tokens=257, max_seq_len=32, attn_layers=Encoder(dim=64, depth=2, heads=4))
        model = NonAutoregressiveWrapper(network, mask_id=256, steps=6)
        losses = model(torch.randint(256, (4, 32)))
        losses.loss.backward()
        return losses.loss, gradients(model), model.generate(batch_size=2)

    same_both_ways(run)
