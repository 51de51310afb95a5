import csv
import gzip
import json
from collections import Counter

import pytest

from everlearn.errors import UserError
from everlearn.streams import textcls
from everlearn.streams.base import StreamConfig
from everlearn.streams.sampling import data_generator, sample


def write_jsonl(folder, name, split, count, classes=None):
    classes = classes or len(textcls.SETS[name].classes)
    rows = [{"text": f"{name} {split} Number {row}", "label": row % classes} for row in range(count)]
    (folder / f"{name}.{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path):
    for name in textcls.SETS:
        write_jsonl(tmp_path, name, "train", 240)
        write_jsonl(tmp_path, name, "test", 30)
    return tmp_path


def load(folder, **options):
    return textcls.load(StreamConfig(stream="textcls", data=folder, **options))


def refused(folder, **options):
    with pytest.raises(UserError) as caught:
        load(folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def texts(examples):
    return [example.text for example in examples]


def test_the_classes_are_merged_as_in_the_paper(folder):
    benchmark = load(folder)
    labels = {task.name: {example.label for example in task.train} for task in benchmark.tasks}
    assert labels == {
        "yelp": set(range(5)),
        "amazon": set(range(5)),
        "ag": set(range(5, 9)),
        "dbpedia": set(range(9, 23)),
        "yahoo": set(range(23, 33)),
    }
    assert len(benchmark.labels) == len(set(benchmark.labels)) == 33
    assert benchmark.labels[6] == "ag: Sports"
    assert benchmark.labels[28] == "yahoo: Sports"
    assert benchmark.shuffle


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("1", "yelp ag dbpedia amazon yahoo"),
        ("2", "dbpedia yahoo ag amazon yelp"),
        ("3", "yelp yahoo amazon dbpedia ag"),
        ("4", "ag yelp amazon yahoo dbpedia"),
        ("yahoo, ag", "yahoo ag"),
    ],
)
def test_orders(folder, order, names):
    assert [task.name for task in load(folder, order=order).tasks] == names.split()


@pytest.mark.parametrize(
    ("order", "message"),
    [("5", "no order 5"), ("yelpp", "unknown task 'yelpp': did you mean 'yelp'"), ("ag,ag", "twice")],
)
def test_wrong_orders(folder, order, message):
    assert message in refused(folder, order=order)


def test_a_small_set_is_split_in_the_papers_proportion(folder):
    benchmark = load(folder, order="ag")
    task = benchmark.tasks[0]
    assert (len(task.train), len(task.validation), len(task.test)) == (230, 10, 30)
    assert benchmark.notes == (
        "ag: 230 training and 10 validation examples (the paper has 115,000 and 5,000)",
        "ag: 30 test examples (the paper has 7,600)",
    )


def test_a_large_set_gets_the_papers_sizes_without_a_note(folder, monkeypatch):
    monkeypatch.setattr(textcls, "TRAIN_SIZE", 100)
    monkeypatch.setattr(textcls, "VAL_SIZE", 20)
    monkeypatch.setattr(textcls, "TEST_SIZE", 25)
    benchmark = load(folder, order="ag")
    task = benchmark.tasks[0]
    assert (len(task.train), len(task.validation), len(task.test)) == (100, 20, 25)
    assert benchmark.notes == ()


def test_validation_and_training_are_disjoint(folder):
    task = load(folder, order="ag").tasks[0]
    assert len(set(texts(task.train)) | set(texts(task.validation))) == 240


def test_explicit_sizes_are_met(folder):
    task = load(folder, order="ag", train_size=50, val_size=20, test_size=7).tasks[0]
    assert (len(task.train), len(task.validation), len(task.test)) == (50, 20, 7)
    assert len(set(texts(task.train)) | set(texts(task.validation))) == 70


@pytest.mark.parametrize(("train_size", "left"), [(200, 40), (240, 0)])
def test_validation_shrinks_to_what_training_leaves(folder, train_size, left):
    benchmark = load(folder, order="ag", train_size=train_size)
    assert (len(benchmark.tasks[0].train), len(benchmark.tasks[0].validation)) == (train_size, left)
    assert f"ag: {left} validation examples are left beside {train_size} for training" in benchmark.notes


def test_training_shrinks_to_what_an_explicit_validation_size_leaves(folder):
    benchmark = load(folder, order="ag", val_size=0)
    assert (len(benchmark.tasks[0].train), len(benchmark.tasks[0].validation)) == (240, 0)
    assert "240 training and 0 validation" in benchmark.notes[0]


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [
        ({"train_size": 241}, "--train-size 241"),
        ({"train_size": 200, "val_size": 41}, "--train-size 200 and --val-size 41"),
        ({"val_size": 240}, "--val-size 240"),
        ({"test_size": 31}, "--test-size 31"),
    ],
)
def test_sizes_that_cannot_be_met(folder, sizes, asked):
    message = refused(folder, order="ag", **sizes)
    assert message.startswith("ag has ")
    assert ("30" if "test_size" in sizes else "240") in message
    assert asked in message


@pytest.mark.parametrize("sizes", [{"train_size": 0}, {"train_size": -1}, {"val_size": -1}, {"test_size": 0}])
def test_sizes_that_make_no_sense(folder, sizes):
    assert "give at least" in refused(folder, **sizes)


def test_the_sample_is_the_same_each_time_and_does_not_lean_on_the_first_rows(folder):
    first, again = (load(folder, order="ag", train_size=60, val_size=10).tasks[0] for _ in range(2))
    assert first == again
    places = [int(text.split()[-1]) for text in texts(first.train)]
    assert places != sorted(places)
    assert 80 < sum(places) / len(places) < 160


