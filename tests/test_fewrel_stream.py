import gzip
import json
import lzma
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import fewrel_sample
from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.examples import UNLABELLED
from everlearn.experiment import Experiment, benchmark_for, build_experiment
from everlearn.problems import Ranking
from everlearn.run import run
from everlearn.streams import fewrel, load_benchmark, pooled
from everlearn.streams.base import StreamConfig
from everlearn.streams.relation_clusters import cluster
from fewrel_sample import CLUSTERS, RELATIONS, write_sample

NAMES = list(RELATIONS)
TASK_OF = {relation - 1: f"c{name}" for name, members in CLUSTERS.items() for relation in members}
SMALL = {"stream": "fewrel", "encoder": "tiny", "device": "cpu", "method": "seq", "max_length": 64}


@pytest.fixture
def folder(tmp_path):
    return write_sample(tmp_path / "data")


def no_vectors(texts):
    raise AssertionError("nobody needs vectors here")


def load(folder, embed=no_vectors, **options):
    return load_benchmark(StreamConfig(stream="fewrel", data=folder, **options), embed)


def refused(folder, embed=no_vectors, **options):
    with pytest.raises(UserError) as caught:
        load(folder, embed, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def parsed(lines):
    """Sentence → label and listed candidates, both counted from 0."""
    rows = {}
    for line in lines:
        gold, listed, sentence = line.split("\t")[:3]
        rows[sentence] = (int(gold) - 1, tuple(int(number) - 1 for number in listed.split()))
    return rows


TRAIN = parsed(fewrel_sample.training_lines())
TEST = parsed(fewrel_sample.test_lines())


def examples_of(benchmark, part):
    return [example for task in benchmark.tasks for example in getattr(task, part)]


def texts(examples):
    return [example.text for example in examples]


# --- reading


def test_the_sample_is_what_the_tests_below_take_it_for():
    assert (len(TRAIN), len(TEST), len(NAMES), len(CLUSTERS)) == (150, 40, 12, 10)
    assert not set(TRAIN) & set(TEST)
    assert all(gold not in listed for gold, listed in TRAIN.values())
    assert all(gold in listed for gold, listed in TEST.values())


def test_the_names_and_the_clusters_may_be_compressed_too(folder):
    before = load(folder)
    for name in ("relation_name.txt", "clusters.json"):
        path = folder / name
        with gzip.open(folder / f"{name}.gz", "wb") as file:
            file.write(path.read_bytes())
        path.unlink()
    assert load(folder) == before


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2"])
def test_files_are_read_plain_and_compressed(tmp_path, ending):
    benchmark = load(write_sample(tmp_path / "data", ending=ending))
    assert set(texts(examples_of(benchmark, "train"))) == set(TRAIN)
    assert set(texts(examples_of(benchmark, "test"))) == set(TEST)
    assert benchmark.notes == ()


def test_line_ends_of_windows_change_nothing(folder):
    before = load(folder)
    for name in ("relation_name.txt", "training_data.txt", "val_data.txt"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(folder) == before


def test_empty_lines_at_the_end_change_nothing(folder):
    before = load(folder)
    for name in ("relation_name.txt", "training_data.txt", "val_data.txt"):
        with (folder / name).open("a") as file:
            file.write("\n  \n")
    assert load(folder) == before


def test_a_relation_without_a_name_is_named_with_its_line_whatever_a_cluster_file_says(folder):
    names = folder / "relation_name.txt"
    names.write_text("".join(names.read_text().splitlines(keepends=True)[:-1]))
    assert re.search(r"training_data\.txt line \d+ has relation 12", refused(folder))


def test_labels_are_counted_from_0_and_named_in_the_order_of_the_file(folder):
    benchmark = load(folder)
    assert benchmark.labels == tuple(NAMES)
    for part, rows in (("train", TRAIN), ("test", TEST)):
        for example in examples_of(benchmark, part):
            assert example.label == rows[example.text][0]
    assert {example.label for example in examples_of(benchmark, "train")} == set(range(12))


def test_every_sentence_is_in_the_task_of_its_relation(folder):
    benchmark = load(folder)
    for task in benchmark.tasks:
        assert {TASK_OF[example.label] for example in [*task.train, *task.test]} == {task.name}


def test_it_is_a_ranking_problem_tested_jointly(folder):
    benchmark = load(folder)
    assert (benchmark.name, benchmark.problem, benchmark.joint_test, benchmark.shuffle) == (
        "fewrel",
        "ranking",
        True,
        True,
    )
    assert len(build_experiment(Config.build({**SMALL, "data": folder}), benchmark).test_sets) == 1


# --- candidates


def test_candidates_in_training_are_those_seen_by_then_or_else_the_last_two(folder):
    seen, fallbacks, narrowed = set(), 0, 0
    benchmark = load(folder)
    for task in benchmark.tasks:
        # Those of earlier tasks and of the current one, whichever of its sentences came first.
        seen |= {relation for relation, name in TASK_OF.items() if name == task.name}
        for example in task.train:
            gold, listed = TRAIN[example.text]
            known = [candidate for candidate in listed if candidate in seen]
            assert example.candidates == (gold, *(known or listed[-2:]))
            fallbacks += not known
            narrowed += 0 < len(known) < len(listed)
    assert seen == set(range(12))
    assert fallbacks > 5
    assert narrowed > 20


def test_the_first_task_knows_only_itself(folder):
    task = load(folder, order="c0,c1").tasks[0]
    both = [example for example in task.train if len(example.candidates) == 2]
    assert both
    assert all(set(example.candidates) == {0, 1} for example in both)
    alone = [example for example in task.train if len(example.candidates) == 3]
    assert alone
    assert all(example.candidates[1:] == TRAIN[example.text][1][-2:] for example in alone)


def test_what_is_seen_depends_on_the_order(folder):
    def candidates(order):
        last = next(task for task in load(folder, order=order).tasks if task.name == "c0")
        return {example.text: example.candidates for example in last.train}

    first, last = candidates("c0,c1,c2,c3"), candidates("c3,c2,c1,c0")
    assert first.keys() == last.keys()
    assert first != last


def test_test_sentences_keep_all_candidates_in_the_order_of_the_file(folder):
    for example in examples_of(load(folder), "test"):
        assert example.candidates == TEST[example.text][1]
        assert example.label in example.candidates


def test_validation_sentences_keep_all_candidates(folder):
    held_out = examples_of(load(folder, split="validation", val_size=30), "validation")
    assert len(held_out) == 30
    for example in held_out:
        gold, listed = TRAIN[example.text]
        assert example.candidates == (gold, *listed)


def test_the_pool_of_all_tasks_keeps_all_candidates(folder):
    benchmark = load(folder)
    for task in benchmark.tasks:
        assert texts(task.pool) == texts(task.train)
    for example in examples_of(benchmark, "pool"):
        gold, listed = TRAIN[example.text]
        assert example.candidates == (gold, *listed)


def test_mtl_learns_from_the_pool_and_a_lifelong_method_does_not(folder):
    benchmark = load(folder)
    config = Config.build({**SMALL, "method": "mtl", "epochs": 2, "data": folder})
    assert build_experiment(config, benchmark).stream.length == 2 * sum(len(task.train) for task in benchmark.tasks)
    counts = {
        "mtl": candidate_counts(build_experiment(config, benchmark)),
        "pool": Counter(len(e.candidates) for batch in pooled(benchmark, 4, 42, 2) for e in batch),
    }
    assert counts == {"mtl": {5: 300}, "pool": {5: 300}}
    lifelong = build_experiment(Config.build({**SMALL, "data": folder}), benchmark)
    assert len(candidate_counts(lifelong)) > 2


def candidate_counts(experiment: Experiment) -> Counter[int]:
    """How many examples of a run's stream have how many candidates; a target row has the label in front of them."""
    return Counter(length - 1 for batch in experiment.stream for length in batch.targets.lengths.tolist())


# --- orders


@pytest.mark.parametrize(
    ("order", "names"),
    [
        # Entry k of the authors' list is the position of cluster k: 7 3 2 8 5 6 9 4 0 1 puts c8 first and c9 second.
        ("1", "c8 c9 c2 c1 c7 c4 c5 c0 c3 c6"),
        ("2", "c7 c4 c2 c0 c3 c1 c8 c6 c5 c9"),
        ("3", "c2 c6 c3 c8 c4 c1 c7 c0 c9 c5"),
        ("4", "c3 c6 c4 c2 c7 c8 c9 c0 c1 c5"),
        ("5", "c4 c9 c5 c3 c6 c8 c1 c2 c7 c0"),
        ("c5, c0", "c5 c0"),
        ("c3", "c3"),
        ("c9,c8,c7,c6,c5,c4,c3,c2,c1,c0", "c9 c8 c7 c6 c5 c4 c3 c2 c1 c0"),
    ],
)
def test_orders(folder, order, names):
    assert [task.name for task in load(folder, order=order).tasks] == names.split()


def test_an_order_of_some_tasks_has_the_sentences_of_those_only(folder):
    benchmark = load(folder, order="c5,c0")
    assert {example.label for example in examples_of(benchmark, "train")} == {0, 1, 7}
    assert {example.label for example in examples_of(benchmark, "test")} == {0, 1, 7}
    assert benchmark.labels == tuple(NAMES)


@pytest.mark.parametrize(
    ("order", "message"),
    [("6", "no order 6"), ("c10", "unknown task 'c10'"), ("c1,c1", "twice"), (" ", "no order without a name")],
)
def test_wrong_orders(folder, order, message):
    assert message in refused(folder, order=order)


def test_another_number_of_clusters_has_one_order_that_of_the_clusters(folder, tmp_path):
    path = tmp_path / "three.json"
    path.write_text(json.dumps({"2": [1, 2, 3, 4], "0": [5, 6, 7, 8], "1": [9, 10, 11, 12]}))
    assert {task.name for task in load(folder, clusters=path).tasks} == {"c0", "c1", "c2"}
    assert "there is no order 2: choose one of 1" in refused(folder, clusters=path, order="2")


# --- sizes and splits


def test_split_test_trains_on_everything(folder):
    benchmark = load(folder)
    assert sorted(texts(examples_of(benchmark, "train"))) == sorted(TRAIN)
    assert examples_of(benchmark, "validation") == []
    assert load(folder, val_size=30) == benchmark  # nothing is held out while nobody asks for validation


def test_split_validation_holds_out_what_training_then_lacks(folder):
    benchmark = load(folder, split="validation", val_size=40)
    train, held_out = (texts(examples_of(benchmark, part)) for part in ("train", "validation"))
    assert (len(train), len(held_out)) == (110, 40)
    assert sorted([*train, *held_out]) == sorted(TRAIN)
    assert {TASK_OF[TRAIN[text][0]] for text in held_out} == {task.name for task in benchmark.tasks}


def test_4800_are_held_out_where_no_size_is_given(folder):
    assert "150 sentences" in (message := refused(folder, split="validation"))
    assert "4800" in message


def test_4800_of_more_are_held_out(folder):
    path = folder / "training_data.txt"
    lines = [f"{line} again {n}" for n in range(40) for line in fewrel_sample.training_lines()]
    path.write_text("".join(f"{line}\n" for line in lines))
    benchmark = load(folder, split="validation")
    assert len(examples_of(benchmark, "validation")) == 4800
    assert len(examples_of(benchmark, "train")) == 6000 - 4800


def test_sizes_are_totals(folder):
    benchmark = load(folder, split="validation", train_size=60, val_size=24, test_size=20)
    sizes = [len(examples_of(benchmark, part)) for part in ("train", "validation", "test")]
    assert sizes == [60, 24, 20]
    train, held_out = (set(texts(examples_of(benchmark, part))) for part in ("train", "validation"))
    assert not train & held_out


def test_a_small_sample_keeps_a_sentence_of_every_relation(folder):
    benchmark = load(folder, split="validation", train_size=12, val_size=12, test_size=12)
    for part in ("train", "validation", "test"):
        assert sorted(example.label for example in examples_of(benchmark, part)) == list(range(12))


def test_a_smaller_sample_keeps_a_sentence_of_every_task(folder):
    benchmark = load(folder, split="validation", train_size=10, val_size=11, test_size=10)
    for part, size in (("train", 10), ("validation", 11), ("test", 10)):
        labels = [example.label for example in examples_of(benchmark, part)]
        assert len(labels) == len(set(labels)) == size  # then one of every relation, as long as there is room
        assert {TASK_OF[label] for label in labels} == {f"c{k}" for k in range(10)}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train_size": 9}, "9 training sentences are too few for 10 tasks: raise --train-size"),
        ({"test_size": 5}, "5 test sentences are too few for 10 tasks: raise --test-size"),
        ({"val_size": 1, "split": "validation"}, "1 validation sentences are too few for 10 tasks: raise --val-size"),
        ({"train_size": 1, "order": "c1,c0"}, "too few for 2 tasks"),
    ],
)
def test_a_sample_without_room_for_every_task_says_how_many_it_needs(folder, sizes, message):
    assert message in refused(folder, **sizes)


