"""Tests a method on held-out examples: one predictor for each test set, large batches, no graph."""

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


@dataclass(frozen=True)
class Score:
    """How many examples of a task were predicted right.

    >>> Score(3, 4).accuracy
    0.75
    """

    right: int
    tested: int

    @property
    def accuracy(self) -> float:
        """The share predicted right."""
        return self.right / self.tested


Scores = Mapping[str, Score]
"""A score for each task."""


def evaluate(method: Method, test_sets: Sequence[TestSet], meter: Meter, sample: int | None = None) -> Scores:
    """Predict every test set, or its first `sample` examples, and count the hits of each task.

    Meta-learning methods adapt anew for each test set, as in the paper: one meta-test episode per set.
    """
    right: dict[str, int] = {}
    tested: dict[str, int] = {}
    with meter.timed():
        for test_set in test_sets:
            batch = test_set.batch.take(range(min(sample, len(test_set.batch)))) if sample else test_set.batch
            hits = method.predictor().predict(batch) == batch.labels
            for task, hit in zip(test_set.tasks, hits.tolist(), strict=False):
                right[task] = right.get(task, 0) + hit
                tested[task] = tested.get(task, 0) + 1
    return {task: Score(right[task], tested[task]) for task in tested}
