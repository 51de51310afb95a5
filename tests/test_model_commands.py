"""`everlearn learn`, `predict`, `score` and `inspect`."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import CommandLine
from everlearn import LifelongClassifier
from everlearn.classifier import files
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

TINY = ("--encoder", "tiny", "--head-lr", "0.03")


def rows(count: int, labels: Any = (0, 1, 2), seed: int = 1) -> list[tuple[str, str]]:
    return [(example.text, f"label{example.label}") for example in labelled_texts(count, labels, seed)]


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    if path.suffix == ".jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in pairs]
    else:
        sign = "\t" if path.suffix == ".tsv" else ","
        lines = [f"text{sign}label", *(f"{text}{sign}{label}" for text, label in pairs)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_model_is_made_continued_scored_and_asked(everlearn: CommandLine, tmp_path: Path, suffix: str):
    model, first, second = tmp_path / "model", tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write(first, rows(60))
    write(second, rows(60, (3, 4)))
    code, _, err = everlearn("learn", model, first, *TINY)
    assert (code, err.splitlines()[-1]) == (0, f"{model}: 60 examples learned, 3 labels")
    code, _, err = everlearn("learn", model, second)
    assert code == 0
    assert "going on with" in err
    assert "120 examples learned, 5 labels" in err
    code, out, _ = everlearn("score", model, second, "--json")
    assert code == 0
    assert json.loads(out)["examples"] == 60
    assert set(json.loads(out)["labels"]) == {"label3", "label4"}
    assert json.loads(out)["accuracy"] > 0.8
    code, out, _ = everlearn("predict", model, second)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["text"] for line in lines] == [text for text, _ in rows(60, (3, 4))]
    assert all(0 < line["probability"] <= 1 for line in lines)
    code, out, _ = everlearn("inspect", model, "--json")
    facts = json.loads(out)
    assert facts["examples"] == 120
    assert facts["labels"]["label3"] == 30
    assert facts["memory"] == {"entries": 120, "capacity": 10_000, "policy": "reservoir"}
    code, out, _ = everlearn("inspect", model)
    assert "examples learned  120" in out
    code, out, _ = everlearn("score", model, second)
    assert "accuracy" in out


def test_what_is_piped_in(everlearn: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    model = tmp_path / "model"
    pipe("".join(json.dumps({"body": text, "topic": label}) + "\n" for text, label in rows(12)))
    code, _, err = everlearn("learn", model, "-", *TINY, "--text-column", "body", "--label-column", "topic")
    assert code == 0, err
    pipe("text,label\nthe of and,label0\n")
    assert everlearn("learn", model, "-", "--format", "csv")[0] == 0
    pipe("the of and\n\nit for on\n")
    code, out, _ = everlearn("predict", model, "-")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["the of and", "", "it for on"]
    pipe("a,b\n")
    code, _, err = everlearn("learn", model, "-", "--format", "xml")
    assert code == 2
    assert "unknown format 'xml'" in err


def test_a_method_that_gives_labels_only_can_be_asked_too(everlearn: CommandLine, tmp_path: Path):
    data = write(tmp_path / "a.csv", rows(24))
    model = tmp_path / "model"
    code, _, err = everlearn("learn", model, data, "--method", "mbpa++", *TINY)
    assert code == 0, err
    code, out, err = everlearn("predict", model, data)
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == 24
    assert all(answer["probability"] is None for answer in answers)
    assert {answer["label"] for answer in answers} <= {label for _, label in rows(24)}


def test_mistakes_end_with_one_sentence(everlearn: CommandLine, tmp_path: Path):
    data = write(tmp_path / "a.csv", rows(8))
    model = tmp_path / "model"
    for command in (("predict", model, data), ("score", model, data), ("inspect", model)):
        code, _, err = everlearn(*command)
        assert (code, err.strip()) == (
            2,
            f"everlearn: there is no model in {model}: check the path, or make one with everlearn learn.",
        )
    code, _, err = everlearn("learn", model, data, "--label-column", "topic")
    assert (code, "has no column 'topic'" in err) == (2, True)
    assert not (model / "config.json").exists()
    everlearn("learn", model, data, *TINY)
    code, _, err = everlearn("learn", model, data, "--method", "seq")
    assert (code, "was made with method slda" in err) == (2, True)
    LifelongClassifier(encoder="tiny").partial_fit(["a", "b"], [1, 2]).save(tmp_path / "numbers")
    code, _, err = everlearn("learn", tmp_path / "numbers", data)
    assert (code, "whole numbers" in err) == (2, True)


def test_a_pass_that_is_stopped_goes_on_where_it_stopped(tmp_path: Path):
    """In pieces, with the rows given from the start each time, it learns each row once."""
    pairs = [files.Row(number, text, label) for number, (text, label) in enumerate(rows(300))]
    settings = {"encoder": "tiny", "settings": {"head_lr": 0.03}}
    whole = LifelongClassifier(**settings).begin()
    files.learn_rows(whole, tmp_path / "whole", pairs, files.Reporting())
    folder = tmp_path / "pieces"
    classifier = LifelongClassifier(**settings).begin()
    positions: list[int] = []
    for place in (128, 256, 300):
        stopped = [place] if place < 300 else None
        reporting = files.Reporting(positions.append, pytest.fail, lambda at=stopped: positions[-1:] == at)
        done = files.learn_rows(classifier, folder, pairs, reporting)
        assert done.rows == place
        classifier = LifelongClassifier.load(folder)
        assert files.unfinished_pass(classifier) == (done if place < 300 else files.Pass())
    assert positions == [0, 64, 128, 128, 192, 256, 256, 300]
    knowledge_of = [knowledge(LifelongClassifier.load(tmp_path / name)) for name in ("whole", "pieces")]
    assert_same_state(*knowledge_of)


def test_other_rows_are_not_taken_for_those_of_an_unfinished_pass(tmp_path: Path):
    pairs = [files.Row(number, text, label) for number, (text, label) in enumerate(rows(100))]
    classifier = LifelongClassifier(encoder="tiny").begin()
    said: list[str] = []
    reporting = files.Reporting(say=said.append, stopped=lambda: classifier.examples_ > 0)
    done = files.learn_rows(classifier, tmp_path, pairs, reporting)
    assert done.rows == 64
    other = [files.Row(number, text, label) for number, (text, label) in enumerate(rows(70, seed=5))]
    assert said == []
    files.learn_rows(classifier, tmp_path, other, files.Reporting(say=said.append))
    assert said == ["these are not the rows of the interrupted pass: all of them are learned"]
    assert classifier.examples_ == 64 + 70


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_saves_and_goes_on(tmp_path: Path, number: int):
    data = write(tmp_path / "a.csv", rows(4000))
    command = [sys.executable, "-m", "everlearn", "learn", str(tmp_path / "model"), str(data), *TINY]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until_learning(process.pid, tmp_path / "model")
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75, err
    assert "the same command goes on from there" in err
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4,000 examples learned" in done.stderr


def wait_until_learning(process: int, model: Path) -> None:
    """The lock is there from the start; learning begins once the libraries are loaded."""
    end = time.monotonic() + 60
    while not (model / ".lock").exists():
        assert time.monotonic() < end
        os.kill(process, 0)
        time.sleep(0.05)
    time.sleep(1.5)


def start_learning(model: Path, source: str, **options: Any) -> subprocess.Popen[str]:
    program = "from everlearn.classifier import files; files.SECONDS_BETWEEN_SAVES = 0; "
    program += "from everlearn.cli import main; main()"
    command = [sys.executable, "-c", program, "learn", str(model), source, *TINY]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_for_a_pipe_can_be_broken_off(tmp_path: Path, number: int):
    """What came before is learned by then, though it is not a whole portion."""
    model = tmp_path / "model"
    process = start_learning(model, "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows(5)))
    process.stdin.flush()
    end = time.monotonic() + 60
    while not (model / "config.json").exists():  # saved for the first time
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(timeout=60) == 75
    assert process.stderr is not None
    assert "stopped after 5 rows and saved.\n" in process.stderr.read()
    assert LifelongClassifier.load(model).examples_ == 5
    # What comes through the next pipe is something else, and none of it is waited for or skipped.
    again = start_learning(model, "-", stdin=subprocess.PIPE)
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows(3)]
    _, said = again.communicate("\n".join([*lines, "{"]))
    assert again.returncode == 2
    assert "line 4 of - is not valid JSON" in said
    assert "The 3 rows before are learned and saved." in said
    assert LifelongClassifier.load(model).examples_ == 8


def test_a_pipe_may_have_a_name(tmp_path: Path):
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    process = start_learning(tmp_path / "model", str(pipe))
    write(pipe, rows(70))  # waits until somebody reads
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "70 examples learned" in err


def test_a_file_that_cannot_be_learned_leaves_no_folder(everlearn: CommandLine, tmp_path: Path):
    for source in (tmp_path / "nothing.csv", write(tmp_path / "empty.csv", [])):
        assert everlearn("learn", tmp_path / "model", source, *TINY)[0] == 2
        assert not (tmp_path / "model").exists()