def test_an_empty_validation_set_is_missed_only_where_it_is_tested_on(folder):
    assert examples_of(load(folder, val_size=0), "train") == examples_of(load(folder), "train")
    config = {**SMALL, "data": folder, "split": "validation", "val_size": 0}
    assert len(examples_of(load(folder, split="validation", val_size=0), "train")) == 150
    with pytest.raises(UserError, match="has no validation examples: ask for some with --val-size"):
        run(Config.build(config))


def test_a_task_that_is_held_out_whole_is_named(folder):
    path = folder / "training_data.txt"
    lines = path.read_text().splitlines()
    only = next(line for line in lines if line.startswith("12\t"))
    path.write_text("\n".join([only, *(line for line in lines if not line.startswith("12\t"))]) + "\n")
    message = refused(folder, split="validation", val_size=20)
    assert "no training sentence is left for the task 'c9'" in message
    assert "--val-size" in message


def test_the_sample_is_the_same_each_time(folder):
    first, again = (load(folder, split="validation", train_size=40, val_size=20, test_size=15) for _ in range(2))
    assert first == again
    places = [list(TRAIN).index(text) for text in texts(examples_of(first, "train"))]
    assert 40 < np.mean(places) < 110  # not the first ones of the file


def test_the_test_sentences_do_not_depend_on_the_training_size(folder):
    small, large = (load(folder, train_size=size, test_size=20) for size in (12, 120))
    assert examples_of(small, "test") == examples_of(large, "test")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train_size": 151}, "150 sentences to draw training"),
        ({"test_size": 41}, "40 sentences to draw test"),
        ({"split": "validation", "val_size": 100, "train_size": 51}, "50 sentences to draw training"),
        ({"train_size": 0}, "--train-size is 0"),
        ({"val_size": -1}, "--val-size is -1"),
        ({"test_size": 0}, "--test-size is 0"),
    ],
)
def test_sizes_that_cannot_be_met(folder, sizes, message):
    assert message in refused(folder, **sizes)


