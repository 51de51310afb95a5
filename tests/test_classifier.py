"""LifelongClassifier: what engineers use."""

import json
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from everlearn import LifelongClassifier
from everlearn.classifier import BadInputError, storage
from everlearn.errors import UserError
from everlearn.methods import METHODS
from support import CAUSAL_LENGTH, assert_same_state, encoder_settings, labelled_texts, writes_texts

LIFELONG = [name for name, method in METHODS.items() if method.lifelong]
LABELS_ONLY = ("mbpa++", "lamol", "lamol-real")
# Without replay what is learned does not last: nothing is promised about how much.
LASTING = [name for name in LIFELONG if name not in ("oml", "anml")]
# The head of meta-mbpa starts from what a memory of its own says, in which a single example weighs too little to be
# predicted, and a language model has to learn first what an answer is.
QUICK = [name for name in LIFELONG if name not in ("meta-mbpa", "lamol", "lamol-real")]
# Those that say no more than a label cannot be kept from one; they say so.
ERASING = [name for name in LASTING if name not in LABELS_ONLY]
FAST = {"lr": 3e-3, "head_lr": 3e-2, "meta_lr": 3e-3, "inner_lr": 0.05, "batch_size": 4, "support_batches": 2}
FAST |= {"replay_interval": 8, "replay_rate": 0.5, "random_features": 64}

# What it rehearses it writes itself, badly at first: it takes smaller steps.
LEARNS_WITH = {"lamol": {"lr": 2e-3}}


def frozen_by(method: str) -> bool:
    """For tests that train the encoder along wherever a method does."""
    return METHODS[method].freezes_encoder


def data(count: int, labels: Any = (0, 1, 2), seed: int = 1) -> tuple[list[str], list[str]]:
    examples = labelled_texts(count, labels, seed)
    return [example.text for example in examples], [f"label{example.label}" for example in examples]


def make(method: str = "replay", **params: Any) -> LifelongClassifier:
    settings = {**FAST, **params.pop("settings", {})}
    room = {"max_length": CAUSAL_LENGTH + 8} if writes_texts(method) else {}  # labels are spelled out, piece by piece
    return LifelongClassifier(method=method, settings=settings, **{**encoder_settings(method), **room, **params})


def knowledge(classifier: LifelongClassifier) -> dict[str, Any]:
    """Everything that is learned; times and clocks aside."""
    state = classifier.state()
    del state["times"]
    for meter in ("train", "watch", "test"):
        for time in ("seconds", "phases"):
            del state["learner"]["ledger"][meter][time]
    return state


def answers(classifier: LifelongClassifier, texts: list[str]) -> Any:
    """As much as the method says about texts: probabilities, or labels where it gives no more."""
    return classifier.predict(texts) if classifier.method in LABELS_ONLY else classifier.predict_proba(texts)


def learned(method: str = "replay", **params: Any) -> LifelongClassifier:
    return make(method, **params).partial_fit(*data(60))


# Learning in portions


@pytest.mark.parametrize("method", LIFELONG)
def test_however_a_sequence_is_cut_the_model_is_the_same(method: str):
    texts, labels = data(31)
    whole = make(method).partial_fit(texts, labels)
    one_by_one = make(method)
    for text, label in zip(texts, labels, strict=True):
        one_by_one.partial_fit([text], [label])
    odd = make(method)
    for start, stop in ((0, 1), (1, 14), (14, 15), (15, 31)):
        odd.partial_fit(texts[start:stop], labels[start:stop])
        odd.predict(["the of"])  # predicting in between changes nothing
    for other in (one_by_one, odd):
        assert_same_state(knowledge(other), knowledge(whole))
        np.testing.assert_array_equal(answers(other, texts), answers(whole, texts))


@pytest.mark.parametrize("method", LASTING)
def test_it_learns_and_new_labels_are_welcome(method: str):
    classifier = make(method, freeze_encoder=frozen_by(method), settings=LEARNS_WITH.get(method, {}))
    for count, labels in ((80, (0, 1)), (80, (2,)), (300, (0, 1, 2))):
        classifier.partial_fit(*data(count, labels))
    assert classifier.classes_.tolist() == ["label0", "label1", "label2"]
    assert classifier.counts_ == {"label0": 40 + 100, "label1": 40 + 100, "label2": 80 + 100}
    assert classifier.score(*data(60, seed=2)) > 0.8


