"""The episodic memory: what a policy let in, read uniformly without replacement (paper, section 3.3)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from everlearn.batches import Batch
from everlearn.ledger import Ledger, Meter
from everlearn.memory.entries import cut, footprint, pack, unpack
from everlearn.memory.policies import make_policy
from everlearn.seeding import generator, generator_state, restore_generator
from everlearn.settings import setting


@dataclass(frozen=True)
class MemoryConfig:
    """The episodic memory."""

    memory: str = setting("reservoir", "which examples stay when the memory is full: reservoir or ring")
    memory_capacity: int | None = setting(None, "most examples the memory may hold; default: no bound")
    refresh_negatives: bool = setting(False, "replays rank against fresh candidates among the labels seen (fewrel)")
    write_probability: float = setting(1.0, "chance that an example is offered to the memory (p_write)")


class Refresher(Protocol):
    """Brings replayed examples up to date with what the stream has shown since they were written."""

    def note(self, batch: Batch) -> None:
        """The stream has shown these examples."""

    def refresh(self, batch: Batch) -> Batch:
        """The replayed examples, brought up to date."""

    def state(self) -> dict[str, Any]:
        """What has to be saved."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""


class Memory:
    """Stores tokenised examples and hands out random ones."""

    def __init__(
        self,
        config: MemoryConfig,
        token_dtype: npt.DTypeLike,
        ledger: Ledger,
        seed: int,
        refresher: Refresher | None = None,
    ) -> None:
        self._config = config
        self._policy = make_policy(config.memory, config.memory_capacity)
        self._token_dtype = token_dtype
        self._entries: list[bytes] = []
        self._bytes = 0
        self._ledger = ledger
        self._refresher = refresher
        self._writing = generator(seed, "memory/write")
        self._reading = generator(seed, "memory/read")

    def __len__(self) -> int:
        return len(self._entries)

    def write(self, batch: Batch) -> None:
        """Offer each example to the policy with probability p_write."""
        if self._refresher:
            self._refresher.note(batch)
        offered = self._writing.random(len(batch)) < self._config.write_probability
        labels = batch.labels
        for row in np.flatnonzero(offered).tolist():
            slot = self._policy.place(len(self), int(labels[row]), self._writing)
            if slot is not None:
                self._put(slot, pack(batch, row, self._token_dtype))
        self._ledger.memory_entries, self._ledger.memory_bytes = len(self), self._bytes

    def read(self, size: int) -> Batch:
        """Up to `size` different examples, for learning."""
        batch = self.sample(size, self._reading, self._ledger.train)
        return self._refresher.refresh(batch) if self._refresher else batch

    def sample(self, size: int, rng: np.random.Generator, meter: Meter) -> Batch:
        """Up to `size` different examples, drawn with the caller's generator and counted on the caller's meter."""
        chosen = rng.choice(len(self), size=min(size, len(self)), replace=False)
        meter.memory_reads += len(chosen)
        return unpack([self._entries[i] for i in chosen], self._token_dtype)

    def all(self) -> Batch:
        """Everything in it, for whoever looks after it: not a read, and nothing is learned from it."""
        return unpack(self._entries, self._token_dtype)

    def remove(self, slots: Collection[int]) -> None:
        """Let go of the entries in these slots."""
        gone = set(slots)
        kept = [slot for slot in range(len(self)) if slot not in gone]
        self._entries = [self._entries[slot] for slot in self._policy.rearranged(kept)]
        self._bytes = sum(map(footprint, self._entries))
        self._ledger.memory_entries, self._ledger.memory_bytes = len(self), self._bytes

    def state(self) -> dict[str, Any]:
        """Everything, as two flat arrays and plain values."""
        return {
            "entries": np.frombuffer(b"".join(self._entries), dtype=np.uint8),
            "lengths": np.fromiter((len(entry) for entry in self._entries), dtype=np.int64, count=len(self)),
            "policy": self._policy.state(),
            "refresher": self._refresher.state() if self._refresher else None,
            "writing": generator_state(self._writing),
            "reading": generator_state(self._reading),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become the memory that was saved."""
        self._entries = list(cut(state["entries"].tobytes(), state["lengths"]))
        self._bytes = sum(map(footprint, self._entries))
        self._policy.restore(state["policy"])
        if self._refresher:
            self._refresher.restore(state["refresher"])
        restore_generator(self._writing, state["writing"])
        restore_generator(self._reading, state["reading"])

    def _put(self, slot: int, entry: bytes) -> None:
        if slot == len(self._entries):
            self._entries.append(entry)
        else:
            self._bytes -= footprint(self._entries[slot])
            self._entries[slot] = entry
        self._bytes += footprint(entry)
        self._ledger.train.memory_writes += 1
