"""The episodic memory: what a policy let in, read at random without replacement (paper, section 3.3)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from everlearn.batches import Batch, Floats, Integers
from everlearn.errors import UserError
from everlearn.ledger import Ledger, Meter
from everlearn.memory.entries import cut, footprint, pack, unpack, with_note
from everlearn.memory.entries import notes as notes_of
from everlearn.memory.known_policies import POLICIES, make_policy
from everlearn.memory.view import MemoryView
from everlearn.seeding import generator, generator_state, restore_generator
from everlearn.settings import setting


@dataclass(frozen=True)
class MemoryConfig:
    """The episodic memory."""

    memory: str = setting(
        "reservoir",
        "which examples stay when it is full (see `everlearn list memories`)",
        choices=POLICIES,
        kind="memory policy",
    )
    memory_capacity: int | None = setting(None, "most examples the memory may hold; default: no bound", above=0)
    refresh_negatives: bool = setting(False, "replays rank against fresh candidates among the labels seen (fewrel)")
    write_probability: float = setting(
        1.0, "chance that an example is offered to the memory (p_write)", least=0, most=1
    )


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


@dataclass(frozen=True)
class Judgement:
    """What a method makes of some examples at the moment."""

    losses: Floats
    right: npt.NDArray[np.bool_]


class Memory:
    """Stores tokenised examples and hands out random ones."""

    judge: Callable[[Batch], Judgement] | None = None
    """The method's, for policies that go by what it makes of an example; whoever writes and reads puts it here."""

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
        self.changes = 0
        """How often it has become another: whatever was made from it is out of date when this has moved on."""
        self._ledger = ledger
        self._refresher = refresher
        self._writing = generator(seed, "memory/write")
        self._reading = generator(seed, "memory/read")

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def refreshes(self) -> bool:
        """Whether examples come back with other candidates than they were written with."""
        return self._refresher is not None

    def note(self, batch: Batch) -> None:
        """The stream has shown these examples, whatever will be written of them and when."""
        if self._refresher:
            self._refresher.note(batch)

    def write(self, batch: Batch, notes: Sequence[Floats] | None = None) -> None:
        """Offer each example to the policy with probability p_write, and its note with it."""
        with self._ledger.train.phase("memory"):
            offered = self._writing.random(len(batch)) < self._config.write_probability
            losses = self._losses_of(batch, np.flatnonzero(offered))
            entries = pack(batch, self._token_dtype, notes)
            for entry, label, loss, taken in zip(entries, batch.labels.tolist(), losses, offered, strict=True):
                slot = self._policy.place(len(self), label, self._writing, loss) if taken else None
                if slot is not None:
                    self._put(slot, entry)
        self._ledger.memory_entries, self._ledger.memory_bytes = len(self), self._bytes

    def read(self, size: int) -> Batch:
        """Up to `size` different examples, for learning."""
        return self.read_at(self._draw(size, self._reading))

    def read_noted(self, size: int) -> tuple[Batch, list[Floats]]:
        """The same with the notes."""
        slots = self._draw(size, self._reading)
        return self.read_at(slots), notes_of([self._entries[i] for i in slots])

    def read_at(self, slots: Integers) -> Batch:
        """The examples in these slots, for learning."""
        with self._ledger.train.phase("memory"):
            batch = MemoryView(self._entries, self._token_dtype).take(slots, self._ledger.train)
            if self._policy.judges_reads and len(slots):
                self._policy.judged(slots, self._judged(batch).right)
            return self._refresher.refresh(batch) if self._refresher else batch

    def sample(self, size: int, rng: np.random.Generator, meter: Meter) -> Batch:
        """Up to `size` different examples, drawn with the caller's generator and counted on the caller's meter."""
        return MemoryView(self._entries, self._token_dtype).take(self._draw(size, rng), meter)

    def view(self) -> MemoryView:
        """What it holds at the moment."""
        return MemoryView(self._entries.copy(), self._token_dtype)

    def all(self) -> Batch:
        """Everything in it, for whoever looks after it: not a read, and nothing is learned from it."""
        return unpack(self._entries, self._token_dtype)

    def remove(self, slots: Collection[int]) -> None:
        """Let go of the entries in these slots."""
        gone = set(slots)
        kept = [slot for slot in range(len(self)) if slot not in gone]
        self._entries = [self._entries[slot] for slot in self._policy.rearranged(kept)]
        self._bytes = sum(map(footprint, self._entries))
        self.changes += 1
        self._ledger.memory_entries, self._ledger.memory_bytes = len(self), self._bytes

    def change_notes(self, change: Callable[[Floats], Floats]) -> None:
        """Note something else of the same length beside each entry."""
        notes = map(change, notes_of(self._entries))
        self._entries = [with_note(entry, note) for entry, note in zip(self._entries, notes, strict=True)]
        self.changes += 1

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
        self.changes += 1
        self._policy.restore(state["policy"])
        if self._refresher:
            self._refresher.restore(state["refresher"])
        restore_generator(self._writing, state["writing"])
        restore_generator(self._reading, state["reading"])

    def _draw(self, size: int, rng: np.random.Generator) -> Integers:
        """Different slots, as likely as the policy wants them."""
        weights = self._policy.read_weights()
        shares = None if weights is None or not len(weights) else weights / weights.sum()
        drawn: Integers = rng.choice(len(self), size=min(size, len(self)), replace=False, p=shares)
        return drawn

    def _losses_of(self, batch: Batch, rows: Integers) -> list[float]:
        """The losses of these rows, where the policy asks for them; elsewhere nothing is lost."""
        losses = np.zeros(len(batch))
        if self._policy.judges_writes and len(rows):
            losses[rows] = self._judged(batch.take(rows)).losses
        found: list[float] = losses.tolist()
        return found

    def _judged(self, batch: Batch) -> Judgement:
        if self.judge is None:
            raise UserError(
                f"the memory policy '{self._policy.name}' goes by what the method makes of an example, and this method "
                "does not say: choose --memory reservoir, ring or cbrs."
            )
        return self.judge(batch)

    def _put(self, slot: int, entry: bytes) -> None:
        if slot == len(self._entries):
            self._entries.append(entry)
        else:
            self._bytes -= footprint(self._entries[slot])
            self._entries[slot] = entry
        self._bytes += footprint(entry)
        self.changes += 1
        self._ledger.train.memory_writes += 1
