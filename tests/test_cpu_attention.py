"""Attention in fp32 changes what a bf16 encoder costs on a CPU, and its results by no more than rounding."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from everlearn.encoders.cpu_attention import AttentionInFp32
from support import tiny_encoder
from test_encoders import sequences_of


def leaves(dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(0)
    return [torch.randn(2, 4, 9, 16, generator=source).to(dtype).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("masked", [False, True])
def test_results_and_gradients(masked: bool):
    mask = torch.zeros(2, 1, 9, 9, dtype=torch.bfloat16).index_fill(3, torch.tensor([7, 8]), -torch.inf)
    inputs, options = leaves(), {"attn_mask": mask} if masked else {}
    plain = attention(*inputs, **options)
    with AttentionInFp32():
        wide = attention(*inputs, **options)
    assert wide.dtype == torch.bfloat16
    torch.testing.assert_close(wide, plain, atol=0.02, rtol=0.02)
    upstream = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1)).bfloat16()
    for got, wanted in zip(*(torch.autograd.grad(out, inputs, upstream) for out in (wide, plain)), strict=True):
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got, wanted, atol=0.05, rtol=0.05)


def test_it_is_nearer_to_the_exact_result_than_bf16_is():
    inputs = leaves()
    exact = attention(*(tensor.double() for tensor in inputs))
    plain = attention(*inputs)
    with AttentionInFp32():
        wide = attention(*inputs)
    assert (wide - exact).abs().mean() < (plain - exact).abs().mean()


def test_without_gradients_and_in_fp32_nothing_changes():
    with AttentionInFp32(), torch.no_grad():
        got = attention(*leaves())
    with torch.no_grad():
        assert torch.equal(got, attention(*leaves()))
    with AttentionInFp32():
        assert torch.equal(attention(*leaves(torch.float32)), attention(*leaves(torch.float32)))


def test_a_bf16_encoder_learns_in_the_direction_of_an_fp32_one():
    texts = ["the of and", "it for on", "x", "the of and to in it for on with as"]
    gradients = []
    for precision in ("bf16", "fp32"):
        used = tiny_encoder(precision=precision)
        used(sequences_of(used, texts)).square().sum().backward()
        gradients.append(used.weights.grad)
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.99
