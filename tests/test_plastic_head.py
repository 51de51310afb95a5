"""OML-ER's plastic head: the trace worked by hand, and the outer gradient against one taken through everything."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from everlearn.batches import Batch
from everlearn.episodes import Episode
from everlearn.methods.oml_er_plastic import RATE, TRACE, PlasticHead
from everlearn.problems import Classification, Ranking
from support import CLASS_WORDS, MethodFactory, feed, labelled_texts, tiny_tokens, tokenised, with_candidates

NAMES = [" ".join(words) for words in CLASS_WORDS]

SMALL = {"batch_size": 4, "support_batches": 2, "replay_interval": 16, "replay_rate": 0.5, "meta_lr": 1e-3}


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(48, range(6)), 4)


def test_the_trace_moves_towards_what_was_wanted():
    head = PlasticHead(nn.Linear(2, 3))
    with torch.no_grad():
        head.rate_logit.copy_(torch.tensor(0.25).logit())
    features = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    wanted = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    once = head.imprint(torch.zeros(3, 2), features, wanted)
    # A quarter of what sets an output's feature apart: of length one they are (1, 0) and (0, 1), half-way is (½, ½).
    torch.testing.assert_close(once, torch.tensor([[0.125, -0.125], [0.0, 0.0], [-0.125, 0.125]]))
    torch.testing.assert_close(head.imprint(once, features, wanted), 1.75 * once)
    # Two texts of one class leave no longer a trace than one.
    twice = head.imprint(torch.zeros(3, 2), features.repeat(2, 1), wanted.repeat(2, 1))
    torch.testing.assert_close(twice, once)


def test_an_empty_trace_makes_it_a_linear_head():
    linear = nn.Linear(4, 3)
    features = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(PlasticHead(linear)(features), linear(features))


@pytest.mark.parametrize("micro_batch", [32, 3])
def test_the_outer_gradient_is_that_of_the_whole_computation(
    micro_batch: int, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    """For the head and its rate; the encoder sees the query only, as in OML."""
    method: Any = make_method("oml-er-plastic", micro_batch=micro_batch, **SMALL)
    method.network.double()
    network, problem, head = method.network, method.problem, method.network.head
    support, query = batches[:2], Batch.concat(batches[2:4])
    with torch.no_grad():
        head.plasticity.copy_(torch.rand(head.plasticity.shape, generator=torch.Generator().manual_seed(1)))
    trace = torch.zeros_like(head.weight)
    for batch in support:
        with torch.no_grad():
            seen = network.features(problem.sequences(batch))
        wanted = nn.functional.one_hot(torch.from_numpy(batch.labels.astype("int64")), 6).double()
        trace = head.imprint(trace, seen, wanted)
    logits = network.features(problem.sequences(query)) @ (head.weight + head.plasticity * trace).T + head.bias
    trained = network.trained()
    expected = torch.autograd.grad(problem.loss(logits, query), list(trained.values()), materialize_grads=True)

    found: list[Any] = []
    monkeypatch.setattr(method, "update", lambda gradients, replayed: found.extend(gradients))
    method.learn(Episode(support, query))
    for name, own, gradient in zip(trained, found, expected, strict=True):
        torch.testing.assert_close(own, gradient, msg=lambda m, n=name: f"{n}: {m}")
    assert bool(expected[list(trained).index(RATE)].any())


def test_it_is_tested_with_the_trace_of_a_memory_sample(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("oml-er-plastic", **SMALL)
    feed(method, batches[:6])
    adapted, plain = method.predictor(), make_method("oml-er-plastic", meta_test=False, **SMALL)
    feed(plain, batches[:6])
    assert bool(adapted.network.state_dict()[TRACE].any())
    assert not bool(plain.predictor().network.state_dict()[TRACE].any())
    assert not bool(method.network.head.trace.any())  # the trace is discarded


@pytest.mark.parametrize("problem", ["classification", "ranking"])
def test_a_fresh_trace_makes_a_difference_to_what_is_answered(problem: str, make_method: MethodFactory):
    """With what it starts from: a trace that moves nothing would make this OML-ER without an inner loop."""
    examples = labelled_texts(48, range(6))
    kind = Classification(6) if problem == "classification" else Ranking(NAMES, tiny_tokens())
    stream = tokenised(with_candidates(examples, range(6)), 4, kind)
    method = make_method("oml-er-plastic", problem=kind, **SMALL)
    feed(method, stream[:9])
    held_out = Batch.concat(stream[9:])
    adapted = method.predictor().logits(held_out)
    method.config = replace(method.config, meta_test=False)
    slow = method.predictor().logits(held_out)
    assert float((adapted - slow).std()) > 0.05 * float((slow - slow.mean(dim=0)).std())