def test_the_test_rows_do_not_depend_on_the_training_size(folder):
    small, large = (load(folder, order="ag", train_size=size, test_size=9).tasks[0] for size in (5, 100))
    assert small.test == large.test


def test_every_row_is_drawn_equally_often():
    generator = data_generator("test")
    counts = Counter(row for _ in range(2000) for row in sample(range(10), 3, generator)[0])
    assert all(500 < counts[row] < 700 for row in range(10))


def test_a_sample_of_everything_is_in_random_order():
    drawn, there = sample(range(50), 80, data_generator("test"))
    assert there == 50
    assert drawn != sorted(drawn) == list(range(50))


def test_texts_are_cleaned(folder):
    (folder / "ag.train.jsonl").write_text(
        '{"text": "GREAT!!! see http://a.example now", "label": 1}\n{"text": "http://a.example", "label": 1}\n'
    )
    train = load(folder, order="ag", train_size=2).tasks[0].train
    assert set(texts(train)) == {"great! see now", "http://a.example"}


def test_the_data_sets_own_csv_layout(folder):
    for name, rows in {
        "ag_news_csv": [("3", "Oil falls", "Prices fell"), ("1", "", "No title"), ("4", "New chip", "It is fast")],
        "yahoo_answers_csv": [("1", "why?", "please", "because"), ("10", "who", "", "nobody")],
        "yelp_review_full_csv": [("5", "Great")],
    }.items():
        (folder / name).mkdir()
        for split in ("train", "test"):
            (folder / f"{name.split('_')[0]}.{split}.jsonl").unlink()
            with gzip.open(folder / name / f"{split}.csv.gz", "wt", newline="") as file:
                csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    benchmark = load(folder, order="ag,yahoo,yelp", val_size=0)
    train = {task.name: {(example.text, example.label) for example in task.train} for task in benchmark.tasks}
    assert train == {
        "ag": {("oil falls. prices fell", 7), ("new chip. it is fast", 8)},
        "yahoo": {("why? please because", 23)},
        "yelp": {("great", 4)},
    }
    assert "skipped 1 row of ag_news_csv/train.csv.gz with an empty field (line 2)" in benchmark.notes
    # The benchmark drops such rows itself, so strict does not refuse them.
    assert load(folder, order="ag", val_size=0, strict=True).tasks[0].train == benchmark.tasks[0].train


@pytest.mark.parametrize("row", ["5,Title,Text", "0,Title,Text", "x,Title,Text"])
def test_csv_labels_out_of_range(folder, row):
    (folder / "ag.train.jsonl").unlink()
    (folder / "ag_news_csv").mkdir()
    (folder / "ag_news_csv" / "train.csv").write_text(f"1,Title,Text\n{row}\n")
    message = refused(folder, order="ag")
    assert "line 2 of" in message
    assert "ag_news_csv/train.csv" in message
    assert "from 1 to 4" in message


def test_csv_rows_without_a_label_are_skipped_unless_strict(folder):
    (folder / "ag.train.jsonl").unlink()
    (folder / "ag_news_csv").mkdir()
    (folder / "ag_news_csv" / "train.csv").write_text("1,Title,Text\n,Title,Text\n2,Other,Words\n")
    benchmark = load(folder, order="ag", val_size=0)
    assert len(benchmark.tasks[0].train) == 2
    assert "skipped 1 row of ag_news_csv/train.csv with an empty field (line 2)" in benchmark.notes
    assert "line 2 of" in refused(folder, order="ag", val_size=0, strict=True)


def test_csv_with_the_wrong_number_of_fields(folder):
    (folder / "ag.train.jsonl").unlink()
    (folder / "ag_news_csv").mkdir()
    (folder / "ag_news_csv" / "train.csv").write_text("1,Title,Text\n2,Text\n")
    assert "line 2 of" in refused(folder, order="ag")


@pytest.mark.parametrize("label", ["4", "-1", "1.0", '"x"'])
def test_jsonl_labels_out_of_range(folder, label):
    with (folder / "ag.test.jsonl").open("a") as file:
        file.write(f'{{"text": "one", "label": {label}}}\n')
    message = refused(folder, order="ag")
    assert "line 31 of" in message
    assert "ag.test.jsonl" in message
    assert "from 0 to 3" in message


def test_incomplete_rows_are_skipped_or_refused(folder):
    with (folder / "ag.train.jsonl").open("a") as file:
        file.write('{"text": "", "label": 1}\n')
    assert "skipped 1 row of ag.train.jsonl without text or label (line 241)" in load(folder, order="ag").notes
    assert "line 241" in refused(folder, order="ag", strict=True)


def test_a_file_of_nothing_but_incomplete_rows(folder):
    (folder / "ag.train.jsonl").write_text('{"text": "", "label": 1}\n')
    assert "no row with a text and a label" in refused(folder, order="ag")


def test_missing_data():
    message = refused(None)
    assert "--data" in message
    assert "everlearn data get textcls" in message


def test_missing_folder(tmp_path):
    message = refused(tmp_path / "nowhere")
    assert "there is no folder" in message
    assert "everlearn data get textcls" in message


@pytest.mark.parametrize("split", ["train", "test"])
def test_missing_set(folder, split):
    (folder / f"dbpedia.{split}.jsonl").unlink()
    message = refused(folder)
    assert f"dbpedia.{split}.jsonl" in message
    assert f"dbpedia_csv/{split}.csv" in message
    assert [task.name for task in load(folder, order="ag,yelp").tasks] == ["ag", "yelp"]
