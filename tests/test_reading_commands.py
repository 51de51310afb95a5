"""What commands read and say: pipes, blank rows, strange labels, models that know nothing yet."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from conftest import CommandLine
from everlearn import LifelongClassifier
from everlearn.report.tasks import tasks_table
from test_model_commands import rows, write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of two labels, one of which would be an error as rich's markup."""
    texts, labels = ["the of and", "to in is"] * 4, ["[/oops]", "[red]b"] * 4
    return LifelongClassifier(encoder="tiny").partial_fit(texts, labels).save(tmp_path / "model")


def test_labels_are_shown_as_they_are(everlearn: CommandLine, model: Path, tmp_path: Path):
    data = write(tmp_path / "a.csv", [("the of and", "[/oops]"), ("to in is", "[red]b")])
    for command in (("inspect", model), ("score", model, data)):
        code, out, err = everlearn(*command)
        assert code == 0, err
        assert "[/oops]" in out
        assert "[red]b" in out


def test_names_of_tasks_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]):
    counts = {"classes": 1, "train": 2, "validation": 0, "test": 1}
    task = {"task": "[/oops]", **counts, "mean_words": 1.0, "most_words": 1, "mean_candidates": 0.0}
    Console(width=120).print(tasks_table("[/file]", [task]))  # type: ignore[list-item]
    shown = capsys.readouterr().out
    assert "[/oops]" in shown
    assert "[/file]" in shown


@pytest.mark.parametrize("command", ["predict", "score"])
def test_a_model_that_knows_no_label_is_said_to(everlearn: CommandLine, tmp_path: Path, command: str):
    model = LifelongClassifier(encoder="tiny").begin().save(tmp_path / "model")
    code, _, err = everlearn(command, model, write(tmp_path / "a.csv", rows(4)))
    assert (code, err.strip()) == (
        2,
        "everlearn: this model knows no label yet: let it learn some examples first.",
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "the of\n\n  \nto in\n"),
        ("a.csv", "id,text\n1,the of\n2,\n3,  \n4,to in\n"),
        ("a.jsonl", '{"text": "the of"}\n{"text": null}\n{"id": 3}\n{"text": "to in"}\n'),
    ],
)
def test_every_row_gets_a_line(everlearn: CommandLine, model: Path, tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    code, out, err = everlearn("predict", model, tmp_path / name)
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["text"] for answer in answers] == ["the of", "", "", "to in"]
    assert answers[1] == answers[2] == {"label": None, "probability": None, "text": ""}
    assert answers[0]["label"] == "[/oops]"
