"""Hand-worked cases of section 3.3 and appendix A.3 of the paper."""

from typing import Any

import numpy as np
import pytest

from everlearn import checkpoint
from everlearn.batches import Batch
from everlearn.episodes import (
    Episode,
    EpisodeBuilder,
    ReplaySchedule,
    episodes_between_replays,
    replay_size,
    steps_between_replays,
)
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from support import numbered, numbers

# R_F


@pytest.mark.parametrize(
    ("replay_interval", "batch_size", "support_batches", "frequency"),
    [
        (9600, 16, 5, 101),  # text classification: (600 + 1) / 6 = 100.17
        (1600, 4, 5, 67),  # relation extraction: (400 + 1) / 6 = 66.83
        (16, 16, 1, 1),  # (1 + 1) / 2: every episode
        (16, 4, 2, 2),  # (4 + 1) / 3 = 1.67
        (20, 4, 2, 2),  # (5 + 1) / 3 = 2 exactly: rounding must not add one
        (21, 4, 2, 3),  # just above it
        (80, 8, 10, 1),  # (10 + 1) / 11 = 1 exactly
        (49 * 7, 7, 9, 5),  # (49 + 1) / 10 = 5 exactly
        (10, 16, 3, 1),  # an interval smaller than a batch
        (100, 3, 4, 7),  # an interval that is no multiple of b: (33.33 + 1) / 5 = 6.87
    ],
)
def test_the_episodes_between_replays(replay_interval: int, batch_size: int, support_batches: int, frequency: int):
    assert episodes_between_replays(replay_interval, batch_size, support_batches) == frequency


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7, 16])
@pytest.mark.parametrize("support_batches", [1, 2, 5])
def test_the_frequency_is_the_least_that_keeps_the_interval(batch_size: int, support_batches: int):
    """The paper's condition itself: b [(R_F − 1)(m + 1) + m] ≥ R_I, and one episode fewer would be too early."""
    for interval in range(1, 200):
        found = episodes_between_replays(interval, batch_size, support_batches)

        def seen(frequency: int) -> int:
            return batch_size * ((frequency - 1) * (support_batches + 1) + support_batches)

        assert seen(found) >= interval
        assert found == 1 or seen(found - 1) < interval


@pytest.mark.parametrize(
    ("replay_interval", "batch_size", "steps"), [(9600, 16, 600), (1600, 4, 400), (17, 4, 5), (16, 4, 4), (3, 4, 1)]
)
def test_the_steps_between_replays(replay_interval: int, batch_size: int, steps: int):
    assert steps_between_replays(replay_interval, batch_size) == steps


@pytest.mark.parametrize(
    ("interval", "rate", "size"),
    [(9600, 0.01, 96), (1600, 0.01, 16), (100, 0.29, 29), (150, 0.01, 1), (199, 0.01, 1), (99, 0.01, 0), (10, 1.0, 10)],
)
def test_a_replay_draws_the_rate_times_the_interval_rounded_down(interval: int, rate: float, size: int):
    assert replay_size(interval, rate) == size


# Episodes


class Stage:
    """An episode builder with its memory, fed with batches of two numbered examples: (0, 1), (2, 3), …"""

    def __init__(self, m: int, every: int | None = None, size: int = 4, seed: int = 0, **memory: Any) -> None:
        self.ledger = Ledger()
        self.memory = Memory(MemoryConfig(**memory), np.uint16, self.ledger, seed)
        schedule = ReplaySchedule(every, size, self.memory, self.ledger.train) if every else None
        self.builder = EpisodeBuilder(m, schedule, self.memory)

    def feed(self, first: int, last: int) -> list[Episode]:
        made = [self.builder.add(batch_number(n)) for n in range(first, last)]
        return [episode for episode in made if episode]

    def feed_to_the_end(self, first: int, last: int) -> list[Episode]:
        episodes = self.feed(first, last)
        final = self.builder.finish()
        return [*episodes, final] if final else episodes


def batch_number(n: int) -> Batch:
    return numbered(2 * n, 2 * n + 1)


def in_batches(batches: list[Batch]) -> list[list[int]]:
    return [numbers(batch) for batch in batches]


def stored(memory: Memory) -> set[int]:
    return set(numbers(memory.sample(len(memory), np.random.default_rng(0), Ledger().test)))


def test_an_episode_is_m_support_batches_and_the_next_batch_as_query():
    first, second = Stage(m=2).feed(0, 6)
    assert in_batches(first.support) == [[0, 1], [2, 3]]
    assert numbers(first.query) == [4, 5]
    assert in_batches(second.support) == [[6, 7], [8, 9]]
    assert numbers(second.query) == [10, 11]
    assert not first.replayed
    assert not second.replayed


