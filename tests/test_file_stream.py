import gzip
import json

import pytest

from everlearn.errors import UserError
from everlearn.streams import file
from everlearn.streams.base import StreamConfig


@pytest.fixture
def write(tmp_path):
    def write(rows, name="reviews.csv", header="text,label,topic"):
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def load(path, **options):
    return file.load(StreamConfig(stream="file", data=path, **options))


def refused(path, **options):
    with pytest.raises(UserError) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rows(count, topic="t", labels=("no", "yes")):
    return [f"{topic} {place},{labels[place % len(labels)]},{topic}" for place in range(count)]


def places(examples):
    return [int(example.text.split()[-1]) for example in examples]


def sizes(task):
    return len(task.train), len(task.validation), len(task.test)


def test_one_task_named_after_the_file(write):
    benchmark = load(write(rows(50)))
    assert [task.name for task in benchmark.tasks] == ["reviews"]
    assert benchmark.name == "reviews"
    assert benchmark.labels == ("no", "yes")
    assert not benchmark.shuffle
    assert benchmark.notes == ()


def test_a_tenth_each_is_held_out_and_the_order_is_kept(write):
    task = load(write(rows(50))).tasks[0]
    assert sizes(task) == (40, 5, 5)
    parts = [places(part) for part in (task.train, task.validation, task.test)]
    assert all(part == sorted(part) for part in parts)
    assert sorted(place for part in parts for place in part) == list(range(50))
    assert parts[2] not in (list(range(5)), list(range(45, 50)))
    assert all(example.label == place % 2 for example, place in zip(task.train, parts[0], strict=True))


def test_the_same_rows_are_held_out_each_time(write):
    path = write(rows(50))
    assert load(path) == load(path)


def test_texts_are_only_stripped(write):
    path = write(['"  Look!!! http://a.example  ",yes,t', "B,no,t"])
    assert "Look!!! http://a.example" in {e.text for e in (*load(path).tasks[0].train, *load(path).tasks[0].test)}


def test_tasks_come_one_after_the_other_in_order_of_first_appearance(write):
    path = write([row for pair in zip(rows(20, "b"), rows(20, "a"), strict=True) for row in pair])
    benchmark = load(path, task_column="topic")
    assert [task.name for task in benchmark.tasks] == ["b", "a"]
    for task in benchmark.tasks:
        assert sizes(task) == (16, 2, 2)
        assert all(example.text.startswith(task.name) for example in task.train)
        assert places(task.train) == sorted(places(task.train))


def test_an_order_of_the_users_own(write):
    path = write([*rows(10, "a"), *rows(10, "b"), *rows(10, "c", labels=("maybe",))])
    benchmark = load(path, task_column="topic", order="b,a")
    assert [task.name for task in benchmark.tasks] == ["b", "a"]
    assert benchmark.labels == ("no", "yes")
    assert "unknown task 'd'" in refused(path, task_column="topic", order="a,d")
    assert "no order 2" in refused(path, task_column="topic", order="2")


def test_rows_without_a_task_are_a_task_of_their_own(write):
    path = write([*rows(10, "a"), "x,no,", "y,yes,"])
    assert [task.name for task in load(path, task_column="topic").tasks] == ["a", "(none)"]


def test_an_order_needs_a_task_column(write):
    assert "--task-column" in refused(write(rows(10)), order="b,a")


