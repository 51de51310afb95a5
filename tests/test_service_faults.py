"""The service is killed at any moment, and every acknowledged example is learned exactly once all the same."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from conftest import CommandLine
from everlearn import LifelongClassifier
from kill_cycles import kill_again_and_again
from running_service import OPTIONS, SETTINGS, Process, service
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

CYCLES = 2  # test_crashes.py kills at every step; here it is real processes and real kills


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


def test_a_model_that_knows_no_label_any_more_can_be_served_and_taught(tmp_path: Path):
    model = LifelongClassifier(**SETTINGS).partial_fit(["the of", "it for"], ["a", "b"])
    for label in ("a", "b"):
        model.forget(label)
    model.save(tmp_path / "model")
    with service(tmp_path / "model") as (client, _):
        client.wait_until_learned(client.teach(("the of", "c"))[-1])
        assert client.post("/predictions", {"texts": ["the of"]})[1]["predictions"][0]["label"] == "c"


@pytest.mark.parametrize(
    ("options", "variable", "message"),
    [
        (("--token", " "), "", "the token is empty"),
        ((), "a\x07b", "no header can"),
        (("--port", "99999"), "", "less than or equal to 65535"),
        (("--most-waiting", "-5"), "", "greater than or equal to 1"),
    ],
)
def test_options_that_cannot_be_meant(
    everlearn: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    variable: str,
    message: str,
):
    monkeypatch.setenv("EVERLEARN_TOKEN", variable)
    code, _, err = everlearn("serve", tmp_path / "model", *options)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "model").exists()


def test_a_token_from_a_file_may_end_with_a_line_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EVERLEARN_TOKEN", "secret\n")
    process = Process(tmp_path / "model", *OPTIONS)
    try:
        assert process.client.get("/model")[0] == 401
        process.client.token = "secret"
        assert process.client.get("/model")[0] == 200
    finally:
        process.stop()
