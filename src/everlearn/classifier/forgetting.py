"""How well old labels are still known: held-out examples, measured again and again."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from everlearn.batches import Batch
from everlearn.classifier.labels import Label
from everlearn.classifier.snapshot import Snapshot


@dataclass(frozen=True)
class Forgetting:
    """Shares of held-out examples that are predicted right, by label."""

    now: dict[Label, float]
    best: dict[Label, float]
    """The most that was ever measured."""
    examples: dict[Label, int] = field(default_factory=dict)

    @property
    def lost(self) -> dict[Label, float]:
        """What was known once and is not any more.

        >>> Forgetting(now={"old": 0.5, "new": 1.0}, best={"old": 0.75, "new": 1.0}).lost
        {'old': 0.25, 'new': 0.0}
        """
        return {label: self.best[label] - share for label, share in self.now.items()}

    @property
    def mean(self) -> float:
        """The mean loss over all labels."""
        return sum(self.lost.values()) / len(self.lost) if self.lost else 0.0

    @property
    def accuracy(self) -> float:
        """The share of all held-out examples that is predicted right now."""
        total = sum(self.examples.values())
        return sum(share * self.examples[label] for label, share in self.now.items()) / total if total else 0.0


class HeldOut:
    """Examples that are never learned from, and the best that was measured on each label."""

    def __init__(self, empty: Batch) -> None:
        self._batch = empty
        self._labels: list[Label] = []
        self._best: dict[Label, float] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, batch: Batch, labels: Sequence[Label]) -> None:
        """Keep more examples."""
        self._batch = Batch.concat([self._batch, batch])
        self._labels += labels

    def measure(self, snapshot: Snapshot) -> Forgetting:
        """How well each label is known, against the best so far."""
        right: Counter[Label] = Counter()
        tested = Counter(self._labels)
        for label, predicted in zip(self._labels, snapshot.predict_batch(self._batch), strict=True):
            right[label] += predicted == label
        now = {label: right[label] / tested[label] for label in sorted(tested)}
        for label, share in now.items():
            self._best[label] = max(share, self._best.get(label, 0.0))
        return Forgetting(now, {label: self._best[label] for label in now}, dict(tested))

    def discard(self, rows: Sequence[int]) -> int:
        """Let go of examples; how many there were."""
        gone = set(rows)
        kept = [row for row in range(len(self)) if row not in gone]
        self._batch = self._batch.take(kept)
        self._labels = [self._labels[row] for row in kept]
        self._best = {label: share for label, share in self._best.items() if label in set(self._labels)}
        return len(gone)

    def rows_of(self, label: Label) -> list[int]:
        """Where a label's examples are."""
        return [row for row, own in enumerate(self._labels) if own == label]

    @property
    def batch(self) -> Batch:
        """The examples, without their labels."""
        return self._batch

    def state(self) -> dict[str, Any]:
        """Everything, as arrays and plain values."""
        return {"batch": self._batch.state(), "labels": self._labels, "best": list(self._best.items())}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._batch = Batch.from_state(state["batch"])
        self._labels = list(state["labels"])
        self._best = dict(state["best"])
