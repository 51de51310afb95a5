import hashlib
import os
import re
import subprocess
import sys
import warnings
from itertools import product

import pytest

from everlearn.errors import UserError
from everlearn.streams import docstring_areas, docstrings
from everlearn.streams.base import Benchmark, StreamConfig
from everlearn.streams.docstring_areas import MASK, Area, TaskSource, mask, package_folder, source_files

FINGERPRINT = """
import hashlib
from everlearn.streams.base import StreamConfig
from everlearn.streams.docstrings import load
print(hashlib.sha256(repr(load(StreamConfig())).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return docstrings.load(StreamConfig())


def all_examples(benchmark: Benchmark):
    return [
        example for task in benchmark.tasks for part in (task.train, task.validation, task.test) for example in part
    ]


def triples(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def test_every_class_has_enough_texts_in_every_split(benchmark):
    assert benchmark.name == "docstrings"
    assert len(benchmark.labels) == len(set(benchmark.labels)) == 25
    for task in benchmark.tasks:
        labels = [label for label, name in enumerate(benchmark.labels) if name.startswith(f"{task.name}.")]
        assert len(labels) == 5
        for examples, least in ((task.train, 60), (task.validation, 10), (task.test, 10)):
            counts = {label: sum(example.label == label for example in examples) for label in labels}
            assert sum(counts.values()) == len(examples)
            assert min(counts.values()) >= least, (task.name, counts)


def test_texts_are_prose_of_a_sensible_length(benchmark):
    for example in all_examples(benchmark):
        assert 8 <= len(example.text.split()) <= 80
        assert example.text == " ".join(example.text.split())
        assert not re.search(r"https?://|>>>|:func:|``|%\(|Returns:", example.text), example.text


def test_no_text_comes_twice(benchmark):
    texts = [example.text for example in all_examples(benchmark)]
    assert len(texts) == len(set(texts))


def test_no_near_duplicate_of_a_test_text_is_learned_from(benchmark):
    held_out = [triples(e.text) for task in benchmark.tasks for e in (*task.validation, *task.test)]
    learned = [triples(e.text) for task in benchmark.tasks for e in task.train]
    for one, other in product(held_out, learned):
        assert len(one & other) < docstrings.NEAR_DUPLICATE * len(one | other), (one, other)


def test_near_duplicates_are_grouped_across_a_chain():
    first = "the quick brown fox jumps over the lazy old dog today"
    second = first.replace("today", "again")
    third = second.replace("the quick", "one quick")
    other = "a wholly different sentence about filters and their response"
    assert docstrings._near_duplicates([first, other, second, third]) == [[first, second, third], [other]]


def test_a_text_found_in_two_classes_is_in_neither(tmp_path, monkeypatch):
    for name, number in (("left", 1), ("right", 2)):
        own = "".join(
            f'def f{i}():\n    """Return the {hashlib.sha256(bytes([i, number])).hexdigest()} of a {i} and the {number}'
            f' in a row of that kind, written with care by {i}{number}."""\n'
            for i in range(60)
        )
        shared = 'def g():\n    """Wait until the kettle is boiling and then make a pot of tea."""\n'
        (tmp_path / f"{name}.py").write_text(own + shared)
    (tmp_path / "broken.py").write_text("def (:\n")
    areas = (Area("toy.left", ("left", "broken")), Area("toy.right", ("right",)))
    monkeypatch.setattr(docstrings, "TASKS", (TaskSource("toy", "toy", "toy", areas),))
    monkeypatch.setattr(docstrings, "LABELS", ("toy.left", "toy.right"))
    monkeypatch.setattr(docstrings, "package_folder", lambda task: tmp_path)
    pool = docstrings._pool.__wrapped__()
    texts = [text for splits in pool.values() for part in splits.values() for text in part]
    assert len(texts) == 120
    assert not any("kettle" in text for text in texts)


def test_no_text_names_a_package(benchmark):
    names = re.compile(r"torch|scipy|sklearn|scikit-learn|numpy|\btransformers\b|\basyncio\b|\burllib\b", re.IGNORECASE)
    texts = [example.text for example in all_examples(benchmark)]
    assert not [text for text in texts if names.search(text)]
    assert any(MASK in text for text in texts)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("filter with scipy.signal.lfilter", "filter with lfilter"),
        ("filter with signal.lfilter", "filter with lfilter"),
        ("filter the signal. Then plot it", "filter the signal. Then plot it"),
        ("the scipy.signal module", f"the {MASK} module"),
        ("a torch.nn.Module of PyTorch", f"a Module of {MASK}"),
        ("an np.ndarray or NumPy array", f"an ndarray or {MASK} array"),
        ("TorchScript and torchvision", f"{MASK} and {MASK}"),
        ("scikit-learn's transformer", f"{MASK}'s transformer"),
        ("Transformers models, from Hugging Face", f"{MASK} models, from {MASK}"),
        ("Asyncio's loop, an asyncio task, asyncio.run()", f"{MASK}'s loop, an {MASK} task, run()"),
        ("the json format, json.loads", "the json format, loads"),
        ("i.e. self.data of a cluster", "i.e. self.data of a cluster"),
    ],
)
def test_masking(text, masked):
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("docstring", "prose"),
    [
        (
            "f(x) -> y\n\nSum of the squares of ``x`` along an axis, see :func:`~a.b`\n\nParameters\n----------\nx",
            "Sum of the squares of x along an axis, see a.b.",
        ),
        (
            "Solve it.\n\nThe method is the one described by Newton.",
            "Solve it. The method is the one described by Newton.",
        ),
        (
            "Join the ends of the two lists to a ring.\nArgs:\n    left: one",
            "Join the ends of the two lists to a ring.",
        ),
        (
            "Compute x**2 for **every** number of the list given to *it*::",
            "Compute x**2 for every number of the list given to it.",
        ),
        ("Return it.\n\nReturns\n-------\nthe value of the thing that was asked for", ""),
        ("Draw a %(name)s of the kind that is asked for by the user.", ""),
        ("foo_bar = baz(1) + qux[2] * a_b_c / x_1 - the_end of the_line", ""),
    ],
)
def test_opening_prose(docstring, prose):
    assert docstrings._opening_prose(docstring) == prose


