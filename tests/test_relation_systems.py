"""MLLRE, EA-EMR and EMAR against plain code and cases worked by hand."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from everlearn.batches import Batch, Sequences
from everlearn.config import Config
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.methods import MethodConfig, Parts, find_method
from everlearn.methods.emar import TEMPERATURE
from everlearn.problems import Classification, NegativeRefresher, Ranking
from support import (
    CLASS_WORDS,
    MethodFactory,
    assert_same_weights,
    feed,
    labelled_texts,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    weights_of,
    with_candidates,
)

SMALL = {"batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, "lr": 1e-3}
NAMES = [" ".join(words) for words in CLASS_WORDS]


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(48, range(6)), 4)


def trained(method: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in method.network.trained().items()}


# MLLRE


def test_mllre_goes_part_of_the_way_after_every_interval(make_method: MethodFactory, batches: list[Batch]):
    method, replay = (make_method(name, **SMALL) for name in ("mllre", "replay"))
    start = trained(method)
    for one in (method, replay):
        feed(one, batches[:4])
    # Up to here both took the same steps.
    middle = {name: start[name] + 0.5 * (end - start[name]) for name, end in trained(replay).items()}
    assert_same_weights(trained(method), middle)
    assert_same_weights({name: w.detach() for name, w in method.anchor.items()}, middle)
    feed(method, batches[4:7])
    assert_same_weights({name: w.detach() for name, w in method.anchor.items()}, middle)


def test_mllre_with_epsilon_one_is_replay(make_method: MethodFactory, batches: list[Batch]):
    """In float64: θ₀ + (θ − θ₀) is θ but for rounding, which AdamW magnifies where a gradient is nothing but rounding.

    So it is for the biases of attention's keys, which no softmax feels.
    """
    method, replay = make_method("mllre", mllre_epsilon=1.0, **SMALL), make_method("replay", **SMALL)
    for one in (method, replay):
        one.network.double()
        feed(one, batches)
    assert_same_weights(weights_of(method), weights_of(replay), tolerance=1e-12)


def test_mllre_is_reptile_without_replay_too(make_method: MethodFactory, batches: list[Batch]):
    method, seq = make_method("mllre", replay=False, **SMALL), make_method("seq", **SMALL)
    start = trained(method)
    for one in (method, seq):
        feed(one, batches[:4])
    expected = {name: start[name] + 0.5 * (end - start[name]) for name, end in trained(seq).items()}
    assert_same_weights(trained(method), expected)


# EA-EMR


def test_the_aligner_starts_as_nothing_so_that_it_is_replay_until_the_first_one(
    make_method: MethodFactory, batches: list[Batch]
):
    method, replay = (make_method(name, **SMALL) for name in ("ea-emr", "replay"))
    for one in (method, replay):
        feed(one, batches[:3])
    found = weights_of(method)
    assert torch.equal(found.pop("aligner.weight"), torch.eye(32))
    assert_same_weights(found, weights_of(replay), tolerance=1e-6)


@pytest.mark.parametrize("problem", [Classification(6), Ranking(NAMES, tiny_tokens())], ids=["class", "ranking"])
def test_what_is_stored_is_the_feature_of_the_right_answer(problem: Any, make_method: MethodFactory):
    method = make_method("ea-emr", problem=problem, **SMALL)
    examples = with_candidates(labelled_texts(4, range(4)), range(6))
    (batch,) = tokenised(examples, 4, problem)
    before = copy.deepcopy(method.network)
    feed(method, [batch])
    alone = [problem.tokenise([example], tiny_tokens()) for example in examples]
    for note, example, one in zip(method.memory.view().notes, examples, alone, strict=True):
        with torch.no_grad():
            features = before.features(problem.sequences(one))
        row = example.candidates.index(example.label) if isinstance(problem, Ranking) else 0
        np.testing.assert_allclose(note, features[row].numpy(), atol=1e-5)


def test_a_refit_brings_features_closer_to_the_stored_ones(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("ea-emr", aligner_steps=40, **SMALL)
    batch = Batch.concat(batches[:4])
    with torch.no_grad():
        stored = method.network.encoder(method.problem.sequences(batch)) + 0.05
    notes = list(stored.numpy())
    frozen = trained(method)
    first = float(method.align(batch, notes))
    again = float(method.align(batch, notes))
    assert first == pytest.approx(0.05**2, rel=1e-3)
    assert again < 0.9 * first
    assert_same_weights(trained(method), frozen)  # nothing but the aligner moved
    assert method.ledger.train.optimiser_steps == 80


def test_the_aligner_is_fitted_to_features_without_dropout(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("ea-emr", encoder=tiny_encoder(dropout=0.5), aligner_steps=1, **SMALL)
    with torch.no_grad():
        stored = method.copy_for_testing().encoder(method.problem.sequences(batches[0]))
    assert float(method.align(batches[0], list(stored.numpy()))) == pytest.approx(0, abs=1e-9)
    assert method.network.training


def test_ea_emr_replays_against_all_relations_seen():
    """Fresh candidates reach the replay, and the stored feature still belongs to the right pair."""
    encoder, ledger = tiny_encoder(), Ledger()
    problem = Ranking(NAMES, encoder.tokenizer)
    memory = Memory(MemoryConfig(), encoder.tokenizer.dtype, ledger, 1, NegativeRefresher(4, 1))
    config = MethodConfig(method="ea-emr", aligner_steps=1, **SMALL)
    method: Any = find_method("ea-emr")(config, Parts(encoder, problem, memory, ledger, 1))
    given: list[Batch] = []
    align = method.align
    method.align = lambda batch, stored: given.append(batch) or align(batch, stored)
    feed(method, tokenised(with_candidates(labelled_texts(16, range(6)), range(6)), 4, problem))
    assert len(given) == 1
    assert all(len(given[0].targets[row]) == 1 + 5 for row in range(8))  # the label, itself again, four others


def test_fresh_negatives_are_the_default_of_ea_emr_on_fewrel_only():
    assert Config.build({"method": "ea-emr", "stream": "fewrel"}).memory.refresh_negatives
    assert not Config.build({"method": "replay", "stream": "fewrel"}).memory.refresh_negatives
    assert not Config.build({"method": "ea-emr", "stream": "textcls"}).memory.refresh_negatives


# EMAR


def features_of(method: Any, texts: list[str]) -> torch.Tensor:
    with torch.no_grad():
        encoded: torch.Tensor = method.network.encoder(Sequences(tiny_tokens()(texts)))
        return encoded


def cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=2)


def test_the_stream_loss_of_emar_compares_with_the_names_of_candidates(make_method: MethodFactory):
    problem = Ranking(NAMES, tiny_tokens())
    method = make_method("emar", problem=problem, **SMALL)
    examples = with_candidates(labelled_texts(5, range(5)), range(6), seed=3)
    (batch,) = tokenised(examples, 5, problem)
    sentences, names = features_of(method, [e.text for e in examples]), features_of(method, NAMES)
    similar = cosines(sentences, names) / TEMPERATURE
    losses = [
        -similar[row, e.label] + torch.logsumexp(similar[row, list(e.candidates)], 0) for row, e in enumerate(examples)
    ]
    with torch.no_grad():
        found = method.loss(method.network, batch)
    torch.testing.assert_close(found, torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_a_replayed_example_is_compared_with_prototypes_that_do_not_hold_it(make_method: MethodFactory):
    """Each the mean of a label's other examples in the sample and its name, for all labels in memory."""
    problem = Classification(6, NAMES)
    method = make_method("emar", problem=problem, **SMALL)
    examples = labelled_texts(6, [1, 4, 1])
    (batch,) = tokenised(examples, 6, problem)
    method.memory.write(tokenised(labelled_texts(3, [1, 4, 5]), 3, problem)[0])
    known = [1, 4, 5]
    texts, names = features_of(method, [e.text for e in examples]), features_of(method, NAMES)
    losses = []
    for row, example in enumerate(examples):
        centres = []
        for label in known:
            others = [n for n, e in enumerate(examples) if e.label == label and n != row]
            centres.append((texts[others].mean(0) + names[label]) / 2 if others else names[label])
        similar = cosines(texts[row : row + 1], torch.stack(centres)) / TEMPERATURE
        losses.append(functional.cross_entropy(similar, torch.tensor([known.index(example.label)])))
    with torch.no_grad():
        found = method.prototype_loss(batch)
    torch.testing.assert_close(found, torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_an_example_alone_in_its_label_is_compared_with_names(make_method: MethodFactory):
    problem = Classification(6, NAMES)
    method = make_method("emar", problem=problem, **SMALL)
    examples = labelled_texts(4, [0, 2, 3, 5])
    (batch,) = tokenised(examples, 4, problem)
    texts, names = features_of(method, [e.text for e in examples]), features_of(method, NAMES)
    similar = cosines(texts, names[[0, 2, 3, 5]])
    centres = cosines(texts, (texts + names[[0, 2, 3, 5]]) / 2)
    expected = torch.where(torch.eye(4).bool(), similar, centres) / TEMPERATURE
    with torch.no_grad():
        found = method.prototype_loss(batch)
    torch.testing.assert_close(found, functional.cross_entropy(expected, torch.arange(4)), rtol=1e-4, atol=1e-5)


def test_emar_reads_at_most_so_many_examples_of_a_label_to_predict(make_method: MethodFactory):
    method = make_method("emar", problem=Classification(6, NAMES), prototype_examples=3, **SMALL)
    feed(method, tokenised(labelled_texts(30, [0, 0, 0, 2, 5]), 4))
    method.predictor()
    assert method.ledger.test.memory_reads == 9
    assert method.ledger.train.memory_reads == 16


def test_emar_trains_the_encoder_and_nothing_else(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("emar", **SMALL)
    feed(method, batches)
    encoder = sum(weight.numel() for weight in tiny_encoder().parameters())
    assert method.ledger.parameters_trained == encoder
    assert method.ledger.train.optimiser_steps == 12 + 3
    assert 0 < method.ledger.train.tokens_backward <= method.ledger.train.tokens_forward


def test_with_a_frozen_encoder_emar_has_its_prototypes_and_takes_no_step(make_method: MethodFactory):
    method = make_method("emar", encoder=tiny_encoder(freeze_encoder=True), **SMALL)
    before = weights_of(method)
    feed(method, tokenised(labelled_texts(48, [0, 1]), 4))
    assert_same_weights(weights_of(method), before)
    assert method.ledger.parameters_trained == method.ledger.train.optimiser_steps == 0
    test = tokenised(labelled_texts(40, [0, 1], seed=2), 40)[0]
    assert float((method.predictor().predict(test) == test.labels).mean()) > 0.8


def test_before_it_learned_anything_emar_goes_by_the_names(make_method: MethodFactory):
    problem = Ranking(NAMES, tiny_tokens())
    method = make_method("emar", problem=problem, **SMALL)
    examples = with_candidates(labelled_texts(20, range(6)), range(6))
    (batch,) = tokenised(examples, 20, problem)
    similar = cosines(features_of(method, [e.text for e in examples]), features_of(method, NAMES))
    expected = [max(e.candidates, key=lambda c, row=row: float(similar[row, c])) for row, e in enumerate(examples)]
    assert method.predictor().predict(batch).tolist() == expected
