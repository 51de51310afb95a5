"""Killed at any step that touches the disk, and started again: everything acknowledged is learned, and once."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlearn import LifelongClassifier
from everlearn.classifier import storage
from everlearn.classifier.journal import JOURNAL, Journal
from everlearn.service import learning as learning_module
from everlearn.service.learning import Learning
from everlearn.service.server import _opened
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

EXAMPLES = [(example.text, f"label{example.label}") for example in labelled_texts(70, range(4))]
PARAMS = {"encoder": "tiny", "settings": {"batch_size": 8}}
STEPS = (
    (os, "fsync"),
    (os, "mkdir"),
    (os, "unlink"),
    (os, "rmdir"),
    (Path, "rename"),
    (Path, "replace"),
    (shutil, "rmtree"),
    (Journal, "prune"),
)


class Killed(BaseException):
    """As good as a kill: nothing in the program catches it."""


class Steps:
    """Counts steps that touch the disk, and ends everything at one of them."""

    def __init__(self) -> None:
        self.count, self.last = 0, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.last:
            raise Killed

    def until(self, last: int) -> None:
        self.count, self.last = 0, last


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    counted = Steps()

    def hooked(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def wrapper(*given: Any, **named: Any) -> Any:
            counted.step()
            return original(*given, **named)

        monkeypatch.setattr(owner, name, wrapper)

    for owner, name in STEPS:
        hooked(owner, name)
    monkeypatch.setattr(learning_module, "EXAMPLES_BETWEEN_SAVES", 32)
    return counted


def session(folder: Path) -> None:
    """Serve a model, acknowledge what has not been yet, and end in order."""
    with storage.locked(folder):
        classifier = _opened(folder, {} if storage.is_model(folder) else PARAMS)
        journal = Journal(folder / JOURNAL)
        try:
            learning = Learning(folder, classifier, journal)
            if more := EXAMPLES[journal.last :]:
                journal.append(more)
            learning.stop()
            learning.run()
            assert (learning.failure, learning.save_failure) == (None, None)
        finally:
            journal.close()


def test_it_may_be_killed_at_any_step(tmp_path: Path, steps: Steps):
    session(tmp_path / "whole")
    count, expected = steps.count, knowledge(LifelongClassifier.load(tmp_path / "whole"))
    assert count > 40
    for last in range(1, count):
        folder = tmp_path / str(last)
        steps.until(last)
        with pytest.raises(Killed):
            session(folder)
        steps.until(0)
        session(folder)
        found = LifelongClassifier.load(folder)
        assert found.examples_ == len(EXAMPLES), last
        assert_same_state(knowledge(found), expected)


def test_forgetting_may_be_killed_at_any_step(tmp_path: Path, steps: Steps):
    """Given again, or once the model is served again, it is done."""
    session(tmp_path / "begun")
    text = EXAMPLES[-1][0]
    last = 0
    while True:
        last += 1
        folder = tmp_path / str(last)
        shutil.copytree(tmp_path / "begun", folder)
        classifier = LifelongClassifier.load(folder)
        classifier.forget_texts([text])
        steps.until(last)
        try:
            classifier.save(folder)
        except Killed:
            steps.until(0)
            again = LifelongClassifier.load(folder)
            if again.erasure_ != classifier.erasure_:  # killed before anything was saved
                again.forget_texts([text])
                again.save(folder)
            session(folder)
        else:
            break
        assert LifelongClassifier.load(folder).forget_texts([text]) == 0
        assert len(list((folder / "checkpoints").iterdir())) == 1, last
        assert text.encode() not in b"".join(path.read_bytes() for path in folder.glob(f"{JOURNAL}*")), last
    assert last > 10
