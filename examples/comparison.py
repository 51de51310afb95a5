"""The same tickets learned in three ways: as they come, by plain fine-tuning, and from scratch every time."""

import time
from collections.abc import Callable

from everlearn import LifelongClassifier
from tickets import held_out, tickets

Examples = tuple[list[str], list[str]]
STAGES = [["delivery", "refund"], ["login"], ["warranty"]]
"""Topics in the order in which they come; an older one does not come again."""
PER_STAGE = 120


def main() -> None:
    """Learn stage after stage in each way; accuracy on all topics at the end, and what it took."""
    stages = [tickets(topics, PER_STAGE, seed=number) for number, topics in enumerate(STAGES)]
    print(f"{'':<28}{'all topics':>12}{'first topics':>14}{'examples read':>15}{'seconds':>9}")
    for name, learn in (
        ("lifelong", lifelong),
        ("plain fine-tuning", fine_tuning),
        ("from scratch at each stage", from_scratch),
    ):
        show(name, learn, stages)


def lifelong(stages: list[Examples]) -> tuple[LifelongClassifier, int]:
    """Each example once, as it comes."""
    clf = LifelongClassifier()
    for stage in stages:
        clf.partial_fit(*stage)
    return clf, clf.examples_ + clf.learner_.ledger.train.memory_reads


def fine_tuning(stages: list[Examples]) -> tuple[LifelongClassifier, int]:
    """Each example once, encoder and head, without a memory."""
    clf = LifelongClassifier(method="seq", freeze_encoder=False)
    for stage in stages:
        clf.partial_fit(*stage)
    return clf, clf.examples_


def from_scratch(stages: list[Examples]) -> tuple[LifelongClassifier, int]:
    """A new model at each stage, from everything there has been, mixed."""
    read = 0
    for count in range(1, len(stages) + 1):
        pairs = [pair for stage in stages[:count] for pair in zip(*stage, strict=True)]
        mixed = [pair for start in range(PER_STAGE) for pair in pairs[start::PER_STAGE]]
        clf = LifelongClassifier().fit([text for text, _ in mixed], [label for _, label in mixed])
        read += clf.examples_ + clf.learner_.ledger.train.memory_reads
    return clf, read


def show(name: str, learn: Callable[[list[Examples]], tuple[LifelongClassifier, int]], stages: list[Examples]) -> None:
    """A row of the table."""
    start = time.perf_counter()
    clf, read = learn(stages)
    seconds = time.perf_counter() - start
    everything = clf.score(*held_out([topic for stage in STAGES for topic in stage]))
    first = clf.score(*held_out(STAGES[0]))
    print(f"{name:<28}{everything:>12.0%}{first:>14.0%}{read:>15,}{seconds:>9.1f}")


if __name__ == "__main__":
    main()
