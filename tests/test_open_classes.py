"""Labels that are not known in advance: the head grows, and everything that hangs on it grows along."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from everlearn import checkpoint
from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.examples import UNLABELLED
from everlearn.experiment import build_experiment
from everlearn.methods import METHODS, ScoringPredictor
from everlearn.methods.gradient import GradientMethod
from everlearn.problems import Classification, OpenClassification
from everlearn.run import run
from support import (
    CLASS_WORDS,
    assert_same_state,
    build_method,
    encoder_settings,
    labelled_texts,
    small_benchmark,
    small_ranking_benchmark,
    tokenised,
)

SETTINGS = {
    "batch_size": 4,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "lr": 3e-3,
    "inner_lr": 0.05,
    "meta_lr": 3e-3,
    "random_features": 64,
}
# Tasks of two labels each that never come back, and not in the order of their numbers.
STREAM = [example for labels in ([4, 1], [0, 5], [2, 3]) for example in labelled_texts(24, labels, seed=1)]


def make(name: str, **settings: Any) -> Any:
    return build_method(name, problem=OpenClassification(), **{**SETTINGS, **settings})


def feed(method: Any, batches: Any) -> None:
    for batch in batches:
        method.meet(batch)
        method.observe(batch)


LABELS_ONLY = {"mbpa++", "lamol", "lamol-real"}


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_it_knows_the_labels_it_has_met_in_their_order(self, name: str):
        method, batches = make(name), tokenised(STREAM, 4)
        feed(method, batches[:1])
        assert list(method.problem.labels) == [4, 1]
        feed(method, batches[1:])
        assert list(method.problem.labels) == [4, 1, 0, 5, 2, 3]
        method.finish()
        predicted = method.predictor().predict(tokenised(labelled_texts(60, range(6), seed=2), 60)[0])
        assert set(predicted.tolist()) <= set(range(6))

    def test_before_the_first_example_it_predicts_no_label(self, name: str):
        batch = tokenised(labelled_texts(5, [0, 1]), 5)[0]
        assert make(name).predictor().predict(batch).tolist() == [UNLABELLED] * 5

    def test_a_predictor_knows_no_label_that_came_after_it(self, name: str):
        method, batches = make(name), tokenised(STREAM, 4)
        feed(method, batches[:6])
        predictor = method.predictor()
        test = tokenised(labelled_texts(30, range(6), seed=2), 30)[0]
        before = predictor.predict(test)
        feed(method, batches[6:])
        assert (predictor.predict(test) == before).all()
        assert set(before.tolist()) <= {4, 1}

    def test_probabilities_have_a_column_for_each_label_met(self, name: str):
        method = make(name)
        feed(method, tokenised(STREAM, 4))
        predictor = method.predictor()
        assert isinstance(predictor, ScoringPredictor) == (name not in LABELS_ONLY)
        if not isinstance(predictor, ScoringPredictor):
            return
        test = tokenised(labelled_texts(10, range(6), seed=2), 10)[0]
        shares = predictor.probabilities(test)
        assert shares.shape == (10, 6)
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert (np.array(predictor.labels)[shares.argmax(axis=1)] == predictor.predict(test)).all()

    @pytest.mark.parametrize("stop", [3, 13])
    def test_it_goes_on_from_a_checkpoint_into_a_head_that_has_grown(self, name: str, stop: int, tmp_path: Path):
        batches = tokenised(STREAM, 4)
        whole = make(name)
        feed(whole, batches[:stop])
        parts = ("problem", "memory", "ledger")
        checkpoint.save(
            tmp_path,
            1,
            {
                "problem": whole.problem.state(),
                "method": whole.state(),
                "memory": whole.memory.state(),
                "ledger": whole.ledger.as_dict(),
            },
        )
        loaded = checkpoint.load_newest(tmp_path, pytest.fail)
        assert loaded is not None
        resumed = make(name, seed=99)
        resumed.problem.restore(loaded[1]["problem"])
        resumed.restore(loaded[1]["method"])
        for part in parts[1:]:
            getattr(resumed, part).restore(loaded[1][part])
        for method in (whole, resumed):
            feed(method, batches[stop:])
            method.finish()
        assert_same_state(resumed.state(), whole.state())
        assert_same_state(resumed.problem.state(), whole.problem.state())
        assert resumed.ledger == whole.ledger

    def test_a_run_with_open_classes_learns_and_resumes(self, name: str, tmp_path: Path, monkeypatch: Any):
        data = tmp_path / "rows.csv"
        rows = [f"{example.text},class{example.label},task{example.label // 2}" for example in small_rows()]
        data.write_text("\n".join(["text,label,task", *rows]) + "\n")
        given = {**SETTINGS, **encoder_settings(name), "stream": "file", "data": data, "task_column": "task"}
        config = Config.build({**given, "method": name, "open_classes": True, "checkpoint_every": 20})
        whole = run(config)
        kind, seen = METHODS[name], []

        def interrupted(self: Any, batch: Any, original: Any = kind.observe) -> Any:
            seen.append(batch)
            if len(seen) == 14:
                raise KeyboardInterrupt
            return original(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "observe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(config, tmp_path / "out")
        resumed = run(config, tmp_path / "out", resume=True)
        assert resumed["per_task"] == whole["per_task"]
        assert resumed["curve"] == whole["curve"]


def small_rows() -> list[Any]:
    return [example for task in small_benchmark(train=30, shuffle=False).tasks for example in task.train]


HEADLESS = {"emar", "lamol", "lamol-real"}
WITH_HEAD = [name for name in METHODS if issubclass(METHODS[name], GradientMethod) and name not in HEADLESS]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_the_head_and_its_moments_grow_and_old_rows_stay(name: str):
    method = make(name)
    batches = tokenised(STREAM, 4)
    feed(method, batches[:6])
    weight = method.network.head.weight
    rows = weight.detach().clone()
    moments = {key: value.clone() for key, value in method.optimiser.state[weight].items()}
    assert len(rows) == 1 + 2
    method.meet(batches[6])
    assert method.network.head.weight is weight
    assert len(weight) == 1 + 4
    assert torch.equal(weight[:3], rows)
    # A new label starts where labels to come have been pushed meanwhile.
    assert torch.equal(weight[3], rows[0])
    assert bool(rows[0].any())
    for key in ("exp_avg", "exp_avg_sq"):
        grown = method.optimiser.state[weight][key]
        assert torch.equal(grown[:3], moments[key])
        assert torch.equal(grown[4], moments[key][0])
    assert method.ledger.parameters_trained == sum(w.numel() for w in method.network.parameters() if w.requires_grad)


@pytest.mark.parametrize("name", WITH_HEAD)
def test_forgetting_a_label_empties_its_row(name: str):
    method = make(name)
    feed(method, tokenised(STREAM, 4))
    method.forget(0)
    head = method.network.head
    for tensor in (head.weight, head.bias, method.optimiser.state[head.weight]["exp_avg"]):
        assert torch.equal(tensor[1 + 2], tensor[0])
        assert not torch.equal(tensor[1], tensor[0])


# What methods keep beside the head

KEPT: dict[str, Callable[[Any], list[torch.Tensor]]] = {
    "a-gem-cached": lambda method: method.reference[-2:],
    "gem": lambda method: [tensor for group in method.constraints for tensor in group],
    "ewc": lambda method: [*method.importance[-2:], *method.anchor[-2:]],
    "mllre": lambda method: list(method.anchor.values())[-2:],
    "oml-er-plastic": lambda method: [method.network.head.plasticity, method.network.head.trace],
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_for_each_row_grows_and_is_forgotten_with_the_head(name: str):
    method, batches = make(name), tokenised(STREAM, 4)
    feed(method, batches[:6])
    if name == "oml-er-plastic":  # its trace is empty between two episodes
        method.network.head.trace.copy_(torch.arange(3.0).unsqueeze(1).expand(3, 32))
    before = [tensor.detach().clone() for tensor in KEPT[name](method)]
    assert any(bool(tensor[0].any()) for tensor in before)
    assert all(not torch.equal(tensor[1], tensor[0]) for tensor in before)
    method.meet(batches[6])
    for tensor, own in zip(KEPT[name](method), before, strict=True):
        assert torch.equal(tensor, torch.cat([own, own[:1], own[:1]]))
    method.forget(4)
    for tensor, own in zip(KEPT[name](method), before, strict=True):
        assert torch.equal(tensor, torch.cat([own[:1], own[:1], own[2:], own[:1], own[:1]]))


def test_growth_leaves_the_penalty_of_ewc_on_old_rows_and_holds_a_new_one_as_labels_to_come():
    method, batches = make("ewc"), tokenised(STREAM, 4)
    feed(method, batches[:6])
    *body, weight, bias = method.penalty()
    method.meet(batches[6])
    *grown_body, grown_weight, grown_bias = method.penalty()
    assert all(torch.equal(one, other) for one, other in zip(body, grown_body, strict=True))
    for rows, grown in ((weight, grown_weight), (bias, grown_bias)):
        assert bool(rows[0].any())
        assert torch.equal(grown, rows[[0, 1, 2, 0, 0]])


def test_derpp_asks_for_stored_logits_in_the_columns_there_were():
    method, batches = make("der++"), tokenised(STREAM, 4)
    (batch,) = tokenised(labelled_texts(2, [4, 1]), 2)
    stored = [np.array([0.0, 2.0], dtype=np.float32), np.array([4.0, 5.0, 9.0], dtype=np.float32)]
    logits = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    # Five of six logits were stored: (1 + 0 + 0 + 0 + 9) / 5.
    assert float(method.distance(logits, batch, stored)) == 2.0

    feed(method, batches[:2])
    replayed, stored = method.memory.read_noted(8)
    method.network.eval()
    sequences = method.problem.sequences(replayed)
    with torch.no_grad():
        before = method.distance(method.network(sequences), replayed, stored)
        method.meet(batches[6])
        logits = method.network(sequences)
        after = method.distance(logits, replayed, stored)
    assert logits.shape == (8, 1 + 4)
    assert float(before) > 0
    torch.testing.assert_close(after, before)


def test_derpp_forgets_what_it_once_answered_about_a_label():
    method, batches = make("der++"), tokenised(STREAM, 4)
    feed(method, batches)
    before = method.memory.view().notes
    size = method.memory.state()["lengths"].tolist()
    method.forget(0)  # the third label met: row 3
    assert {len(note) for note in before} == {3, 5, 7}
    for old, new in zip(before, method.memory.view().notes, strict=True):
        expected = old.copy()
        if len(old) > 3:
            expected[3] = old[0]
        assert (new == expected).all()
    assert method.memory.state()["lengths"].tolist() == size
    assert method.memory.all().labels.tolist() == [example.label for example in STREAM]


def test_er_ace_pushes_labels_to_come_down_on_the_stream_and_never_in_a_replay():
    method, batches = make("er-ace"), tokenised(STREAM, 4)
    feed(method, batches[:6])
    taken: list[Any] = []
    update = method.update
    method.update = lambda gradients, **how: taken.append(gradients[-2]) or update(gradients, **how)
    feed(method, batches[6:8])
    (first, stream, replay), absent, to_come = taken, [1, 2], 0
    for gradient in (first, stream):
        assert not gradient[absent].any()  # labels 4 and 1: seen before, not in the batch
        assert bool(gradient[to_come].any())
        assert all(bool(gradient[row].any()) for row in (3, 4))
    assert not replay[to_come].any()
    assert all(bool(gradient.any()) for gradient in replay[1:])


@pytest.mark.parametrize(("name", "known"), [("er-ace", "seen"), ("gem", "order")])
def test_a_forgotten_label_is_not_known_any_more(name: str, known: str):
    method = make(name)
    feed(method, tokenised(STREAM, 4))
    method.forget(0)
    assert sorted(getattr(method, known)) == [1, 2, 3, 4, 5]


def test_prototypes_of_emar_have_the_names_of_the_labels_met():
    names = [words[0] for words in CLASS_WORDS]
    method = build_method("emar", problem=OpenClassification(names), **SETTINGS)
    closed = build_method("emar", problem=Classification(6, names), **SETTINGS)
    batch = tokenised(labelled_texts(4, [4, 1]), 4)[0]
    method.meet(batch)
    assert method.problem.label_names == [names[4], names[1]]
    # Nothing learned yet, so that each prototype is the name's feature: as with a head that knows all labels.
    found, expected = (one.predictor().scores(batch) for one in (method, closed))
    np.testing.assert_allclose(found, expected[:, [4, 1]], rtol=1e-5)


def test_lamol_answers_with_the_names_of_the_labels_met():
    names = [words[0] for words in CLASS_WORDS]
    method = build_method("lamol", problem=OpenClassification(names), **SETTINGS)
    closed = build_method("lamol", problem=Classification(6, names), **SETTINGS)
    room = method.network.wording.room
    assert method.network.wording.labels == {}
    batch = tokenised(labelled_texts(4, [4, 1]), 4)[0]
    method.meet(batch)
    spoken = closed.network.wording.labels
    assert method.network.wording.labels == {4: spoken[4], 1: spoken[1]}
    assert method.network.wording.room == room - len(spoken[4]) == closed.network.wording.room
    assert_same_state(method.loss(method.network, batch).detach(), closed.loss(closed.network, batch).detach())


def test_a_label_whose_name_leaves_lamol_no_room_is_refused_when_it_comes():
    method = build_method("lamol", problem=OpenClassification(["the", "the " * 30]), **SETTINGS)
    short, long = tokenised(labelled_texts(2, [0]), 2) + tokenised(labelled_texts(2, [1]), 2)
    feed(method, [short])
    with pytest.raises(UserError, match="--max-length"):
        method.meet(long)


def test_a_head_that_met_all_labels_first_learns_as_a_closed_one_that_starts_at_zero():
    """The row for labels to come aside, growing changes nothing about how a head learns."""
    opened = make("seq")
    examples = labelled_texts(48, range(6), seed=1)
    feed(opened, tokenised(examples, 8))
    closed = build_method("seq", problem=Classification(7), **SETTINGS)
    with torch.no_grad():
        for weight in closed.network.head.parameters():
            weight.zero_()
    moved = [type(example)(example.text, example.label + 1) for example in examples]  # row 0 is never right
    feed(closed, tokenised(moved, 8, Classification(7)))
    torch.testing.assert_close(opened.network.head.weight, closed.network.head.weight)


def test_ranking_has_its_candidates_given():
    config = Config.build({"encoder": "tiny", "open_classes": True})
    with pytest.raises(UserError, match="--open-classes is for classification"):
        build_experiment(config, small_ranking_benchmark())


def test_a_frozen_encoder_stays_as_it_is_and_is_shared_with_predictors():
    config = Config.build({"encoder": "tiny", "method": "seq", "freeze_encoder": True, **SETTINGS})
    experiment = build_experiment(config, small_benchmark())
    network = experiment.method.network  # type: ignore[attr-defined]
    before = {name: weight.clone() for name, weight in network.encoder.state_dict().items()}
    for batch in experiment.stream:
        experiment.method.observe(batch)
    assert all(torch.equal(weight, before[name]) for name, weight in network.encoder.state_dict().items())
    assert set(network.trained()) == {"head.weight", "head.bias"}
    assert experiment.ledger.train.tokens_backward == 0
    copy = experiment.method.predictor().network  # type: ignore[attr-defined]
    for own, other in zip(network.encoder.parameters(), copy.encoder.parameters(), strict=True):
        assert own is other
    assert copy.head.weight is not network.head.weight