@pytest.mark.parametrize("method", QUICK)
def test_a_single_example_counts_at_once(method: str):
    """It fills neither a batch nor an episode, and is predicted nevertheless."""
    classifier = make(method).partial_fit(["the of and"], ["a"])
    assert classifier.predict(["it for on"]).tolist() == ["a"]
    classifier.partial_fit(["it for on"], ["b"])
    before = knowledge(classifier)
    assert classifier.predict(["the of and", "it for on"]).tolist() == ["a", "b"]
    assert_same_state(knowledge(classifier), before)


def test_nothing_depends_on_the_callers_random_numbers():
    texts, labels = data(30)
    torch.manual_seed(1)
    one = make(settings={"dropout": 0.2}, freeze_encoder=False).partial_fit(texts, labels)
    torch.manual_seed(2)
    expected = torch.rand(1)
    torch.manual_seed(2)
    other = make(settings={"dropout": 0.2}, freeze_encoder=False).partial_fit(texts, labels)
    assert torch.equal(torch.rand(1), expected)
    assert_same_state(knowledge(one), knowledge(other))


def test_the_memory_keeps_to_its_bound():
    classifier = make(memory_capacity=10)
    classifier.partial_fit(*data(60))
    assert len(classifier.learner_.memory) == 10


def test_whole_numbers_as_labels():
    texts, _ = data(30)
    classifier = make().partial_fit(texts, np.arange(30) % 3 + 10)
    assert classifier.classes_.tolist() == [10, 11, 12]
    assert classifier.predict(texts).dtype.kind == "i"


# Probabilities


def test_probabilities_are_sane():
    classifier = learned()
    shares = classifier.predict_proba([*data(20, seed=3)[0], "\x00", "ü" * 5000, "🙂", "a"])
    assert shares.shape == (24, 3)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    texts = data(20, seed=3)[0]
    chosen = classifier.classes_[classifier.predict_proba(texts).argmax(axis=1)]
    assert chosen.tolist() == classifier.predict(texts).tolist()


def test_few_examples_make_nothing_certain():
    """Laplace's rule: having seen one example of each of two labels and nothing else, one may be wrong."""
    texts = ["the of and", "it for on"]
    for method in ("slda", "ranpac", "replay"):
        shares = make(method).partial_fit(texts, ["a", "b"]).predict_proba(texts)
        assert 0.25 <= shares.min() <= shares.max() <= 0.75
    certain = make("slda").partial_fit(*data(300)).predict_proba(data(30, seed=2)[0])
    assert certain.max() > 0.95
    assert certain.min() >= 1 / (300 + 3)


def test_no_text_gives_no_prediction():
    classifier = learned()
    assert classifier.predict([]).shape == (0,)
    assert classifier.predict_proba([]).shape == (0, 3)


def test_a_snapshot_stays_the_same_while_learning_goes_on():
    classifier = learned()
    snapshot = classifier.snapshot()
    texts = data(10, seed=4)[0]
    before = snapshot.probabilities(texts)
    classifier.partial_fit(*data(60, (3, 4)))
    np.testing.assert_array_equal(snapshot.probabilities(texts), before)
    assert snapshot.classes == ["label0", "label1", "label2"]


# scikit-learn


def test_it_follows_scikit_learns_conventions():
    classifier = make(memory_capacity=7)
    assert classifier.get_params()["memory_capacity"] == 7
    copy = clone(classifier.partial_fit(*data(12)))
    assert copy.get_params() == classifier.get_params()
    for call in (copy.predict, copy.predict_proba, lambda texts: copy.forgetting()):
        with pytest.raises(NotFittedError):
            call(["the of"])
    with pytest.raises(NotFittedError):
        copy.classes_  # noqa: B018
    fitted = copy.fit(*data(12))
    again = fitted.fit(*data(12, (3, 4)))  # starts over
    assert again.classes_.tolist() == ["label3", "label4"]


