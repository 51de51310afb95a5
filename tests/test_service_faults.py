"""The service is killed at any moment, and every acknowledged example is learned exactly once all the same."""

import os
import random
import shutil
import sqlite3
import threading
import time
from http.client import HTTPException
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from everlearn import LifelongClassifier
from running_service import OPTIONS, SETTINGS, Client, Process
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

CYCLES = int(os.environ.get("EVERLEARN_KILL_CYCLES", "3"))


class Writer(threading.Thread):
    """Teaches one example after the other and notes what was acknowledged."""

    def __init__(self, client: Client, examples: list[tuple[str, str]]) -> None:
        super().__init__(daemon=True)
        self.client, self.examples = client, examples
        self.acknowledged: dict[int, tuple[str, str]] = {}

    def run(self) -> None:
        for example in self.examples:
            try:
                self.acknowledged[self.client.teach(example)[0]] = example
            except (OSError, ValueError, HTTPException):  # killed while it answered
                return


def test_what_was_acknowledged_is_learned_exactly_once_though_the_service_is_killed(tmp_path: Path):
    folder, rng = tmp_path / "model", random.Random(1)
    acknowledged: dict[int, tuple[str, str]] = {}
    for cycle in range(CYCLES):
        process = Process(folder, *(OPTIONS if cycle == 0 else ()))
        texts = labelled_texts(2000, range(6), seed=cycle)
        writer = Writer(process.client, [(f"{example.text} {cycle}", f"label{example.label}") for example in texts])
        writer.start()
        time.sleep(rng.uniform(0.1, 1.5))
        process.kill()
        writer.join(30)
        acknowledged |= writer.acknowledged
    with sqlite3.connect(folder / "journal.sqlite") as journal:  # what was written, acknowledged or not
        written = dict(journal.execute("SELECT id, text FROM examples"))
    process = Process(folder)
    last = max(acknowledged)
    process.client.wait_until_learned(last)
    said = process.stop()
    assert "examples learned and saved" in said
    assert process.process.returncode == 0

    model = LifelongClassifier.load(folder)
    # A write can reach the disk and the kill come before the answer: then it counts, though nobody was told.
    assert len(acknowledged) <= model.examples_ <= len(acknowledged) + CYCLES
    for number, (text, _) in acknowledged.items():
        assert written.get(number, text) == text
    remembered = model.learner_.memory.all().tokens
    waiting = model.learner_.waiting.tokens
    found = [row.tobytes() for tokens in (remembered, waiting) for row in (tokens[i] for i in range(len(tokens)))]
    assert len(found) == len(set(found)) == model.examples_  # every text differs: none was learned twice
    tokens = model.learner_.encoder.tokenizer([text for text, _ in acknowledged.values()])
    assert {tokens[row].tobytes() for row in range(len(tokens))} <= set(found)


def test_a_model_whose_service_was_killed_equals_one_that_never_was(tmp_path: Path):
    examples = [(example.text, f"label{example.label}") for example in labelled_texts(900, range(6))]
    folder = tmp_path / "model"
    process = Process(folder, *OPTIONS)
    process.client.teach(*examples[:600])
    process.client.wait_until_learned(300)  # beyond a checkpoint, and before the end
    process.kill()
    again = Process(folder)
    again.client.teach(*examples[600:])
    assert again.client.get("/examples/900")[0] == 200
    again.stop()  # drains
    whole = LifelongClassifier(**SETTINGS).partial_fit(*zip(*examples, strict=True))
    assert_same_state(knowledge(LifelongClassifier.load(folder)), knowledge(whole))


def test_one_service_a_model_and_one_address_a_service(tmp_path: Path):
    process = Process(tmp_path / "model", *OPTIONS)
    try:
        with pytest.raises(AssertionError, match="another process is learning"):
            Process(tmp_path / "model")
        shutil.copytree(tmp_path / "model", tmp_path / "copy")
        with pytest.raises(AssertionError, match="the address is taken"):
            Process(tmp_path / "copy", "--port", str(process.client.port))
        with pytest.raises(AssertionError, match="leave out --encoder"):
            Process(tmp_path / "copy", *OPTIONS)
    finally:
        process.stop()
