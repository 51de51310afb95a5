"""What a table's runs were computed with, and what they said: what a reader needs to trust it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everlearn.report.results import ResultDict

NOT_RECORDED = "not recorded"
MIXED = {
    "device": "their times and memory cannot be compared with each other",
    "precision": "a difference between rows may come from it",
}
"""What it means that the runs of a table differ in something."""


@dataclass(frozen=True)
class Provenance:
    """Sentences to stand under a table."""

    computed: str
    """Devices and precisions."""
    notes: tuple[str, ...]
    """What the runs noted, each once."""
    warnings: tuple[str, ...]
    """Why rows may not be comparable."""

    @property
    def line(self) -> str:
        """All but the warnings on one line."""
        noted = f" Noted by the runs: {'; '.join(self.notes)}." if self.notes else ""
        return f"{self.computed}{noted}"


def provenance(runs: Sequence[ResultDict]) -> Provenance | None:
    """What is known of these runs; None where nothing is.

    >>> runs = [{"device": "cpu", "precision": "fp32", "notes": ["texts are cut"]}, {"device": "cpu"}]
    >>> print(provenance(runs).line)
    Computed on cpu, fp32 (1 run); cpu, not recorded (1 run). Noted by the runs: texts are cut (1 of 2 runs).
    """
    kinds = Counter((run.get("device", NOT_RECORDED), run.get("precision", NOT_RECORDED)) for run in runs)
    notes = Counter(note for run in runs for note in dict.fromkeys(run.get("notes", [])))
    if not notes and set(kinds) <= {(NOT_RECORDED, NOT_RECORDED)}:
        return None
    computed = [", ".join(dict.fromkeys(kind)) + _share(number, len(runs), "") for kind, number in kinds.items()]
    return Provenance(
        f"Computed on {'; '.join(computed)}.",
        tuple(note + _share(number, len(runs), f" of {len(runs)}") for note, number in notes.items()),
        tuple(_mixed(runs)),
    )


def _share(number: int, total: int, of: str) -> str:
    """How many runs something holds for, where that is not all of them."""
    return "" if number == total else f" ({number}{of} run{'s' if total > 1 and (of or number > 1) else ''})"


def _mixed(runs: Sequence[ResultDict]) -> list[str]:
    values = {
        "device": {run["device"] for run in runs if "device" in run},
        "precision": {run["precision"] for run in runs if "precision" in run},
    }
    return [
        f"The runs of this table differ in {what} ({', '.join(sorted(found))}): {MIXED[what]}."
        for what, found in values.items()
        if len(found) > 1
    ]