def test_a_task_without_test_sentences_is_refused_before_learning(folder):
    path = folder / "val_data.txt"
    path.write_text("".join(line for line in path.open() if not line.startswith("12\t")))
    with pytest.raises(UserError, match="the task 'c9' has no test examples"):
        run(Config.build({**SMALL, "data": folder}))


def test_sentences_that_are_cut_are_noted(folder):
    config = Config.build({**SMALL, "data": folder, "max_length": 40})
    experiment = build_experiment(config, load(folder))
    lengths = experiment.test_sets[0].batch.tokens.lengths
    assert (lengths == lengths.max()).mean() > 0.5  # cut, and not just as long as each other
    assert any(f"reach the limit of {lengths.max()} tokens" in note for note in experiment.notes)


# --- the joint test


def test_the_accuracy_is_that_of_all_test_sentences_and_not_the_mean_over_tasks(folder, monkeypatch):
    """Everything of c0 is known and the rest is a tie: 8 of 40 sentences are right, but one task of ten."""

    def predict(self, logits, batch):
        return np.where(batch.labels < 2, batch.labels, UNLABELLED)

    monkeypatch.setattr(Ranking, "predict", predict)
    result = run(Config.build({**SMALL, "data": folder, "train_size": 12}))
    assert result["per_task"] == {task: float(task == "c0") for task in result["per_task"]}
    assert len(result["per_task"]) == 10
    assert result["accuracy"] == 8 / 40