def test_labels_may_be_announced():
    """As scikit-learn has it in `partial_fit`, for those who need a column for each from the start."""
    classifier = make().partial_fit(*data(30, (0, 1)), classes=[f"label{number}" for number in range(4)])
    assert classifier.classes_.tolist() == ["label0", "label1", "label2", "label3"]
    assert classifier.counts_["label3"] == 0
    shares = classifier.predict_proba(data(5, seed=2)[0])
    assert shares.shape == (5, 4)
    assert (shares[:, 2:] == 0).all()
    alone = make().partial_fit(*data(30, (0, 1)))
    np.testing.assert_array_equal(shares[:, :2], alone.predict_proba(data(5, seed=2)[0]))
    classifier.partial_fit(*data(300, range(4)))
    assert classifier.score(*data(40, range(4), seed=3)) > 0.8
    with pytest.raises(BadInputError, match="'label5' is not among the classes"):
        classifier.partial_fit(*data(4, (5,)), classes=["label0"])
    with pytest.raises(BadInputError, match="some labels are strings"):
        make().partial_fit(["the of"], [1], classes=["1"])


def test_threads_take_turns():
    classifier = make("slda", memory_capacity=None)
    texts, labels = data(40)
    classifier.partial_fit(texts, labels)
    probes = data(10, seed=3)[0]

    def work(_: int) -> None:
        for start in range(0, 40, 5):
            classifier.partial_fit(texts[start : start + 5], labels[start : start + 5])
            assert np.isfinite(classifier.predict_proba(probes)).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert classifier.examples_ == sum(classifier.counts_.values()) == len(classifier.learner_.memory) == 200
    whole = make("slda", memory_capacity=None).partial_fit(texts * 5, labels * 5)
    np.testing.assert_allclose(classifier.predict_proba(probes), whole.predict_proba(probes), atol=1e-6)


def test_predictions_go_on_while_another_thread_learns(monkeypatch: pytest.MonkeyPatch):
    classifier = make("slda").partial_fit(*data(30))
    texts = data(5, seed=3)[0]
    before = classifier.predict_proba(texts)
    begun, go_on = threading.Event(), threading.Event()
    learn = classifier.learner_.learn

    def held(*given: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        learn(*given)

    monkeypatch.setattr(classifier.learner_, "learn", held)
    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(classifier.partial_fit, *data(60, (3, 4), seed=5))
        assert begun.wait(30)
        np.testing.assert_array_equal(classifier.predict_proba(texts), before)
        assert classifier.predict(texts).shape == (5,)
        go_on.set()
        learning.result(30)
    assert classifier.predict_proba(texts).shape == (5, 5)


def test_an_interrupted_call_learns_nothing_twice(monkeypatch: pytest.MonkeyPatch):
    """What came before the interruption is learned and counted; the batch at hand is lost, and so is the rest."""
    classifier = make("slda", settings={"batch_size": 2}).partial_fit(*data(1))
    observe, batches = classifier.learner_._observe, []

    def interrupted(batch: Any) -> None:
        batches.append(batch)
        if len(batches) == 3:
            raise KeyboardInterrupt
        observe(batch)

    monkeypatch.setattr(classifier.learner_, "_observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier.partial_fit(*data(20, seed=2))
    assert classifier.examples_ == sum(classifier.counts_.values()) == 4  # one before, three of these
    assert len(classifier.learner_.memory) == 4
    assert len(classifier.learner_.waiting) == 0
    classifier.partial_fit(*data(5, seed=3))
    assert len(classifier.learner_.memory) + len(classifier.learner_.waiting) == classifier.examples_ == 9


def test_parameters_may_be_numpys_and_what_is_none_of_a_classifiers_is_refused():
    assert make(seed=np.int64(3), memory_capacity=np.int32(7)).partial_fit(*data(3)).params_["seed"] == 3
    for wrong, message in (
        ({"settings": "abc"}, "have to be a dict"),
        ({"method": None}, "has to be the name of one"),
        ({"settings": {"epochs": 3}}, "unknown setting 'epochs'"),
        ({"settings": {"data": "/etc"}}, "unknown setting 'data'"),
    ):
        with pytest.raises(UserError, match=message):
            LifelongClassifier(**{"encoder": "tiny", **wrong}).partial_fit(*data(3))


def test_it_works_in_a_pipeline_behind_a_column_selector():
    texts, labels = data(60)
    table = np.array([[str(number), text] for number, text in enumerate(texts)], dtype=object)
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows[:, [1]]), make())
    pipeline.fit(table, labels)
    assert pipeline.predict(table[:5]).shape == (5,)
    assert pipeline.score(table, labels) > 0.8


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("one text", ["a"], "put it into a list"),
        (["x"], "a", "put it into a list"),
        (["x", "y"], ["a"], "2 texts and 1 labels"),
        (["x", None], ["a", "b"], "text number 2 is missing"),
        (["x", float("nan")], ["a", "b"], "text number 2 is missing"),
        (["x", 3], ["a", "b"], "text number 2 is of the type int"),
        (["x", "  "], ["a", "b"], "text number 2 is empty"),
        (["x", "y"], ["a", 1], "some labels are strings"),
        (["x"], [1.5], "of the type float"),
        (["x"], [True], "of the type bool"),
        (["x"], [""], "label number 1 is empty"),
        (["x"], ["a\x1b[31m"], "holds a control character"),
        (["x"], [2**63], "larger than"),
        (np.array([["x", "y"]]), ["a"], "one column"),
    ],
)
def test_what_cannot_be_learned_is_refused_and_nothing_of_it_is_learned(texts: Any, labels: Any, message: str):
    classifier = learned()
    before = knowledge(classifier)
    with pytest.raises(BadInputError, match=message):
        classifier.partial_fit(texts, labels)
    with pytest.raises(ValueError, match=message):  # as scikit-learn's users expect it
        make().partial_fit(texts, labels)
    assert_same_state(knowledge(classifier), before)


