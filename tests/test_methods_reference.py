"""Each method's updates against plain, slow code that follows the paper line by line.

The references share nothing with the package's methods: modules are copied, the inner loop is an explicit loop of SGD
steps on the copy, and gradients are carried over to the slow weights by hand. Everything is in float64, where rounding
is far smaller than any mistake.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional

from everlearn.batches import Batch
from everlearn.ledger import Meter
from everlearn.methods.a_gem import project
from everlearn.methods.anml_er import ANMLER, ModulatedNetwork, Neuromodulator
from everlearn.methods.maml_er import MAMLER
from everlearn.methods.meta import sgd_step
from everlearn.problems import Classification, Ranking
from support import (
    MethodFactory,
    assert_same_state,
    assert_same_weights,
    feed,
    labelled_texts,
    small_ranking_benchmark,
    tiny_encoder,
    tokenised,
    weights_of,
)

# b = 4, m = 2 and R_I = 16 give R_F = ⌈(4 + 1) / 3⌉ = 2: the second episode is a replay, of ⌊0.5 · 16⌋ = 8 examples.
SMALL = {
    "batch_size": 4,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "inner_lr": 0.1,
    "meta_lr": 1e-3,
    "lr": 1e-3,
}
META = ["oml-er", "maml-er", "anml-er"]


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(80, range(6)), 4)


def exact(method: Any) -> Any:
    """The method with its weights in float64."""
    method.network.double()
    return method


def record_reads(method: Any, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """What the method draws from its memory from now on, at training and at test time."""
    drawn: list[Batch] = []

    def record(original: Callable[..., Batch]) -> Callable[..., Batch]:
        def read(*arguments: Any) -> Batch:
            drawn.append(original(*arguments))
            return drawn[-1]

        return read

    for name in ("read", "sample"):  # to learn from, and to be tested with
        monkeypatch.setattr(method.memory, name, record(getattr(method.memory, name)))
    return drawn


# The references


def pooled_features(encoder: Any, batch: Batch) -> torch.Tensor:
    """Mean-pooled states of one padded batch, straight from the Hugging Face model."""
    rows = [torch.from_numpy(batch.tokens[i].astype("int64")) for i in range(len(batch))]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    output = functional_call(
        encoder.skeleton.model, encoder.named_weights(), (), {"input_ids": tokens, "attention_mask": mask}
    )
    states = output.last_hidden_state
    return torch.stack([states[i, : len(row)].mean(0) for i, row in enumerate(rows)])


def plain_logits(network: Any, batch: Batch) -> torch.Tensor:
    features = pooled_features(network.encoder, batch)
    if hasattr(network, "modulator"):
        hidden = pooled_features(network.modulator.encoder, batch)
        first, _, second, _ = network.modulator.gate
        features = features * torch.sigmoid(second(torch.relu(first(hidden))))
    return functional.linear(features, network.head.weight, network.head.bias)


def plain_loss(network: Any, batch: Batch) -> torch.Tensor:
    return functional.cross_entropy(plain_logits(network, batch), torch.tensor(batch.labels.tolist()))


def is_fast(method: str, name: str) -> bool:
    """Which weights take the inner steps: paper, sections 4.1 and 4.2."""
    return name.startswith("head.") if method == "oml-er" else not name.startswith("modulator.")


def adapt_plainly(method: str, network: Any, support: Sequence[Batch], rate: float) -> Any:
    """A copy of the network after one SGD step on each support batch."""
    adapted = copy.deepcopy(network)
    for batch in support:
        adapted.zero_grad()
        plain_loss(adapted, batch).backward()
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if is_fast(method, name) and weight.requires_grad:
                    weight -= rate * weight.grad
    return adapted


class PlainMetaLearner:
    """Algorithm 1's updates on a copy of a method's network."""

    def __init__(self, method: Any) -> None:
        self.name = method.name
        self.network = copy.deepcopy(method.network)
        learned = [weight for weight in self.network.parameters() if weight.requires_grad]
        self.optimiser = torch.optim.AdamW(
            learned, lr=method.config.meta_lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0
        )

    def learn(self, support: Sequence[Batch], query: Sequence[Batch]) -> None:
        """One outer step; the gradients of several query batches are summed."""
        adapted = adapt_plainly(self.name, self.network, support, SMALL["inner_lr"])
        adapted.zero_grad()
        for batch in query:
            plain_loss(adapted, batch).backward()
        for slow, fast in zip(self.network.parameters(), adapted.parameters(), strict=True):
            slow.grad = fast.grad
        self.optimiser.step()


# Meta-learning: inner and outer steps


@pytest.mark.parametrize("name", META)
def test_a_stream_episode_and_a_replay_episode_equal_the_plain_ones(
    name: str, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = exact(make_method(name, **SMALL))
    start = weights_of(method)
    plain = PlainMetaLearner(method)
    drawn = record_reads(method, monkeypatch)

    feed(method, batches[:3])
    plain.learn(support=batches[:2], query=batches[2:3])
    assert_same_weights(weights_of(method), plain.network.state_dict(), 1e-9)
    assert not drawn

    feed(method, batches[3:5])
    (replayed,) = drawn
    assert len(replayed) == 8
    plain.learn(support=batches[3:5], query=[replayed])
    assert_same_weights(weights_of(method), plain.network.state_dict(), 1e-9)
    # The comparison means something only if much has changed.
    assert max((weights_of(method)[key] - weight).abs().max() for key, weight in start.items()) > 1e-4
    assert method.ledger.train.optimiser_steps == 2
    assert method.ledger.train.inner_steps == 4


@pytest.mark.parametrize("name", META)
def test_single_precision_agrees_with_the_plain_updates_too(
    name: str, make_method: MethodFactory, batches: list[Batch]
):
    # AdamW divides by gradients that may be as small as rounding errors, so plain SGD makes the comparison.
    method = make_method(name, **SMALL)
    fast = method.adapt(method.network, batches[:2], method.ledger.train)
    adapted = adapt_plainly(name, method.network, batches[:2], SMALL["inner_lr"])
    expected = dict(adapted.named_parameters())
    assert fast.keys() == {n for n, w in expected.items() if is_fast(name, n) and w.requires_grad}
    for key, weight in fast.items():
        torch.testing.assert_close(weight, expected[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", META)
def test_the_inner_loop_leaves_the_slow_weights_alone(name: str, make_method: MethodFactory, batches: list[Batch]):
    method = make_method(name, **SMALL)
    before = weights_of(method)
    method.adapt(method.network, batches[:2], method.ledger.train)
    assert_same_weights(weights_of(method), before)
    assert all(weight.grad is None for weight in method.network.parameters())


@pytest.mark.parametrize("name", META)
def test_the_short_last_episode_is_learned_like_any_other(name: str, make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method(name, **SMALL))
    plain = PlainMetaLearner(method)
    feed(method, batches[:2])  # a whole support set that no query follows
    assert method.ledger.train.optimiser_steps == 0
    method.finish()
    plain.learn(support=batches[:1], query=batches[1:2])
    assert_same_weights(weights_of(method), plain.network.state_dict(), 1e-9)
    assert method.finish() == {}  # and nothing is learned twice
    assert method.ledger.train.optimiser_steps == 1


@pytest.mark.parametrize("name", META)
def test_a_single_left_over_batch_is_a_query_without_support(
    name: str, make_method: MethodFactory, batches: list[Batch]
):
    method = exact(make_method(name, **SMALL))
    plain = PlainMetaLearner(method)
    feed(method, batches[:1])
    method.finish()
    plain.learn(support=[], query=batches[:1])
    assert_same_weights(weights_of(method), plain.network.state_dict(), 1e-9)


# ANML-ER


def test_the_gate_lies_between_0_and_1(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("anml-er", **SMALL)
    gate = method.network.modulator(method.problem.sequences(batches[0]))
    assert gate.shape == (4, method.network.encoder.width)
    assert bool(((gate > 0) & (gate < 1)).all())


def test_the_modulators_encoder_is_frozen_and_its_two_layers_learn(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("anml-er", **SMALL)
    before = weights_of(method)
    feed(method, batches[:10])
    after = weights_of(method)
    frozen = [name for name in before if name.startswith("modulator.encoder.")]
    assert frozen
    for name in frozen:
        assert torch.equal(before[name], after[name]), name
    layers = {name for name in before if name.startswith("modulator.gate.")}
    assert layers == {f"modulator.gate.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}
    for name in layers:
        assert not torch.equal(before[name], after[name]), name

    encoder = list(method.network.modulator.encoder.parameters())
    assert not any(weight.requires_grad for weight in encoder)
    assert all(weight.grad is None for weight in encoder)
    with_moments = {id(weight) for weight in method.optimiser.state}
    assert not with_moments & {id(weight) for weight in encoder}
    assert with_moments == {id(weight) for weight in method.network.trained().values()}
    assert not any(name.startswith("modulator.encoder.") for name in method.state()["weights"])


def test_the_modulators_encoder_is_a_copy_not_the_same_weights(make_method: MethodFactory):
    network = make_method("anml-er", **SMALL).network
    assert isinstance(network, ModulatedNetwork)
    shared = {id(w) for w in network.encoder.parameters()} & {id(w) for w in network.modulator.encoder.parameters()}
    assert not shared


def test_the_frozen_encoder_never_drops_anything_out(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("anml-er", encoder=tiny_encoder(dropout=0.5), **SMALL)
    sequences = method.problem.sequences(batches[0])
    assert method.network.training
    assert torch.equal(method.network.modulator(sequences), method.network.modulator(sequences))
    assert not torch.equal(method.network.encoder(sequences), method.network.encoder(sequences))


@pytest.mark.parametrize("ranks", [False, True])
def test_the_frozen_encoder_reads_a_support_set_once(
    ranks: bool, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    """And the inner loop leads where it leads batch by batch, at the same cost in tokens."""
    method, support = make_method("anml-er", **SMALL), batches[:3]
    if ranks:
        benchmark, tokenizer = small_ranking_benchmark(), method.network.encoder.tokenizer
        problem = Ranking(benchmark.labels, tokenizer)
        method = make_method("anml-er", problem=problem, **SMALL)
        support = list(problem.tokenise(benchmark.tasks[0].train[:12], tokenizer).split(5))
    exact(method)
    reads, read = [], Neuromodulator.read
    monkeypatch.setattr(Neuromodulator, "read", lambda self, texts: (reads.append(len(texts)), read(self, texts))[1])
    meter = method.network.encoder.meter
    costs, found = [], []
    for adapt in (MAMLER.adapt, ANMLER.adapt):
        before = copy.deepcopy(meter)
        found.append(adapt(method, method.network, support, meter))
        fields = ("tokens_forward", "tokens_backward", "inner_steps")
        costs.append([getattr(meter, field) - getattr(before, field) for field in fields])
    rows = [method.problem.rows(batch) for batch in support]
    assert reads == [*rows, sum(rows)]
    assert costs[0] == costs[1]
    assert_same_weights(found[1], found[0], 1e-9)
    assert not any(name.startswith("modulator.") for name in found[1])


def test_anml_without_neuromodulation_is_maml(make_method: MethodFactory, batches: list[Batch]):
    maml = make_method("maml-er", **SMALL)
    anml = make_method("anml-er", neuromodulation=False, **SMALL)
    assert isinstance(anml, ANMLER)
    assert_same_weights(weights_of(anml), weights_of(maml))
    for method in (maml, anml):
        feed(method, batches[:9])
        method.finish()
    assert_same_weights(weights_of(anml), weights_of(maml))


# SEQ, MTL, REPLAY


@pytest.mark.parametrize("name", ["seq", "mtl"])
def test_seq_and_mtl_take_one_plain_step_a_batch(name: str, make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method(name, **SMALL))
    plain = copy.deepcopy(method.network)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0)
    for batch in batches[:3]:
        feed(method, [batch])
        optimiser.zero_grad()
        plain_loss(plain, batch).backward()
        optimiser.step()
    assert_same_weights(weights_of(method), plain.state_dict(), 1e-9)
    assert len(method.memory) == 0


def test_replay_takes_one_more_step_on_a_sample_after_every_interval(
    make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = exact(make_method("replay", **SMALL))
    drawn = record_reads(method, monkeypatch)
    plain = copy.deepcopy(method.network)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0)
    for number, batch in enumerate(batches[:12], start=1):
        feed(method, [batch])
        for learned in [batch, drawn[-1]] if number % 4 == 0 else [batch]:
            optimiser.zero_grad()
            plain_loss(plain, learned).backward()
            optimiser.step()
    assert_same_weights(weights_of(method), plain.state_dict(), 1e-8)
    assert [len(sample) for sample in drawn] == [8, 8, 8]
    assert method.ledger.train.optimiser_steps == 12 + 3
    assert method.ledger.train.memory_reads == 24
    assert method.ledger.train.memory_writes == 48
    assert method.ledger.replay_rate == 0.5


def test_replay_remembers_a_batch_before_it_draws(make_method: MethodFactory, batches: list[Batch]):
    # R_I of one batch makes every step a replay, and even the first finds something.
    method = make_method("replay", **{**SMALL, "replay_interval": 4, "replay_rate": 1.0})
    feed(method, batches[:3])
    meter = method.ledger.train
    assert (meter.replays, meter.replays_skipped, meter.memory_reads) == (3, 0, 12)
    assert meter.optimiser_steps == 6


# A-GEM


def test_the_projection_takes_away_what_points_against_the_reference():
    """Worked by hand: g = (3, -1, -2), r = (0, 1, 2), g·r = -5, r·r = 5, so that g + r = (3, 0, 0) is left."""
    gradient = [torch.tensor([3.0, -1.0]), torch.tensor([[-2.0]])]
    reference = [torch.tensor([0.0, 1.0]), torch.tensor([[2.0]])]
    projected, violated = project(gradient, reference)
    assert violated
    assert projected[0].tolist() == [3.0, 0.0]
    assert projected[1].tolist() == [[0.0]]


@pytest.mark.parametrize("seed", range(4))
def test_the_projection_is_to_the_last_bit_what_the_paper_s_case_distinction_makes(seed: int):
    generator = torch.Generator().manual_seed(seed)
    gradient, reference = ([torch.randn(shape, generator=generator) for shape in ((7, 3), (5,))] for _ in range(2))
    product, square = (
        torch.stack([(a * b).sum() for a, b in zip(reference, others, strict=True)]).sum()
        for others in (gradient, reference)
    )
    projected, violated = project(gradient, reference)
    assert bool(violated) == bool(product < 0)
    expected = [g - (product / square) * r if product < 0 else g for g, r in zip(gradient, reference, strict=True)]
    assert all(torch.equal(found, wanted) for found, wanted in zip(projected, expected, strict=True))


def test_a_reference_of_nothing_but_zeros_leaves_the_gradient():
    projected, violated = project([torch.tensor([1.0, -2.0])], [torch.zeros(2)])
    assert not violated
    assert projected[0].tolist() == [1.0, -2.0]


@pytest.mark.parametrize("gradient", [[1.0, 2.0], [1.0, 0.0]])
def test_a_gradient_that_does_not_hurt_the_memory_stays_as_it_is(gradient: list[float]):
    projected, violated = project([torch.tensor(gradient)], [torch.tensor([0.0, 1.0])])
    assert not violated
    assert projected[0].tolist() == gradient


def test_the_parameters_are_projected_as_one_vector_not_one_by_one():
    # The first parameter alone would violate the constraint (-1), but together they do not (-1 + 4).
    gradient = [torch.tensor([-1.0]), torch.tensor([2.0])]
    projected, violated = project(gradient, [torch.tensor([1.0]), torch.tensor([2.0])])
    assert not violated
    assert [part.tolist() for part in projected] == [[-1.0], [2.0]]


def test_the_step_of_a_gem_does_not_point_against_the_memory(
    make_method: MethodFactory, monkeypatch: pytest.MonkeyPatch
):
    texts = labelled_texts(16, [0, 1])
    swapped = [type(text)(text.text, 1 - text.label) for text in texts]
    # The fourth batch says the opposite of what memory holds: its gradient must be bent.
    stream = [*tokenised(texts, 4)[:3], tokenised(swapped, 4)[0]]
    method = exact(make_method("a-gem", problem=Classification(2), **SMALL))
    drawn = record_reads(method, monkeypatch)
    steps: list[Any] = []
    update = method.update

    def spy(gradients: Any, replayed: bool = False) -> None:
        steps.append(([g.clone() for g in gradients], replayed))
        if replayed:
            steps.append(method.gradient(drawn[-1])[1])
        update(gradients, replayed)

    monkeypatch.setattr(method, "update", spy)
    observations = [method.observe(batch) for batch in stream]
    assert [observed.get("violation") for observed in observations] == [None, None, None, 1.0]
    (projected, replayed), reference = steps[-2:]
    assert replayed
    product = sum((g * r).sum() for g, r in zip(projected, reference, strict=True))
    assert float(product) >= -1e-6
    norms = [sum(float((g * g).sum()) for g in gradients) ** 0.5 for gradients in (projected, reference)]
    assert min(norms) > 1e-2  # not because there is nothing left of it


def test_a_gem_takes_no_extra_step_and_samples_before_it_writes(make_method: MethodFactory, batches: list[Batch]):
    # R_I of one batch makes every step a replay; the first finds the memory empty.
    method = make_method("a-gem", **{**SMALL, "replay_interval": 4, "replay_rate": 1.0})
    feed(method, batches[:3])
    meter = method.ledger.train
    assert meter.optimiser_steps == 3
    assert (meter.replays, meter.replays_skipped) == (2, 1)
    assert len(method.memory) == 12


# Gradients: parts, sums, clipping, rates


def gradients_of(method: Any, batch: Batch, **options: Any) -> list[torch.Tensor]:
    return list(method.gradient(batch, **options)[1])


def assert_close_gradients(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("micro_batch", [1, 3, 5, 10])
def test_gradients_accumulated_in_parts_equal_those_of_the_whole_batch(
    micro_batch: int, make_method: MethodFactory, batches: list[Batch]
):
    batch = Batch.concat(batches[:3]).take(range(11))  # no multiple of any of the sizes
    whole_loss, whole = exact(make_method("seq", **SMALL, micro_batch=100)).gradient(batch)
    loss, parts = exact(make_method("seq", **SMALL, micro_batch=micro_batch)).gradient(batch)
    torch.testing.assert_close(loss, whole_loss, rtol=0, atol=1e-12)
    assert_close_gradients(list(parts), list(whole))


def test_a_summed_replay_gradient_is_the_sum_over_batches_of_b(make_method: MethodFactory, batches: list[Batch]):
    method = exact(make_method("replay", **SMALL, replay_gradient="sum"))
    sample = Batch.concat(batches[:3]).take(range(10))  # batches of 4, 4 and 2
    expected = [sum(parts) for parts in zip(*(gradients_of(method, p) for p in sample.split(4)), strict=True)]
    assert_close_gradients(gradients_of(method, sample, replayed=True), expected)
    # What comes from the stream is a mean as ever.
    mean = gradients_of(exact(make_method("replay", **SMALL)), sample)
    assert_close_gradients(gradients_of(method, sample), mean)


@pytest.mark.parametrize("name", META)
def test_a_summed_replay_reaches_the_outer_step_of_the_meta_methods(
    name: str, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = exact(make_method(name, **SMALL, replay_gradient="sum"))
    plain = PlainMetaLearner(method)
    drawn = record_reads(method, monkeypatch)
    feed(method, batches[:5])
    plain.learn(support=batches[:2], query=batches[2:3])
    plain.learn(support=batches[3:5], query=list(drawn[0].split(4)))
    assert_same_weights(weights_of(method), plain.network.state_dict(), 1e-9)


def norms_at_steps(method: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The gradient's norm at each step of the optimiser, in order."""
    norms: list[float] = []
    step = method.optimiser.step

    def spy() -> None:
        norms.append(float(sum((w.grad**2).sum() for w in method.network.trained().values()) ** 0.5))
        step()

    monkeypatch.setattr(method.optimiser, "step", spy)
    return norms