def test_the_accuracy_of_a_real_run_is_hits_over_sentences(folder):
    result = run(Config.build({**SMALL, "data": folder, "train_size": 48, "lr": 3e-3}))
    counts = Counter(TASK_OF[gold] for gold, _ in TEST.values())
    hits = {task: accuracy * counts[task] for task, accuracy in result["per_task"].items()}
    assert all(hit == pytest.approx(round(hit)) for hit in hits.values())
    assert result["accuracy"] == pytest.approx(sum(hits.values()) / 40)
    # On the way, over the sentences of the tasks learned so far.
    point, learned = result["curve"][2], list(result["per_task"])[:3]
    right = sum(point["per_task"][task] * counts[task] for task in learned)
    assert point["accuracy"] == pytest.approx(right / sum(counts[task] for task in learned))


# --- clusters


def groups(benchmark):
    """The relations of each task, by name."""
    return {task.name: sorted({example.label for example in task.train}) for task in benchmark.tasks}


ONE_EACH = {f"c{k}": [k] for k in range(8)} | {"c8": [8, 9], "c9": [10, 11]}


@pytest.fixture
def other_clusters(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({name[1:]: [member + 1 for member in members] for name, members in ONE_EACH.items()}))
    return path


# Where the name of each relation lies on a line: far apart, except that 10 lies beside 3 and 11 beside 5.
PLACES = [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 301, 501]
BY_PLACE = {f"c{k}": [k] for k in range(10)} | {"c3": [3, 10], "c5": [5, 11]}