def test_docstrings_attached_by_a_call_are_read():
    source = (
        b'add_docstr(torch.abs, r"""\nabs(x)\n\nAbsolute value.\n""" + more)\nx = lib.add_newdoc("a", "b", "Text.")'
    )
    assert sorted(filter(None, docstrings._docstrings(source))) == ["Text.", "abs(x)\n\nAbsolute value."]


@pytest.mark.parametrize("source", [b"def (:", b"\xff\xfe\x00", b"x = '\xe9'"])
def test_files_that_do_not_parse_are_skipped(source):
    assert list(docstrings._docstrings(source)) == []


def test_doubtful_escapes_in_other_peoples_code_are_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(docstrings._docstrings(b'"""Text."""\npattern = "\\d"')) == ["Text."]


def test_the_same_whatever_the_hash_seed(benchmark):
    expected = hashlib.sha256(repr(benchmark).encode()).hexdigest()
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run(
        [sys.executable, "-c", FINGERPRINT], env=environment, capture_output=True, check=True, text=True
    )
    assert found.stdout.strip() == expected


def test_the_packages_are_read_but_not_imported():
    code = "import sys; from everlearn.streams import docstrings; docstrings._pool(); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert {"torch", "transformers", "sklearn"}.isdisjoint(found.stdout.split())


@pytest.mark.parametrize("order", ["1", "2", "3", "4"])
def test_orders_are_permutations(order, benchmark):
    loaded = docstrings.load(StreamConfig(order=order))
    assert [task.name for task in loaded.tasks] == list(docstrings.ORDERS[order])
    assert sorted(docstrings.ORDERS[order]) == sorted(docstrings.TASK_NAMES)
    assert loaded.labels == benchmark.labels
    assert {task.name: task for task in loaded.tasks} == {task.name: task for task in benchmark.tasks}


def test_orders_differ():
    assert len(set(docstrings.ORDERS.values())) == 4


def test_custom_order(benchmark):
    loaded = docstrings.load(StreamConfig(order="torch, scipy"))
    assert [task.name for task in loaded.tasks] == ["torch", "scipy"]
    assert loaded.labels == benchmark.labels


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("5", "no order 5"),
        ("torch,scypi", "unknown task 'scypi': did you mean 'scipy'"),
        ("torch,torch", "twice"),
        ("", "no order"),
    ],
)
def test_bad_orders(order, message):
    with pytest.raises(UserError, match=message):
        docstrings.load(StreamConfig(order=order))


def test_sizes_are_caps_per_task_and_keep_the_classes_balanced(benchmark):
    loaded = docstrings.load(StreamConfig(train_size=50, val_size=7, test_size=10))
    for task, whole in zip(loaded.tasks, benchmark.tasks, strict=True):
        assert (len(task.train), len(task.validation), len(task.test)) == (50, 7, 10)
        assert set(task.train) <= set(whole.train)
        assert sorted(example.label % 5 for example in task.train) == sorted(list(range(5)) * 10)


def test_a_size_larger_than_the_default_may_be_asked_for(benchmark):
    whole = docstrings.load(StreamConfig(order="stdlib", train_size=600)).tasks[0]
    default = next(task for task in benchmark.tasks if task.name == "stdlib")
    assert len(whole.train) == 600
    assert set(default.train) < set(whole.train)


@pytest.mark.parametrize("field", ["train_size", "val_size", "test_size"])
@pytest.mark.parametrize(
    ("size", "message"),
    [(-1, "give at least"), (10**6, r"the task 'scipy' has \d+ \w+ examples")],
)
def test_bad_sizes(field, size, message):
    with pytest.raises(UserError, match=message):
        docstrings.load(StreamConfig(**{field: size}))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(docstring_areas, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        package_folder(next(task for task in docstring_areas.TASKS if task.name == "sklearn"))


def test_missing_sources_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings, "package_folder", lambda task: tmp_path)
    with pytest.raises(UserError, match=r"scipy\.stats"):
        docstrings._pool.__wrapped__()


def test_tests_are_no_source(tmp_path):
    for name in ("signal.py", "signal/filters.py", "signal/tests/test_filters.py", "signal/_testutils.py", "other.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = source_files(tmp_path, Area("x.signal", ("signal",)))
    assert [str(path.relative_to(tmp_path).as_posix()) for path in found] == ["signal/filters.py", "signal.py"]


def test_a_text_keeps_its_split_whatever_else_there_is():
    assert docstrings._split("Apply a digital filter.") == docstrings._split("apply a DIGITAL filter")
    shares = [docstrings._split(f"text number {number}") for number in range(4000)]
    assert 0.15 < shares.count("test") / 4000 < 0.19
    assert 0.15 < shares.count("validation") / 4000 < 0.19
