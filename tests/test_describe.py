"""`everlearn describe`: the tasks of a stream as a table, as JSON and as a figure."""

import json
from functools import cache

import pytest

import fewrel_sample
from everlearn.cli import experiments
from everlearn.report import tasks as drawn_tasks
from fewrel_sample import CLUSTERS, write_sample


@pytest.fixture
def describe(everlearn):
    return lambda *arguments: everlearn("describe", *arguments)


@pytest.fixture
def data(tmp_path):
    """Two tasks of 30 rows: of two classes with four words a text, and of three with five."""
    rows = [f"good text number {i},x{i % 2},x" for i in range(30)]
    rows += [f"a bad text number {i},y{i % 3},y" for i in range(30)]
    path = tmp_path / "texts.csv"
    path.write_text("\n".join(["text,label,task", *rows]) + "\n")
    return path


@pytest.fixture
def file_stream(data):
    return ["file", "--data", data, "--task-column", "task", "--test-size", "10"]


@pytest.fixture
def fewrel(tmp_path):
    return ["fewrel", "--data", write_sample(tmp_path / "fewrel"), "--encoder", "tiny"]


DOCSTRINGS = ["docstrings", "--order", "sklearn,stdlib", "--train-size", "40", "--val-size", "10", "--test-size", "20"]


def table(out):
    """Title, columns and rows of the table that was printed."""
    title, *lines = out.splitlines()
    rows = [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines if "│" in line]
    (header,) = [[cell.strip() for cell in line.strip("┃").split("┃")] for line in lines if "┃" in line]
    return title, header, rows


def tasks_of(out):
    content = json.loads(out)  # raises where anything else stands beside it
    assert list(content) == ["stream", "tasks"]
    return content["tasks"]


