import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from everlearn import checkpoint
from everlearn.batches import Batch, Ragged
from everlearn.errors import UserError
from everlearn.ledger import Ledger, Meter
from everlearn.memory import Memory, MemoryConfig
from everlearn.memory.policies import Reservoir
from support import assert_same_state, numbered, numbers


def make_memory(ledger: Ledger | None = None, seed: int = 0, dtype: Any = np.uint16, **settings: Any) -> Memory:
    return Memory(MemoryConfig(**settings), dtype, ledger or Ledger(), seed)


def contents(memory: Memory) -> list[int]:
    """Which `numbered` examples are in there, without touching the memory's own generators or counts."""
    return sorted(numbers(memory.sample(len(memory), np.random.default_rng(0), Meter())))


def write_range(memory: Memory, start: int, stop: int, size: int = 10) -> None:
    for first in range(start, stop, size):
        memory.write(numbered(*range(first, min(first + size, stop))))


# Reads and writes


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_what_was_written_is_read_with_all_its_targets(dtype: Any):
    largest = np.iinfo(dtype).max
    tokens = [[1, 2, largest], [3], list(range(100)), []]
    targets = [[5], [0, 70_000, 2], [-1, 3], list(range(12))]
    memory = make_memory(dtype=dtype)
    memory.write(Batch(Ragged.from_rows(tokens, dtype), Ragged.from_rows(targets)))
    read = memory.read(4)
    assert read.tokens.values.dtype == dtype
    found = {tuple(read.targets[i].tolist()): read.tokens[i].tolist() for i in range(len(read))}
    assert found == {tuple(target): row for target, row in zip(targets, tokens, strict=True)}


def test_a_read_never_repeats_an_example():
    memory = make_memory()
    write_range(memory, 0, 30)
    for _ in range(20):
        read = numbers(memory.read(20))
        assert len(read) == len(set(read)) == 20


def test_a_read_gives_no_more_than_there_is():
    ledger = Ledger()
    memory = make_memory(ledger)
    memory.write(numbered(1, 2, 3))
    assert sorted(numbers(memory.read(50))) == [1, 2, 3]
    assert ledger.train.memory_reads == 3


def test_reading_takes_nothing_out():
    memory = make_memory()
    memory.write(numbered(1, 2, 3))
    memory.read(2)
    assert contents(memory) == [1, 2, 3]


def test_an_empty_memory_gives_an_empty_batch():
    ledger = Ledger()
    read = make_memory(ledger).read(8)
    assert len(read) == 0
    assert read.labels.tolist() == []
    assert ledger.train.memory_reads == 0


def test_reads_are_uniform_over_the_memory():
    memory = make_memory()
    write_range(memory, 0, 20)
    counts = np.zeros(20)
    for _ in range(2000):
        counts[numbers(memory.read(5))] += 1
    assert counts.sum() == 10_000
    # Draws within a read exclude each other, which makes the counts more even than chi-square expects, never less.
    assert chisquare(counts).pvalue > 0.001


def test_tokens_of_another_type_do_not_come_back_as_other_tokens():
    """The memory was told two bytes a token; four-byte tokens must be converted or refused, not misread."""
    memory = make_memory(dtype=np.uint16)
    try:
        memory.write(Batch(Ragged.from_rows([[5, 6]], np.int32), Ragged.from_rows([[1]])))
    except (TypeError, ValueError):
        return
    assert memory.read(1).tokens[0].tolist() == [5, 6]


# Which examples stay


def reservoir_counts(policy: type[Reservoir], seen: int, capacity: int, trials: int) -> np.ndarray[Any, Any]:
    """How often each of `seen` examples is still there at the end."""
    rng = np.random.default_rng(5)
    counts = np.zeros(seen)
    for _ in range(trials):
        chooser, slots = policy(capacity), []
        for number in range(seen):
            slot = chooser.place(len(slots), 0, rng)
            if slot is not None:
                slots[slot:] = [number] if slot == len(slots) else [number, *slots[slot + 1 :]]
        assert len(slots) == capacity
        counts[slots] += 1
    return counts


class OffByOne(Reservoir):
    """The usual mistake: the n-th example draws among the n − 1 before it, so that it is kept too often."""

    def place(self, entries: int, label: int, rng: np.random.Generator) -> int | None:
        assert self.capacity is not None
        self.offered += 1
        if entries < self.capacity:
            return entries
        slot = int(rng.integers(self.offered - 1))
        return slot if slot < self.capacity else None


def test_the_count_below_would_notice_the_usual_mistake():
    assert chisquare(reservoir_counts(OffByOne, seen=30, capacity=5, trials=3000)).pvalue < 1e-6


def test_the_reservoir_keeps_every_example_with_the_same_chance():
    counts = reservoir_counts(Reservoir, seen=30, capacity=5, trials=3000)
    assert chisquare(counts).pvalue > 0.001


def test_the_full_reservoir_lets_the_newest_example_go_as_often_as_any():
    """With capacity c the (c + 1)-th example must get in with probability c / (c + 1), not always."""
    kept = reservoir_counts(Reservoir, seen=2, capacity=1, trials=2000)
    assert chisquare(kept).pvalue > 0.001
    assert kept[1] < 2000


def test_a_memory_with_a_capacity_is_a_uniform_sample_of_the_stream():
    """The same through the memory itself, batches and all."""
    counts = np.zeros(24)
    for seed in range(1500):
        memory = make_memory(seed=seed, memory_capacity=4)
        write_range(memory, 0, 24, size=7)
        counts[contents(memory)] += 1
    assert counts.sum() == 4 * 1500
    assert chisquare(counts).pvalue > 0.001