def test_other_columns_json_lines_and_compression(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wt") as out:
        for place in range(20):
            out.write(json.dumps({"body": f"x {place}", "stars": place % 3}) + "\n")
    benchmark = load(path, text_column="body", label_column="stars")
    assert benchmark.labels == ("0", "1", "2")
    assert benchmark.tasks[0].name == "x"


def test_whole_numbers_are_sorted_as_numbers(write):
    assert load(write(rows(30, labels=("10", "9", "-2")))).labels == ("-2", "9", "10")
    assert load(write(rows(30, labels=("10", "9", "b")))).labels == ("10", "9", "b")


def test_sizes_can_be_given(write):
    path = write(rows(50))
    task = load(path, train_size=20, val_size=0, test_size=7).tasks[0]
    assert sizes(task) == (20, 0, 7)
    assert max(places(task.train)) > 25
    assert sizes(load(path, test_size=10).tasks[0]) == (35, 5, 10)


def test_validation_gives_way_to_an_explicit_training_size(write):
    benchmark = load(write(rows(50)), train_size=43)
    assert sizes(benchmark.tasks[0]) == (43, 2, 5)
    assert benchmark.notes == ("reviews: 2 validation examples are left beside 43 for training",)


@pytest.mark.parametrize(
    "asked", [{"train_size": 46}, {"train_size": 40, "val_size": 6}, {"val_size": 45}, {"test_size": 50}]
)
def test_sizes_that_cannot_be_met(write, asked):
    assert "the task 'reviews' has 50 rows, too few for" in refused(write(rows(50)), **asked)


@pytest.mark.parametrize("asked", [{"train_size": 0}, {"val_size": -1}, {"test_size": 0}])
def test_sizes_that_make_no_sense(write, asked):
    assert "give at least" in refused(write(rows(50)), **asked)


def test_a_task_of_a_single_row_is_too_small(write):
    assert "the task 'b' has 1 rows, too few" in refused(write([*rows(10, "a"), *rows(1, "b")]), task_column="topic")


def test_a_separate_test_file(write):
    train, test = write(rows(20)), write(rows(6, "u"), "test.csv")
    task = load(train, test_data=test).tasks[0]
    assert sizes(task) == (18, 2, 6)
    assert all(example.text.startswith("u") for example in task.test)
    assert sizes(load(train, test_data=test, test_size=4).tasks[0]) == (18, 2, 4)
    assert "too few for --test-size 7" in refused(train, test_data=test, test_size=7)


def test_labels_of_the_test_file_alone_are_kept_and_noted(write):
    train, test = write(rows(20)), write(rows(6, "u", ("no", "maybe")), "test.csv")
    benchmark = load(train, test_data=test)
    assert benchmark.labels == ("maybe", "no", "yes")
    assert benchmark.notes == ("labels that occur in the test data only: maybe",)
    assert {benchmark.labels[example.label] for example in benchmark.tasks[0].test} == {"no", "maybe"}


def test_test_rows_go_to_their_tasks(write):
    train = write([*rows(10, "a"), *rows(10, "b")])
    test = write([*rows(2, "c"), *rows(3, "b"), *rows(4, "a")], "test.csv")
    benchmark = load(train, test_data=test, task_column="topic")
    assert [len(task.test) for task in benchmark.tasks] == [4, 3]
    assert benchmark.notes == ("left out 2 rows of test.csv whose tasks are not trained on",)


def test_a_task_without_test_rows(write):
    train = write([*rows(10, "a"), *rows(10, "b")])
    test = write(rows(3, "b"), "test.csv")
    assert "no rows of the task 'a'" in refused(train, test_data=test, task_column="topic")


def test_incomplete_rows_are_skipped_or_refused(write):
    path = write([*rows(10), ",yes,t", "x,,t"])
    assert load(path).notes == ("skipped 2 rows of reviews.csv without text or label (lines 12, 13)",)
    assert "line 12" in refused(path, strict=True)


def test_fewer_than_two_labels(write):
    assert "only the label 'yes'" in refused(write(rows(10, labels=("yes",))))


def test_no_complete_rows(write):
    assert "no row with a text and a label" in refused(write([",yes,t"]))


def test_missing_data_columns_and_files(write, tmp_path):
    assert "--data" in refused(None)
    assert "there is no file" in refused(tmp_path / "none.csv")
    assert "no column 'tpic': did you mean 'topic'?" in refused(write(rows(10)), task_column="tpic")
    assert "there is no file" in refused(write(rows(10)), test_data=tmp_path / "none.csv")
