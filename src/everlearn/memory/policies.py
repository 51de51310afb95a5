"""Which examples stay in the memory, and how likely each is to be read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from everlearn.batches import Floats, Integers
from everlearn.errors import UserError


class MemoryPolicy(ABC):
    """Says where in the memory an example goes, if anywhere, and may prefer some when the memory is read."""

    name: ClassVar[str]
    description: ClassVar[str]
    needs_bound: ClassVar[bool] = False
    """Whether it means nothing where everything stays."""
    judges_writes: ClassVar[bool] = False
    """Whether `place` goes by the loss of the example: then the method is asked for it."""
    judges_reads: ClassVar[bool] = False
    """Whether it wants to know which of the examples that are replayed the method predicts right."""

    def __init__(self, capacity: int | None) -> None:
        if self.needs_bound and capacity is None:
            raise UserError(f"the memory policy '{self.name}' needs a bound: pass --memory-capacity.")
        self.capacity = capacity
        self.offered = 0

    @abstractmethod
    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """The slot for the next example: `entries` to append, a smaller number to replace, None to let it go."""

    def read_weights(self) -> Floats | None:
        """How likely each entry is to be read, in relation to the others; None where all are alike."""
        return None

    def judged(self, slots: Integers, right: npt.NDArray[np.bool_]) -> None:
        """The entries in these slots were read, and so predicted."""

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Only the entries in these slots are left: the order in which they lie from now on."""
        return kept

    def state(self) -> dict[str, Any]:
        """What the policy has to remember across a restart."""
        return {"offered": self.offered}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.offered = state["offered"]


class Reservoir(MemoryPolicy):
    """A uniform sample of everything offered so far; with no capacity, all of it (paper, section 3.3)."""

    name = "reservoir"
    description = "keeps a uniform sample of all examples offered; unbounded without a capacity"

    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """Append while there is room; then the n-th example takes a slot with probability capacity / n."""
        self.offered += 1
        if self.capacity is None or entries < self.capacity:
            return entries
        slot = int(rng.integers(self.offered))
        return slot if slot < self.capacity else None


class Ring(MemoryPolicy):
    """The newest examples: when full, the oldest makes room."""

    name = "ring"
    description = "keeps the newest examples; needs a capacity"
    needs_bound = True

    def place(self, entries: int, label: int, rng: np.random.Generator, loss: float = 0.0) -> int | None:
        """The slot that was written longest ago."""
        assert self.capacity is not None
        self.offered += 1
        return (self.offered - 1) % self.capacity

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Oldest first, as if nothing else had ever been offered."""
        assert self.capacity is not None
        oldest = self.offered % self.capacity if self.offered > self.capacity else 0
        self.offered = len(kept)
        return sorted(kept, key=lambda slot: (slot < oldest, slot))
