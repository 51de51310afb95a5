"""The folder of a model: settings, checkpoints of safetensors and JSON, and a model card."""

import fcntl
import json
import os
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlearn import __version__, checkpoint
from everlearn.classifier.card import model_card
from everlearn.classifier.journal import JOURNAL, Journal, JournalFullError
from everlearn.errors import UserError
from everlearn.run_folder import write_text

if TYPE_CHECKING:
    from everlearn.classifier.classifier import LifelongClassifier

CONFIG, CARD, CHECKPOINTS, LOCK = "config.json", "README.md", "checkpoints", ".lock"
FORMAT = 1
"""Grows when a newer version writes something that an older one cannot read."""
WATCHED = "watched"
"""Under this name a service keeps with a model how well it did."""
SHARED = (CONFIG, CARD, f"{CHECKPOINTS}/**")
"""What is part of the model; a service keeps its journal beside it."""


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model."""
    return (folder / CONFIG).is_file()


def keep(classifier: "LifelongClassifier", folder: Path) -> Path:
    """Write a model: nothing that others wrote to the folder is lost unnoticed, and what was forgotten is gone.

    Like `save`, for whoever holds the folder (`locked`).
    """
    there = checkpoint.glimpse(folder / CHECKPOINTS) if is_model(folder) else None
    if there is not None:
        _take_over(classifier, folder, there)
    if not classifier.erasure_ or not (folder / JOURNAL).is_file():
        return save(classifier, folder)
    journal = Journal(folder / JOURNAL)
    try:
        waiting = journal.last - journal.position(classifier.places_.get(JOURNAL))
        if waiting > 0:
            raise UserError(
                f"{waiting:,} examples that were sent to the service wait in {folder} to be learned, and may be "
                "among those to be forgotten: use `everlearn forget`, which learns them first."
            )
        save(classifier, folder)
        journal.erase(journal.last, classifier.erasure_)
    except JournalFullError as error:
        raise UserError(f"the journal in {folder} could not be emptied ({error}): make room and save again.") from error
    finally:
        journal.close()
    return folder


def save(classifier: "LifelongClassifier", folder: Path) -> Path:
    """Write a model, for whoever has held the folder (`locked`) since the model was loaded from it."""
    _make(folder)
    config = {"format": FORMAT, "everlearn": __version__, "params": classifier.params_}
    try:
        text = json.dumps(config, indent=2) + "\n"
    except TypeError as error:
        raise UserError(f"the settings cannot be written as JSON ({error}): use plain numbers and texts.") from error
    card = model_card(classifier)
    mark = uuid.uuid4().hex
    classifier.marks_.append(mark)
    # The parameters are in the checkpoint as well: it is written as one, and config.json is for people.
    parts = {"params": classifier.params_, "classifier": classifier.state(), "places": classifier.places_}
    named = {"lineage": classifier.lineage_, "erasure": classifier.erasure_, "mark": mark}
    replaces = _replaced(named, checkpoint.glimpse(folder / CHECKPOINTS))
    checkpoint.save(
        folder / CHECKPOINTS,
        checkpoint.newest(folder / CHECKPOINTS) + 1,
        {**parts, **named},
        advice="make room and save again, what was saved before is whole",
        kept=1 if replaces else checkpoint.KEPT,
    )
    write_text(folder / CONFIG, text)
    write_text(folder / CARD, card)
    return folder


def load(folder: Path) -> dict[str, Any]:
    """The model in a folder: `params`, `classifier` (its state) and what is kept with it, see `save`."""
    _check_config(folder)
    saved = checkpoint.load_newest(folder / CHECKPOINTS, warnings.warn)
    if saved is None:
        raise UserError(f"the model in {folder} is damaged, no checkpoint in it is whole: take it from a backup.")
    return saved[1]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep everyone else from writing to a model while this process does; a folder made for nothing goes again."""
    new = not folder.exists()
    _make(folder)
    descriptor = _lock(folder)
    try:
        # Whoever was to delete them may have been killed before.
        checkpoint.discard(folder / CHECKPOINTS, _replaced)
        yield
    finally:
        if new and [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            with suppress(OSError):  # somebody has just put something into it
                folder.rmdir()
        os.close(descriptor)


def _lock(folder: Path) -> int:
    while True:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            busy = f"another process or thread is at work with the model {folder}"
            raise UserError(f"{busy} (it learns or is served): stop it, or wait for it.") from error
        # Who held it before may have deleted it: then it is nobody's lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), (folder / LOCK).stat()):
                return descriptor
        os.close(descriptor)
        _make(folder)


def _take_over(classifier: "LifelongClassifier", folder: Path, there: dict[str, Any]) -> None:
    """The model in the folder makes room for another, or for what became of it."""
    if there["lineage"] != classifier.lineage_:
        # What was sent to a service and learned by the one is not sent to the other again.
        classifier.places_[JOURNAL] = there["places"].get(JOURNAL)
    elif there["mark"] not in classifier.marks_:
        raise UserError(
            f"the model in {folder} has changed since this one was loaded from there or saved there "
            f"({there['classifier']['examples']:,} examples learned there, {classifier.examples_:,} here): "
            "load it again, or save to another folder."
        )


def _replaced(newer: dict[str, Any], older: dict[str, Any] | None) -> bool:
    """What had to be forgotten must not live on in an older checkpoint, nor a model whose place another took."""
    return older is None or any(newer[name] != older.get(name) for name in ("lineage", "erasure"))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for path in folder.iterdir()) if not is_model(folder) else []
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be used: {error.strerror}.") from error
    own = (CARD, CHECKPOINTS, LOCK)
    strange = [name for name in foreign if name not in own and not name.startswith((CONFIG, JOURNAL))]
    if strange:
        raise UserError(f"the folder {folder} holds other files ({', '.join(strange[:3])}): choose a new one.")


def _check_config(folder: Path) -> None:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        version = int(config["format"])
    except FileNotFoundError as error:
        raise UserError(f"there is no model in {folder}: check the path, or make one with everlearn learn.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}): take the model from a backup.") from error
    if version > FORMAT:
        raise UserError(
            f"the model in {folder} was written by a newer everlearn ({config.get('everlearn')}): update it."
        )