@pytest.fixture
def glove(tmp_path):
    """The last word of a name carries it all, the others are unknown: the mean over all words is the place."""
    lines = ["elsewhere 1 2"]
    for name, place in zip(NAMES, PLACES, strict=True):
        words = name.split()
        lines.append(f"{words[-1]} {place * len(words)} {-place * len(words) / 2}")
    path = tmp_path / "glove.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def by_place(texts):
    assert list(texts) == NAMES
    return np.array([[place, 1.0] for place in PLACES])


def test_clusters_come_from_the_data_folder(folder):
    assert groups(load(folder)) == {f"c{name}": [member - 1 for member in own] for name, own in CLUSTERS.items()}


def test_a_cluster_file_wins_over_the_data_folders(folder, other_clusters):
    assert groups(load(folder, clusters=other_clusters)) == ONE_EACH


def test_a_cluster_file_wins_over_glove(folder, other_clusters, tmp_path):
    assert groups(load(folder, clusters=other_clusters, glove=tmp_path / "nowhere.txt")) == ONE_EACH


def test_kmeans_over_the_mean_vectors_of_the_names_words(folder, glove):
    """A GloVe file was asked for, so the data folder's own clusters are passed over."""
    assert groups(load(folder, glove=glove)) == BY_PLACE


def test_kmeans_over_the_encoders_vectors_where_there_is_nothing_else(tmp_path):
    folder = write_sample(tmp_path / "data", clusters=False)
    assert groups(load(folder, embed=by_place)) == BY_PLACE
    assert groups(load(folder, embed=by_place)) == BY_PLACE


def test_a_runs_encoder_gives_the_vectors(tmp_path):
    result = run(Config.build({**SMALL, "data": write_sample(tmp_path / "data", clusters=False)}))
    assert sorted(result["per_task"]) == [f"c{k}" for k in range(10)]


@pytest.mark.parametrize("other", [{"max_length": 8}, {"dropout": 0.5}, {"pooling": "cls"}, {"precision": "bf16"}])
def test_no_other_setting_of_a_run_changes_the_clusters(tmp_path, other):
    given = {**SMALL, "data": write_sample(tmp_path / "data", clusters=False)}
    expected, found = (groups(benchmark_for(Config.build({**given, **more}))) for more in ({}, other))
    assert found == expected


def test_a_result_names_the_relations_of_each_task(folder):
    result = run(Config.build({**SMALL, "data": folder, "train_size": 12, "order": "c1,c0"}))
    named = [[NAMES[relation - 1] for relation in CLUSTERS[name]] for name in ("1", "0")]
    assert [task["labels"] for task in result["tasks"]] == named


def test_the_command_line_learns_from_fewer_test_sentences_than_there_are_relations(folder, everlearn):
    sizes = ["--train-size", 48, "--test-size", 10, "--max-length", 64, "--replay-interval", 24, "--replay-rate", 0.2]
    code, out, err = everlearn(
        "run", "--stream", "fewrel", "--data", folder, "--method", "oml-er", "--encoder", "tiny", *sizes, "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert set(result["per_task"]) == {f"c{k}" for k in range(10)}
    assert result["accuracy"] * 10 == pytest.approx(round(result["accuracy"] * 10))


@pytest.mark.parametrize(("method", "noted"), [("seq", True), ("replay", False)])
def test_fresh_negatives_for_a_method_that_replays_nothing_are_noted(folder, method, noted):
    config = Config.build({**SMALL, "method": method, "data": folder, "refresh_negatives": True})
    notes = build_experiment(config, load(folder)).notes
    assert any("--refresh-negatives changes nothing" in note for note in notes) == noted


def test_kmeans_starts_ten_times_from_a_fixed_seed(monkeypatch):
    import sklearn.cluster

    asked = []
    original = sklearn.cluster.KMeans

    def spy(**settings):
        asked.append(settings)
        return original(**settings)

    monkeypatch.setattr(sklearn.cluster, "KMeans", spy)
    vectors = np.random.default_rng(0).normal(size=(40, 5))
    first = cluster(vectors)
    np.random.seed(1)
    assert cluster(vectors) == first
    assert asked == [{"n_clusters": 10, "n_init": 10, "random_state": 42}] * 2
    assert sorted(member for members in first.values() for member in members) == list(range(40))


def test_clusters_are_numbered_by_their_first_relation():
    vectors = np.repeat(np.random.default_rng(1).permutation(10) * 100.0, 3)[:, None]
    assert cluster(vectors) == {f"c{k}": [3 * k, 3 * k + 1, 3 * k + 2] for k in range(10)}


def test_computed_clusters_say_that_their_orders_are_not_the_authors(folder, glove, tmp_path):
    assert load(folder).notes == ()
    notes = load(folder, glove=glove).notes
    assert "GloVe's vectors" in notes[0]
    assert "--clusters" in notes[0]
    assert notes[1].startswith(f"{glove} has no vectors for ")
    by_encoder = load(write_sample(tmp_path / "other", clusters=False), embed=by_place).notes
    assert len(by_encoder) == 1
    assert "the encoder's vectors" in by_encoder[0]


def test_ten_clusters_that_are_not_numbered_as_the_authors_say_what_the_orders_go_by(folder, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(changed(**{"9": None, "rank": [12]}))
    (note,) = load(folder, clusters=path).notes
    assert f"the ten clusters of {path} are not numbered 0 to 9" in note
    assert "c0, c1, c2, c3, c4, c5, c6, c7, c8, rank" in note
    path.write_text(json.dumps({str(int(name) + 1): members for name, members in CLUSTERS.items()}))
    assert "count these as c1, c2," in load(folder, clusters=path).notes[0]


def test_clusters_that_have_no_five_orders_or_the_authors_numbers_need_no_note(folder, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"people": [1, 2, 3, 4], "places": [5, 6, 7, 8, 9, 10, 11, 12]}))
    assert load(folder, clusters=path).notes == ()
    path.write_text(json.dumps({f"c{name}": members for name, members in CLUSTERS.items()}))
    assert load(folder, clusters=path).notes == ()


