"""Closed-form heads against scikit-learn and their own formulas, and in every order of the stream."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import NearestCentroid

from everlearn.batches import Batch, Integers, Sequences
from everlearn.examples import UNLABELLED
from everlearn.methods.slda import factorised
from everlearn.problems import Ranking
from support import (
    CLASS_WORDS,
    MethodFactory,
    feed,
    labelled_texts,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    with_candidates,
)

METHODS = ["ncm", "slda", "ridge", "ranpac"]
EXAMPLES = labelled_texts(90, [0, 1, 1, 2, 3, 3, 3, 4, 5], seed=4)


@pytest.fixture(scope="module")
def stream() -> list[Batch]:
    """Unbalanced, and with every label several times in a batch."""
    return tokenised(EXAMPLES, 16)


@pytest.fixture(scope="module")
def held_out() -> Batch:
    return tokenised(labelled_texts(40, range(6), seed=5), 40)[0]


def features_of(*batches: Batch) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        encoder = tiny_encoder()
        return np.concatenate([encoder(Sequences(batch.tokens)).double().numpy() for batch in batches])


def labels_of(*batches: Batch) -> Integers:
    return np.concatenate([batch.labels for batch in batches])


def learned(make: MethodFactory, name: str, batches: list[Batch], **settings: Any) -> Any:
    method = make(name, random_features=48, **settings)
    feed(method, batches)
    return method


@pytest.mark.parametrize("name", METHODS)
def test_what_is_observed_is_left_on_the_device_until_somebody_looks(
    name: str, make_method: MethodFactory, stream: list[Batch]
):
    observed = make_method(name, random_features=48).observe(stream[0])["classes"]
    assert isinstance(observed, torch.Tensor)
    assert float(observed) == len(set(stream[0].labels.tolist()))


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_stream_makes_no_difference(name: str, make_method: MethodFactory, held_out: Batch):
    """Sorted by class, the other way round, shuffled, and in batches of another size."""
    by_class = sorted(EXAMPLES, key=lambda example: example.label)
    shuffled = [EXAMPLES[i] for i in np.random.default_rng(0).permutation(len(EXAMPLES))]
    orders = [(EXAMPLES, 16), (by_class, 16), (by_class[::-1], 16), (shuffled, 7), (shuffled, 1)]
    predictors = [learned(make_method, name, tokenised(order, size)).predictor() for order, size in orders]
    scores = [predictor.scores(held_out) for predictor in predictors]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-6, atol=1e-6)
    predicted = [predictor.predict(held_out).tolist() for predictor in predictors]
    assert all(one == other for one, other in itertools.pairwise(predicted))


def test_ncm_is_the_nearest_centroid(make_method: MethodFactory, stream: list[Batch], held_out: Batch):
    reference = NearestCentroid().fit(features_of(*stream), labels_of(*stream))
    predicted = learned(make_method, "ncm", stream).predictor().predict(held_out)
    assert predicted.tolist() == reference.predict(features_of(held_out)).tolist()


@pytest.mark.parametrize("batches", [1, 2, 6])
def test_slda_shrinks_as_few_or_many_examples_need(batches: int, make_method: MethodFactory, stream: list[Batch]):
    """The fewer there are, the more: the share is scikit-learn's."""
    given = stream[:batches]
    features, labels = features_of(*given), labels_of(*given)
    around = features - np.stack([features[labels == label].mean(axis=0) for label in labels])
    reference = OAS(assume_centered=True).fit(around)
    assert 0.0 < reference.shrinkage_ <= 1.0
    found = learned(make_method, "slda", given).covariance()
    assert np.allclose(found, reference.covariance_, rtol=1e-6, atol=1e-12)


