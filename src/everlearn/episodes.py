"""Episodes out of a stream of batches, and when the memory is replayed (paper, section 3.3 and appendix A.3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everlearn.batches import Batch, Integers
from everlearn.ledger import Meter
from everlearn.memory import Memory


def steps_between_replays(replay_interval: int, batch_size: int) -> int:
    """R_F of REPLAY and A-GEM: the batches in R_I examples.

    >>> steps_between_replays(9600, 16)
    600
    """
    return math.ceil(replay_interval / batch_size)


def episodes_between_replays(replay_interval: int, batch_size: int, support_batches: int) -> int:
    """R_F of the meta-learning methods: every R_F-th episode has its query set from memory.

    >>> episodes_between_replays(9600, 16, 5)
    101
    """
    # (R_I / b + 1) / (m + 1), kept in whole numbers so that no rounding error can add an episode.
    return -(-(replay_interval + batch_size) // (batch_size * (support_batches + 1)))


def replay_size(replay_interval: int, replay_rate: float) -> int:
    """How many examples a replay draws: ⌊r · R_I⌋.

    >>> replay_size(9600, 0.01), replay_size(100, 0.29)
    (96, 29)
    """
    # 0.29 * 100 is 28.999999999999996 in binary: the tolerance keeps the floor that was meant.
    return math.floor(replay_rate * replay_interval + 1e-9)


class ReplaySchedule:
    """Counts steps or episodes and draws from memory when it is time."""

    def __init__(self, every: int, size: int, memory: Memory, meter: Meter) -> None:
        self.every = every
        self.size = size
        self._memory = memory
        self._meter = meter
        self.count = 0

    def is_due(self) -> bool:
        """Count one more; whether it is time for a replay, and there is something in the memory."""
        self.count += 1
        if self.count % self.every:
            return False
        if not len(self._memory):
            self._meter.replays_skipped += 1
            return False
        self._meter.replays += 1
        return True

    def draw_if_due(self) -> Batch | None:
        """Count one more; every `every`-th time a random sample of the memory, unless there is nothing in it."""
        return self._memory.read(self.size) if self.is_due() else None


@dataclass(frozen=True)
class Episode:
    """A support set to adapt on, batch by batch, and a query set to learn from."""

    support: list[Batch]
    query: Batch
    replayed: bool = False


class EpisodeBuilder:
    """Turns the batches of the stream into episodes (Algorithm 1, the lines above the updates)."""

    def __init__(self, support_batches: int, schedule: ReplaySchedule | None, memory: Memory) -> None:
        self._support_batches = support_batches
        self._schedule = schedule
        self._memory = memory
        self._support: list[Batch] = []
        self._expects_query = False

    def add(self, batch: Batch) -> Episode | None:
        """Take the next batch; an episode as soon as one is complete."""
        if self._expects_query:
            return self._complete(batch)
        self._support.append(batch)
        if len(self._support) < self._support_batches:
            return None
        replayed = self._schedule.draw_if_due() if self._schedule else None
        if replayed is not None:
            return self._complete(replayed, replayed=True)
        self._expects_query = True
        return None

    def finish(self) -> Episode | None:
        """The short last episode: what is left over, its last batch as the query set."""
        if not self._support:
            return None
        return self._complete(self._support.pop())

    def discard(self, chosen: Callable[[Batch], Integers]) -> None:
        """Take examples out of the half-built episode."""
        kept = [batch.without(chosen(batch)) for batch in self._support]
        self._support = [batch for batch in kept if len(batch)]
        self._expects_query = self._expects_query and bool(self._support)

    def _complete(self, query: Batch, replayed: bool = False) -> Episode:
        episode = Episode(self._support, query, replayed)
        # Written only now, as in Algorithm 1: a replay never draws the support set it is paired with.
        if not replayed:
            self._memory.write(query)
        for batch in episode.support:
            self._memory.write(batch)
        self._support, self._expects_query = [], False
        return episode

    def state(self) -> dict[str, Any]:
        """The half-built episode and the count of episodes."""
        return {
            "support": [batch.state() for batch in self._support],
            "expects_query": self._expects_query,
            "count": self._schedule.count if self._schedule else 0,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the half-built episode that was saved."""
        self._support = [Batch.from_state(saved) for saved in state["support"]]
        self._expects_query = state["expects_query"]
        if self._schedule:
            self._schedule.count = state["count"]
