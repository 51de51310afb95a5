"""Gradients gathered in one vector equal those that autograd puts together itself."""

import pytest
import torch
from torch import nn

from everlearn.encoders.flat import Layout, Skeleton
from everlearn.encoders.one_gradient import in_one_gradient
from support import tiny_encoder
from test_encoders import sequences_of

TEXTS = ["the of and", "it for on", "x", "the of and to in it for on with as " * 4]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("trained_layers", [None, 1])
def test_an_encoders_gradient_is_that_of_plain_autograd(precision: str, trained_layers: int | None):
    encoder = tiny_encoder(precision=precision, trained_layers=trained_layers)
    sequences = sequences_of(encoder, TEXTS)
    upstream = torch.randn(len(TEXTS), encoder.width, generator=torch.Generator().manual_seed(0))
    features = encoder(sequences)
    (found,) = torch.autograd.grad(features, encoder.weights, upstream)

    named = encoder.skeleton.named_weights(encoder.weights.to(encoder.dtype), encoder.kept.to(encoder.dtype))
    states = [
        encoder.skeleton(named, input_ids=torch.tensor([tokens])).last_hidden_state[0].float().mean(0)
        for tokens in (sequences.tokens[row].tolist() for row in range(len(TEXTS)))
    ]
    (expected,) = torch.autograd.grad(torch.stack(states), encoder.weights, upstream)
    assert found.dtype == torch.float32
    assert found.abs().sum() > 0
    if precision == "fp32":
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    else:
        assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > 0.99


def test_it_may_be_gone_through_twice_and_leaves_nothing_behind():
    encoder = tiny_encoder()
    loss = encoder(sequences_of(encoder, TEXTS)).square().sum()
    first, second = (torch.autograd.grad(loss, encoder.weights, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert encoder.weights.grad is None


def test_fast_weights_pass_the_gradient_on():
    encoder = tiny_encoder()
    sequences = sequences_of(encoder, TEXTS)
    scale = torch.tensor(1.0, requires_grad=True)
    (found,) = torch.autograd.grad(encoder(sequences, weights=encoder.weights * scale).sum(), scale)
    (direct,) = torch.autograd.grad(encoder(sequences).sum(), encoder.weights)
    torch.testing.assert_close(found, (direct * encoder.weights.detach()).sum(), atol=1e-3, rtol=1e-4)


class Tied(nn.Module):
    """A weight that is looked up in, and multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(ids))


def test_a_weight_in_two_places_gets_both_gradients():
    model, ids = Tied(), torch.tensor([[1, 1, 4]])
    weight = model.words.weight.detach().clone().requires_grad_()
    plain = nn.functional.linear(nn.functional.embedding(ids, weight), weight)
    (expected,) = torch.autograd.grad(plain.square().sum(), weight)
    skeleton, learned, _ = Skeleton.of(model)
    learned.requires_grad_()
    output = in_one_gradient(
        lambda parts: skeleton(parts, sparse=True, ids=ids), skeleton.learned, learned, torch.float32
    )
    (found,) = torch.autograd.grad(output.square().sum(), learned)
    torch.testing.assert_close(found.view(5, 3), expected)


def test_a_model_that_leaves_the_house_has_ordinary_embeddings():
    encoder = tiny_encoder()
    encoder(sequences_of(encoder, TEXTS)).sum().backward()
    for model in (encoder.skeleton.model, encoder.whole_model()):
        assert not any(module.sparse for module in model.modules() if isinstance(module, nn.Embedding))


def test_a_part_that_is_not_used_has_no_gradient():
    layout = Layout.of({"used": torch.zeros(2), "unused": torch.zeros(3)})
    vector = torch.ones(5, requires_grad=True)
    (found,) = torch.autograd.grad(
        in_one_gradient(lambda parts: parts["used"].sum(), layout, vector, torch.float32), vector
    )
    assert found.tolist() == [1, 1, 0, 0, 0]
