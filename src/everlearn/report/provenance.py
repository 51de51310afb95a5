"""What a table's runs were computed with, and what they said: what a reader needs to trust it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everlearn.report.results import ResultDict

NOT_RECORDED = "not recorded"
_TIMES = "their times and memory cannot be compared with each other"
_ROWS = "a difference between rows may come from it"
MIXED = {
    "device": _TIMES,
    "processor": _TIMES,
    "number of runs at once": _TIMES,
    "precision": _ROWS,
    "torch": _ROWS,
    "transformers": _ROWS,
    "commit": _ROWS,
}
"""What it means that the runs of a table differ in something."""


@dataclass(frozen=True)
class Provenance:
    """Sentences to stand under a table."""

    computed: str
    """Processors, precisions and versions."""
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
    kinds = Counter(_kind(run) for run in runs)
    notes = Counter(note for run in runs for note in dict.fromkeys(run.get("notes", [])))
    if not notes and all(set(kind) == {NOT_RECORDED} for kind in kinds):
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


def _kind(run: ResultDict) -> tuple[str, ...]:
    """With what a run was computed, in words."""
    kind = [run.get("device", NOT_RECORDED), run.get("precision", NOT_RECORDED)]
    if (machine := run.get("computed_with")) is not None:
        at_once = machine["runs_at_once"]
        kind[0] = f"{machine['processor']} ({kind[0]})"
        kind += [f"torch {machine['torch']}", f"everlearn {machine['commit'] or run['everlearn']}"]
        kind += [f"{at_once} runs at once"] if at_once > 1 else []
    return tuple(kind)


def _mixed(runs: Sequence[ResultDict]) -> list[str]:
    values: dict[str, set[str]] = {what: set() for what in MIXED}
    for run in runs:
        machine = run.get("computed_with")
        known = {"device": run.get("device"), "precision": run.get("precision")}
        if machine is not None:
            known |= {name: machine[name] for name in ("processor", "torch", "transformers", "commit")}
            known["number of runs at once"] = str(machine["runs_at_once"])
        for what, value in known.items():
            values[what] |= {value} if value else set()
    return [
        f"The runs of this table differ in {what} ({', '.join(sorted(found))}): {MIXED[what]}."
        for what, found in values.items()
        if len(found) > 1
    ]