def test_labels_keep_to_the_kind_of_the_first():
    with pytest.raises(BadInputError, match="some labels are strings"):
        learned().partial_fit(["x"], [1])


def test_methods_and_settings_that_do_not_fit():
    with pytest.raises(BadInputError, match="needs all data at once"):
        make("mtl").partial_fit(*data(3))
    with pytest.raises(UserError, match="unknown method"):
        make("replai").partial_fit(*data(3))
    with pytest.raises(UserError, match="unknown setting"):
        make(settings={"nonsense": 1}).partial_fit(*data(3))
    with pytest.raises(BadInputError, match="slda leaves the encoder as it is"):
        make("slda", freeze_encoder=False).partial_fit(*data(3))


def test_a_loss_that_is_not_finite_is_said():
    classifier = make("seq", settings={"lr": 1e30, "head_lr": 1e30}, freeze_encoder=False)
    with pytest.raises(UserError, match="no longer a finite number"):
        classifier.partial_fit(*data(800))


# Keeping


@pytest.mark.parametrize("method", LIFELONG)
@pytest.mark.parametrize("frozen", [True, False])
def test_saved_and_loaded_it_goes_on_as_if_it_had_never_stopped(method: str, frozen: bool, tmp_path: Path):
    texts, labels = data(45, range(5))
    whole = make(method, freeze_encoder=frozen or frozen_by(method), memory_capacity=20)
    whole.partial_fit(texts[:22], labels[:22])
    whole.predict(texts[:3])
    whole.save(tmp_path / "model")
    resumed = LifelongClassifier.load(tmp_path / "model")
    assert resumed.get_params() == whole.get_params()
    for classifier in (whole, resumed):
        classifier.partial_fit(texts[22:], labels[22:])
    assert_same_state(knowledge(resumed), knowledge(whole))
    np.testing.assert_array_equal(answers(resumed, texts), answers(whole, texts))


def test_a_folder_holds_nothing_that_can_run_code_and_a_card(tmp_path: Path):
    classifier = learned()
    classifier.hold_out(*data(9, seed=5))
    folder = classifier.save(tmp_path / "model")
    files = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert files == [".lock", "README.md", "checksums.json", "config.json", "state.json", "tensors.safetensors"]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: everlearn\npipeline_tag: text-classification\n")
    assert "It learned 60 examples with 3 labels" in card
    assert "| label0 | 20 |" in card
    assert "Accuracy on 9 held-out examples" in card
    # Untrained weights come from the encoder again, so a frozen one's are not in the file.
    assert (folder / "checkpoints").stat().st_size < 100_000


