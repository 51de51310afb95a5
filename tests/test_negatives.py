"""Fresh negatives for replayed examples: who may be drawn, when, by whom, and that a resume draws the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from everlearn.batches import Batch, Ragged
from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.experiment import build_experiment
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.methods import Method, find_method
from everlearn.problems import NegativeRefresher
from everlearn.run import run
from everlearn.seeding import generator
from everlearn.streams import load_benchmark
from fewrel_sample import write_sample
from support import assert_same_state, encoder_settings, small_benchmark, small_ranking_benchmark


def batch_of(*targets: list[int]) -> Batch:
    """Examples of which only the targets matter; the first label is their only token, so that they can be told."""
    return Batch(Ragged.from_rows([[target[0]] for target in targets]), Ragged.from_rows(targets))


def targets_of(batch: Batch) -> list[list[int]]:
    return [batch.targets[row].tolist() for row in range(len(batch))]


@pytest.fixture
def refresher() -> NegativeRefresher:
    """Draws three negatives, and has seen the labels 0 to 5."""
    refresher = NegativeRefresher(3, seed=1)
    refresher.note(batch_of(*([label, label, 99] for label in range(6))))
    return refresher


OLD = batch_of([0, 0, 98, 99], [4, 99, 4], [2, 2])


# What is drawn


def test_only_seen_labels_are_drawn_and_the_gold_one_stands_once(refresher: NegativeRefresher):
    for _ in range(50):
        for label, *candidates in targets_of(refresher.refresh(OLD)):
            assert candidates.count(label) == 1
            assert set(candidates) <= set(range(6))
            assert len(set(candidates)) == len(candidates) == 4


def test_sentences_and_labels_stay_what_they_were(refresher: NegativeRefresher):
    fresh = refresher.refresh(OLD)
    assert fresh.labels.tolist() == [0, 4, 2]
    assert [fresh.tokens[row].tolist() for row in range(3)] == [[0], [4], [2]]
    assert fresh.targets.values.dtype == OLD.targets.values.dtype


def test_every_other_label_is_drawn_sooner_or_later(refresher: NegativeRefresher):
    drawn = {tuple(candidates) for _ in range(50) for _, *candidates in targets_of(refresher.refresh(OLD.take([0])))}
    assert {label for candidates in drawn for label in candidates} == set(range(6))
    assert len(drawn) > 5


def test_there_are_no_more_negatives_than_labels_seen():
    refresher = NegativeRefresher(3, seed=1)
    refresher.note(batch_of([7, 7], [5, 5], [7, 7]))
    assert targets_of(refresher.refresh(batch_of([5, 5, 1, 2, 3], [7, 7, 1]))) == [[5, 5, 7], [7, 7, 5]]


def test_nothing_changes_while_fewer_than_two_labels_were_seen():
    refresher = NegativeRefresher(3, seed=1)
    assert refresher.refresh(OLD) is OLD
    refresher.note(batch_of([4, 4, 1], [4, 4, 2]))
    assert targets_of(refresher.refresh(OLD)) == targets_of(OLD)
    # A candidate is not a label that the stream has shown.
    refresher.note(batch_of([3, 3, 1]))
    assert targets_of(refresher.refresh(batch_of([4, 4, 98, 99]))) == [[4, 4, 3]]


# State


def test_a_restored_refresher_draws_what_the_other_one_draws(refresher: NegativeRefresher):
    refresher.refresh(OLD)
    saved = json.loads(json.dumps(refresher.state()))
    restored = NegativeRefresher(3, seed=99)
    restored.restore(saved)
    assert_same_state(restored.state(), refresher.state())
    for one in (refresher, restored):
        one.note(batch_of([6, 6]))
    for _ in range(10):
        assert targets_of(restored.refresh(OLD)) == targets_of(refresher.refresh(OLD))
    assert_same_state(restored.state(), refresher.state())
    # From another seed it would not, had the generator not been restored.
    other = NegativeRefresher(3, seed=99)
    other.note(batch_of(*([label, label] for label in range(7))))
    assert targets_of(Batch.concat([other.refresh(OLD) for _ in range(10)])) != targets_of(
        Batch.concat([restored.refresh(OLD) for _ in range(10)])
    )


# In the memory


@pytest.fixture
def memory(refresher: NegativeRefresher) -> Memory:
    memory = Memory(MemoryConfig(), "uint16", Ledger(), seed=1, refresher=refresher)
    memory.write(batch_of([0, 0, 98, 99], [4, 4, 99], [2, 2, 98]))
    return memory


def test_what_is_read_for_learning_has_fresh_negatives(memory: Memory):
    for label, *candidates in targets_of(memory.read(3)):
        assert candidates[0] == label
        assert len(candidates) == 4
        assert set(candidates) <= set(range(6))


def test_what_is_sampled_for_a_test_is_as_it_was_written(memory: Memory):
    before = memory.state()["refresher"]["drawing"]
    drawn = memory.sample(3, generator(1, "meta-test"), Ledger().test)
    assert sorted(targets_of(drawn)) == [[0, 0, 98, 99], [2, 2, 98], [4, 4, 99]]
    assert memory.state()["refresher"]["drawing"] == before


def test_what_lies_in_memory_is_not_changed_by_reading(memory: Memory):
    entries = memory.state()["entries"].tolist()
    memory.read(3)
    assert memory.state()["entries"].tolist() == entries


def test_an_example_that_is_not_stored_was_seen_all_the_same():
    refresher = NegativeRefresher(3, seed=1)
    memory = Memory(MemoryConfig(write_probability=0.0), "uint16", Ledger(), seed=1, refresher=refresher)
    batch = batch_of([0, 0], [1, 1], [2, 2])
    memory.note(batch)
    memory.write(batch)
    assert len(memory) == 0
    assert sorted(targets_of(refresher.refresh(batch_of([0, 0])))[0]) == [0, 0, 1, 2]


# In a run

SETTINGS: dict[str, Any] = {
    "encoder": "tiny",
    "device": "cpu",
    "batch_size": 4,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "lr": 1e-3,
    "meta_lr": 1e-3,
    "refresh_negatives": True,
}


def test_a_stream_without_candidates_is_refused():
    with pytest.raises(UserError, match="--refresh-negatives is for streams with candidates: small has none") as caught:
        build_experiment(Config.build({**SETTINGS, "method": "replay"}), small_benchmark())
    assert "\n" not in str(caught.value)


def test_an_experiment_draws_as_many_negatives_as_its_examples_have_at_most():
    benchmark = small_ranking_benchmark()
    most = max(len(example.candidates) for task in benchmark.tasks for example in task.train)
    experiment = build_experiment(Config.build({**SETTINGS, "method": "replay"}), benchmark)
    for batch in experiment.stream:
        experiment.memory.note(batch)
        experiment.memory.write(batch)
    found = targets_of(experiment.memory.read(48))
    assert {len(candidates) for _, *candidates in found} == {most}
    assert all(candidates.count(label) == 1 for label, *candidates in found)


def notes_of(method: str, **settings: Any) -> str:
    """What a run with fresh negatives says beforehand."""
    config = Config.build({**SETTINGS, **encoder_settings(method), "method": method, **settings})
    return " ".join(build_experiment(config, small_ranking_benchmark()).notes)


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("seq", "seq replays nothing"),
        ("lamol", "lamol replays nothing"),
        ("emar", "emar replays examples without their candidates"),
        ("lamol-real", "lamol-real replays examples without their candidates"),
    ],
)
def test_a_run_says_where_fresh_negatives_change_nothing(method: str, reason: str):
    assert f"--refresh-negatives changes nothing: {reason}" in notes_of(method)
    assert "--refresh-negatives" not in notes_of(method, refresh_negatives=False)


@pytest.mark.parametrize("method", ["replay", "ea-emr", "meta-mbpa"])
def test_a_run_says_nothing_where_fresh_negatives_are_used(method: str):
    assert "--refresh-negatives" not in notes_of(method)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    data = write_sample(tmp_path / "data")
    own = {"stream": "fewrel", "data": data, "train_size": 72, "checkpoint_every": 20, "max_length": 64}
    return {**SETTINGS, **own}


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    meters = {
        phase: {k: v for k, v in result["ledger"][phase].items() if k not in ("seconds", "phases")}
        for phase in ("train", "watch", "test")
    }
    return {**result, "ledger": {**result["ledger"], **meters}}


@pytest.mark.parametrize("name", ["replay", "oml-er"])
def test_a_run_learns_from_fresh_negatives_and_resumes_to_the_same_end(
    name: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    replayed: list[Batch] = []
    read = Memory.read

    def spy(self: Memory, size: int) -> Batch:
        replayed.append(read(self, size))
        return replayed[-1]

    monkeypatch.setattr(Memory, "read", spy)
    config = Config.build({**settings, "method": name})
    whole = run(config, tmp_path / "whole")
    draws = [targets_of(batch) for batch in replayed]
    assert len(draws) >= 3
    benchmark = load_benchmark(config.stream, lambda texts: pytest.fail("clusters are given"))
    written = {(e.label, *e.candidates) for task in benchmark.tasks for e in task.train}
    assert any(tuple(target) not in written for draw in draws for target in draw)

    # Stopped in the middle, between two checkpoints and, for OML-ER, in the middle of an episode.
    replayed.clear()
    observe, calls = find_method(name).observe, iter(range(1, 100))

    def interrupted(self: Method, batch: Batch) -> Any:
        if next(calls) == 13:
            raise KeyboardInterrupt
        return observe(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(find_method(name), "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "stopped")
    assert len(replayed) < len(draws)
    replayed.clear()
    resumed = run(config, tmp_path / "stopped", resume=True)
    assert without_times(resumed) == without_times(whole)
    assert replayed
    assert [targets_of(batch) for batch in replayed] == draws[-len(replayed) :]
    assert (tmp_path / "stopped" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    for path in (tmp_path / "whole" / "checkpoints").glob("*/tensors.safetensors"):
        assert (tmp_path / "stopped" / path.relative_to(tmp_path / "whole")).read_bytes() == path.read_bytes()


def test_fresh_negatives_change_what_is_learned(settings: dict[str, Any]):
    fresh, old = (
        run(Config.build({**settings, "method": "replay", "refresh_negatives": on, "checkpoint_every": 0}))
        for on in (True, False)
    )
    assert fresh["ledger"]["train"]["memory_reads"] == old["ledger"]["train"]["memory_reads"]
    assert fresh["ledger"]["train"]["tokens_forward"] != old["ledger"]["train"]["tokens_forward"]
