"""What is kept is kept whole, what is forgotten is gone, and nobody's place is lost."""

import copy
import errno
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import CommandLine
from everlearn import LifelongClassifier, checkpoint
from everlearn.classifier import BadInputError, storage
from everlearn.classifier import classifier as classifier_module
from everlearn.classifier.journal import JOURNAL, Journal
from everlearn.errors import UserError
from everlearn.service.learning import Learning
from running_service import SETTINGS
from support import assert_same_state
from test_classifier import data, knowledge, learned, make
from test_model_commands import rows, write

# Checkpoints


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Killed(BaseException):
    """As good as a kill: nothing in the program catches it."""


@pytest.mark.parametrize("fault", [Killed(), OSError(errno.EIO, "broken")], ids=["killed", "broken"])
def test_a_checkpoint_that_is_written_again_is_there_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
):
    checkpoint.save(tmp_path, 1, {"n": 1})
    rename = Path.rename

    def stops(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise fault
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stops)
        with pytest.raises((Killed, UserError)):
            checkpoint.save(tmp_path, 1, {"n": 2})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (1, {"n": 1})
    checkpoint.save(tmp_path, 1, {"n": 3})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (1, {"n": 3})
    assert names(tmp_path) == ["000000000001"]


def test_a_whole_checkpoint_of_a_higher_number_is_not_deleted(tmp_path: Path):
    checkpoint.save(tmp_path, 9, {"n": 9})
    checkpoint.save(tmp_path, 2, {"n": 2})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (9, {"n": 9})


def test_a_damaged_checkpoint_does_not_stay_in_a_good_ones_place(tmp_path: Path):
    for number in (1, 2):
        checkpoint.save(tmp_path, number, {"n": number})
    (tmp_path / "000000000002" / "state.json").write_text("{")
    checkpoint.save(tmp_path, 3, {"n": 3})
    assert names(tmp_path) == ["000000000001", "000000000003"]


# Models


def test_what_was_saved_last_is_what_is_loaded(tmp_path: Path):
    """Even where it has learned less than what was there."""
    learned().save(tmp_path)
    make().partial_fit(*data(12, (3, 4))).save(tmp_path)
    found = LifelongClassifier.load(tmp_path)
    assert (found.examples_, found.classes_.tolist()) == (12, ["label3", "label4"])


def test_a_model_that_learned_more_meanwhile_is_not_replaced_unnoticed(tmp_path: Path):
    learned().save(tmp_path)
    mine, other = LifelongClassifier.load(tmp_path), LifelongClassifier.load(tmp_path)
    other.partial_fit(*data(8)).save(tmp_path)
    other.partial_fit(*data(8)).save(tmp_path)  # its own save is no obstacle
    with pytest.raises(UserError, match=r"76 examples learned there, 60 here"):
        mine.save(tmp_path)
    assert LifelongClassifier.load(tmp_path).examples_ == 76
    mine.save(tmp_path / "elsewhere")


def test_however_often_it_is_saved_what_it_keeps_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(classifier_module, "MOST_MARKS", 3)
    classifier = learned()
    for _ in range(5):
        classifier.save(tmp_path)
    assert len(classifier.marks_) == 3


def test_nobody_saves_while_another_is_at_work(tmp_path: Path):
    classifier = learned()
    with storage.locked(tmp_path), pytest.raises(UserError, match="another process or thread is at work"):
        classifier.save(tmp_path)


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), storage.locked(tmp_path / "new"):
        raise ZeroDivisionError
    assert names(tmp_path) == []
    with storage.locked(tmp_path / "new"):
        (tmp_path / "new" / "config.json").write_text("{}")
    assert names(tmp_path / "new") == [".lock", "config.json"]


def test_parameters_set_later_count_when_it_starts_over(tmp_path: Path):
    classifier = make("replay").partial_fit(*data(12)).set_params(method="seq", max_length=20)
    loaded = LifelongClassifier.load(classifier.save(tmp_path))
    assert (loaded.method, loaded.max_length) == ("replay", make().max_length)
    assert "- method: `replay`" in (tmp_path / "README.md").read_text()
    assert_same_state(knowledge(loaded), knowledge(classifier))
    assert classifier.fit(*data(12)).learner_.method.name == "seq"


