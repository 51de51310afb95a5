"""The policies that keep classes even, go by surprise or by forgetting; notes, views and removals."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from everlearn import checkpoint
from everlearn.batches import Batch, Ragged
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.errors import UserError
from everlearn.ledger import Ledger, Meter
from everlearn.memory import POLICIES, Judgement, Memory, MemoryConfig
from everlearn.memory.cbrs import ClassBalanced
from everlearn.memory.forgetting import Forgetting
from everlearn.memory.surprise import Surprise
from everlearn.methods import METHODS
from everlearn.methods.gradient import GradientMethod
from support import assert_same_state, encoder_settings, feed, labelled_texts, numbered, numbers, tokenised


def labelled(*labels: int, first: int = 0) -> Batch:
    """Examples with these labels, each with a token of its own."""
    return Batch(
        Ragged.from_rows([[first + n] for n in range(len(labels))], np.uint16), Ragged.from_rows([[n] for n in labels])
    )


def make_memory(policy: str, capacity: int | None = None, seed: int = 0, ledger: Ledger | None = None) -> Memory:
    memory = Memory(MemoryConfig(memory=policy, memory_capacity=capacity), np.uint16, ledger or Ledger(), seed)
    memory.judge = lambda batch: Judgement(batch.labels.astype(float) + 1, batch.labels % 2 == 0)
    return memory


def classes(memory: Memory) -> Counter[int]:
    return Counter(memory.all().labels.tolist())


# CBRS


def test_cbrs_has_the_class_counts_of_a_stream_worked_by_hand():
    """Capacity 12. A hundred of class 0 fill it. Three of class 1 each take a place from class 0: 9, 3. Class 2 takes
    places from class 0 until it has more itself: 4, 3, 5. From then on it replaces its own, whatever comes."""
    memory = make_memory("cbrs", 12)
    memory.write(labelled(*[0] * 100))
    assert classes(memory) == {0: 12}
    memory.write(labelled(1, 1, 1))
    assert classes(memory) == {0: 9, 1: 3}
    memory.write(labelled(*[2] * 4))
    assert classes(memory) == {0: 5, 1: 3, 2: 4}
    memory.write(labelled(2))
    assert classes(memory) == {0: 4, 1: 3, 2: 5}
    memory.write(labelled(*[2] * 50, *[0] * 50))
    assert classes(memory) == {0: 4, 1: 3, 2: 5}


def test_cbrs_keeps_every_rare_class_whole():
    labels = np.random.default_rng(1).permutation([0] * 900 + [1] * 80 + [2] * 4 + [3] * 2)
    memory = make_memory("cbrs", 30)
    memory.write(labelled(*labels.tolist()))
    found = classes(memory)
    assert found[2] == 4
    assert found[3] == 2
    assert abs(found[0] - found[1]) <= 1
    assert found.total() == 30


def test_cbrs_keeps_a_uniform_sample_of_a_class():
    counts = np.zeros(40)
    for seed in range(600):
        memory = make_memory("cbrs", 8, seed=seed)
        memory.write(labelled(*[0] * 40))
        counts[memory.all().tokens.values] += 1
    assert counts.sum() == 8 * 600
    assert chisquare(counts).pvalue > 0.001


def test_cbrs_reads_classes_evenly():
    memory = make_memory("cbrs")
    memory.write(labelled(*[0] * 60, *[1] * 6, *[2] * 30))
    drawn = Counter(int(memory.read(1).labels[0]) for _ in range(3000))
    assert chisquare([drawn[label] for label in range(3)]).pvalue > 0.001


def test_cbrs_weighs_samples_at_test_time_too():
    memory = make_memory("cbrs")
    memory.write(labelled(*[0] * 600, *[1] * 6))
    rng, meter = np.random.default_rng(0), Meter()
    drawn = Counter(int(memory.sample(1, rng, meter).labels[0]) for _ in range(400))
    assert 150 < drawn[1] < 250  # uniform reads would give about 4
    assert meter.memory_reads == 400


def test_cbrs_stores_a_class_again_that_was_removed_altogether():
    memory = make_memory("cbrs", 6)
    memory.write(labelled(*[0] * 20))
    remove(memory, lambda label: label == 0)
    memory.write(labelled(*[1] * 20))
    assert classes(memory) == {1: 6}
    memory.write(labelled(0, 0))
    assert classes(memory) == {0: 2, 1: 4}
    # Of its first twenty nothing is known any more.
    assert memory.state()["policy"]["seen"] == {"0": 2, "1": 20}


def test_cbrs_replaces_within_a_class_with_probability_m_over_n():
    """The n-th example of a class that was once the largest takes a place with probability m / n."""
    policy, rng = ClassBalanced(4), np.random.default_rng(3)
    for entries in range(4):
        policy.place(entries, 0, rng)
    taken = [policy.place(4, 0, rng) is not None for _ in range(4000)]
    expected = sum(4 / n for n in range(5, 4005))
    assert abs(sum(taken) - expected) < 4 * expected**0.5


# Surprise


def test_surprise_keeps_an_example_in_proportion_to_its_loss():
    """With room for one, an example stays with probability w / Σw."""
    losses, kept = np.array([1.0, 4.0, 0.5, 2.5]), np.zeros(4)
    rng = np.random.default_rng(0)
    for _ in range(4000):
        policy, held = Surprise(1), -1
        for number, loss in enumerate(losses):
            if policy.place(min(number, 1), 0, rng, float(loss)) is not None:
                held = number
        kept[held] += 1
    assert chisquare(kept, 4000 * losses / losses.sum()).pvalue > 0.001


def test_surprise_asks_the_method_and_only_for_what_is_offered():
    asked: list[int] = []
    memory = Memory(
        MemoryConfig(memory="surprise", memory_capacity=20, write_probability=0.5), np.uint16, Ledger(), seed=0
    )

    def judge(batch: Batch) -> Judgement:
        asked.append(len(batch))
        return Judgement(np.ones(len(batch)), np.ones(len(batch), dtype=bool))

    memory.judge = judge
    memory.write(numbered(*range(100)))
    assert len(asked) == 1
    assert 30 < asked[0] < 70


def test_a_policy_that_needs_a_judge_says_so():
    memory = Memory(MemoryConfig(memory="surprise", memory_capacity=4), np.uint16, Ledger(), seed=0)
    with pytest.raises(UserError, match=r"surprise.*--memory reservoir"):
        memory.write(numbered(1))


@pytest.mark.parametrize("name", ["er-ace", "a-gem", "replay", "der++", "ewc"])
def test_surprise_is_that_of_weights_which_have_not_learned_the_batch(name: str, make_method: Any):
    memory = MemoryConfig(memory="surprise", memory_capacity=100)
    method = make_method(name, memory=memory, batch_size=4, replay=False, lr=1e-2)
    judge, judged = method.judge, []
    method.memory.judge = lambda batch: judged.append(judge(batch)) or judged[-1]
    (batch,) = tokenised(labelled_texts(4, [0, 1]), 4)
    expected = judge(batch).losses
    method.observe(batch)
    np.testing.assert_array_equal(judged[0].losses, expected)
    assert not np.allclose(judge(batch).losses, expected)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, GradientMethod)])
def test_a_judge_uses_no_dropout_and_takes_no_more_at_once_than_fits(name: str, make_method: Any):
    encoder = load_encoder(EncoderConfig(**encoder_settings(name), dropout=0.5), torch.device("cpu"))
    method = make_method(name, encoder=encoder, micro_batch=3)
    (batch,) = tokenised(labelled_texts(8, [0, 1]), 8)
    sizes: list[int] = []
    part = method.judge_part
    method.judge_part = lambda examples: sizes.append(len(examples)) or part(examples)
    once, again = (method.judge(batch) for _ in range(2))
    np.testing.assert_array_equal(once.losses, again.losses)
    np.testing.assert_array_equal(once.right, again.right)
    assert sizes == [3, 3, 2, 3, 3, 2]
    assert method.network.training
    # And each example is judged as it is alone.
    alone = [method.judge(batch.take([row])) for row in range(8)]
    np.testing.assert_allclose([float(one.losses[0]) for one in alone], once.losses, rtol=1e-4, atol=1e-5)
    assert [bool(one.right[0]) for one in alone] == once.right.tolist()


# Forgetting


def test_forgetting_counts_turns_from_right_to_wrong_and_spares_those():
    policy, rng = Forgetting(3), np.random.default_rng(0)
    for entries in range(3):
        policy.place(entries, 0, rng)
    slots = np.arange(3)
    for right in ([True, False, True], [False, True, True], [True, False, True], [False, False, True]):
        policy.judged(slots, np.array(right))
    # Slot 0: right, wrong, right, wrong: twice. Slot 1: wrong, right, wrong, wrong: once. Slot 2: never.
    assert policy.state()["flips"].tolist() == [2, 1, 0]
    places = [policy.place(3, 0, rng) for _ in range(30)]
    assert set(places) == {None, 2}
    assert policy.state()["flips"].tolist() == [2, 1, 0]


def test_forgetting_asks_the_method_at_replays_only():
    asked: list[int] = []
    memory = make_memory("forgetting", 10)

    def judge(batch: Batch) -> Judgement:
        asked.append(len(batch))
        return Judgement(np.zeros(len(batch)), np.ones(len(batch), dtype=bool))

    memory.judge = judge
    memory.write(numbered(*range(30)))
    memory.sample(5, np.random.default_rng(0), Meter())
    assert asked == []
    memory.read(4)
    assert asked == [4]


# Removing, notes, views


def remove(memory: Memory, matches: Callable[[int], bool]) -> int:
    """Let go of the entries whose label matches; how many they were."""
    gone = [slot for slot, label in enumerate(memory.all().labels.tolist()) if matches(label)] if len(memory) else []
    memory.remove(gone)
    return len(gone)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_removed_is_gone_and_the_memory_goes_on(policy: str):
    ledger = Ledger()
    memory = make_memory(policy, 20, ledger=ledger)
    memory.write(numbered(*range(35)))
    before, held = ledger.memory_bytes, numbers(memory.all())
    removed = remove(memory, lambda label: label % 3 == 0)
    assert removed == sum(n % 3 == 0 for n in held) > 0
    assert sorted(numbers(memory.all())) == sorted(n for n in held if n % 3)
    assert ledger.memory_entries == len(memory) == 20 - removed
    assert ledger.memory_bytes < before
    memory.read(5)
    memory.write(numbered(*range(100, 140)))
    memory.read(5)
    assert len(memory) == 20
    assert any(n >= 100 for n in numbers(memory.all()))


def test_a_ring_still_drops_the_oldest_first_after_a_removal():
    memory = make_memory("ring", 5)
    memory.write(numbered(*range(8)))  # 3 to 7 are left, 5 in slot 0
    remove(memory, lambda label: label == 6)
    memory.write(numbered(10, 11))
    assert sorted(numbers(memory.all())) == [4, 5, 7, 10, 11]
    memory.write(numbered(12, 13))
    assert sorted(numbers(memory.all())) == [7, 10, 11, 12, 13]


def test_removing_from_an_empty_memory_removes_nothing():
    assert remove(make_memory("reservoir"), lambda label: label >= 0) == 0


def test_notes_come_back_with_their_examples_and_count_as_bytes():
    ledger, plain = Ledger(), Ledger()
    memory, other = make_memory("reservoir", ledger=ledger), make_memory("reservoir", ledger=plain)
    notes = [np.arange(n, dtype=np.float32) / 7 for n in range(4)]
    memory.write(numbered(0, 1, 2, 3), notes)
    other.write(numbered(0, 1, 2, 3))
    batch, found = memory.read_noted(4)
    for label, tokens, note in zip(batch.labels.tolist(), batch.tokens.values.tolist(), found, strict=True):
        assert label == tokens
        assert note.tolist() == notes[label].tolist()
    assert ledger.memory_bytes - plain.memory_bytes == (0 + 1 + 2 + 3) * 4
    assert ledger.train.memory_reads == 4


def test_a_view_is_not_changed_by_later_writes():
    memory = make_memory("ring", 3)
    memory.write(numbered(1, 2, 3), [np.array([n]) for n in (1, 2, 3)])
    view, meter = memory.view(), Meter()
    memory.write(numbered(4, 5))
    assert view.labels.tolist() == [1, 2, 3]
    assert [note.tolist() for note in view.notes] == [[1], [2], [3]]
    assert numbers(view.take([2, 0], meter)) == [3, 1]
    assert meter.memory_reads == 2


# Stopping and going on


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_goes_on_to_the_last_bit(policy: str, tmp_path: Any):
    memory = make_memory(policy, 10, seed=3)
    for start in range(0, 40, 8):
        memory.write(numbered(*range(start, start + 8)))
        memory.read(6)
    checkpoint.save(tmp_path, 1, memory.state())
    loaded = checkpoint.load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    restored = make_memory(policy, 10, seed=99)
    restored.restore(loaded[1])
    assert_same_state(restored.state(), memory.state())
    for one in (memory, restored):
        one.write(numbered(*range(40, 70)))
    assert numbers(restored.read(5)) == numbers(memory.read(5))
    assert_same_state(restored.state(), memory.state())


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "reservoir"])
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.replays])
def test_every_replay_method_learns_with_every_policy(name: str, policy: str, make_method: Any):
    method = make_method(
        name,
        memory=MemoryConfig(memory=policy, memory_capacity=7),
        **{"batch_size": 4, "support_batches": 1, "replay_interval": 8, "replay_rate": 0.5, "diverse_share": 1.0},
    )
    feed(method, tokenised(labelled_texts(40, range(6)), 4))
    method.finish()
    assert len(method.memory) == 7
    assert method.ledger.train.memory_reads > 0
    assert len(method.predictor().predict(tokenised(labelled_texts(5, range(5)), 5)[0])) == 5