def test_every_kth_episode_takes_its_query_from_memory_and_so_one_batch_less_from_the_stream():
    stage = Stage(m=2, every=3, size=4)
    episodes = stage.feed(0, 16)
    assert [episode.replayed for episode in episodes] == [False, False, True, False, False, True]
    # Batches 0-2 and 3-5 are whole episodes, 6 and 7 the support set of the replay, 8 begins the next one.
    assert in_batches(episodes[2].support) == [[12, 13], [14, 15]]
    assert in_batches(episodes[3].support) == [[16, 17], [18, 19]]
    assert numbers(episodes[3].query) == [20, 21]
    assert in_batches(episodes[5].support) == [[28, 29], [30, 31]]
    assert stage.ledger.train.replays == 2
    assert stage.ledger.train.memory_reads == 8


def test_a_replay_never_draws_the_support_set_it_is_paired_with():
    # Asks for far more than there is, so that it draws the whole memory.
    stage = Stage(m=2, every=2, size=1000)
    replays = [episode for episode in stage.feed(0, 20) if episode.replayed]
    assert len(replays) == 4
    for episode in replays:
        support = numbers(*episode.support)
        assert not set(numbers(episode.query)) & set(support)
        assert sorted(numbers(episode.query)) == list(range(min(support)))  # all of the stream before it


def test_support_and_query_from_the_stream_are_written_a_replayed_query_is_not_written_again():
    stage = Stage(m=2, every=2, size=4)
    stage.feed(0, 5)
    assert stored(stage.memory) == set(range(10))
    assert stage.ledger.train.memory_writes == len(stage.memory) == 10


def test_a_batch_that_waits_for_its_episode_is_not_yet_in_memory():
    stage = Stage(m=2)
    stage.feed(0, 2)
    assert len(stage.memory) == 0
    stage.feed(2, 3)
    assert stored(stage.memory) == set(range(6))


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("every", [None, 1, 2, 3])
@pytest.mark.parametrize("count", range(13))
def test_nothing_is_dropped_and_nothing_comes_twice(m: int, every: int | None, count: int):
    stage = Stage(m=m, every=every)
    episodes = stage.feed_to_the_end(0, count)
    from_stream = [n for e in episodes for n in numbers(*e.support, *([] if e.replayed else [e.query]))]
    assert sorted(from_stream) == list(range(2 * count))
    assert stored(stage.memory) == set(range(2 * count))
    assert stage.builder.finish() is None


@pytest.mark.parametrize(
    ("left_over", "support", "query"),
    [(1, [], [8, 9]), (2, [[8, 9]], [10, 11]), (3, [[8, 9], [10, 11]], [12, 13])],
)
def test_left_over_batches_make_a_short_last_episode(left_over: int, support: list[list[int]], query: list[int]):
    """With m = 3, after one whole episode of batches 0 to 3: the last batch that is left becomes the query set."""
    *_, last = Stage(m=3).feed_to_the_end(0, 4 + left_over)
    assert in_batches(last.support) == support
    assert numbers(last.query) == query
    assert not last.replayed


def test_a_stream_that_ends_with_an_episode_leaves_nothing_over():
    stage = Stage(m=2)
    stage.feed(0, 6)
    assert stage.builder.finish() is None


def test_a_replay_from_an_empty_memory_is_skipped_counted_and_made_a_stream_episode():
    stage = Stage(m=2, every=1)
    first, second = stage.feed(0, 5)
    assert not first.replayed
    assert numbers(first.query) == [4, 5]
    assert stage.ledger.train.replays_skipped == 1
    assert second.replayed  # by now there is something to draw from
    assert stage.ledger.train.replays == 1


def test_a_memory_that_nothing_is_written_to_is_never_replayed():
    stage = Stage(m=2, every=1, write_probability=0.0)
    episodes = stage.feed(0, 9)
    assert [episode.replayed for episode in episodes] == [False] * 3
    assert (stage.ledger.train.replays, stage.ledger.train.replays_skipped) == (0, 3)
    assert stage.ledger.train.memory_reads == 0


def test_the_schedule_counts_every_call():
    stage = Stage(m=1, every=3, size=2)
    stage.memory.write(numbered(0, 1, 2))
    schedule = stage.builder._schedule
    assert schedule is not None
    due = [schedule.draw_if_due() is not None for _ in range(9)]
    assert due == [False, False, True] * 3


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_builder_goes_on_in_the_middle_of_an_episode(stop: int, tmp_path: Any):
    def described(episodes: list[Episode]) -> list[Any]:
        return [(in_batches(e.support), numbers(e.query), e.replayed) for e in episodes]

    whole = Stage(m=2, every=2, seed=4)
    expected = described(whole.feed_to_the_end(0, 12))

    stopped = Stage(m=2, every=2, seed=4)
    before = described(stopped.feed(0, stop))
    checkpoint.save(tmp_path, stop, {"builder": stopped.builder.state(), "memory": stopped.memory.state()})
    loaded = checkpoint.load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    resumed = Stage(m=2, every=2, seed=77)
    resumed.builder.restore(loaded[1]["builder"])
    resumed.memory.restore(loaded[1]["memory"])
    assert [*before, *described(resumed.feed_to_the_end(stop, 12))] == expected
