"""Evaluations of a run: what is tested, how it is counted, and what the user is told beforehand."""

from typing import Any

import numpy as np
import pytest

from everlearn.batches import Batch, Integers, Ragged
from everlearn.config import Config
from everlearn.evaluation.evaluator import Score, TestSet, evaluate
from everlearn.evaluation.history import History
from everlearn.experiment import build_experiment
from everlearn.ledger import Meter
from everlearn.methods import Predictor
from everlearn.run import run
from support import small_benchmark


def batch_of(labels: list[int]) -> Batch:
    return Batch(Ragged.from_rows([[1, 2]] * len(labels)), Ragged.from_rows([[label] for label in labels]))


class Always(Predictor):
    """Predicts the same label whatever comes; also stands in for the method that hands it out."""

    def __init__(self, label: int) -> None:
        self.label = label
        self.made = 0

    def predictor(self) -> "Always":
        self.made += 1
        return self

    def predict(self, batch: Batch) -> Integers:
        return np.full(len(batch), self.label)


def test_hits_are_counted_for_each_task_and_each_set_gets_a_predictor_of_its_own():
    sets = [TestSet(batch_of([1, 1, 0]), ["a", "a", "b"]), TestSet(batch_of([0]), ["b"])]
    method: Any = Always(1)
    meter = Meter()
    assert evaluate(method, sets, meter) == {"a": Score(2, 2), "b": Score(0, 2)}
    assert method.made == 2
    assert meter.seconds > 0


def test_a_sample_takes_so_many_of_each_task_spread_over_all_of_them():
    test_set = TestSet(batch_of([*range(10), 50, 51]), ["large"] * 10 + ["small"] * 2)
    sampled = test_set.sampled(4)
    assert sampled.batch.labels.tolist() == [0, 2, 5, 7, 50, 51]
    assert sampled.tasks == ["large"] * 4 + ["small"] * 2


def test_joint_accuracy_is_over_examples_and_separate_accuracy_over_tasks():
    scores = {"large": Score(90, 100), "small": Score(0, 10)}
    figures = {}
    for joint in (True, False):
        history = History(["large", "small"], [5, 10], joint)
        history.add_row(0, scores)
        figures[joint] = history.summary()["accuracy"]
    assert figures == {True: pytest.approx(90 / 110), False: pytest.approx(0.45)}


def test_a_sample_counts_as_much_as_the_task_it_stands_for():
    """Nothing is learned in between, so that the curve must not move."""
    sets = [TestSet(batch_of([1] * 90 + [0] * 10 + [0] * 20), ["large"] * 100 + ["small"] * 20)]
    method: Any = Always(1)
    history = History(["large", "small"], [5, 10], joint=True)
    whole = evaluate(method, sets, Meter())
    assert evaluate(method, sets, Meter(), sample=10) == {"large": Score(9, 10, 100), "small": Score(0, 10, 20)}
    points = [history.add_sample(7, evaluate(method, sets, Meter(), sample=10))]
    history.add_row(0, whole)
    history.add_row(5, whole)
    points.append(history.add_row(10, whole))
    assert [point["accuracy"] for point in points] == [pytest.approx(90 / 120)] * 2


def test_a_point_in_between_averages_over_the_tasks_that_have_begun():
    history = History(["first", "second"], [10, 20], joint=False)
    scores = {"first": Score(1, 2), "second": Score(0, 2)}
    assert history.add_sample(10, scores)["accuracy"] == 0.5
    assert history.add_sample(12, scores)["accuracy"] == 0.25


SMALL = {"encoder": "tiny", "stream": "textcls", "batch_size": 8, "max_length": 32}


def test_no_point_of_the_stream_is_evaluated_twice():
    # Every task has 16 examples, so that each end of a task is also a multiple of 8.
    config = Config.build({**SMALL, "method": "seq", "eval_every": 8, "eval_sample": 2})
    points = [point["examples"] for point in run(config, benchmark=small_benchmark())["curve"]]
    assert points == [8, 16, 24, 32, 40, 48]


@pytest.mark.parametrize("method", ["replay", "oml-er", "mtl"])
def test_evaluating_only_at_the_end_gives_the_same_accuracy_and_no_more(method: str):
    settings = {**SMALL, "method": method, "meta_test": False, "replay_interval": 16, "replay_rate": 0.5}
    whole, ended = (
        run(Config.build({**settings, "eval_tasks": each}), benchmark=small_benchmark()) for each in (True, False)
    )
    assert ended["per_task"] == whole["per_task"]
    assert ended["ledger"]["train"]["tokens_forward"] == whole["ledger"]["train"]["tokens_forward"]
    assert ended["matrix"] is ended["forgetting"] is ended["anytime_accuracy"] is None
    assert ended["curve"] == []
    (watched, tested), no_more = (
        [result["ledger"][work]["tokens_forward"] for work in ("watch", "test")] for result in (whole, ended)
    )
    assert no_more == [0, tested]
    assert watched == (0 if method == "mtl" else len(whole["tasks"]) * tested)


def test_without_task_ends_a_sample_may_still_be_looked_at():
    config = Config.build({**SMALL, "method": "seq", "eval_tasks": False, "eval_every": 16, "eval_sample": 2})
    points = [point["examples"] for point in run(config, benchmark=small_benchmark())["curve"]]
    assert points == [16, 32]


def test_a_stream_that_ends_before_the_first_replay_is_noted():
    benchmark = small_benchmark()
    (note,) = build_experiment(Config.build({**SMALL, "method": "replay"}), benchmark).notes
    assert "48 examples ends before the first replay (replay_interval is 9,600)" in note
    assert build_experiment(Config.build({**SMALL, "method": "seq"}), benchmark).notes == ()
    assert build_experiment(Config.build({**SMALL, "method": "replay", "replay": False}), benchmark).notes == ()


def test_texts_that_reach_the_limit_are_noted():
    config = Config.build({**SMALL, "method": "seq", "max_length": 6})
    (note,) = build_experiment(config, small_benchmark()).notes
    assert "of the test texts reach the limit of 6 tokens" in note