def test_without_a_capacity_everything_stays():
    memory = make_memory()
    write_range(memory, 0, 500)
    assert contents(memory) == list(range(500))


def test_the_ring_keeps_the_newest():
    memory = make_memory(memory="ring", memory_capacity=7)
    write_range(memory, 0, 5)
    assert contents(memory) == [0, 1, 2, 3, 4]
    write_range(memory, 5, 23, size=4)
    assert contents(memory) == list(range(16, 23))


def test_a_ring_without_a_bound_is_refused():
    with pytest.raises(UserError, match="--memory-capacity"):
        make_memory(memory="ring")


def test_an_unknown_policy_is_refused_with_the_closest_one():
    with pytest.raises(UserError, match="did you mean 'reservoir'"):
        make_memory(memory="resevoir")


@pytest.mark.parametrize(("probability", "low", "high"), [(0.0, 0, 0), (0.1, 900, 1100), (1.0, 10_000, 10_000)])
def test_the_write_probability_is_the_share_that_is_written(probability: float, low: int, high: int):
    ledger = Ledger()
    memory = make_memory(ledger, write_probability=probability)
    write_range(memory, 0, 10_000, size=100)
    assert low <= len(memory) <= high  # at 0.1 the bounds are more than three standard deviations away
    assert ledger.train.memory_writes == len(memory)


def test_a_partial_write_is_spread_over_the_whole_stream():
    memory = make_memory(write_probability=0.1)
    write_range(memory, 0, 10_000, size=100)
    written, _ = np.histogram(contents(memory), bins=10, range=(0, 10_000))
    assert chisquare(written).pvalue > 0.001


# What it takes up, and what the ledger says


def test_the_ledger_counts_writes_reads_entries_and_bytes():
    ledger = Ledger()
    memory = make_memory(ledger, memory_capacity=5)
    write_range(memory, 0, 40)
    memory.read(3)
    memory.read(2)
    memory.sample(4, np.random.default_rng(0), ledger.test)
    assert ledger.memory_entries == len(memory) == 5
    assert 5 < ledger.train.memory_writes < 40  # an example that is let go is no write; a replacement is one
    assert ledger.train.memory_reads == 5
    assert ledger.test.memory_reads == 4
    assert ledger.test.memory_writes == 0


def test_the_bytes_follow_entries_that_are_replaced_by_longer_and_shorter_ones():
    def row(length: int) -> Batch:
        return Batch(Ragged.from_rows([[1] * length], np.uint16), Ragged.from_rows([[0]]))

    ledger = Ledger()
    memory = make_memory(ledger, memory="ring", memory_capacity=1)
    sizes = []
    for length in (10, 500, 10):
        memory.write(row(length))
        sizes.append(ledger.memory_bytes)
    assert sizes[1] - sizes[0] == 490 * 2
    assert sizes[2] == sizes[0]


def test_the_text_benchmark_fits_in_150_megabytes():
    """All 575,000 training examples of the paper at 100 tokens each, by the memory's own account and by Python's."""
    limit = 150_000_000
    tokens = Ragged(np.arange(100_000, dtype=np.uint16), np.full(1000, 100))
    batch = Batch(tokens, Ragged.from_rows([[n % 33] for n in range(1000)]))
    assert len(batch.labels) == 1000  # positions are cached in the batch: not part of what is measured
    assert len(batch.tokens.ends) == len(batch.targets.ends)
    ledger = Ledger()
    memory = make_memory(ledger)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(575):
            memory.write(batch)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(memory) == ledger.memory_entries == 575_000
    assert ledger.memory_bytes < limit
    assert after - before < limit
    # The account may leave out what the list has in reserve, but no more.
    assert ledger.memory_bytes == pytest.approx(after - before, rel=0.05)


# Stopping and going on


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"memory_capacity": 10},
        {"memory": "ring", "memory_capacity": 10},
        {"write_probability": 0.3, "memory_capacity": 6},
    ],
    ids=str,
)
def test_a_restored_memory_goes_on_to_the_last_bit(settings: dict[str, Any], tmp_path: Any):
    memory = make_memory(seed=3, **settings)
    write_range(memory, 0, 33, size=4)
    memory.read(4)
    checkpoint.save(tmp_path, 33, memory.state())
    loaded = checkpoint.load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    # Another seed: everything that matters has to come from the state.
    restored = make_memory(seed=99, **settings)
    restored.restore(loaded[1])
    assert_same_state(restored.state(), memory.state())
    for one in (memory, restored):
        write_range(one, 33, 70, size=4)
    assert numbers(restored.read(5)) == numbers(memory.read(5))
    assert_same_state(restored.state(), memory.state())


def test_an_empty_memory_can_be_saved_and_restored(tmp_path: Any):
    checkpoint.save(tmp_path, 0, make_memory().state())
    loaded = checkpoint.load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    restored = make_memory()
    restored.restore(loaded[1])
    assert len(restored) == 0
    restored.write(numbered(1))
    assert contents(restored) == [1]


def test_the_bytes_of_a_restored_memory_are_counted_again():
    ledger, again = Ledger(), Ledger()
    memory, restored = make_memory(ledger), make_memory(again)
    write_range(memory, 0, 20)
    restored.restore(memory.state())
    for one in (memory, restored):
        one.write(numbered(1))
    assert (again.memory_entries, again.memory_bytes) == (ledger.memory_entries, ledger.memory_bytes)


def test_reads_do_not_change_what_is_written():
    """Reading and writing draw from generators of their own: a method that reads keeps the same examples."""
    quiet, read = make_memory(memory_capacity=5), make_memory(memory_capacity=5)
    for start in range(0, 60, 10):
        for memory in (quiet, read):
            write_range(memory, start, start + 10)
        read.read(3)
    assert contents(quiet) == contents(read)