def test_slda_draws_means_together_that_few_examples_stand_behind(make_method: MethodFactory):
    """Worked by hand: the share of its distance that a mean keeps is s / (s + tr(ΛΣ)/n)."""
    batches = tokenised(labelled_texts(64, [0] * 10 + [1] * 5 + [2], seed=4), 16)
    method = learned(make_method, "slda", batches, shrunken_means=True)
    features, labels = features_of(*batches), labels_of(*batches)
    counts = np.bincount(labels)
    means = np.stack([features[labels == label].mean(axis=0) for label in range(3)])
    around = features - means[labels]
    inverse = np.linalg.inv(method.covariance().numpy())
    away = means - features.mean(axis=0)
    distances = np.einsum("ci,ij,cj->c", away, inverse, away)
    errors = np.trace(inverse @ (around.T @ around) / len(features)) / counts
    signal = (counts * (distances - errors)).sum() / counts.sum()
    assert signal > 0
    kept = signal / (signal + errors)
    assert kept[0] > kept[1] > kept[2]
    found = method.shrunken(method.sums.means, torch.linalg.cholesky(method.covariance())).numpy()
    np.testing.assert_allclose(found[:3], features.mean(axis=0) + kept[:, None] * away, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["ncm", "slda", "ridge", "ranpac"])
def test_only_directions_count_where_features_have_length_one(
    name: str, make_method: MethodFactory, stream: list[Batch], held_out: Batch
):
    features = torch.from_numpy(features_of(held_out))
    for unit in (True, False):
        method = learned(make_method, name, stream, unit_features=unit)
        assert torch.allclose(method.read(3 * features), method.read(features)) is unit
        predictor = method.predictor()
        assert torch.allclose(predictor.score(3 * features), predictor.score(features)) is unit


@pytest.mark.parametrize("shrinkage", [None, 0.0, 1e-4])
@pytest.mark.parametrize("repeated", [1, 50])
def test_slda_can_live_with_texts_that_are_all_the_same(
    shrinkage: float | None, repeated: int, make_method: MethodFactory, held_out: Batch
):
    """One text a label has no spread, and a few texts again and again have less than there are directions."""
    given = tokenised(EXAMPLES[:6] * repeated, 16)
    for batches in (given, given + tokenised(EXAMPLES[6:8] * repeated, 16)):
        scores = learned(make_method, "slda", batches, shrinkage=shrinkage).predictor().scores(held_out)
        seen = np.unique(labels_of(*batches))
        assert np.isfinite(scores[:, seen]).all()


@pytest.mark.parametrize("shrinkage", [1e-4, 0.3])
def test_slda_is_the_discriminant_analysis_of_scikit_learn(
    shrinkage: float, make_method: MethodFactory, stream: list[Batch], held_out: Batch
):
    """With every class as likely as any other, where scikit-learn goes by how often each occurred."""
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    reference.fit(features_of(*stream), labels_of(*stream))
    expected = reference.decision_function(features_of(held_out)) - np.log(reference.priors_)
    found = learned(make_method, "slda", stream, shrinkage=shrinkage).predictor().scores(held_out)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())
    assert (found.argmax(1) == expected.argmax(1)).all()


@pytest.mark.parametrize("penalty", [0.01, 10.0])
def test_ridge_is_its_closed_solution(penalty: float, make_method: MethodFactory, stream: list[Batch], held_out: Batch):
    features, targets = features_of(*stream), np.eye(6)[labels_of(*stream)]
    reference = SklearnRidge(alpha=penalty, fit_intercept=False, solver="cholesky").fit(features, targets)
    found = learned(make_method, "ridge", stream, ridge_penalty=penalty).predictor().scores(held_out)
    np.testing.assert_allclose(found, reference.predict(features_of(held_out)), rtol=1e-4, atol=1e-5)


