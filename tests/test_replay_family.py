"""ER-ACE, DER++, cached A-GEM, GEM, online EWC and MER against cases worked by hand and plain, slow code."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn import functional

from everlearn.batches import Batch
from everlearn.errors import UserError
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.methods import MethodConfig, Parts, find_method
from everlearn.methods.gem import dual, nearest_allowed
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

# A replay of eight examples after every fourth batch of four.
SMALL = {"batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, "lr": 1e-3, "support_batches": 2}


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(48, range(6)), 4)


def exact(method: Any) -> Any:
    method.network.double()
    return method


# GEM


def test_a_gradient_that_no_constraint_forbids_is_left_alone():
    gradient = torch.tensor([1.0, 2.0])
    allowed, violated = nearest_allowed(gradient, torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
    assert allowed is gradient
    assert not violated


@pytest.mark.parametrize(
    ("gradient", "constraints", "expected"),
    [
        # One constraint: A-GEM's projection, g − (g·r / r·r) r with g·r = −2 and r·r = 2.
        ([1.0, -3.0], [[1.0, 1.0]], [2.0, -2.0]),
        # Two at right angles, both violated: nothing is left of either direction.
        ([-1.0, -2.0, 5.0], [[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]], [0.0, 0.0, 5.0]),
        # Opposite constraints leave only what is at right angles to them.
        ([3.0, 1.0], [[1.0, 0.0], [-1.0, 0.0]], [0.0, 1.0]),
        # The second holds by itself once the first is met: only one weight is positive.
        ([-2.0, 1.0], [[1.0, 0.0], [1.0, 1.0]], [0.0, 1.0]),
    ],
)
def test_gem_finds_the_nearest_gradient_that_is_allowed(gradient: Any, constraints: Any, expected: Any):
    allowed, violated = nearest_allowed(torch.tensor(gradient), torch.tensor(constraints))
    assert violated
    torch.testing.assert_close(allowed, torch.tensor(expected), rtol=0, atol=1e-5)


def test_the_dual_of_gem_is_what_another_solver_finds():
    rng = np.random.default_rng(0)
    for _ in range(20):
        constraints, gradient = rng.normal(size=(5, 12)), rng.normal(size=12)
        gram, products = constraints @ constraints.T, constraints @ gradient
        found = dual(gram, products)
        reference = minimize(
            lambda v, p=gram, q=products: 0.5 * v @ p @ v + q @ v,
            np.ones(5),
            jac=lambda v, p=gram, q=products: p @ v + q,
            bounds=[(0, None)] * 5,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        np.testing.assert_allclose(found, reference.x, atol=1e-5)
        assert ((constraints @ (gradient + found @ constraints)) >= -1e-6).all()


def test_a_margin_is_the_least_weight_of_every_constraint():
    """What the quadratic programme of the original solves: v ≥ γ."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        constraints, gradient = rng.normal(size=(4, 9)), rng.normal(size=9)
        gram, products = constraints @ constraints.T, constraints @ gradient
        reference = minimize(
            lambda v, p=gram, q=products: 0.5 * v @ p @ v + q @ v,
            np.ones(4),
            jac=lambda v, p=gram, q=products: p @ v + q,
            bounds=[(0.5, None)] * 4,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        np.testing.assert_allclose(dual(gram, products, 0.5), reference.x, atol=1e-5)


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1e-5, 3e-4])
def test_groups_with_nearly_the_same_gradient_can_be_solved(apart: float):
    """As when features have collapsed."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        common = torch.randn(2000, generator=draw)
        constraints = common + apart * torch.randn(5, 2000, generator=draw)
        allowed, violated = nearest_allowed(-common, constraints)
        assert violated
        assert bool((constraints @ allowed >= -1e-3 * common.square().sum()).all())


def test_gem_groups_labels_by_when_they_first_came(make_method: MethodFactory):
    method = make_method("gem", gem_groups=2, **SMALL)
    feed(method, tokenised(labelled_texts(4, [5, 1]), 4) + tokenised(labelled_texts(4, [3, 0]), 4))
    groups = method.groups(tokenised(labelled_texts(8, [0, 1, 3, 5]), 8)[0])
    assert [set(group.labels.tolist()) for group in groups] == [{1, 5}, {0, 3}]


@pytest.mark.parametrize(("gradients", "constrained"), [("head", ("head.",)), ("lora", ("head.", "adapters."))])
def test_gem_leaves_the_encoder_alone_and_never_hurts_a_group(
    gradients: str,
    constrained: tuple[str, ...],
    make_method: MethodFactory,
    batches: list[Batch],
    monkeypatch: pytest.MonkeyPatch,
):
    method = exact(make_method("gem", gem_groups=3, gem_gradients=gradients, **SMALL))
    plain: list[Any] = []
    used: list[Any] = []
    gradient, update = method.gradient, method.update
    monkeypatch.setattr(method, "gradient", lambda *a, **k: plain.append(gradient(*a, **k)) or plain[-1])
    monkeypatch.setattr(method, "update", lambda g, **k: used.append((g, method.constraints)) or update(g, **k))
    changed = 0
    for batch in batches:
        plain.clear()
        feed(method, [batch])
        own, (taken, constraints) = plain[0][1], used[-1]
        bound = []
        for name, before, after in zip(method.network.trained(), own, taken, strict=True):
            if name.startswith(constrained):
                bound.append(after)
                changed += not torch.equal(after, before)
            else:
                assert name == "encoder.weights"
                assert after is before
        for group in constraints:
            product = sum((g * c).sum() for g, c in zip(bound, group, strict=True))
            assert product >= -1e-6  # as exact as the solver's jitter allows
    assert changed


# EWC


def test_the_penalty_of_ewc_is_the_gradient_of_its_formula(make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method("ewc", ewc_lambda=7.0, **SMALL))
    feed(method, batches[:6])
    assert method.importance
    weights = [weight.detach().clone().requires_grad_() for weight in method.network.trained().values()]
    penalty = sum(
        (3.5 * f * (w - a).square()).sum() for f, w, a in zip(method.importance, weights, method.anchor, strict=True)
    )
    expected = torch.autograd.grad(penalty, weights)
    assert any(bool(gradient.any()) for gradient in expected)
    for found, gradient in zip(method.penalty(), expected, strict=True):
        torch.testing.assert_close(found, gradient)


def test_the_importance_of_ewc_is_a_running_mean_of_squared_gradients(make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method("ewc", ewc_decay=0.75, **SMALL))
    sample = Batch.concat(batches[:2])

    def measured() -> list[torch.Tensor]:
        found = []
        for example in sample.split(1):
            loss = method.problem.loss(method.network(method.problem.sequences(example)), example)
            found.append(torch.autograd.grad(loss, list(method.network.trained().values()), materialize_grads=True))
        return [torch.stack(own).square().mean(0) for own in zip(*found, strict=True)]

    first = measured()
    method.consolidate(sample)
    for found, expected in zip(method.importance, first, strict=True):
        torch.testing.assert_close(found, expected)
    _, gradients = method.gradient(batches[3])
    method.update(gradients)
    second = measured()
    method.consolidate(sample)
    for found, a, b in zip(method.importance, first, second, strict=True):
        torch.testing.assert_close(found, 0.75 * a + 0.25 * b)
    for anchor, weight in zip(method.anchor, method.network.trained().values(), strict=True):
        assert torch.equal(anchor, weight)


def test_ewc_without_a_penalty_is_seq(make_method: MethodFactory, batches: list[Batch]):
    ewc, seq = make_method("ewc", ewc_lambda=0.0, **SMALL), make_method("seq", **SMALL)
    for method in (ewc, seq):
        feed(method, batches)
    assert_same_weights(weights_of(ewc), weights_of(seq))


# MER


def test_mer_is_its_algorithm(make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch):
    settings = {**SMALL, "inner_lr": 0.05, "mer_beta": 0.4, "mer_gamma": 0.7}
    method = exact(make_method("mer", **settings))
    given: list[Batch] = []
    reptile = method.reptile
    monkeypatch.setattr(method, "reptile", lambda examples: given.append(examples) or reptile(examples))
    feed(method, batches[:3])
    network = copy.deepcopy(method.network)
    order = copy.deepcopy(method._mixing).permutation(16)
    feed(method, batches[3:4])
    # The two batches before the replay, and the eight examples that it read.
    assert given[0].labels[:8].tolist() == [*batches[2].labels, *batches[3].labels]
    assert len(given[0]) == 16

    start = {name: weight.detach().clone() for name, weight in network.trained().items()}
    for batch in given[0].take(order).split(4):
        began = {name: weight.detach().clone() for name, weight in network.trained().items()}
        for example in batch.split(1):
            network.zero_grad()
            method.problem.loss(network(method.problem.sequences(example)), example).backward()
            with torch.no_grad():
                for weight in network.trained().values():
                    if weight.grad is not None:
                        weight -= 0.05 * weight.grad
        with torch.no_grad():
            for name, weight in network.trained().items():
                weight.copy_(began[name] + 0.4 * (weight - began[name]))
    with torch.no_grad():
        for name, weight in network.trained().items():
            weight.copy_(start[name] + 0.7 * (weight - start[name]))
    found = {name: weight.detach() for name, weight in method.network.trained().items()}
    assert_same_weights(found, {name: w.detach() for name, w in network.trained().items()}, tolerance=1e-12)


def test_every_example_of_the_stream_is_learned_once_and_remembered_afterwards(
    make_method: MethodFactory, batches: list[Batch]
):
    method = make_method("mer", **SMALL)
    held = []
    for batch in batches[:8]:
        feed(method, [batch])
        held.append(len(method.memory))
    assert held == [4, 8, 8, 16, 20, 24, 24, 32]
    assert method.ledger.train.optimiser_steps == 4
    assert method.ledger.train.inner_steps == 2 * (8 + 8)


def test_mer_that_finds_the_memory_empty_takes_plain_steps(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("mer", memory=MemoryConfig(write_probability=0.0), **SMALL)
    feed(method, batches[:4])
    assert method.ledger.train.optimiser_steps == 4
    assert method.ledger.train.replays_skipped == 1
    assert not method.waiting


# DER++


def test_derpp_stores_the_logits_of_the_moment(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("der++", **SMALL)
    feed(method, batches[:2])
    before = copy.deepcopy(method.network)
    feed(method, batches[2:3])
    with torch.no_grad():
        expected = before(method.problem.sequences(batches[2]))
    view = method.memory.view()
    np.testing.assert_allclose(np.stack(view.notes[8:]), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("problem", ["classification", "ranking"])
def test_derpp_replays_with_logits_and_labels_of_one_draw(problem: str, make_method: MethodFactory):
    examples = labelled_texts(16, range(6))
    if problem == "ranking":
        kind: Any = Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens())
        stream = tokenised(with_candidates(examples, range(6)), 4, kind)
    else:
        kind = Classification(6)
        stream = tokenised(examples, 4, kind)
    method = exact(make_method("der++", problem=kind, der_alpha=0.3, der_beta=0.8, micro_batch=3, **SMALL))
    drawn: list[Any] = []
    read = method.memory.read_noted

    def spy(size: int) -> Any:
        drawn.append((read(size), copy.deepcopy(method.network)))
        return drawn[-1][0]

    method.memory.read_noted = spy
    observed: Any = {}
    for batch in stream:
        method.ledger.train.stream_examples += len(batch)
        observed = method.observe(batch)
    ((replayed, notes), network) = drawn[0]
    assert len(drawn) == 1
    assert len(replayed) == 8
    with torch.no_grad():
        logits = network(kind.sequences(replayed))
        distance = functional.mse_loss(logits.flatten(), torch.from_numpy(np.concatenate(notes)).double())
        expected = 0.3 * distance + 0.8 * kind.loss(logits, replayed)
    torch.testing.assert_close(observed["replay_loss"], expected)


def test_derpp_refuses_fresh_negatives():
    encoder, ledger = tiny_encoder(), Ledger()
    memory = Memory(MemoryConfig(), encoder.tokenizer.dtype, ledger, 1, NegativeRefresher(2, 1))
    problem = Ranking(["a", "b"], encoder.tokenizer)
    with pytest.raises(UserError, match="--refresh-negatives"):
        find_method("der++")(MethodConfig(method="der++"), Parts(encoder, problem, memory, ledger, 1))


# ER-ACE


def test_er_ace_does_not_touch_old_classes_that_are_not_in_the_batch(make_method: MethodFactory):
    method = make_method("er-ace", replay=False, **SMALL)
    feed(method, tokenised(labelled_texts(8, [0, 1]), 4))
    moved: list[list[torch.Tensor]] = []
    update = method.update
    method.update = lambda gradients, **k: moved.append(gradients) or update(gradients, **k)
    feed(method, tokenised(labelled_texts(4, [2, 3]), 4))
    gradient = moved[0][-2]
    assert not gradient[[0, 1]].any()  # seen before, absent now
    assert all(bool(gradient[label].any()) for label in (2, 3, 4, 5))  # present, or never seen
    assert method.seen == {0, 1, 2, 3}


def test_er_ace_replays_among_all_classes_seen_and_no_others(make_method: MethodFactory):
    method = exact(make_method("er-ace", **SMALL))
    batch = tokenised(labelled_texts(8, [0, 1, 4]), 8)[0]
    loss, gradients = method.gradient_among(batch, {0, 1, 4})
    with torch.no_grad():
        logits = method.network(method.problem.sequences(batch))[:, [0, 1, 4]]
        labels = torch.tensor([[0, 1, 4].index(label) for label in batch.labels.tolist()])
        torch.testing.assert_close(loss, functional.cross_entropy(logits, labels))
    assert not gradients[-2][[2, 3, 5]].any()


def test_er_ace_compares_sentences_with_each_others_labels_in_place_of_old_candidates():
    problem = Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens())
    choices = {3: (3, 0), 4: (1, 4, 5)}  # 0 and 1 were seen before, 5 never was
    examples = [replace(e, candidates=choices[e.label]) for e in labelled_texts(4, [3, 4])]
    (batch,) = tokenised(examples, 4, problem)
    narrowed = problem.narrowed(batch, [2, 3, 4, 5], beside={3, 4})
    assert narrowed.labels.tolist() == [3, 4, 3, 4]
    assert [sorted(own.tolist()) for own in problem.choices(narrowed)] == [[3, 4], [3, 4, 5]] * 2
    # With nothing to be compared with, a sentence would only teach to say yes.
    assert len(problem.narrowed(batch, [3], beside={3}).labels) == 2
    assert set(problem.narrowed(batch, [3], beside={3}).labels.tolist()) == {4}
    assert problem.narrowed(batch, []).tokens.values.size == 0


def test_no_step_of_er_ace_sees_only_right_pairs(make_method: MethodFactory, monkeypatch: pytest.MonkeyPatch):
    problem = Ranking([" ".join(words) for words in CLASS_WORDS], tiny_tokens())
    method = make_method("er-ace", problem=problem, **SMALL)
    learned: list[Batch] = []
    gradient = method.gradient_among
    monkeypatch.setattr(
        method, "gradient_among", lambda batch, *a, **k: learned.append(batch) or gradient(batch, *a, **k)
    )
    for labels in ([0, 1], [2, 3], [4], [5]):
        feed(method, tokenised(with_candidates(labelled_texts(16, labels), range(6)), 4, problem))
    assert len(learned) > 8
    assert all((problem.row_counts(batch) > 1).all() for batch in learned)
    assert method.seen == set(range(6))


# A-GEM with a cached reference


def test_the_cached_reference_guards_every_step_at_the_same_budget(make_method: MethodFactory, batches: list[Batch]):
    cached, plain = (exact(make_method(name, **SMALL)) for name in ("a-gem-cached", "a-gem"))
    checks = {method.name: 0 for method in (cached, plain)}
    for method in (cached, plain):
        for batch in batches:
            method.ledger.train.stream_examples += len(batch)
            checks[method.name] += "violation" in method.observe(batch)
    assert checks == {"a-gem-cached": 9, "a-gem": 3}
    assert cached.ledger.train.memory_reads == plain.ledger.train.memory_reads == 24
    assert cached.ledger.train.replays == 3


def test_no_step_of_cached_a_gem_points_against_its_reference(make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method("a-gem-cached", **SMALL))
    products: list[float] = []
    update = method.update

    def spy(gradients: Any, **named: Any) -> None:
        if method.reference:
            products.append(float(sum((g * r).sum() for g, r in zip(gradients, method.reference, strict=True))))
        update(gradients, **named)

    method.update = spy
    feed(method, batches)
    assert len(products) == 9
    assert min(products) >= -1e-9
