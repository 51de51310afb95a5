"""What every method must keep to, whatever it does inside. A new method is added to `EXPECTED`, a new problem to
`PROBLEMS`, and every test below holds for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from everlearn import checkpoint
from everlearn.batches import Batch
from everlearn.config import Config
from everlearn.examples import Example
from everlearn.experiment import build_experiment
from everlearn.memory import MemoryConfig
from everlearn.methods import METHODS, Predictor, find_method
from everlearn.problems import Classification, Problem
from support import (
    assert_same_state,
    assert_same_weights,
    build_method,
    feed,
    labelled_texts,
    small_benchmark,
    tiny_encoder,
    tokenised,
    weights_of,
)


@dataclass(frozen=True)
class ProblemCase:
    """A problem and data for it."""

    problem: Problem
    """Over all classes of the stream."""
    examples: Callable[[int, int], list[Example]]
    """So many examples, drawn with this seed."""
    labels: range
    """What may be predicted."""
    easy: Callable[[int, int], list[Example]]
    """The same for a single task that is easy to learn."""
    easy_problem: Problem
    chance: float
    """What guessing reaches on the easy task."""


PROBLEMS = {
    "classification": ProblemCase(
        problem=Classification(6),
        examples=lambda count, seed: labelled_texts(count, range(6), seed),
        labels=range(6),
        easy=lambda count, seed: labelled_texts(count, [0, 1], seed),
        easy_problem=Classification(2),
        chance=0.5,
    ),
}


@dataclass(frozen=True)
class Expected:
    """What a method should have done after 12 batches of 4 with `SETTINGS`."""

    optimiser_steps: int
    inner_steps: int = 0
    replays: int = 0
    reads: int = 0
    writes: int = 0
    learns_with: dict[str, Any] = field(default_factory=dict)
    """Settings with which it learns the easy task."""


# b = 4 and R_I = 16: REPLAY and A-GEM draw at every fourth of 12 batches; r = 0.5 makes it 8 examples.
SETTINGS = {
    "batch_size": 4,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "lr": 1e-3,
    "inner_lr": 0.05,
    "meta_lr": 1e-3,
}
# m = 2 makes R_F = 2, so that the 12 batches fall into episodes of 3, 2 (replay), 3, 2 (replay) and a short one of 2.
META = {"optimiser_steps": 5, "inner_steps": 2 + 2 + 2 + 2 + 1, "replays": 2, "reads": 16, "writes": 48}
EXPECTED = {
    "seq": Expected(12, learns_with={"lr": 3e-3}),
    "mtl": Expected(12, learns_with={"lr": 3e-3}),
    "replay": Expected(12 + 3, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "a-gem": Expected(12, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "maml-er": Expected(**META, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    "oml-er": Expected(**META, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    "anml-er": Expected(**META, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
}


def test_every_method_is_under_contract():
    assert set(EXPECTED) == set(METHODS)


@pytest.fixture(params=sorted(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PROBLEMS)
def case(request: pytest.FixtureRequest) -> ProblemCase:
    return PROBLEMS[request.param]


@pytest.fixture
def stream(case: ProblemCase) -> list[Batch]:
    """Twelve batches of four."""
    return tokenised(case.examples(48, 1), 4, case.problem)


@pytest.fixture
def held_out(case: ProblemCase) -> Batch:
    return tokenised(case.examples(30, 2), 30, case.problem)[0]


def make(name: str, case: ProblemCase, seed: int = 1, **settings: Any) -> Any:
    return build_method(name, problem=case.problem, seed=seed, **{**SETTINGS, **settings})


def learned(name: str, case: ProblemCase, stream: list[Batch], **settings: Any) -> Any:
    method = make(name, case, **settings)
    feed(method, stream)
    method.finish()
    return method


# Learning and predicting


def test_it_learns_over_a_stream_and_reports_finite_numbers(name: str, case: ProblemCase, stream: list[Batch]):
    method = make(name, case)
    before = weights_of(method)
    observed = [*(method.observe(batch) for batch in stream), method.finish()]
    values = [float(value) for observations in observed for value in observations.values()]
    assert values
    assert np.isfinite(values).all()
    assert any("loss" in observations for observations in observed)
    changed = [key for key, weight in weights_of(method).items() if not torch.equal(weight, before[key])]
    assert changed


def test_a_predictor_gives_one_possible_label_an_example(
    name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
):
    predictor = learned(name, case, stream).predictor()
    assert isinstance(predictor, Predictor)
    predicted = predictor.predict(held_out)
    assert predicted.shape == (30,)
    assert set(predicted.tolist()) <= set(case.labels)


def test_it_can_predict_before_it_has_learned_anything(name: str, case: ProblemCase, held_out: Batch):
    assert len(make(name, case).predictor().predict(held_out)) == 30


def test_a_prediction_does_not_depend_on_what_is_predicted_with_it(
    name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
):
    predictor = learned(name, case, stream).predictor()
    together = predictor.predict(held_out)
    alone = [int(predictor.predict(held_out.take([row]))[0]) for row in range(len(held_out))]
    assert together.tolist() == alone


def test_a_last_batch_that_is_not_full_is_learned_too(name: str, case: ProblemCase):
    stream = tokenised(case.examples(10, 1), 4, case.problem)
    assert [len(batch) for batch in stream] == [4, 4, 2]
    method = learned(name, case, stream)
    assert method.ledger.train.optimiser_steps > 0


def test_it_beats_chance_clearly_on_an_easy_task(name: str, case: ProblemCase):
    method = build_method(name, problem=case.easy_problem, **{**SETTINGS, **EXPECTED[name].learns_with})
    feed(method, tokenised(case.easy(400, 1), 4, case.easy_problem))
    method.finish()
    test = tokenised(case.easy(100, 2), 100, case.easy_problem)[0]
    accuracy = float((method.predictor().predict(test) == test.labels).mean())
    assert accuracy > case.chance + 0.4


def test_nothing_but_batches_reaches_a_method(name: str, case: ProblemCase):
    """Tokens and targets are all there is; a target row holds what the problem declares and no task."""
    assert set(Batch.__dataclass_fields__) == {"tokens", "targets"}
    assert set(Example.__dataclass_fields__) == {"text", "label", "candidates"}
    config = Config.build({"method": name, "encoder": "tiny", **SETTINGS})
    experiment = build_experiment(config, small_benchmark())
    given: list[Any] = []
    observe = experiment.method.observe

    def spy(*arguments: Any, **named: Any) -> Any:
        given.append((arguments, named))
        return observe(*arguments, **named)

    experiment.method.observe = spy  # type: ignore[method-assign]
    for examples in experiment.stream:
        experiment.method.observe(experiment.problem.tokenise(examples, experiment.tokenizer))
    assert given
    for arguments, named in given:
        assert [type(argument) for argument in arguments] == [Batch]
        assert not named


# What it costs


def test_the_ledger_counts_the_work(name: str, case: ProblemCase, stream: list[Batch]):
    expected = EXPECTED[name]
    method = learned(name, case, stream)
    meter = method.ledger.train
    assert meter.stream_examples == 48
    assert meter.optimiser_steps == expected.optimiser_steps
    assert meter.inner_steps == expected.inner_steps
    assert (meter.inner_steps > 0) == find_method(name).meta
    assert meter.replays == expected.replays
    assert meter.memory_reads == expected.reads
    assert (meter.memory_reads > 0) == find_method(name).replays
    assert meter.memory_writes == len(method.memory) == expected.writes
    assert meter.replays_skipped == 0


def test_every_token_of_the_stream_is_counted_at_least_once(name: str, case: ProblemCase, stream: list[Batch]):
    method = learned(name, case, stream)
    tokens = sum(len(batch.tokens.values) for batch in stream)
    meter = method.ledger.train
    assert meter.tokens_forward >= tokens
    assert 0 < meter.tokens_backward <= meter.tokens_forward


def test_the_tokens_of_seq_are_those_of_the_stream(stream: list[Batch]):
    method = learned("seq", PROBLEMS["classification"], stream)
    tokens = sum(len(batch.tokens.values) for batch in stream)
    assert method.ledger.train.tokens_forward == method.ledger.train.tokens_backward == tokens


def test_oml_goes_backward_through_the_encoder_for_queries_only(stream: list[Batch]):
    method = learned("oml-er", PROBLEMS["classification"], stream[:3])
    tokens = [len(batch.tokens.values) for batch in stream[:3]]
    assert method.ledger.train.tokens_forward == sum(tokens)
    assert method.ledger.train.tokens_backward == tokens[2]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_size": 5, "support_batches": 3, "replay_rate": 0.26},
        {"batch_size": 3, "support_batches": 1, "replay_interval": 7, "replay_rate": 1.0},
    ],
    ids=str,
)
def test_it_never_reads_more_than_the_rate_allows(name: str, case: ProblemCase, settings: dict[str, Any]):
    """At no point of the stream more than ⌊r · R_I⌋ for each R_I examples that have passed."""
    chosen = {**SETTINGS, **settings}
    size = int(chosen["replay_rate"] * chosen["replay_interval"])
    method = make(name, case, **settings)
    seen = 0
    for batch in tokenised(case.examples(96, 1), chosen["batch_size"], case.problem):
        feed(method, [batch])
        seen += len(batch)
        assert method.ledger.train.memory_reads <= size * (seen // chosen["replay_interval"])
    method.finish()
    assert method.ledger.train.memory_reads <= size * (seen // chosen["replay_interval"])
    assert (method.ledger.train.memory_reads > 0) == find_method(name).replays
    assert method.ledger.replay_rate <= chosen["replay_rate"]


def test_without_replay_it_reads_nothing_while_it_learns(name: str, case: ProblemCase, stream: list[Batch]):
    method = learned(name, case, stream, replay=False)
    assert method.ledger.train.memory_reads == method.ledger.train.replays == 0


def test_the_test_meter_moves_only_in_tests(name: str, case: ProblemCase, stream: list[Batch], held_out: Batch):
    method = learned(name, case, stream)
    untouched = dict.fromkeys(vars(method.ledger.test), 0)
    assert vars(method.ledger.test) == untouched
    train = dict(vars(method.ledger.train))
    method.predictor().predict(held_out)
    assert vars(method.ledger.train) == train
    assert method.ledger.test.tokens_forward >= len(held_out.tokens.values)
    assert method.ledger.test.optimiser_steps == 0
    assert (method.ledger.test.inner_steps > 0) == find_method(name).meta
    assert method.ledger.test.memory_reads == (8 if find_method(name).meta else 0)
    # And learning that goes on is counted as learning.
    tested = dict(vars(method.ledger.test))
    feed(method, stream)
    assert vars(method.ledger.test) == tested


def test_the_trained_parameters_are_counted(name: str, case: ProblemCase, stream: list[Batch]):
    method = learned(name, case, stream)
    network = method.network
    assert method.ledger.parameters_trained == sum(w.numel() for w in network.parameters() if w.requires_grad)
    width, head = network.encoder.width, sum(w.numel() for w in network.head.parameters())
    encoder = sum(weight.numel() for weight in tiny_encoder().parameters())
    gate = 2 * (width * width + width) if name == "anml-er" else 0
    assert method.ledger.parameters_trained == encoder + head + gate


def test_every_trained_parameter_belongs_to_the_optimiser_exactly_once(name: str, case: ProblemCase):
    method = make(name, case)
    held = [id(weight) for group in method.optimiser.param_groups for weight in group["params"]]
    assert sorted(held) == sorted(id(weight) for weight in method.network.trained().values())


# Stopping, seeds, streams


@pytest.mark.parametrize("stop", [1, 4, 6, 7])
def test_it_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(
    name: str, case: ProblemCase, stream: list[Batch], held_out: Batch, stop: int, tmp_path: Path
):
    """In between episodes and in the middle of one, while a support set or a query is awaited."""
    memory = MemoryConfig(memory_capacity=13, write_probability=0.7)  # so that the memory's own draws matter
    whole = make(name, case, memory=memory)
    stopped = make(name, case, memory=memory)
    for method in (whole, stopped):
        feed(method, stream[:stop])
        method.predictor()  # draws from the generator of meta-testing, which has to survive as well
    state = {"method": stopped.state(), "memory": stopped.memory.state(), "ledger": stopped.ledger.as_dict()}
    checkpoint.save(tmp_path, stop, state)

    loaded = checkpoint.load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    # Another seed: whatever is not in the checkpoint comes out different.
    resumed = make(name, case, seed=99, memory=memory)
    resumed.restore(loaded[1]["method"])
    resumed.memory.restore(loaded[1]["memory"])
    resumed.ledger.restore(loaded[1]["ledger"])
    for method in (whole, resumed):
        feed(method, stream[stop:])
        method.finish()
    assert_same_weights(weights_of(resumed), weights_of(whole))
    assert_same_state(resumed.memory.state(), whole.memory.state())
    assert_same_state(resumed.state(), whole.state())
    assert resumed.ledger == whole.ledger
    one, other = whole.predictor(), resumed.predictor()
    assert torch.equal(one.logits(held_out), other.logits(held_out))


def test_the_same_seed_gives_the_same_result_and_another_seed_another(name: str):
    def outcome(seed: int) -> Any:
        experiment = build_experiment(
            Config.build({"method": name, "encoder": "tiny", "seed": seed, **SETTINGS}), small_benchmark()
        )
        for examples in experiment.stream:
            experiment.method.observe(experiment.problem.tokenise(examples, experiment.tokenizer))
        experiment.method.finish()
        return weights_of(experiment.method), experiment.method.predictor().logits(experiment.test_sets[0].batch)

    weights, logits = outcome(7)
    same_weights, same_logits = outcome(7)
    assert_same_weights(same_weights, weights)
    assert torch.equal(same_logits, logits)
    _, other_logits = outcome(8)
    assert not torch.equal(other_logits, logits)


def test_two_methods_at_one_seed_see_the_same_stream_and_start_from_the_same_weights(name: str):
    def start(method: str) -> tuple[list[str], dict[str, torch.Tensor]]:
        experiment = build_experiment(
            Config.build({"method": method, "encoder": "tiny", **SETTINGS}), small_benchmark()
        )
        return [example.text for batch in experiment.stream for example in batch], weights_of(experiment.method)

    texts, weights = start(name)
    other_texts, other_weights = start("seq")
    if find_method(name).lifelong:
        assert texts == other_texts
    else:
        assert sorted(set(texts)) == sorted(other_texts)  # the same pool, several times over
    assert_same_weights({key: weights[key] for key in other_weights}, other_weights)


def test_observing_never_uses_the_global_generator_of_numpy(name: str, case: ProblemCase, stream: list[Batch]):
    np.random.seed(0)
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    learned(name, case, stream).predictor()
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]
