"""CBRS, the class-balanced reservoir: as even over classes as the stream allows, and read evenly over them."""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from everlearn.batches import Floats, Integers
from everlearn.memory.policies import MemoryPolicy


class ClassBalanced(MemoryPolicy):
    """When full, a class that was never the largest takes a place from the largest; the others keep a uniform sample
    of their own examples."""

    name = "cbrs"
    description = "keeps classes as even as the stream allows, and reads them evenly"

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        self._labels = array("q")
        """The label in each slot."""
        self._seen: Counter[int] = Counter()
        """n_c: how many of each class were offered."""
        self._once_largest: set[int] = set()

    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """Append while there is room; then as the class has it."""
        self.offered += 1
        self._seen[label] += 1
        if self.capacity is None or entries < self.capacity:
            self._labels.append(label)
            if len(self._labels) == self.capacity:
                self._note_largest()
            return entries
        if label in self._once_largest:
            own = self._slots_of({label})
            return self._one_of(own, rng) if rng.random() < len(own) / self._seen[label] else None
        slot = self._one_of(self._slots_of(self._largest()), rng)
        self._labels[slot] = label
        self._note_largest()
        return slot

    def read_weights(self) -> Floats | None:
        """1 / m_c, so that every class is as likely as any other."""
        _, members, sizes = np.unique(self._array(), return_inverse=True, return_counts=True)
        weights: Floats = 1.0 / sizes[members]
        return weights

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Labels move with their entries; a class that has none left begins anew, should it ever come again."""
        self._labels = array("q", (self._labels[slot] for slot in kept))
        left = set(self._labels)
        self._seen = Counter({label: count for label, count in self._seen.items() if label in left})
        self._once_largest &= left
        return kept

    def state(self) -> dict[str, Any]:
        """Labels and counts."""
        return {
            **super().state(),
            "labels": self._array().copy(),
            "seen": {str(label): count for label, count in self._seen.items()},
            "once_largest": sorted(self._once_largest),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        super().restore(state)
        self._labels = array("q", state["labels"].tolist())
        self._seen = Counter({int(label): count for label, count in state["seen"].items()})
        self._once_largest = set(state["once_largest"])

    def _array(self) -> Integers:
        return np.frombuffer(self._labels, dtype=np.int64) if self._labels else np.empty(0, dtype=np.int64)

    def _largest(self) -> set[int]:
        """The class with the most examples in memory, or all of them that share the most."""
        labels, sizes = np.unique(self._array(), return_counts=True)
        return set(labels[sizes == sizes.max()].tolist())

    def _note_largest(self) -> None:
        self._once_largest |= self._largest()

    def _slots_of(self, labels: set[int]) -> Integers:
        return np.flatnonzero(np.isin(self._array(), list(labels)))

    @staticmethod
    def _one_of(slots: Integers, rng: np.random.Generator) -> int:
        return int(slots[rng.integers(len(slots))])