def test_ranpac_is_ridge_on_its_random_layer(make_method: MethodFactory, stream: list[Batch], held_out: Batch):
    method = learned(make_method, "ranpac", stream)
    layer = method.projection.numpy()
    assert layer.shape == (32, 48)
    wide, tested = (np.maximum(features_of(*batches) @ layer, 0) for batches in (stream, [held_out]))
    reference = SklearnRidge(alpha=1.0, fit_intercept=False, solver="cholesky")
    reference.fit(wide, np.eye(6)[labels_of(*stream)])
    found = method.predictor().scores(held_out)
    np.testing.assert_allclose(found, reference.predict(tested), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_it_is_solved_once_for_all_test_sets(
    name: str, make_method: MethodFactory, stream: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = learned(make_method, name, stream)
    solved: list[int] = []
    solve = method.solve
    monkeypatch.setattr(method, "solve", lambda: solved.append(1) or solve())
    for _ in range(3):
        method.predictor()
    assert len(solved) == 1
    feed(method, stream[:1])
    method.predictor()
    assert len(solved) == 2


@pytest.mark.parametrize("name", METHODS)
def test_many_rows_are_added_in_blocks_and_looking_changes_nothing(
    name: str, make_method: MethodFactory, held_out: Batch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("everlearn.methods.statistics.ROWS_AT_ONCE", 20)
    stream = tokenised(EXAMPLES, 8)
    quiet, looked_at = (make_method(name, random_features=48) for _ in range(2))
    for batch in stream:
        for method in (quiet, looked_at):
            feed(method, [batch])
        looked_at.predictor()
    assert (quiet.predictor().scores(held_out) == looked_at.predictor().scores(held_out)).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_class_never_seen_is_never_chosen(name: str, make_method: MethodFactory, held_out: Batch):
    method = learned(make_method, name, tokenised(labelled_texts(40, [1, 4]), 8))
    assert set(method.predictor().predict(held_out).tolist()) <= {1, 4}


@pytest.mark.parametrize("name", METHODS)
def test_ranking_chooses_among_candidates_by_the_sentence_alone(name: str, make_method: MethodFactory):
    problem = Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens())
    plain = labelled_texts(60, range(6), seed=1)
    method = make_method(name, problem=problem, random_features=48)
    feed(method, tokenised(with_candidates(plain, range(6)), 8, problem))
    asked = tokenised(with_candidates(labelled_texts(30, range(6), seed=2), range(6)), 30, problem)[0]
    predictor = method.predictor()
    scores, predicted = predictor.scores(asked), predictor.predict(asked)
    for row, label in enumerate(predicted.tolist()):
        candidates = asked.targets[row][1:].tolist()
        assert label == max(candidates, key=lambda candidate: float(scores[row, candidate]))
    # One sequence an example went through the encoder, not one for each candidate.
    assert method.ledger.test.tokens_forward == 2 * len(asked.tokens.values)


def test_ranking_among_candidates_never_seen_is_undecided(make_method: MethodFactory):
    problem = Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens())
    method = make_method("ncm", problem=problem)
    feed(method, tokenised(with_candidates(labelled_texts(8, [0, 1]), [0, 1]), 4, problem))
    asked = tokenised(with_candidates(labelled_texts(4, [2, 3]), [2, 3]), 4, problem)[0]
    assert method.predictor().predict(asked).tolist() == [UNLABELLED] * 4


def test_slda_can_live_with_a_covariance_that_is_not_quite_one():
    """Taking texts back leaves rounding, which need not be positive."""
    covariance = torch.diag(torch.tensor([1.0, 0.5, -1e-5, -1e-9], dtype=torch.float64))
    factor = factorised(covariance)
    assert torch.allclose(factor @ factor.T, covariance, atol=1e-3)
    good = torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64))
    assert torch.equal(factorised(good), torch.linalg.cholesky(good))
    assert torch.isfinite(factorised(torch.zeros(3, 3, dtype=torch.float64))).all()


def test_slda_forgets_almost_everything(make_method: MethodFactory, stream: list[Batch], held_out: Batch):
    for kept in (0, 1, 2, 5):
        method = learned(make_method, "slda", stream, unit_features=True)
        everything = Batch.concat(stream)
        method.take_back(everything.take(range(kept, len(everything))))
        scores = method.predictor().scores(held_out)
        seen = np.unique(everything.labels[:kept])
        assert np.isfinite(scores[:, seen]).all()
        assert np.isneginf(np.delete(scores, seen, axis=1)).all()
