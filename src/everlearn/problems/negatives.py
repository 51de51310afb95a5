"""Fresh negatives for replayed examples: candidates drawn anew from the relations seen so far.

An example that was written to memory early carries the few candidates that had been seen by then. With
`--refresh-negatives` a replay ranks it against what has been seen since.
"""

from typing import Any

from everlearn.batches import Batch, Ragged
from everlearn.seeding import generator, generator_state, restore_generator


class NegativeRefresher:
    """Notes which labels the stream has shown, and gives replayed examples up to `count` other ones as negatives."""

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seen: list[int] = []
        self._drawing = generator(seed, "refresh-negatives")

    def note(self, batch: Batch) -> None:
        """Labels of the stream."""
        self._seen.extend(label for label in dict.fromkeys(batch.labels.tolist()) if label not in self._seen)

    def refresh(self, batch: Batch) -> Batch:
        """The same examples with fresh candidates; unchanged while no other label has been seen."""
        if len(self._seen) < 2:
            return batch
        return Batch(batch.tokens, Ragged.from_rows([self._target(label) for label in batch.labels.tolist()]))

    def _target(self, label: int) -> list[int]:
        others = [seen for seen in self._seen if seen != label]
        drawn = self._drawing.choice(len(others), size=min(self._count, len(others)), replace=False)
        return [label, label, *(others[i] for i in drawn)]

    def state(self) -> dict[str, Any]:
        """What was seen, and the generator."""
        return {"seen": list(self._seen), "drawing": generator_state(self._drawing)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._seen = list(state["seen"])
        restore_generator(self._drawing, state["drawing"])