def one_sentence(code, out, err):
    assert (code, out) == (2, "")
    assert err.startswith("everlearn: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    return err


COLUMNS = ["task", "classes", "train", "val.", "test", "words", "longest"]


def test_a_file_as_a_table(describe, file_stream):
    code, out, err = describe(*file_stream)
    assert code == 0, err
    title, header, rows = table(out)
    assert title.strip() == "texts: 2 tasks in the order of the stream"
    assert header == COLUMNS
    assert [row[:2] for row in rows] == [["x", "2"], ["y", "3"], ["all", ""]]
    assert [row[4] for row in rows] == ["10", "10", "20"]
    assert [row[5] for row in rows] == ["4.0", "5.0", ""]
    assert [row[6] for row in rows] == ["4", "5", "5"]


def test_the_table_and_the_json_say_the_same(describe, file_stream):
    _, _, rows = table(describe(*file_stream)[1])
    code, out, _ = describe(*file_stream, "--json")
    assert code == 0
    tasks = tasks_of(out)
    for task, row in zip(tasks, rows, strict=False):
        shown = [task[key] for key in ("task", "classes", "train", "validation", "test")]
        assert [str(value) for value in shown] == row[:5]
    for place, key in ((2, "train"), (3, "validation"), (4, "test")):
        assert rows[-1][place] == str(sum(task[key] for task in tasks))
    assert all(task["train"] + task["validation"] + task["test"] <= 30 for task in tasks)


def test_docstrings_as_a_table_and_as_json(describe, monkeypatch):
    # One look at the installed packages is enough.
    monkeypatch.setattr(experiments, "benchmark_for", cache(experiments.benchmark_for))
    code, out, err = describe(*DOCSTRINGS)
    assert code == 0, err
    _, header, rows = table(out)
    assert header == COLUMNS
    code, out, _ = describe(*DOCSTRINGS, "--json")
    assert code == 0
    tasks = tasks_of(out)
    assert [task["task"] for task in tasks] == [row[0] for row in rows[:-1]] == ["sklearn", "stdlib"]
    assert {(task["train"], task["validation"], task["test"]) for task in tasks} == {(40, 10, 20)}
    assert all(task["classes"] > 1 and 0 < task["mean_words"] <= task["most_words"] for task in tasks)
    assert all(task["mean_candidates"] == 0 for task in tasks)


def test_fewrel_as_a_table_has_a_column_of_candidates(describe, fewrel):
    code, out, err = describe(*fewrel)
    assert (code, err) == (0, "")
    _, header, rows = table(out)
    assert header == [*COLUMNS, "candidates"]
    assert [row[0] for row in rows] == ["c8", "c9", "c2", "c1", "c7", "c4", "c5", "c0", "c3", "c6", "all"]
    assert rows[-1][2:5] == ["150", "0", "40"]


def test_fewrel_as_json_is_counted_from_its_files(describe, fewrel):
    code, out, _ = describe(*fewrel, "--order", "c0,c1", "--json")
    assert code == 0
    lines = [line.split("\t") for line in fewrel_sample.training_lines()]
    for task, name in zip(tasks_of(out), ("0", "1"), strict=True):
        own = [sentence.split() for gold, _, sentence in lines if int(gold) in CLUSTERS[name]]
        assert task["task"] == f"c{name}"
        assert task["classes"] == 2
        assert (task["train"], task["validation"], task["test"]) == (len(own), 0, 8)
        assert task["mean_words"] == pytest.approx(sum(map(len, own)) / len(own))
        assert task["most_words"] == max(map(len, own))
        # The gold one, and of four negatives those seen or the last two.
        assert 2 <= task["mean_candidates"] <= 3.5


def test_what_is_held_out_for_validation_is_shown_where_it_is_asked_for(describe, fewrel):
    _, _, rows = table(describe(*fewrel, "--split", "validation", "--val-size", "30")[1])
    assert rows[-1][2:5] == ["120", "30", "40"]


def test_the_figure_shows_classes_examples_and_lengths(describe, fewrel, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(drawn_tasks, "save_figure", lambda figure, path: figures.append(figure))
    _, out, _ = describe(*fewrel, "--out", tmp_path / "tasks.png", "--json")
    described = tasks_of(out)
    (figure,) = figures
    heights = [[bar.get_height() for bar in axes.patches] for axes in figure.axes]
    assert heights == [[task[key] for task in described] for key in ("classes", "train", "mean_words")]
    (longest,) = figure.axes[2].lines
    assert list(longest.get_ydata()) == [task["most_words"] for task in described]


def test_a_figure_that_is_no_png_is_refused(describe, fewrel, tmp_path):
    assert "ends in .png" in one_sentence(*describe(*fewrel, "--out", tmp_path / "tasks.pdf", "--json"))


def test_fewrel_without_a_cluster_file_is_grouped_by_the_encoder(describe, fewrel):
    (fewrel[2] / "clusters.json").unlink()
    code, out, err = describe(*fewrel, "--json")
    assert code == 0, err
    assert sorted(task["task"] for task in tasks_of(out)) == [f"c{k}" for k in range(10)]
    assert "the encoder's vectors" in err


def test_skipped_lines_are_named_beside_the_table(describe, fewrel):
    with (fewrel[2] / "training_data.txt").open("a") as file:
        file.write("2\tnoNegativeAnswer\tskipped\n")
    code, out, err = describe(*fewrel, "--json")
    assert code == 0
    assert sum(task["train"] for task in tasks_of(out)) == 150
    assert "skipped 1" in err
    assert "151" in err


@pytest.mark.parametrize("stream", ["file_stream", "fewrel"])
def test_the_figure_is_a_whole_png(describe, request, stream, tmp_path):
    path = tmp_path / "tasks.png"
    code, out, err = describe(*request.getfixturevalue(stream), "--out", path, "--json")
    assert code == 0, err
    tasks_of(out)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert len(content) > 5000
    assert f"figure: {path}" in err


def test_an_unknown_stream_is_one_sentence(describe):
    assert "unknown stream 'fewrell': did you mean 'fewrel'?" in one_sentence(*describe("fewrell"))


def test_missing_data_is_one_sentence(describe):
    assert "--data" in one_sentence(*describe("fewrel"))
    assert "--data" in one_sentence(*describe("file"))


def test_an_unknown_task_is_one_sentence_and_draws_nothing(describe, fewrel, tmp_path):
    assert "unknown task 'c11'" in one_sentence(*describe(*fewrel, "--order", "c11", "--out", tmp_path / "x.png"))
    assert not (tmp_path / "x.png").exists()


def test_a_figure_in_the_place_of_a_folder_is_one_sentence(describe, fewrel, tmp_path):
    (place := tmp_path / "folder.png").mkdir()
    assert f"could not write {place}" in one_sentence(*describe(*fewrel, "--out", place, "--json"))


def test_a_figure_below_a_file_is_one_sentence(describe, fewrel, data):
    assert "could not write" in one_sentence(*describe(*fewrel, "--out", data / "tasks.png", "--json"))
