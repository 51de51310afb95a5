"""Tests a method on held-out examples: one predictor for each test set, large batches, no graph."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everlearn.batches import Batch
from everlearn.ledger import Meter
from everlearn.methods import Method


@dataclass(frozen=True)
class TestSet:
    """Examples that are predicted together, and the task each of them came from."""

    __test__ = False  # its name must not make pytest collect it

    batch: Batch
    tasks: Sequence[str]

    def sampled(self, size: int) -> "TestSet":
        """At most `size` examples of each task, evenly spread over those there are."""
        places: dict[str, list[int]] = {}
        for place, task in enumerate(self.tasks):
            places.setdefault(task, []).append(place)
        chosen: list[int] = []
        for own in places.values():
            taken = min(size, len(own))
            chosen += (own[i * len(own) // taken] for i in range(taken))
        return TestSet(self.batch.take(chosen), [self.tasks[place] for place in chosen])


@dataclass(frozen=True)
class Score:
    """How many examples of a task were predicted right.

    >>> Score(3, 4).accuracy
    0.75
    """

    right: int
    tested: int
    there: int | None = None
    """How many examples the task has, where only a sample of them was tested."""

    @property
    def weight(self) -> int:
        """What the task counts in an average over all examples, also where a sample stands for it."""
        return self.there or self.tested

    @property
    def accuracy(self) -> float:
        """The share predicted right."""
        return self.right / self.tested


Scores = Mapping[str, Score]
"""A score for each task."""


def evaluate(method: Method, test_sets: Sequence[TestSet], meter: Meter, sample: int | None = None) -> Scores:
    """Predict every test set, or `sample` examples of each task, and count the hits of each task.

    Meta-learning methods adapt anew for each test set, as in the paper: one meta-test episode per set.
    """
    right: Counter[str] = Counter()
    tested: Counter[str] = Counter()
    there: Counter[str] = Counter()
    with meter.timed():
        for test_set in test_sets:
            chosen = test_set.sampled(sample) if sample else test_set
            there.update(test_set.tasks)
            hits = method.predictor().predict(chosen.batch) == chosen.batch.labels
            for task, hit in zip(chosen.tasks, hits.tolist(), strict=True):
                right[task] += hit
                tested[task] += 1
    return {task: Score(right[task], tested[task], there[task] if sample else None) for task in tested}
