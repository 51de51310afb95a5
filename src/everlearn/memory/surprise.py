"""Surprise: a weighted reservoir in which an example counts by its negative log-likelihood when it is offered."""

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from everlearn.memory.policies import MemoryPolicy

LEAST_LOSS = 1e-6
"""An example that is predicted with certainty still has a chance, however small."""


class Surprise(MemoryPolicy):
    """Each example draws a key u^(1/w) with its loss as w; those with the largest keys stay."""

    name = "surprise"
    description = "keeps what the method predicted badly when it came, as a weighted reservoir; needs a capacity"
    needs_bound = True
    judges_writes = True

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        self._heap: list[tuple[float, int]] = []
        """(logarithm of the key, slot), the smallest key first."""

    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """Append while there is room; then take the place of the smallest key, if this one is larger."""
        self.offered += 1
        key = math.log(1.0 - rng.random()) / max(loss, LEAST_LOSS)
        assert self.capacity is not None
        if entries < self.capacity:
            heapq.heappush(self._heap, (key, entries))
            return entries
        smallest, slot = self._heap[0]
        if key <= smallest:
            return None
        heapq.heapreplace(self._heap, (key, slot))
        return slot

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Keys move with their entries."""
        keys = self._keys()
        self._rebuild([keys[slot] for slot in kept])
        return kept

    def state(self) -> dict[str, Any]:
        """The keys by slot."""
        return {**super().state(), "keys": np.array(self._keys(), dtype=np.float64)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the same keys."""
        super().restore(state)
        self._rebuild(state["keys"].tolist())

    def _keys(self) -> list[float]:
        return [key for key, _ in sorted(self._heap, key=lambda item: item[1])]

    def _rebuild(self, keys: Sequence[float]) -> None:
        self._heap = [(key, slot) for slot, key in enumerate(keys)]
        heapq.heapify(self._heap)