def test_an_entry_of_glove_may_have_spaces_in_it(folder, glove):
    """As some of the 840B vectors have."""
    expected = groups(load(folder, glove=glove))
    glove.write_text(glove.read_text() + "of name@domain.com 1 2\n")
    assert groups(load(folder, glove=glove)) == expected


def test_clusters_may_have_names(folder, tmp_path):
    path = tmp_path / "named.json"
    path.write_text(json.dumps({"people": [1, 2, 3, 4], "2": [5, 6, 7, 8], "places": [9, 10, 11, 12]}))
    benchmark = load(folder, clusters=path, order="places,c2")
    assert [task.name for task in benchmark.tasks] == ["places", "c2"]


def test_fewer_relations_than_clusters_are_tasks_of_their_own():
    assert cluster(np.eye(3)) == {"c0": [0], "c1": [1], "c2": [2]}


# --- mistakes in the files


@pytest.fixture
def with_line(folder):
    """The sample with another line at the end of one of its files; what that leads to."""

    def refuse(name, line):
        path = folder / name
        count = len(path.read_text().splitlines())
        with path.open("a") as file:
            file.write(f"{line}\n")
        message = refused(folder)
        assert f"{path} line {count + 1} " in message
        return message

    return refuse


MALFORMED = "is not `relation<TAB>candidates<TAB>sentence`"


@pytest.mark.parametrize("name", ["training_data.txt", "val_data.txt"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3 a sentence without tabs", MALFORMED),
        ("1\t2 3", MALFORMED),
        ("1\t2 3\t  ", MALFORMED),
        ("1\t2 3\ta\tb\tc", MALFORMED),
        ("one\t2 3\ta sentence", "something other than numbers of relations: 'one'"),
        ("1\t2,3\ta sentence", "something other than numbers of relations"),
        ("1\t2 13\ta sentence", "relation 13, which relation_name.txt does not name (it names 12)"),
        ("1\t0 2\ta sentence", "relation 0, which relation_name.txt does not name"),
        ("99\t1 2\ta sentence", "relation 99, which relation_name.txt does not name"),
        ("-1\t1 2\ta sentence", "relation -1, which relation_name.txt does not name"),
        ("1\t3 4 3\ta sentence", "lists a candidate twice"),
        ("1\t \ta sentence", "or none"),
        ("1\t2 3\ta sentence\tand more", MALFORMED),
        ("1_0\t2 3\ta sentence", "something other than numbers of relations"),
        ("1\t+2 3\ta sentence", "something other than numbers of relations"),
        (f"1\t{'9' * 5000} 3\ta sentence", "something other than numbers of relations"),
        ("\n1\t2 3\ta sentence", MALFORMED),  # an empty line in between
        ("1\t٣ 4\ta sentence", "something other than numbers of relations"),
        ("1\t1\ta sentence", "no candidate but its own relation"),
        ("99\tnoNegativeAnswer\ta sentence", "relation 99, which relation_name.txt does not name"),
    ],
)
def test_lines_that_cannot_be_read(with_line, name, line, message):
    assert message in with_line(name, line)


def test_a_training_sentence_with_its_own_relation_among_the_negatives(with_line):
    assert "has its own relation among the candidates" in with_line("training_data.txt", "4\t3 4 5\ta sentence")


