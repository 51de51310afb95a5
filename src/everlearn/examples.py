"""What a stream hands out: labelled examples, with nothing in them that names a task."""

from dataclasses import dataclass

UNLABELLED = -1
"""Stands for a label where there is none: in a text that is only to be predicted, and where nothing can be chosen."""


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text. Labels are positions in the benchmark's list of label names."""

    text: str
    label: int
    candidates: tuple[int, ...] = ()
    """The labels to choose among, where the problem is ranking; empty otherwise."""
