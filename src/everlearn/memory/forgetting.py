"""Forgetting: what the method once knew and lost stays; what it never forgot makes room first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from everlearn.batches import Integers
from everlearn.memory.policies import MemoryPolicy

UNKNOWN, WRONG, RIGHT = -1, 0, 1


class Forgetting(MemoryPolicy):
    """Lets in as the reservoir does, in place of an example that turned from right to wrong the fewest times."""

    name = "forgetting"
    description = "keeps what was forgotten between replays; what never was makes room first; needs a capacity"
    needs_bound = True
    judges_reads = True

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        self._last: list[int] = []
        """How each entry was predicted when it was last read."""
        self._flips: list[int] = []
        """How often each entry turned from right to wrong between two reads."""

    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """Append while there is room; then with probability capacity / n, where the fewest flips are."""
        self.offered += 1
        assert self.capacity is not None
        if entries < self.capacity:
            self._last.append(UNKNOWN)
            self._flips.append(0)
            return entries
        if rng.integers(self.offered) >= self.capacity:
            return None
        fewest = np.flatnonzero(np.array(self._flips) == min(self._flips))
        slot = int(fewest[rng.integers(len(fewest))])
        self._last[slot], self._flips[slot] = UNKNOWN, 0
        return slot

    def judged(self, slots: Integers, right: npt.NDArray[np.bool_]) -> None:
        """Count the flips."""
        for slot, now in zip(slots.tolist(), right.tolist(), strict=True):
            self._flips[slot] += self._last[slot] == RIGHT and not now
            self._last[slot] = RIGHT if now else WRONG

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Counts move with their entries."""
        self._last = [self._last[slot] for slot in kept]
        self._flips = [self._flips[slot] for slot in kept]
        return kept

    def state(self) -> dict[str, Any]:
        """Counts by slot."""
        return {**super().state(), "last": np.array(self._last, np.int64), "flips": np.array(self._flips, np.int64)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        super().restore(state)
        self._last, self._flips = state["last"].tolist(), state["flips"].tolist()
