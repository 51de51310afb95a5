"""The thread that learns: examples from the journal in order, each exactly once; it saves and hands out snapshots.

A checkpoint holds the model and the number of the last example in it, written as one. After a crash the newest one is
loaded and the journal read on from that number, so nothing is lost or learned twice.
"""

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlearn.classifier import Label, LifelongClassifier, Snapshot, storage
from everlearn.classifier.journal import JOURNAL, Journal, JournalFullError
from everlearn.errors import UserError
from everlearn.service.watching import Arrivals, Retention

PORTION = 32
"""Examples learned between two snapshots, when there are so many waiting."""
EXAMPLES_BETWEEN_SAVES = 256
SECONDS_BETWEEN_SAVES = 10.0
SECONDS_BETWEEN_RETENTION = 20.0
IDLE_SECONDS = 0.5

log = logging.getLogger("everlearn.service")


@dataclass(frozen=True)
class Facts:
    """What there is to say about the model between two portions; other threads read this and never the model."""

    examples: int
    counts: dict[Label, int]
    memory_entries: int
    updated: str
    accuracy: float | None
    curve: tuple[tuple[int, float], ...]
    recent: tuple[dict[str, Any], ...]
    retention: tuple[dict[str, Any], ...]


class Learning(threading.Thread):
    """Learns behind the requests. Whoever predicts takes `snapshot`, which is replaced as a whole."""

    def __init__(self, folder: Path, classifier: LifelongClassifier, journal: Journal) -> None:
        super().__init__(name="learning", daemon=True)
        self.folder, self.classifier, self.journal = folder, classifier, journal
        self.snapshot: Snapshot | None = classifier.snapshot() if len(classifier.classes_) else None
        self.arrivals, self.retention = Arrivals(), Retention()
        self.rate = 0.0
        """Examples learned per second, lately."""
        self.failure: str | None = None
        """Why nothing more is learned."""
        self.save_failure: str | None = None
        """Why the last attempt to save failed; it is tried again."""
        self.busy = False
        self._wake, self._stopping = threading.Event(), threading.Event()
        self.position = journal.position(classifier.places_.get(JOURNAL))
        """The number of the last example learned."""
        self._saved_position = self._oldest_position = self.position
        self._saved_at = self._measured_at = time.monotonic()
        self._measured_position = -1
        if watched := classifier.places_.get(storage.WATCHED):
            self.arrivals.restore(watched["arrivals"])
            self.retention.restore(watched["retention"], classifier.counts_)
        self.facts = self._facts()
        journal.go_on_from(self.position)
        if classifier.erasure_:
            journal.erase(self.position, classifier.erasure_)
        if journal.first > self.position + 1:
            raise UserError(
                f"the journal in {folder} begins behind example {journal.first - 1}, but the model has learned only "
                f"{self.position} of them: restore the model that belongs to it, or delete the journal."
            )

    @property
    def backlog(self) -> int:
        """Acknowledged examples that are not learned yet."""
        return max(0, self.journal.last - self.position)

    def wake(self) -> None:
        """There is something new to learn."""
        self._wake.set()

    def stop(self) -> None:
        """Learn what has been acknowledged, save, and end."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Learn until told to stop and nothing is left."""
        try:
            while not (self._stopping.is_set() and not self.backlog):
                learned = self._learn_portion()
                self._save_if_due()
                self._measure_if_due()
                if not learned:
                    self._wake.wait(IDLE_SECONDS)
                    self._wake.clear()
        except Exception as error:
            self.failure = str(error) if isinstance(error, UserError) else f"unexpected error: {error}"
            log.exception("learning has stopped")
        finally:
            self.busy = False
        if self.failure is None and self.position > self._saved_position:
            self.save()

    def save(self) -> None:
        """A checkpoint of the model and its place in the journal, as one."""
        watched = {"arrivals": self.arrivals.state(), "retention": self.retention.state()}
        self.classifier.places_ |= {JOURNAL: self.journal.place(self.position), storage.WATCHED: watched}
        self._saved_at = time.monotonic()
        try:
            storage.save(self.classifier, self.folder)
            # Two checkpoints are kept: the journal keeps what the older one has not learned.
            self.journal.prune(self._oldest_position)
        except (UserError, JournalFullError) as error:
            self.save_failure = str(error)
            log.error("%s", error)
            return
        self.save_failure = None
        self._oldest_position, self._saved_position = self._saved_position, self.position

    def _learn_portion(self) -> bool:
        entries = self.journal.read(self.position, PORTION)
        self.busy = bool(entries)
        if not entries:
            return False
        start = time.monotonic()
        texts, labels = [entry.text for entry in entries], [entry.label for entry in entries]
        predicted = self.snapshot.predict(texts) if self.snapshot else [None] * len(texts)
        self.arrivals.add(entries, predicted, self.classifier.examples_)
        self.classifier.partial_fit(texts, labels)
        self.snapshot = self.classifier.snapshot()
        self.position = entries[-1].id
        self.facts = self._facts()
        measured = len(entries) / max(time.monotonic() - start, 1e-6)
        self.rate = measured if not self.rate else 0.8 * self.rate + 0.2 * measured
        return True

    def _save_if_due(self) -> None:
        unsaved = self.position - self._saved_position
        late = time.monotonic() - self._saved_at > SECONDS_BETWEEN_SAVES
        if unsaved and (late or (unsaved >= EXAMPLES_BETWEEN_SAVES and not self.save_failure)):
            self.save()

    def _measure_if_due(self) -> None:
        late = time.monotonic() - self._measured_at > SECONDS_BETWEEN_RETENTION or self._measured_position < 0
        if self.snapshot and late and self.position != self._measured_position:
            self.retention.measure(self.classifier, self.snapshot)
            self._measured_at, self._measured_position = time.monotonic(), self.position
            self.facts = self._facts()

    def _facts(self) -> Facts:
        return Facts(
            examples=self.classifier.examples_,
            counts=self.classifier.counts_,
            memory_entries=len(self.classifier.learner_.memory),
            updated=self.classifier.updated_,
            accuracy=self.arrivals.accuracy,
            curve=tuple(self.arrivals.points),
            recent=tuple(reversed(self.arrivals.recent)),
            retention=tuple(self.retention.as_rows()),
        )
