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


def learn_rows(
    classifier: LifelongClassifier,
    folder: Path,
    rows: Iterable[Row],
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
) -> Pass:
    """Learn rows and save the model in `folder`, again and again and at the end; how far that came.

    An unfinished pass is noted in the model. Given the same rows again, it goes on behind the last one saved.
    """
    arriving = Arriving(rows, stopped)
    unfinished = unfinished_pass(classifier)
    done = Pass()
    portion = arriving.take(unfinished.rows)
    if stopped() and len(portion) < unfinished.rows:
        return unfinished  # told to stop before it came to anything new
    if portion and done.after(portion) == unfinished:
        done, portion = unfinished, []
    progress(done.rows)
    saved, saved_at = done, time.monotonic()
    while not stopped():
        portion = portion or arriving.take(PORTION, PATIENCE)
        if portion:
            labels = labels_like(classifier, [row.label for row in portion])
            classifier.partial_fit([row.text for row in portion], labels)
            done = done.after(portion)
            progress(done.rows)
        elif arriving.ended:
            break
        if done != saved and time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
            _save(classifier, folder, done)
            saved, saved_at = done, time.monotonic()
        portion = []
    if done.rows:
        _save(classifier, folder, done if stopped() else Pass())
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
