"""What a service knows about how well its model does: on what just arrived, and on what it learned long ago."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everlearn.batches import Integers
from everlearn.classifier import Label, LifelongClassifier, Snapshot
from everlearn.classifier.journal import Entry

WINDOW = 100
"""Examples over which the accuracy on what just arrived is taken."""
MOST_POINTS = 240
"""Points kept of its curve; beyond that every other one goes."""
RECENT = 5
"""Examples shown as just learned."""
PROBES_PER_LABEL = 8
FEWEST_PROBES = 3
MOST_PROBES = 200


@dataclass
class Arrivals:
    """Each example is predicted before it is learned: the accuracy of that, over the last `WINDOW`, over time."""

    hits: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    points: list[tuple[int, float]] = field(default_factory=list)
    recent: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, entries: Sequence[Entry], predicted: Sequence[Label | None], examples: int) -> None:
        """Note what was predicted for examples that are learned next; `examples` were learned before."""
        for entry, guess in zip(entries, predicted, strict=True):
            self.recent.append({"id": entry.id, "text": entry.text[:140], "label": entry.label, "predicted": guess})
            if guess is not None:  # with nothing known there was nothing to be wrong about
                self.hits.append(guess == entry.label)
        if self.accuracy is None:
            return
        self.points.append((examples + len(entries), self.accuracy))
        if len(self.points) > MOST_POINTS:
            self.points = self.points[::-2][::-1]  # the newest stays

    @property
    def accuracy(self) -> float | None:
        """Over the window; None before the first example."""
        return sum(self.hits) / len(self.hits) if self.hits else None

    def state(self) -> dict[str, Any]:
        """What is kept across a restart: no texts."""
        return {"hits": list(self.hits), "points": self.points}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with a saved curve."""
        self.hits.extend(state["hits"])
        self.points = [(int(examples), float(share)) for examples, share in state["points"]]


@dataclass
class Retention:
    """How well examples in the memory are still known, by label, against the best so far."""

    now: dict[Label, float] = field(default_factory=dict)
    best: dict[Label, float] = field(default_factory=dict)
    turn: int = 0
    """Where among the labels the next measurement begins."""

    def measure(self, classifier: LifelongClassifier, snapshot: Snapshot) -> None:
        """Predict a few examples of each label, evenly spread over the memory; of so many labels that not all come at
        once, the next ones."""
        memory = classifier.learner_.memory
        if not len(memory):
            return
        batch = memory.all()
        own = {label: np.flatnonzero(batch.labels == number) for number, label in snapshot.names.items()}
        known = [label for label, rows in own.items() if len(rows) >= FEWEST_PROBES]
        each = max(FEWEST_PROBES, min(PROBES_PER_LABEL, MOST_PROBES // max(1, len(known))))
        chosen = (known[self.turn :] + known[: self.turn])[: MOST_PROBES // each]
        self.turn = (self.turn + len(chosen)) % max(1, len(known))
        rows = {label: _spread(own[label], each) for label in chosen}
        predicted = iter(snapshot.predict_batch(batch.take([row for some in rows.values() for row in some])))
        for label, some in rows.items():
            self.now[label] = sum(next(predicted) == label for _ in some) / len(some)
            self.best[label] = max(self.now[label], self.best.get(label, 0.0))
        self.now = {label: share for label, share in self.now.items() if label in known}

    def as_rows(self) -> list[dict[str, Any]]:
        """What is lost most first."""
        rows = [{"label": label, "now": share, "best": self.best[label]} for label, share in self.now.items()]
        return sorted(rows, key=lambda row: (row["now"] - row["best"], str(row["label"])))

    def state(self) -> dict[str, Any]:
        """What was measured last, and the best so far."""
        return {"now": list(self.now.items()), "best": list(self.best.items())}

    def restore(self, state: dict[str, Any], known: Collection[Label]) -> None:
        """Go on from what was saved of labels that are still known."""
        self.now, self.best = (
            {label: share for label, share in state[name] if label in known} for name in ("now", "best")
        )


def _spread(rows: Integers, most: int) -> list[int]:
    places = np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)
    chosen: list[int] = rows[places].tolist()
    return chosen