def test_a_test_sentence_without_its_own_relation_among_the_candidates(with_line):
    assert "misses its own relation among the candidates" in with_line("val_data.txt", "4\t3 5\ta sentence")


@pytest.mark.parametrize("relation", ["", "3 4"])
def test_a_line_without_exactly_one_relation(with_line, relation):
    with_line("training_data.txt", f"{relation}\t5 6 7\ta sentence")


@pytest.mark.parametrize("name", ["sport", "SPORT", "place of  Birth", "place\tof birth"])
def test_a_relation_named_twice_is_named_with_both_lines(with_line, name):
    first = NAMES.index(" ".join(name.lower().split())) + 1
    assert f"names the relation '{name}' again, after line {first}:" in with_line("relation_name.txt", f"///{name}")


@pytest.mark.parametrize("line", ["///", " \n///place of burial", "place of burial"])
def test_a_relation_without_a_name(with_line, line):
    assert "names no relation" in with_line("relation_name.txt", line)


def test_a_single_relation(folder):
    (folder / "relation_name.txt").write_text("///sport\n")
    assert "names 1 relations: at least two are needed" in refused(folder)


def test_a_relation_may_have_a_path_in_front_of_its_name(folder):
    lines = [f"/people/person///{name}" for name in NAMES]
    (folder / "relation_name.txt").write_text("\n".join(lines) + "\n")
    assert load(folder).labels == tuple(NAMES)


def test_lines_without_candidates_are_skipped_and_counted(folder):
    before = load(folder)
    for name, count in (("training_data.txt", 7), ("val_data.txt", 2)):
        path = folder / name
        first, *rest = path.read_text().splitlines()
        skipped = [f"2\tnoNegativeAnswer\tskipped {number}" for number in range(count)]
        path.write_text("\n".join([first, *skipped, *rest]) + "\n")
    benchmark = load(folder)
    assert replace(benchmark, notes=()) == before
    train, test = benchmark.notes
    assert re.match(r"skipped 7 \w+ of training_data.txt .*\(lines 2, 3, 4, 5, 6\b", train)
    assert re.match(r"skipped 2 \w+ of val_data.txt .*\(lines 2, 3\)", test)


def test_nothing_but_lines_without_candidates(folder):
    (folder / "val_data.txt").write_text("2\tnoNegativeAnswer\tskipped\n")
    message = refused(folder)
    assert str(folder / "val_data.txt") in message
    assert "no sentence" in message


@pytest.mark.parametrize("name", ["relation_name.txt", "training_data.txt", "val_data.txt"])
def test_an_empty_file(folder, name):
    (folder / name).write_text("")
    message = refused(folder)
    assert str(folder / name) in message
    assert "is empty" in message


@pytest.mark.parametrize("name", ["relation_name.txt", "training_data.txt", "val_data.txt"])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    message = refused(folder)
    assert name in message
    assert str(folder) in message
    assert "there is no" in message


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_a_compressed_file_that_was_cut_short(folder, ending, opener):
    content = (folder / "training_data.txt").read_bytes()
    (folder / "training_data.txt").unlink()
    path = folder / f"training_data.txt{ending}"
    with opener(path, "wb") as file:
        file.write(content)
    path.write_bytes(path.read_bytes()[:-20])
    message = refused(folder)
    assert str(path) in message
    assert "cut short or damaged" in message


def test_no_folder():
    message = refused(None)
    assert "--data" in message
    assert "training_data.txt" in message


def test_a_folder_that_does_not_exist(tmp_path):
    assert f"found no folder {tmp_path / 'nowhere'}" in refused(tmp_path / "nowhere")


# --- mistakes in the clusters