@pytest.mark.parametrize("name", ["seq", "replay", "a-gem", *META])
def test_clipping_limits_the_norm_of_every_step(
    name: str, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    free = make_method(name, **SMALL)
    clipped = make_method(name, **SMALL, clip_norm=0.01)
    norms = {method: norms_at_steps(method, monkeypatch) for method in (free, clipped)}
    for method in norms:
        feed(method, batches[:5])
    assert min(norms[free]) > 0.02
    assert norms[clipped] == pytest.approx([0.01] * len(norms[clipped]), rel=1e-3)


def test_clipping_replays_only_leaves_the_steps_of_the_stream_alone(
    make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = make_method("replay", **SMALL, clip_norm=0.01, clip_replay_only=True)
    norms = norms_at_steps(method, monkeypatch)
    feed(method, batches[:8])
    replays = [4, 9]  # the fifth and the tenth step: four of the stream before each
    assert [norms[i] for i in replays] == pytest.approx([0.01, 0.01], rel=1e-3)
    assert min(norm for i, norm in enumerate(norms) if i not in replays) > 0.02


@pytest.mark.parametrize("name", ["seq", *META])
def test_the_head_may_have_a_rate_of_its_own(name: str, make_method: MethodFactory, batches: list[Batch]):
    settings = {**SMALL, "lr": 1e-4, "meta_lr": 1e-4}

    def largest_change(**more: Any) -> tuple[float, float]:
        method = exact(make_method(name, **settings, **more))
        before = weights_of(method)
        feed(method, batches[:3] if method.meta else batches[:1])
        assert method.ledger.train.optimiser_steps == 1
        changes = {key: float((weights_of(method)[key] - old).abs().max()) for key, old in before.items()}
        head = max(change for key, change in changes.items() if key.startswith("head."))
        return head, max(change for key, change in changes.items() if not key.startswith("head."))

    # AdamW's first step moves every weight that has a gradient by its learning rate.
    assert largest_change() == pytest.approx((1e-4, 1e-4), rel=1e-2)
    assert largest_change(head_lr=1e-2) == pytest.approx((1e-2, 1e-4), rel=1e-2)


# Meta-testing: Algorithm 2


@pytest.mark.parametrize("name", META)
def test_the_predictor_is_the_network_adapted_on_m_random_memory_batches(
    name: str, make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = exact(make_method(name, **SMALL))
    feed(method, batches[:5])
    drawn = record_reads(method, monkeypatch)
    predictor = method.predictor()
    (support,) = drawn
    assert len(support) == 2 * 4
    assert method.ledger.test.inner_steps == 2
    assert method.ledger.test.memory_reads == 8
    adapted = adapt_plainly(name, method.network, list(support.split(4)), SMALL["inner_lr"])
    torch.testing.assert_close(predictor.logits(batches[9]), plain_logits(adapted, batches[9]), rtol=0, atol=1e-9)
    unadapted = plain_logits(method.network, batches[9]).detach()
    assert float((predictor.logits(batches[9]) - unadapted).abs().max()) > 1e-4


@pytest.mark.parametrize("name", META)
def test_a_memory_smaller_than_m_batches_is_used_as_far_as_it_goes(
    name: str, make_method: MethodFactory, batches: list[Batch]
):
    method = make_method(name, **SMALL)
    method.memory.write(batches[0])
    method.predictor()
    assert method.ledger.test.memory_reads == 4
    assert method.ledger.test.inner_steps == 1


@pytest.mark.parametrize("name", META)
def test_without_meta_test_or_without_memory_the_slow_weights_predict(
    name: str, make_method: MethodFactory, batches: list[Batch]
):
    untrained = exact(make_method(name, **SMALL))
    ablated = exact(make_method(name, **SMALL, meta_test=False))
    feed(ablated, batches[:3])
    for method in (untrained, ablated):
        logits = method.predictor().logits(batches[9])
        torch.testing.assert_close(logits, plain_logits(method.network, batches[9]), rtol=0, atol=1e-9)
        assert method.ledger.test.inner_steps == method.ledger.test.memory_reads == 0


@pytest.mark.parametrize("name", ["seq", "replay", "a-gem", "mtl", *META])
def test_testing_does_not_change_what_is_learned(name: str, make_method: MethodFactory, batches: list[Batch]):
    undisturbed, tested = make_method(name, **SMALL), make_method(name, **SMALL)
    for batch in batches[:13]:
        before = weights_of(tested)
        tested.predictor().predict(batches[15])
        assert_same_weights(weights_of(tested), before)
        feed(undisturbed, [batch])
        feed(tested, [batch])
    for method in (undisturbed, tested):
        method.finish()
    assert_same_weights(weights_of(tested), weights_of(undisturbed))
    assert_same_state(tested.memory.state(), undisturbed.memory.state())
    learning = [method.ledger.train for method in (undisturbed, tested)]
    assert learning[0] == learning[1]


@pytest.mark.parametrize("name", ["seq", "replay", "a-gem", "mtl", *META])
def test_a_predictor_keeps_predicting_what_it_knew(name: str, make_method: MethodFactory, batches: list[Batch]):
    method = make_method(name, **{**SMALL, "lr": 0.01, "meta_lr": 0.01})
    feed(method, batches[:3])
    predictor = method.predictor()
    before = predictor.logits(batches[15]).clone()
    feed(method, batches[3:10])
    method.predictor()
    assert torch.equal(predictor.logits(batches[15]), before)
    assert not torch.equal(method.predictor().logits(batches[15]), before)  # while the method has moved on


def test_two_predictors_adapt_on_different_samples(
    make_method: MethodFactory, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
):
    method = make_method("oml-er", **SMALL)
    feed(method, batches[:18])
    drawn = record_reads(method, monkeypatch)
    method.predictor()
    method.predictor()
    first, second = (sorted(bytes(sample.tokens[i]) for i in range(8)) for sample in drawn)
    assert first != second


# Appendix A.4


def smooth_losses(
    count: int,
) -> tuple[dict[str, torch.Tensor], list[Callable[[dict[str, torch.Tensor]], torch.Tensor]]]:
    """A small network with tanh, in float64, and the losses of `count` mini-batches that disagree with each other."""
    draw = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    weights = {"first": normal(3, 4) * 0.7, "bias": normal(4) * 0.3, "second": normal(4, 3) * 0.7}
    weights = {name: weight.requires_grad_() for name, weight in weights.items()}

    def loss_on(inputs: torch.Tensor, labels: torch.Tensor) -> Callable[[dict[str, torch.Tensor]], torch.Tensor]:
        return lambda w: functional.cross_entropy(torch.tanh(inputs @ w["first"] + w["bias"]) @ w["second"], labels)

    return weights, [loss_on(normal(5, 3), torch.randint(3, (5,), generator=draw)) for _ in range(count)]


def flat_gradient(loss: torch.Tensor, weights: dict[str, torch.Tensor], keep: bool = False) -> torch.Tensor:
    found = torch.autograd.grad(loss, list(weights.values()), create_graph=keep)
    return torch.cat([gradient.flatten() for gradient in found])


def test_the_expected_meta_gradient_is_that_of_appendix_a4():
    """E[g] = E[∂L^q − (α/2) ∂/∂θ Σ_j g_j · g_q] + O(α²), where every g is taken at the initial θ (Nichol et al., 2018).

    The expectation is exact: the mean over all ways of drawing m support batches and a query batch from five. The bars
    in the appendix stand for gradients and Hessians at the initial parameters; read at θ_{j−1} and θ_m, as its last
    line is printed, the right-hand side would contain the first-order term twice.
    """
    m = 2
    theta, losses = smooth_losses(5)
    drawings = list(itertools.permutations(losses, m + 1))

    def meta_gradient(rate: float) -> torch.Tensor:
        total = torch.zeros(sum(weight.numel() for weight in theta.values()), dtype=torch.float64)
        for *support, query in drawings:
            fast = theta
            for loss in support:
                fast = sgd_step(loss(fast), fast, rate, Meter())
            total += flat_gradient(query(fast), fast)
        return total / len(drawings)

    plain = torch.stack([flat_gradient(loss(theta), theta) for loss in losses]).mean(0)
    agreement = torch.zeros((), dtype=torch.float64)
    for *support, query in drawings:
        towards_query = flat_gradient(query(theta), theta, keep=True)
        agreement = agreement + sum(flat_gradient(s(theta), theta, keep=True) @ towards_query for s in support)
    alignment = flat_gradient(agreement / len(drawings), theta)

    def error(rate: float, share: float) -> float:
        return float((meta_gradient(rate) - (plain - share * rate * alignment)).norm())

    rate = 0.02
    assert 3.5 < error(rate, 0.5) / error(rate / 2, 0.5) < 4.5  # second order: what is left out shrinks with α²
    assert 1.8 < error(rate, 0.0) / error(rate / 2, 0.0) < 2.2  # without the term it shrinks with α only
    assert 1.8 < error(rate, 1.0) / error(rate / 2, 1.0) < 2.2  # and the factor is a half, not one
    assert error(rate, 0.5) < 0.1 * error(rate, 0.0)


def test_an_inner_step_is_plain_sgd_cut_off_from_the_graph():
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    unused = torch.tensor([5.0], requires_grad=True)
    stepped = sgd_step((weight**2).sum(), {"weight": weight, "unused": unused}, 0.1, Meter())
    assert stepped["weight"].tolist() == pytest.approx([0.8, 1.6])
    assert stepped["unused"].tolist() == [5.0]
    assert all(new.is_leaf and new.requires_grad for new in stepped.values())
    assert weight.tolist() == [1.0, 2.0]
