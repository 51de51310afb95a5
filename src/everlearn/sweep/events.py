"""What engines are given and what they tell: jobs in, events out, the same whichever engine carries them out."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

ATTEMPTS = 3
"""How often a run is started before it counts as failed: a worker may die through no fault of the run."""


@dataclass(frozen=True)
class Job:
    """A run to be carried out, as plain values that can be sent anywhere."""

    name: str
    label: str
    kind: str
    """Runs of one kind take about the same time."""
    settings: dict[str, Any]
    folder: str
    threads: int
    at_once: int = 1
    """How many runs go on at the same time."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    kind: Literal["started", "advanced", "ended", "failed", "retried"]
    job: Job
    share: float = 0.0
    """How much of the run is done."""
    text: str = ""


class Engine(Protocol):
    """Carries out jobs."""

    at_once: int
    """How many runs go on at the same time."""

    def carry_out(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Carry out all jobs; one that fails for good does not stop the others."""