def test_settings_are_no_second_way_to_say_the_same():
    with pytest.raises(BadInputError, match="memory_capacity is a parameter of its own"):
        make(settings={"memory_capacity": 5}).partial_fit(*data(3))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("method", ["slda", "oml-er"])
def test_a_copy_goes_on_by_itself(method: str, copied: Callable[[Any], Any]):
    texts, labels = data(45)
    original = make(method).partial_fit(texts[:30], labels[:30])
    twin = copied(original)
    assert_same_state(knowledge(twin), knowledge(original))
    original.partial_fit(texts[30:], labels[30:])
    assert twin.examples_ == 30
    assert_same_state(knowledge(twin.partial_fit(texts[30:], labels[30:])), knowledge(original))
    assert copied(make(method)).get_params() == make(method).get_params()


def test_a_fault_after_the_checkpoint_does_not_bar_a_model_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    classifier = learned()

    def full(path: Path, text: str) -> None:
        raise UserError(f"could not write {path}: no space left.")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_text", full)
        with pytest.raises(UserError, match="no space left"):
            classifier.save(tmp_path)
    classifier.partial_fit(*data(4)).save(tmp_path)
    classifier.partial_fit(*data(4)).save(tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir())
    (newest / "state.json").write_text("{")
    classifier.save(tmp_path)
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    classifier.partial_fit(*data(4)).save(moved)
    assert LifelongClassifier.load(moved).examples_ == 72


def test_held_out_examples_of_no_label_that_is_left_are_no_obstacle(tmp_path: Path):
    classifier = learned().hold_out(["the of"], ["elsewhere"])
    for label in classifier.classes_.tolist():
        classifier.forget(label)
    assert LifelongClassifier.load(classifier.save(tmp_path)).classes_.size == 0


# What was forgotten


def test_forgotten_texts_count_no_longer():
    texts, labels = data(43)
    classifier = make("oml-er").partial_fit(texts, labels)  # some in the memory, some in an episode, some in a batch
    assert classifier.forget_texts(texts[::2]) == 22
    assert sum(classifier.counts_.values()) == 21
    assert classifier.counts_["label0"] == labels[1::2].count("label0")


def test_what_the_memory_had_lost_is_in_no_checkpoint_either(tmp_path: Path):
    texts, labels = data(40)
    classifier = make(memory="ring", memory_capacity=10).partial_fit(texts[:8], labels[:8])
    classifier.save(tmp_path)
    classifier.partial_fit(texts[8:], labels[8:])
    assert classifier.forget_texts(texts[:1]) == 0
    classifier.save(tmp_path)
    assert len(names(tmp_path / "checkpoints")) == 1
    classifier.partial_fit(*data(8, seed=3)).save(tmp_path)
    assert len(names(tmp_path / "checkpoints")) == 2  # in case the newest is damaged


TEXTS, LABELS = data(8)


def holds(folder: Path, text: str) -> bool:
    """Whether any checkpoint of a folder has a text in the memory."""
    tokens = learned().learner_.encoder.tokenizer([text])[0].tobytes()
    states = [checkpoint._read(path) for path in (folder / "checkpoints").iterdir()]
    memories = [state["classifier"]["learner"]["memory"]["entries"].tobytes() for state in states]
    return any(tokens in entries for entries in memories)