def changed(**changes):
    """The cluster file with some clusters exchanged; None takes one away."""
    return json.dumps({name: members for name, members in {**CLUSTERS, **changes}.items() if members is not None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(**{"1": [3, 4, 7]}), "has relation 7 twice"),
        (changed(**{"0": [1, 1, 2]}), "has relation 1 twice"),
        (changed(**{"1": [3]}), "lacks relation 4"),
        (changed(**{"9": None}), "lacks relation 12"),
        (changed(**{"9": [12, 13]}), "has relation 13, which relation_name.txt does not name"),
        (changed(**{"9": [12, 0]}), "has relation 0, which relation_name.txt does not name"),
        (changed(**{"10": []}), "has an empty cluster"),
        (changed(**{"9": ["twelve"]}), "is not a JSON object of cluster"),
        (changed(**{"9": 12}), "is not a JSON object of cluster"),
        ("[[1, 2], [3]]", "is not a JSON object of cluster"),
        ("{0: [1]", "is not a JSON object of cluster"),
        ('{"0": [1], "0": [2]}', "a cluster stands in it twice"),
        (changed(c0=[12]), "the same cluster"),
        (changed(**{"9": [True, 12]}), "true and false are no numbers"),
        ("[" * 100_000, "is not a JSON object of cluster"),
        (changed(**{"7" * 5000: []}), "relation numbers: a number has more than 9 digits"),
        (changed(**{"9": [10**9]}), "relation numbers: a number has more than 9 digits"),
        (f'{{"0": [{"1" * 5000}]}}', "relation numbers: a number has more than 9 digits"),
        (changed(**{"9": None, "river, lake": [12]}), "has a cluster 'river, lake', which --order cannot name"),
        (changed(**{"9": None, " river": [12]}), "has a cluster ' river', which --order cannot name"),
        (changed(**{"9": None, "river\n": [12]}), "has a cluster 'river\\n', which --order cannot name"),
        (changed(**{"9": None, "": [12]}), "has a cluster '', which --order cannot name"),
        ("", "is empty"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_cluster_files_that_cannot_be_used(folder, tmp_path, content, message, own):
    path = folder / "clusters.json" if own else tmp_path / "given.json"
    path.write_text(content)
    found = refused(folder) if own else refused(folder, clusters=path)
    assert str(path) in found
    assert message in found


def test_a_cluster_file_that_does_not_exist(folder, tmp_path):
    message = refused(folder, clusters=tmp_path / "nowhere.json")
    assert f"there is no cluster file {tmp_path / 'nowhere.json'}" in message
    assert "--clusters" in message


def test_the_authors_orders_go_by_the_clusters_names_not_by_their_places_in_the_file(folder):
    """The members of a JSON object have no order of their own."""
    (folder / "clusters.json").write_text(json.dumps(dict(reversed(CLUSTERS.items()))))
    assert [task.name for task in load(folder).tasks] == ["c8", "c9", "c2", "c1", "c7", "c4", "c5", "c0", "c3", "c6"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("other words\nand more\n", "has no vector for any word of the relation 'place of birth'"),
        ("of 1 2\nmother 1 2 3\n", "has no vector for any word of the relation 'mother'"),
        ("mother 1 2\nsport 1 two\n", "line 2 is not a word and a vector"),
        ("mother 1 2\nsport 1 nan\n", "line 2 is not a word and a vector"),
        ("mother 1 2\nsport 1 1e400\n", "line 2 is not a word and a vector"),
        ("mother 1 2\nsport 1\n", "line 2 has fewer than 2 numbers"),
        ("place\nmother\nchild\n", "has no vector for any word"),
        ("12 2\nmother 1 2\n", "line 1 counts words and numbers, as word2vec's files do"),
        ("12\t2\nmother\t1\t2\n", "line 1 counts words and numbers, as word2vec's files do"),
        ("mother\t1\t2\n", "line 1 has a tab in it"),
        ("mother 1 2\nsport\t1\t2\n", "line 2 has a tab in it"),
        ("", "is empty"),
    ],
)
def test_glove_files_that_cannot_be_used(folder, tmp_path, content, message):
    path = tmp_path / "glove.txt"
    path.write_text(content)
    found = refused(folder, glove=path)
    assert str(path) in found
    assert message in found


def test_vectors_that_do_not_tell_the_relations_apart(tmp_path):
    folder = write_sample(tmp_path / "data", clusters=False)
    message = refused(folder, embed=lambda texts: np.ones((len(texts), 3)))
    assert "only 1 different vectors, too few for 10 tasks" in message
    assert "--clusters" in message


def test_a_glove_file_that_does_not_exist(folder, tmp_path):
    assert f"there is no file {tmp_path / 'nowhere.txt'}" in refused(folder, glove=tmp_path / "nowhere.txt")


# --- one example at a time


@pytest.mark.parametrize(
    ("candidates", "seen", "kept"),
    [
        ((1, 5, 6, 7), {1, 5, 6, 7}, (1, 5, 6, 7)),
        ((1, 5, 6, 7), {1, 6}, (1, 6)),
        ((1, 5, 6, 7), {1}, (1, 6, 7)),
        ((1, 5), {1}, (1, 5)),
        ((1, 7, 6, 5), {1, 5, 7}, (1, 7, 5)),
    ],
)
def test_the_gold_relation_is_always_kept(candidates, seen, kept):
    example = fewrel.Example("a sentence", 1, candidates)
    assert fewrel.keep_seen_candidates(example, seen) == fewrel.Example("a sentence", 1, kept)
