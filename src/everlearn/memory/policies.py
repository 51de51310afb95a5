"""Which examples stay in the memory: the decision that is taken once for each example that is offered."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from everlearn.errors import UserError, unknown


class WritePolicy(ABC):
    """Says where in the memory an example goes, if anywhere."""

    name: ClassVar[str]
    description: ClassVar[str]

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.offered = 0

    @abstractmethod
    def place(self, entries: int, label: int, rng: np.random.Generator) -> int | None:
        """The slot for the next example: `entries` to append, a smaller number to replace, None to let it go."""

    def rearranged(self, kept: Sequence[int]) -> Sequence[int]:
        """Only the entries in these slots are left: the order in which they lie from now on."""
        return kept

    def state(self) -> dict[str, Any]:
        """What the policy has to remember across a restart."""
        return {"offered": self.offered}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.offered = state["offered"]


class Reservoir(WritePolicy):
    """A uniform sample of everything offered so far; with no capacity, all of it (paper, section 3.3)."""

    name = "reservoir"
    description = "keeps a uniform sample of all examples offered; unbounded without a capacity"

    def place(self, entries: int, label: int, rng: np.random.Generator) -> int | None:
        """Append while there is room; then the n-th example takes a slot with probability capacity / n."""
        self.offered += 1
        if self.capacity is None or entries < self.capacity:
            return entries
        slot = int(rng.integers(self.offered))
        return slot if slot < self.capacity else None


class Ring(WritePolicy):
    """The newest examples: when full, the oldest makes room."""

    name = "ring"
    description = "keeps the newest examples; needs a capacity"

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        if capacity is None:
            raise UserError("the memory policy 'ring' needs a bound: pass --memory-capacity.")

    def place(self, entries: int, label: int, rng: np.random.Generator) -> int | None:
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


POLICIES: dict[str, type[WritePolicy]] = {policy.name: policy for policy in (Reservoir, Ring)}


def make_policy(name: str, capacity: int | None) -> WritePolicy:
    """The policy of this name."""
    if name not in POLICIES:
        raise unknown("memory policy", name, POLICIES)
    return POLICIES[name](capacity)