def test_a_model_can_be_loaded_in_another_process(tmp_path: Path):
    classifier = learned()
    classifier.save(tmp_path / "model")
    program = "import sys, json; from everlearn import LifelongClassifier as C; c = C.load(sys.argv[1]);"
    program += "print(json.dumps(c.predict_proba(['the of', 'it for']).tolist()))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == classifier.predict_proba(["the of", "it for"]).tolist()


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path):
    classifier = learned()
    classifier.save(tmp_path)
    classifier.partial_fit(*data(8))
    classifier.save(tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir())
    (newest / "tensors.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="is damaged"):
        assert LifelongClassifier.load(tmp_path).examples_ == 60
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint in it is whole"):
        LifelongClassifier.load(tmp_path)


def test_folders_that_are_not_models(tmp_path: Path):
    with pytest.raises(UserError, match="there is no model"):
        LifelongClassifier.load(tmp_path / "nothing")
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds other files \(thesis.txt\)"):
        learned().save(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        LifelongClassifier.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"format": 99, "everlearn": "9.9", "params": {"seed": 1}}))
    with pytest.raises(UserError, match="written by a newer everlearn"):
        LifelongClassifier.load(tmp_path)


def test_one_writer_at_a_time(tmp_path: Path):
    with storage.locked(tmp_path), pytest.raises(UserError, match="another process"), storage.locked(tmp_path):
        pass


def test_pushing_uploads_the_model_and_nothing_beside_it(monkeypatch: pytest.MonkeyPatch):
    hub = pytest.importorskip("huggingface_hub")
    uploaded: dict[str, Any] = {}

    class Api:
        def create_repo(self, name: str, private: bool, exist_ok: bool) -> str:
            uploaded.update(name=name, private=private)
            return f"https://hub/{name}"

        def upload_folder(self, folder_path: Path, allow_patterns: list[str], **_: Any) -> None:
            uploaded["files"] = sorted(path.name for path in Path(folder_path).iterdir())
            uploaded["patterns"] = allow_patterns

    monkeypatch.setattr(hub, "HfApi", Api)
    assert learned().push_to_hub("me/tickets") == "https://hub/me/tickets"
    assert uploaded["name"] == "me/tickets"
    assert uploaded["private"] is True
    assert {"README.md", "checkpoints", "config.json"} <= set(uploaded["files"])
    assert uploaded["patterns"] == ["config.json", "README.md", "checkpoints/**"]


# Remembering and forgetting


def test_forgetting_is_measured_against_the_best_so_far():
    classifier = make("seq").partial_fit(*data(80, (0, 1)))
    classifier.hold_out(*data(20, (0, 1), seed=5))
    before = classifier.forgetting()
    assert before.now["label0"] > 0.9
    assert before.mean == 0
    classifier.partial_fit(*data(200, (2, 3)))  # plain fine-tuning forgets
    after = classifier.forgetting()
    assert after.best == before.best
    assert after.now["label0"] < 0.5
    assert after.lost["label0"] == after.best["label0"] - after.now["label0"] > 0.5
    assert after.accuracy < before.accuracy
    assert classifier.examples_ == 280  # nothing held out was learned


def test_forgetting_needs_something_held_out():
    with pytest.raises(UserError, match="nothing has been held out"):
        learned().forgetting()


@pytest.mark.parametrize("method", ERASING)
def test_a_forgotten_label_leaves_the_memory_and_is_never_predicted(method: str, tmp_path: Path):
    classifier = make(method, freeze_encoder=frozen_by(method))
    classifier.partial_fit(*data(43))
    classifier.hold_out(*data(9, seed=5))
    classifier.save(tmp_path)
    number = classifier._labels.number("label1")
    assert classifier.forget("label1") > 0
    assert classifier.classes_.tolist() == ["label0", "label2"]
    assert not (classifier.learner_.memory.all().labels == number).any()
    assert "label1" not in set(classifier.predict(data(30, (1,), seed=6)[0]))
    assert set(classifier.forgetting().now) == {"label0", "label2"}
    state = knowledge(classifier)
    assert "label1" not in json.dumps(state["labels"]) + json.dumps(state["counts"])
    # Nothing of it is left on the disk either.
    classifier.save(tmp_path)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    for wrong, message in (("label1", "no label 'label1'"), (["label1"], "of the type list"), (True, "type bool")):
        with pytest.raises(BadInputError, match=message):
            classifier.forget(wrong)
    # Learned anew, it is a label like any other.
    classifier.partial_fit(*data(300, (0, 1, 2), seed=8))
    assert "label1" in set(classifier.predict(data(30, (1,), seed=6)[0]))


