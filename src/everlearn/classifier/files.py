"""Learning from a file: rows in portions, saved as it goes, and taken up where an interrupted pass stopped."""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from everlearn.classifier import storage
from everlearn.classifier.classifier import LifelongClassifier
from everlearn.classifier.labels import Label
from everlearn.errors import UserError
from everlearn.streams.tables import Row

PORTION = 64
"""Rows between two looks at whether to stop or to save."""
SECONDS_BETWEEN_SAVES = 30.0


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
    unfinished: Pass,
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
) -> Pass:
    """Learn rows and save the model in `folder`, again and again and at the end; how far that came.

    An unfinished pass is noted in the model. Given the same rows again, it goes on behind the last one saved.
    """
    rest = iter(rows)
    done = Pass()
    first = list(itertools.islice(rest, unfinished.rows))
    if first and done.after(first) == unfinished:
        done = unfinished
    else:
        rest = itertools.chain(first, rest)
    progress(done.rows)
    saved_at = time.monotonic()
    while not stopped() and (portion := list(itertools.islice(rest, PORTION))):
        labels = labels_like(classifier, [row.label for row in portion])
        classifier.partial_fit([row.text for row in portion], labels)
        done = done.after(portion)
        progress(done.rows)
        if time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
            storage.save(classifier, folder, {"unfinished": asdict(done)})
            saved_at = time.monotonic()
    if done.rows:
        storage.save(classifier, folder, {"unfinished": asdict(done)} if stopped() else {})
    return done


def labels_like(classifier: LifelongClassifier, labels: list[str]) -> list[Label]:
    """Labels as the model has them: a file's are texts, but a model may have learned whole numbers."""
    if classifier.label_kind is not int:
        return list(labels)
    try:
        return [int(label) for label in labels]
    except ValueError as error:
        raise UserError(f"the labels of this model are whole numbers, and the file has others ({error}).") from error


def load_model(folder: Path) -> tuple[LifelongClassifier, Pass]:
    """The model in a folder, and the pass over a file that was not finished, if there is one."""
    params, state, extra = storage.load(folder)
    return LifelongClassifier.from_saved(params, state), Pass(**extra.get("unfinished", {}))


def portions(texts: Iterator[str], size: int = PORTION) -> Iterator[list[str]]:
    """Texts in lists of at most `size`."""
    while portion := list(itertools.islice(texts, size)):
        yield portion