@pytest.mark.parametrize("between", ["elsewhere", "the hub", "nothing", "starting over"])
def test_what_was_forgotten_goes_wherever_it_was_saved_before(
    between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    classifier = make("slda").partial_fit(TEXTS, LABELS)
    folder = classifier.save(tmp_path / "model")
    assert holds(folder, TEXTS[0])
    classifier.forget_texts(TEXTS[:1])
    if between == "elsewhere":
        classifier.save(tmp_path / "other")
    if between == "the hub":
        hub = pytest.importorskip("huggingface_hub")
        api = type("Api", (), {"create_repo": lambda *_, **__: "there", "upload_folder": lambda *_, **__: None})
        monkeypatch.setattr(hub, "HfApi", api)
        classifier.push_to_hub("me/tickets")
    if between == "starting over":
        classifier.fit(*data(8, seed=3))
    classifier.save(folder)
    assert not holds(folder, TEXTS[0])


def test_a_journal_that_could_not_be_emptied_is_emptied_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "model"
    classifier = served(folder)
    classifier.forget("label9")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "erase", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            classifier.save(folder)
    assert left_on_disk(folder, SECRET) == [JOURNAL]
    assert backlog(folder) == 0  # the service, too, would empty it first
    assert left_on_disk(folder, SECRET) == []


def test_the_names_of_forgotten_labels_are_gone_too(everlearn: CommandLine, tmp_path: Path):
    folder = tmp_path / "model"
    served(folder)
    assert left_on_disk(folder, "label2") != []
    assert everlearn("forget", folder, "--label", "label2")[0] == 0
    assert left_on_disk(folder, "label2") == []


# What a service keeps beside a model


SECRET = "the of and to secret"


def served(folder: Path) -> LifelongClassifier:
    """A model with a journal of which it has learned everything."""
    model = LifelongClassifier(**SETTINGS).begin()
    folder.mkdir()
    journal = Journal(folder / JOURNAL)
    journal.append([(SECRET, "label9"), *zip(*data(20), strict=True)])
    learning = Learning(folder, model, journal)
    learning.stop()
    learning.run()
    journal.close()
    return LifelongClassifier.load(folder)


def backlog(folder: Path) -> int:
    """What the service would learn first if it were started now."""
    journal = Journal(folder / JOURNAL)
    try:
        return Learning(folder, LifelongClassifier.load(folder), journal).backlog
    finally:
        journal.close()


def send(folder: Path, *examples: tuple[str, str]) -> None:
    """As a service does that is killed before it learns them."""
    journal = Journal(folder / JOURNAL)
    journal.append(examples)
    journal.close()


def test_a_model_that_learns_elsewhere_keeps_its_place_in_the_journal(everlearn: CommandLine, tmp_path: Path):
    folder = tmp_path / "model"
    served(folder).partial_fit(*data(5)).save(folder)
    assert backlog(folder) == 0
    assert everlearn("learn", folder, write(tmp_path / "a.csv", rows(9)))[0] == 0
    assert backlog(folder) == 0
    send(folder, ("the of", "label0"))
    assert everlearn("learn", folder, write(tmp_path / "b.csv", rows(9, seed=2)))[0] == 0
    assert backlog(folder) == 1
    # Another model in its place is not sent what this one has learned.
    LifelongClassifier(encoder="tiny").partial_fit(*data(5)).save(folder)
    assert backlog(folder) == 1
    assert LifelongClassifier.load(folder).examples_ == 5


def left_on_disk(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_forgotten_texts_leave_the_journal_and_its_log(tmp_path: Path):
    folder = tmp_path / "model"
    classifier = served(folder)
    assert left_on_disk(folder, SECRET) == [JOURNAL]
    held = Journal(folder / JOURNAL)  # another reader keeps the write-ahead log alive
    classifier.forget_texts([SECRET])
    classifier.save(folder)
    assert left_on_disk(folder, SECRET) == []
    held.close()
    assert backlog(folder) == 0


def test_what_waits_in_the_journal_may_be_what_is_to_be_forgotten(everlearn: CommandLine, tmp_path: Path):
    folder = tmp_path / "model"
    classifier = served(folder)
    send(folder, (SECRET, "label9"), ("it for on", "label0"))
    classifier.forget("label9")
    with pytest.raises(UserError, match="2 examples that were sent to the service wait"):
        classifier.save(folder)
    code, _, err = everlearn("forget", folder, "--label", "label9")
    assert (code, "2 examples removed, 3 labels left" in err) == (0, True), err
    assert left_on_disk(folder, SECRET) == []
    assert backlog(folder) == 0
    found = LifelongClassifier.load(folder)
    assert found.examples_ == 23
    assert found.counts_["label0"] == 8


def test_the_command_forgets_texts_too(everlearn: CommandLine, tmp_path: Path):
    folder = learned("seq").save(tmp_path / "model")
    texts = tmp_path / "gone.txt"
    texts.write_text("\n".join(data(60)[0][:6]) + "\n")
    code, _, err = everlearn("forget", folder, texts)
    assert code == 0, err
    assert "seq cannot take back what it learned" in err
    for arguments, message in (
        ((folder,), "say what is to be forgotten"),
        ((folder, "--label", "nonsense"), "no label 'nonsense'"),
        ((folder, tmp_path / "nothing.txt"), "there is no file"),
        ((tmp_path / "nowhere", "--label", "a"), "there is no model"),
    ):
        code, _, err = everlearn("forget", *arguments)
        assert (code, message in err) == (2, True), err
    assert not (tmp_path / "nowhere").exists()
