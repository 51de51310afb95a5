"""What the memory holds at one moment; writes that come later do not change it."""

from collections.abc import Sequence

import numpy.typing as npt

from everlearn.batches import Batch, Floats, Integers
from everlearn.ledger import Meter
from everlearn.memory.entries import labels, notes, unpack


class MemoryView:
    """Entries by slot, for those who choose what to read."""

    def __init__(self, entries: Sequence[bytes], token_dtype: npt.DTypeLike) -> None:
        self._entries = entries
        self._token_dtype = token_dtype

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def labels(self) -> Integers:
        """The label of each entry."""
        return labels(self._entries)

    @property
    def notes(self) -> list[Floats]:
        """The note of each entry."""
        return notes(self._entries)

    def take(self, slots: Sequence[int] | Integers, meter: Meter) -> Batch:
        """The examples in these slots, counted as reads."""
        meter.memory_reads += len(slots)
        return unpack([self._entries[slot] for slot in slots], self._token_dtype)