@pytest.mark.parametrize("method", LIFELONG)
@pytest.mark.parametrize("policy", ["reservoir", "ring"])
def test_forgotten_texts_are_nowhere_any_more(method: str, policy: str):
    texts, labels = data(43)
    classifier = make(method, memory=policy, memory_capacity=30).partial_fit(texts, labels)
    classifier.hold_out(texts[:2], labels[:2])
    tokens = classifier.learner_.encoder.tokenizer(texts)
    gone = {tokens[row].tobytes() for row in range(0, 43, 2)}
    removed = classifier.forget_texts(texts[::2])
    assert removed == classifier.forgotten_ > 0
    state = classifier.learner_
    batches = [state.memory.all(), state.waiting, classifier._held_out.batch]
    if hasattr(state.method, "episodes"):
        batches += state.method.episodes._support
    batches += getattr(state.method, "waiting", [])
    left = {batch.tokens[row].tobytes() for batch in batches for row in range(len(batch))}
    assert left
    assert not left & gone
    assert classifier.forget_texts(texts[::2]) == 0
    classifier.partial_fit(*data(80, seed=9))  # the memory takes examples up to its bound, as before
    if method == "meta-mbpa":
        assert 0 < len(state.memory) <= 30  # it writes only what differs from what is there
    else:
        kind = METHODS[method]
        assert len(state.memory) == (30 if kind.replays or kind.meta or kind.takes_back else 0)


@pytest.mark.parametrize("method", [name for name in LIFELONG if METHODS[name].takes_back])
def test_a_method_that_can_takes_forgotten_texts_back(method: str):
    """It ends up where it would be, but for rounding, had it never met them."""
    texts, labels = data(43)
    extra = data(6, seed=7)[0]
    classifier = make(method).partial_fit([*texts, *extra], [*labels, *["one more"] * len(extra)])
    classifier.forget_texts(texts[::2])
    classifier.forget("one more")
    never = make(method).partial_fit(texts[1::2], labels[1::2])
    assert classifier.classes_.tolist() == never.classes_.tolist()
    probes = data(30, seed=5)[0]
    assert np.allclose(classifier.predict_proba(probes), never.predict_proba(probes), atol=1e-6)


@pytest.mark.parametrize("method", [name for name in LIFELONG if METHODS[name].takes_back])
def test_when_every_text_is_forgotten_every_label_is_as_likely(method: str):
    texts, labels = data(20)
    classifier = make(method).partial_fit(texts, labels)
    classifier.forget_texts(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares = classifier.predict_proba(["the of"])
    assert shares.tolist() == [[pytest.approx(1 / 3)] * 3]


def test_what_cannot_be_taken_back_leaves_the_covariance_of_the_rest_alone():
    """A label that the memory has lost again is forgotten by its mean, which would otherwise count as spread."""
    texts, labels = data(120)
    bounded = make("slda", memory_capacity=1).partial_fit(texts, labels)
    before = bounded.learner_.method.covariance()
    bounded.forget("label1")
    after = bounded.learner_.method.covariance()
    assert torch.linalg.norm(after - before) < 0.05 * torch.linalg.norm(before)


def test_a_ring_stays_in_order_when_something_is_taken_out():
    texts, labels = data(20)
    classifier = make(memory="ring", memory_capacity=6).partial_fit(texts, labels)
    classifier.forget_texts([texts[17]])
    kept = classifier.learner_.memory.all()
    expected = classifier.learner_.encoder.tokenizer([texts[place] for place in (14, 15, 16, 18, 19)])
    assert kept.tokens.values.tolist() == expected.values.tolist()
    more = data(8, seed=3)
    classifier.partial_fit(*more)
    newest = classifier.learner_.encoder.tokenizer(more[0][2:])
    found = classifier.learner_.memory.all()
    assert {found.tokens[row].tobytes() for row in range(6)} == {newest[row].tobytes() for row in range(6)}


def test_importing_the_package_stays_light():
    program = "import sys, everlearn; assert 'torch' not in sys.modules; everlearn.LifelongClassifier"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_warning_reaches_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned().predict(["the of"])
