"""The service is killed at any moment, and every acknowledged example is learned exactly once all the same."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from everlearn import LifelongClassifier
from kill_cycles import kill_again_and_again
from running_service import OPTIONS, SETTINGS, Process
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

CYCLES = 3


def test_what_was_acknowledged_is_learned_exactly_once_though_the_service_is_killed(tmp_path: Path):
    outcome = kill_again_and_again(tmp_path / "model", CYCLES, OPTIONS)
    assert outcome.acknowledged > 10 * CYCLES
    assert (outcome.lost, outcome.twice) == (0, 0)
    # A write can reach the disk and the kill come before the answer: then it counts, though nobody was told.
    assert outcome.acknowledged <= outcome.learned <= outcome.acknowledged + CYCLES


def test_a_model_whose_service_was_killed_equals_one_that_never_was(tmp_path: Path):
    examples = [(example.text, f"label{example.label}") for example in labelled_texts(900, range(6))]
    folder = tmp_path / "model"
    process = Process(folder, *OPTIONS, "--method", "replay")  # which also draws, and whose optimiser remembers
    process.client.teach(*examples[:600])
    process.client.wait_until_learned(300)  # beyond a checkpoint, and before the end
    process.kill()
    again = Process(folder)
    again.client.teach(*examples[600:])
    assert again.client.get("/examples/900")[0] == 200
    again.stop()  # drains
    whole = LifelongClassifier(method="replay", **SETTINGS).partial_fit(*zip(*examples, strict=True))
    assert_same_state(knowledge(LifelongClassifier.load(folder)), knowledge(whole))


def test_one_service_a_model_and_one_address_a_service(tmp_path: Path):
    process = Process(tmp_path / "model", *OPTIONS)
    try:
        with pytest.raises(AssertionError, match="another process or thread is at work"):
            Process(tmp_path / "model")
        shutil.copytree(tmp_path / "model", tmp_path / "copy")
        with pytest.raises(AssertionError, match="the address is taken"):
            Process(tmp_path / "copy", "--port", str(process.client.port))
        with pytest.raises(AssertionError, match="leave out --encoder"):
            Process(tmp_path / "copy", *OPTIONS)
    finally:
        process.stop()
