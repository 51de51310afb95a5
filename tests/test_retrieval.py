"""MbPA++ and Meta-MbPA: neighbours, keys, and local adaptation against plain code, one example at a time."""

import copy
import importlib.util
from typing import Any

import numpy as np
import pytest
import torch

from everlearn.batches import Batch
from everlearn.ledger import Meter
from everlearn.methods import neighbours
from everlearn.methods.neighbours import Neighbours
from everlearn.problems import Classification, Ranking
from support import (
    CLASS_WORDS,
    MethodFactory,
    assert_same_weights,
    feed,
    labelled_texts,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    with_candidates,
)

SMALL = {
    "batch_size": 4,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "lr": 1e-3,
    "neighbours": 5,
    "local_steps": 3,
    "local_lr": 0.3,
    "local_penalty": 0.1,
    "inner_lr": 0.05,
    "diverse_share": 1.0,
}
PROBLEMS = {
    "classification": Classification(6),
    "ranking": Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens()),
}


def stream_of(problem: Any, count: int, seed: int = 0, size: int = 4) -> list[Batch]:
    return tokenised(with_candidates(labelled_texts(count, range(6), seed), range(6), seed), size, problem)


# Neighbours


@pytest.fixture(params=["faiss", "scikit-learn"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "faiss":
        pytest.importorskip("faiss")
    else:
        find = importlib.util.find_spec
        monkeypatch.setattr(
            neighbours.importlib.util, "find_spec", lambda name: None if name == "faiss" else find(name)
        )
    return str(request.param)


def test_neighbours_are_the_nearest_in_order(library: str):
    rng = np.random.default_rng(0)
    keys, queries = rng.normal(size=(40, 8)).astype(np.float32), rng.normal(size=(6, 8)).astype(np.float32)
    distances, places = Neighbours(keys).nearest(queries, 5)
    every = np.linalg.norm(queries[:, None] - keys[None], axis=2)
    assert places.tolist() == np.argsort(every, axis=1)[:, :5].tolist()
    np.testing.assert_allclose(distances, np.sort(every, axis=1)[:, :5], rtol=1e-3, atol=1e-4)


def test_there_are_no_more_neighbours_than_keys(library: str):
    distances, places = Neighbours(np.eye(3)).nearest(np.zeros((2, 3)), 10)
    assert distances.shape == places.shape == (2, 3)
    assert sorted(places[0].tolist()) == [0, 1, 2]


# MbPA++


@pytest.mark.parametrize("problem", PROBLEMS)
def test_keys_are_the_features_of_the_encoder_before_it_learned(problem: str, make_method: MethodFactory):
    kind = PROBLEMS[problem]
    method = make_method("mbpa++", problem=kind, **SMALL)
    stream = stream_of(kind, 24)
    feed(method, stream)
    with torch.no_grad():
        expected = tiny_encoder()(kind.texts(Batch.concat(stream))).numpy()
    np.testing.assert_allclose(np.stack(method.memory.view().notes), expected, atol=1e-5)


def test_it_learns_as_replay_does(make_method: MethodFactory):
    method, replay = (make_method(name, **SMALL) for name in ("mbpa++", "replay"))
    stream = stream_of(PROBLEMS["classification"], 48)
    for one in (method, replay):
        feed(one, stream)
    assert_same_weights(method.network.state_dict(), replay.network.state_dict())


def slowly_adapted(method: Any, problem: Any, example: Batch, whole: bool) -> torch.Tensor:
    """Algorithm of the paper, for one example, on a copy of the network."""
    network = copy.deepcopy(method.network)
    view = method.memory.view()
    with torch.no_grad():
        key = tiny_encoder()(problem.texts(example)).numpy()
    distances = np.linalg.norm(np.stack(view.notes) - key, axis=1)
    found = view.take(np.argsort(distances, kind="stable")[:5], Meter())
    moving = list((network if whole else network.head).parameters())
    start = [weight.detach().clone() for weight in moving]
    for _ in range(3):
        losses = [problem.loss(network(problem.sequences(neighbour)), neighbour) for neighbour in found.split(1)]
        held = sum(((w - s).square().sum() for w, s in zip(moving, start, strict=True)), torch.zeros(()))
        gradients = torch.autograd.grad(torch.stack(losses).mean() + 0.1 * held, moving, materialize_grads=True)
        with torch.no_grad():
            for weight, gradient in zip(moving, gradients, strict=True):
                weight -= 0.3 * gradient
    with torch.no_grad():
        logits: torch.Tensor = network(problem.sequences(example))
    return logits


@pytest.mark.parametrize("adaptation", ["head", "full"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_example_is_predicted_by_weights_adapted_to_its_neighbours(
    problem: str, adaptation: str, make_method: MethodFactory
):
    kind = PROBLEMS[problem]
    method = make_method("mbpa++", problem=kind, local_adaptation=adaptation, **SMALL)
    feed(method, stream_of(kind, 40))
    before = {name: weight.clone() for name, weight in method.network.state_dict().items()}
    (tested,) = stream_of(kind, 7, seed=9, size=7)
    predictor = method.predictor()
    found = predictor.logits(tested)
    slow = torch.cat([slowly_adapted(method, kind, one, adaptation == "full") for one in tested.split(1)])
    torch.testing.assert_close(found, slow, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        assert not torch.allclose(found, predictor.network(kind.sequences(tested)), atol=1e-3)
    assert_same_weights(method.network.state_dict(), before)
    assert method.ledger.test.memory_reads == 7 * 5
    assert method.ledger.test.inner_steps == 7 * 3


def test_neighbours_that_several_examples_share_are_encoded_once(make_method: MethodFactory):
    method = make_method("mbpa++", **{**SMALL, "neighbours": 12})
    feed(method, stream_of(PROBLEMS["classification"], 12))
    (tested,) = stream_of(PROBLEMS["classification"], 10, seed=9, size=10)
    method.predictor().predict(tested)
    stored = sum(len(row) for row in method.memory.all().tokens)
    # Keys and features of the tested, and the twelve stored ones once, though each is a neighbour of all ten.
    assert method.ledger.test.tokens_forward == 2 * len(tested.tokens.values) + stored
    assert method.ledger.test.memory_reads == 120


def test_the_index_is_built_once_between_two_batches(make_method: MethodFactory, monkeypatch: pytest.MonkeyPatch):
    method = make_method("mbpa++", **SMALL)
    stream = stream_of(PROBLEMS["classification"], 12)
    feed(method, stream)
    first = method.predictor().memory
    assert method.predictor().memory is first
    feed(method, stream[:1])
    second = method.predictor().memory
    assert second is not first
    method.memory.remove([0])  # as when a text is to be forgotten
    assert len(method.predictor().memory.view) == len(second.view) - 1


# Meta-MbPA


def test_meta_mbpa_takes_the_batchs_gradient_at_weights_adapted_to_its_neighbours(make_method: MethodFactory):
    method = make_method("meta-mbpa", **SMALL)
    stream = stream_of(PROBLEMS["classification"], 16)
    feed(method, stream[:3])
    network, view = copy.deepcopy(method.network), method.memory.view()
    with torch.no_grad():
        keys = tiny_encoder()(method.problem.texts(stream[3])).numpy()
    distances = np.linalg.norm(np.stack(view.notes)[:, None] - keys[None], axis=2).min(axis=1)
    nearest = view.take(np.argsort(distances, kind="stable")[:8], Meter())
    slow = list(network.parameters())
    adapted = copy.deepcopy(network)
    for part in nearest.split(4):
        loss = method.problem.loss(adapted(method.problem.sequences(part)), part)
        gradients = torch.autograd.grad(loss, list(adapted.parameters()), materialize_grads=True)
        with torch.no_grad():
            for weight, gradient in zip(adapted.parameters(), gradients, strict=True):
                weight -= 0.05 * gradient
    loss = method.problem.loss(adapted(method.problem.sequences(stream[3])), stream[3])
    expected = torch.autograd.grad(loss, list(adapted.parameters()), materialize_grads=True)

    used: list[Any] = []
    update = method.update
    method.update = lambda gradients, **named: used.append(gradients) or update(gradients, **named)
    feed(method, stream[3:])
    assert len(used) == 1
    assert len(slow) == len(used[0])
    for found, gradient in zip(used[0], expected, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-3, atol=1e-5)
    assert method.ledger.train.memory_reads == 8
    assert method.ledger.train.inner_steps == 2


def test_meta_mbpa_stores_about_its_share_and_prefers_what_differs(make_method: MethodFactory):
    """One key in twenty lies five times as far out as the others, so that it is far from all others too."""
    method = make_method("meta-mbpa", **{**SMALL, "diverse_share": 0.1})
    rng = np.random.default_rng(0)
    for batch in stream_of(PROBLEMS["classification"], 2000, size=20):
        keys = rng.normal(size=(20, 32)).astype(np.float32)
        keys[7] *= 5
        method.remember_what_differs(batch, keys)
    far = np.linalg.norm(np.stack(method.memory.view().notes), axis=1) > 15
    assert 0.07 * 2000 < len(far) < 0.13 * 2000
    assert far.sum() / 100 > 2 * (~far).sum() / 1900


def test_the_first_example_is_always_stored(make_method: MethodFactory):
    method = make_method("meta-mbpa", **{**SMALL, "diverse_share": 1e-9})
    feed(method, stream_of(PROBLEMS["classification"], 8))
    assert len(method.memory) == 1
