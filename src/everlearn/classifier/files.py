"""Learning from a file: rows in portions, saved as it goes, and taken up where an interrupted pass stopped."""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from everlearn.classifier import storage
from everlearn.classifier.arriving import Arriving
from everlearn.classifier.classifier import LifelongClassifier
from everlearn.classifier.labels import Label
from everlearn.errors import UserError
from everlearn.streams.tables import Row

PORTION = 64
"""Rows between two looks at whether to stop or to save."""
SECONDS_BETWEEN_SAVES = 30.0
PATIENCE = 0.3
"""Seconds without a row after which those that came are learned, though they are not a whole portion yet."""
UNFINISHED = "file"
"""Under this name the model keeps how far an interrupted pass has come."""


@dataclass(frozen=True)
class Pass:
    """How far a pass over some rows has come, and a digest of what they were."""

    rows: int = 0
    digest: str = ""

    def after(self, rows: Iterable[Row]) -> "Pass":
        """The pass after more rows."""
        count, digest = self.rows, self.digest
        for row in rows:
            count += 1
            digest = hashlib.sha256("\0".join([digest, row.text, row.label]).encode()).hexdigest()
        return Pass(count, digest)


@dataclass(frozen=True)
class Reporting:
    """What whoever learns from rows wants to know, and to say."""

    progress: Callable[[int], None] = lambda rows: None
    say: Callable[[str], None] = lambda sentence: None
    stopped: Callable[[], bool] = lambda: False


def learn_rows(
    classifier: LifelongClassifier, folder: Path, rows: Iterable[Row], reporting: Reporting, again: bool = True
) -> Pass:
    """Learn rows and save the model in `folder`, every now and then and at the end; how far that came.

    Where the same rows can be had `again`, an unfinished pass is noted in the model; given them again, it goes on
    behind the last one saved.
    """
    stopped = reporting.stopped
    arriving = Arriving(rows, stopped)
    unfinished = unfinished_pass(classifier) if again else Pass()
    done = Pass()
    read = arriving.take(unfinished.rows)
    if stopped() and len(read) < unfinished.rows:
        return unfinished  # told to stop before it came to anything new
    if read and done.after(read) == unfinished:
        done, read = unfinished, []
    elif read:
        reporting.say("these are not the rows of the interrupted pass: all of them are learned")
    reporting.progress(done.rows)
    saved, saved_at = done, time.monotonic()
    try:
        while not stopped():
            portion, read = (read[:PORTION], read[PORTION:]) if read else (arriving.take(PORTION, PATIENCE), [])
            if portion:
                labels = labels_like(classifier, [row.label for row in portion])
                classifier.partial_fit([row.text for row in portion], labels)
                done = done.after(portion)
                reporting.progress(done.rows)
            elif arriving.ended:
                break
            if done != saved and time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                _save(classifier, folder, done if again else Pass())
                saved, saved_at = done, time.monotonic()
    except UserError as error:
        if not done.rows:
            raise
        if done != saved:
            _save(classifier, folder, done if again else Pass())
        raise UserError(f"{error} The {done.rows:,} rows before are learned and saved.") from error
    if done.rows:
        _save(classifier, folder, done if again and stopped() else Pass())
    return done


def unfinished_pass(classifier: LifelongClassifier) -> Pass:
    """The pass over a file that was interrupted, if there is one."""
    return Pass(**classifier.places_.get(UNFINISHED, {}))


def _save(classifier: LifelongClassifier, folder: Path, done: Pass) -> None:
    classifier.places_[UNFINISHED] = asdict(done)
    storage.save(classifier, folder)


def labels_like(classifier: LifelongClassifier, labels: list[str]) -> list[Label]:
    """Labels as the model has them: a file's are texts, but a model may have learned whole numbers."""
    if classifier.label_kind is not int:
        return list(labels)
    try:
        return [int(label) for label in labels]
    except ValueError as error:
        raise UserError(f"the labels of this model are whole numbers, and the file has others ({error}).") from error


def portions(texts: Iterator[str], size: int = PORTION) -> Iterator[list[str]]:
    """Texts in lists of at most `size`."""
    while portion := list(itertools.islice(texts, size)):
        yield portion
