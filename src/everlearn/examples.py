"""What a stream hands out: labelled examples, with nothing in them that names a task."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text. Labels are positions in the benchmark's list of label names."""

    text: str
    label: int
    candidates: tuple[int, ...] = ()
    """The labels to choose among, where the problem is ranking; empty otherwise."""
