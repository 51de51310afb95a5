"""Low-rank adapters: what they change, worked by hand, the gradients they get, and which encoders they fit."""

from typing import Any

import pytest
import torch

from everlearn.batches import Batch, Sequences
from everlearn.encoders import Encoder
from everlearn.encoders.tiny import vocabulary
from everlearn.errors import UserError
from everlearn.methods.low_rank import AdaptedNetwork, Adapters
from everlearn.problems import OpenClassification
from support import (
    MethodFactory,
    assert_same_weights,
    feed,
    labelled_texts,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    weights_of,
)

SMALL = {"batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, "lr": 1e-2, "gem_gradients": "lora"}
QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(48, range(6)), 4)


@pytest.fixture
def sequences() -> Sequences:
    return Sequences(tiny_tokens()(["the of and to", "it for on", "with as are this that"]))


def adapted(rank: int, encoder: Encoder | None = None) -> AdaptedNetwork:
    """In double precision, with B drawn too."""
    encoder = encoder or tiny_encoder()
    torch.manual_seed(1)
    network = AdaptedNetwork(encoder, torch.nn.Linear(encoder.width, 2), rank).double()
    for outer in network.adapters.outer:
        torch.nn.init.normal_(outer, std=0.3)
    return network


def test_an_adapter_of_rank_one_changes_what_it_says_and_nothing_else(sequences: Sequences):
    network = adapted(1)
    place = network.adapters.names.index(QUERY)
    with torch.no_grad():
        for weight in network.adapters.parameters():
            weight.zero_()
        # B = 2 e₃ and A = e₅: BA is 2 in row 3, column 5, and zero elsewhere.
        network.adapters.outer[place][3, 0] = 2.0
        network.adapters.inner[place][0, 5] = 1.0
        found = network.features(sequences)
        by_hand = tiny_encoder().double()
        before = by_hand(sequences)
        by_hand.named_weights()[QUERY][3, 5] += 2.0
        expected = by_hand(sequences)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert float((expected - before).abs().max()) > 1e-6


def test_its_gradients_follow_the_chain_rule(sequences: Sequences):
    network = adapted(3)
    adapters, encoder = network.adapters, network.encoder
    direction = torch.randn(3, encoder.width, generator=torch.Generator().manual_seed(0)).double()
    found = torch.autograd.grad((network.features(sequences) * direction).sum(), list(adapters.parameters()))
    # The same with the weights W + BA as the encoder's own.
    whole = tiny_encoder().double()
    with torch.no_grad():
        for name, change in adapters().items():
            whole.named_weights()[name] += change
    (flat,) = torch.autograd.grad((whole(sequences) * direction).sum(), [whole.weights])
    of_weights = whole.skeleton.learned.views(flat)
    inner, outer = found[: len(adapters.names)], found[len(adapters.names) :]
    for place, name in enumerate(adapters.names):
        gradient = of_weights[name]
        assert bool(gradient.any())
        torch.testing.assert_close(outer[place], gradient @ adapters.inner[place].T)
        torch.testing.assert_close(inner[place], adapters.outer[place].T @ gradient)


def test_at_first_nothing_changes(make_method: MethodFactory, batches: list[Batch]):
    method, plain = make_method("gem", **SMALL), make_method("seq", **SMALL)
    given = method.problem.sequences(batches[0])
    assert torch.equal(method.network(given), plain.network(given))
    assert all(bool(weight.any()) for weight in method.network.adapters.inner)


def test_the_encoder_stays_and_is_shared_with_predictors_while_adapters_learn(
    make_method: MethodFactory, batches: list[Batch]
):
    method = make_method("gem", **SMALL)
    before = weights_of(method)
    feed(method, batches)
    after = weights_of(method)
    assert torch.equal(after["encoder.weights"], before["encoder.weights"])
    assert all(not torch.equal(after[name], before[name]) for name in method.network.trained())
    network = method.predictor().network
    assert network.encoder.weights is method.network.encoder.weights
    assert all(
        one is not other
        for one, other in zip(network.adapters.parameters(), method.network.adapters.parameters(), strict=True)
    )
    given = method.problem.sequences(batches[0])
    with torch.no_grad():
        assert not torch.equal(network.features(given), network.encoder(given))


def test_when_the_head_grows_the_constraints_on_adapters_stay(make_method: MethodFactory, batches: list[Batch]):
    method: Any = make_method("gem", problem=OpenClassification(), **SMALL)
    for batch in tokenised(labelled_texts(16, [4, 1]), 4):
        method.meet(batch)
        feed(method, [batch])
    before = [dict(zip(method.network.trained(), group, strict=True)) for group in method.constraints]
    method.meet(batches[0])
    assert before
    for old, group in zip(before, method.constraints, strict=True):
        new = dict(zip(method.network.trained(), group, strict=True))
        rows = [0, 1, 2, 0, 0, 0]  # labels 4 and 1 were known, and three of the four in the batch were not
        grown = {name: tensor[rows] if name.startswith("head.") else tensor for name, tensor in old.items()}
        assert_same_weights(new, grown)


def test_only_layers_that_may_learn_get_adapters():
    names = Adapters(tiny_encoder(trained_layers=1), 2).names
    assert names == (QUERY, QUERY.replace("query", "value"))


def encoder_of(family: str) -> Encoder:
    """A small random encoder of this family."""
    from transformers import AutoConfig, AutoModel

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if family == "distilbert":
        small = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    if family == "gpt2":
        small = {"n_embd": 16, "n_layer": 2, "n_head": 2}
    config = AutoConfig.for_model(family, vocab_size=len(vocabulary()), **small)
    return Encoder(AutoModel.from_config(config), tiny_tokens(), "mean")


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "distilbert", "mpnet", "deberta-v2", "llama"])
def test_query_and_value_are_found_whatever_a_family_calls_them(family: str, sequences: Sequences):
    encoder = encoder_of(family)
    network = adapted(2, encoder)
    assert len(network.adapters.names) == 2 * 2
    loss = network.features(sequences).square().sum()
    gradients = torch.autograd.grad(loss, list(network.adapters.parameters()))
    assert all(bool(gradient.any()) for gradient in gradients)


def test_projections_that_are_one_matrix_are_refused():
    with pytest.raises(UserError, match="--gem-gradients head"):
        Adapters(encoder_of("gpt2"), 2)
