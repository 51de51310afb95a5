"""What every method must keep to, whatever it does inside. A new method is added to `EXPECTED`, a new problem to
`PROBLEMS`, and every test below holds for it.

`Contract` is for every method. `GradientContract` comes on top for those that train a network, the subclasses of
`GradientMethod`.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from everlearn import checkpoint
from everlearn.batches import Batch, Integers
from everlearn.config import Config
from everlearn.examples import Example
from everlearn.experiment import Experiment, build_experiment
from everlearn.ledger import Meter
from everlearn.memory import MemoryConfig
from everlearn.methods import METHODS, Predictor, find_method
from everlearn.methods.gradient import GradientMethod
from everlearn.methods.label_scorer import LabelScorer
from everlearn.methods.lamol import AnswerPredictor
from everlearn.methods.network import NetworkPredictor
from everlearn.problems import Classification, NegativeRefresher, Problem, Ranking
from everlearn.streams import Benchmark
from support import (
    CLASS_WORDS,
    assert_same_state,
    assert_same_weights,
    build_method,
    encoder_settings,
    feed,
    labelled_texts,
    saved_state,
    small_benchmark,
    small_ranking_benchmark,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    weights_of,
    with_candidates,
)


@dataclass(frozen=True)
class ProblemCase:
    """A problem and data for it."""

    problem: Problem
    """Over all classes of the stream."""
    examples: Callable[[int, int], list[Example]]
    """So many examples, drawn with this seed."""
    choices: Callable[[Batch, int], set[int]]
    """What may be predicted for this row of a batch."""
    easy: Callable[[int, int], list[Example]]
    """The same for a single task that is easy to learn."""
    easy_problem: Problem
    chance: float
    """What guessing reaches on the easy task."""
    benchmark: Callable[[], Benchmark]
    """Three tasks."""


def classification() -> ProblemCase:
    return ProblemCase(
        problem=Classification(6),
        examples=lambda count, seed: labelled_texts(count, range(6), seed),
        choices=lambda batch, row: set(range(6)),
        easy=lambda count, seed: labelled_texts(count, [0, 1], seed),
        easy_problem=Classification(2),
        chance=0.5,
        benchmark=small_benchmark,
    )


def ranking() -> ProblemCase:
    tokenizer = tiny_tokens()
    return ProblemCase(
        problem=Ranking([" ".join(words) for words in CLASS_WORDS], tokenizer),
        examples=lambda count, seed: with_candidates(labelled_texts(count, range(6), seed), range(6), seed),
        choices=lambda batch, row: set(batch.targets[row][1:].tolist()),
        # A name is a word of the sentence or it is not, and which of the two comes first says nothing.
        easy=lambda count, seed: with_candidates(labelled_texts(count, [0, 1], seed), [0, 1], seed),
        easy_problem=Ranking([words[0] for words in CLASS_WORDS[:2]], tokenizer),
        chance=0.5,
        benchmark=small_ranking_benchmark,
    )


PROBLEMS = {"classification": cache(classification), "ranking": cache(ranking)}


@dataclass(frozen=True)
class Expected:
    """What a method should have done after 12 batches of 4 with `SETTINGS`, and where it belongs."""

    optimiser_steps: int = 0
    """For methods that train a network."""
    inner_steps: int = 0
    replays: int = 0
    reads: int = 0
    writes: int | None = 0
    """None where the method draws what it writes."""
    test_reads: int = 0
    """Examples read from memory to predict 30."""
    test_inner_steps: int = 0
    beside: int = 0
    """Weights that it trains beside encoder and head."""
    trains_encoder: bool = True
    own_network: bool = False
    """Whether it trains another network than an encoder under the problem's head; it is not under `GradientContract`
    then, and has tests of its own."""
    learns_with: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it learns the easy task."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """The problems that it cannot learn, and why: it is not tested on them."""


# b = 4 and R_I = 16: REPLAY and A-GEM draw at every fourth of 12 batches; r = 0.5 makes it 8 examples.
SETTINGS = {
    "batch_size": 4,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.5,
    "lr": 1e-3,
    "inner_lr": 0.05,
    "meta_lr": 1e-3,
    "random_features": 64,
    "aligner_steps": 2,
    "neighbours": 4,
    "local_steps": 3,
    "diverse_share": 1.0,
}
# m = 2 makes R_F = 2, so that the 12 batches fall into episodes of 3, 2 (replay), 3, 2 (replay) and a short one of 2.
META = {
    "optimiser_steps": 5,
    "inner_steps": 2 + 2 + 2 + 2 + 1,
    "replays": 2,
    "reads": 16,
    "writes": 48,
    "test_reads": 8,
    "test_inner_steps": 2,
}
WIDTH = 32  # of the tiny encoder
GATE = 2 * (WIDTH * WIDTH + WIDTH)
WITHOUT_REPLAY = {**META, "optimiser_steps": 4, "inner_steps": 4 * 2, "replays": 0, "reads": 0}
EXPECTED = {
    "seq": Expected(12, learns_with={"lr": 3e-3}),
    "mtl": Expected(12, learns_with={"lr": 3e-3}),
    "replay": Expected(12 + 3, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "a-gem": Expected(12, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "maml-er": Expected(**META, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    "oml-er": Expected(**META, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    # At 5e-3 one seed in twenty breaks down, and rounding decides which.
    "anml-er": Expected(**META, beside=GATE, learns_with={"meta_lr": 3e-3, "inner_lr": 0.02}),
    # Without replay every episode takes three batches.
    "oml": Expected(**WITHOUT_REPLAY, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    "anml": Expected(**WITHOUT_REPLAY, beside=GATE, learns_with={"meta_lr": 5e-3, "inner_lr": 0.02}),
    "oml-er-plastic": Expected(**META, learns_with={"meta_lr": 5e-3}),
    "er-ace": Expected(12 + 3, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "der++": Expected(12 + 3, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "a-gem-cached": Expected(12, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "gem": Expected(12, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    "ewc": Expected(12, replays=3, reads=24, writes=48, learns_with={"lr": 3e-3, "ewc_lambda": 1.0}),
    # Two batches of four wait for the replay, which learns them with the eight examples it reads, one step each.
    "mer": Expected(6, inner_steps=3 * (4 + 4 + 8), replays=3, reads=24, writes=48, learns_with={"lr": 3e-3}),
    # Four neighbours and three steps for each of 30 examples.
    "mbpa++": Expected(*(12 + 3, 0, 3, 24, 48), test_reads=30 * 4, test_inner_steps=30 * 3, learns_with={"lr": 3e-3}),
    # Each replay takes a step on two batches of neighbours; a test adapts to four random examples.
    "meta-mbpa": Expected(
        *(12, 3 * 2, 3, 24, None), test_reads=4, test_inner_steps=1, learns_with={"lr": 3e-3, "inner_lr": 0.02}
    ),
    "mllre": Expected(12 + 3, replays=3, reads=24, writes=48, learns_with={"lr": 5e-3}),
    # Each replay also takes two steps of the aligner.
    "ea-emr": Expected(
        12 + 3 * (1 + 2), replays=3, reads=24, writes=48, beside=WIDTH * WIDTH, learns_with={"lr": 3e-3}
    ),
    "emar": Expected(replays=3, reads=24, writes=48, test_reads=48, own_network=True, learns_with={"lr": 3e-3}),
    "lamol": Expected(replays=3, own_network=True, learns_with={"lr": 5e-3}),
    "lamol-real": Expected(replays=3, reads=24, writes=48, own_network=True, learns_with={"lr": 5e-3}),
    "ncm": Expected(),
    "slda": Expected(),
    "ridge": Expected(),
    "ranpac": Expected(),
}


def test_every_method_is_under_contract():
    assert set(EXPECTED) == set(METHODS)


def test_whatever_a_method_does_not_fit_is_a_problem_and_has_a_reason():
    for expected in EXPECTED.values():
        assert set(expected.unfit) < set(PROBLEMS)
        assert all(expected.unfit.values())


def make(name: str, case: ProblemCase, seed: int = 1, **settings: Any) -> Any:
    return build_method(name, problem=case.problem, seed=seed, **{**SETTINGS, **settings})


def learned(name: str, case: ProblemCase, stream: list[Batch], **settings: Any) -> Any:
    method = make(name, case, **settings)
    feed(method, stream)
    method.finish()
    return method


def experiment_of(name: str, case: ProblemCase, seed: int = 7) -> Experiment:
    given = {"method": name, "seed": seed, **encoder_settings(name), **SETTINGS}
    return build_experiment(Config.build(given), case.benchmark())


def learn_all(experiment: Experiment) -> None:
    for batch in experiment.stream:
        experiment.method.meet(batch)
        experiment.method.observe(batch)
    experiment.method.finish()


def learned_experiment(name: str, case: ProblemCase, seed: int) -> Experiment:
    experiment = experiment_of(name, case, seed)
    learn_all(experiment)
    return experiment


def encoded_tokens(case: ProblemCase, stream: list[Batch]) -> list[int]:
    """How many tokens of each batch go through an encoder that reads it once."""
    return [len(case.problem.sequences(batch).tokens.values) for batch in stream]


def output(predictor: Predictor, batch: Batch) -> torch.Tensor | Integers:
    """The most that can be compared: logits, scores or losses where it has them, else the labels it chose."""
    if isinstance(predictor, AnswerPredictor):
        with torch.no_grad():
            return predictor.network.answer_losses(batch.tokens, batch.labels)
    if isinstance(predictor, NetworkPredictor):
        return predictor.logits(batch)
    return predictor.scores(batch) if isinstance(predictor, LabelScorer) else predictor.predict(batch)


def assert_same_method(found: Any, expected: Any) -> None:
    """Equal to the last bit in everything that is saved, and in a network's frozen weights, which are not."""
    assert_same_state(found.state(), expected.state())
    if isinstance(expected, GradientMethod):
        assert_same_weights(weights_of(found), weights_of(expected))


def is_same_state(found: Any, expected: Any) -> bool:
    try:
        assert_same_state(found, expected)
    except AssertionError:
        return False
    return True


class OfMethods:
    """Tests for methods of a table: each with each problem that it fits."""

    expected: ClassVar[Mapping[str, Expected]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "name" in metafunc.fixturenames:
            table = self.expected
            fitting = [(name, p) for name in sorted(table) for p in PROBLEMS if p not in table[name].unfit]
            metafunc.parametrize(("name", "problem"), fitting)

    @pytest.fixture
    def case(self, problem: str) -> ProblemCase:
        return PROBLEMS[problem]()

    @pytest.fixture
    def stream(self, case: ProblemCase) -> list[Batch]:
        """Twelve batches of four."""
        return tokenised(case.examples(48, 1), 4, case.problem)

    @pytest.fixture
    def held_out(self, case: ProblemCase) -> Batch:
        return tokenised(case.examples(30, 2), 30, case.problem)[0]


class Contract(OfMethods):
    """What holds for every method."""

    # Learning and predicting

    def test_it_learns_over_a_stream_and_reports_finite_numbers(
        self, name: str, case: ProblemCase, stream: list[Batch], tmp_path: Path
    ):
        method = make(name, case)
        before = saved_state(method, tmp_path)
        observed = [*(method.observe(batch) for batch in stream), method.finish()]
        values = [float(value) for observations in observed for value in observations.values()]
        assert values
        assert np.isfinite(values).all()
        assert not is_same_state(saved_state(method, tmp_path), before)

    def test_a_predictor_gives_one_possible_label_an_example(
        self, name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
    ):
        predictor = learned(name, case, stream).predictor()
        assert isinstance(predictor, Predictor)
        predicted = predictor.predict(held_out)
        assert predicted.shape == (30,)
        assert np.issubdtype(predicted.dtype, np.integer)
        for row, label in enumerate(predicted.tolist()):
            assert label in case.choices(held_out, row)

    def test_it_can_predict_before_it_has_learned_anything(self, name: str, case: ProblemCase, held_out: Batch):
        assert len(make(name, case).predictor().predict(held_out)) == 30

    def test_a_prediction_does_not_depend_on_what_is_predicted_with_it(
        self, name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
    ):
        predictor = learned(name, case, stream).predictor()
        together = predictor.predict(held_out)
        alone = [int(predictor.predict(held_out.take([row]))[0]) for row in range(len(held_out))]
        assert together.tolist() == alone

    def test_a_predictor_stays_the_same_while_learning_goes_on(
        self, name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
    ):
        method = make(name, case, **self.expected[name].learns_with)
        feed(method, stream[:1])
        predictor = method.predictor()
        before = output(predictor, held_out)
        feed(method, stream[1:])
        method.finish()
        assert bool((output(predictor, held_out) == before).all())
        # What was learned meanwhile makes a difference, or the above would mean nothing.
        assert not bool((output(method.predictor(), held_out) == before).all())

    def test_a_last_batch_that_is_not_full_is_learned_too(self, name: str, case: ProblemCase, tmp_path: Path):
        stream = tokenised(case.examples(10, 1), 4, case.problem)
        assert [len(batch) for batch in stream] == [4, 4, 2]
        method = learned(name, case, stream)
        shorter = learned(name, case, stream[:2])
        assert method.ledger.train.tokens_forward > shorter.ledger.train.tokens_forward
        assert not is_same_state(saved_state(method, tmp_path), saved_state(shorter, tmp_path))

    def test_it_beats_chance_clearly_on_an_easy_task(self, name: str, case: ProblemCase):
        method = build_method(name, problem=case.easy_problem, **{**SETTINGS, **self.expected[name].learns_with})
        feed(method, tokenised(case.easy(400, 1), 4, case.easy_problem))
        method.finish()
        test = tokenised(case.easy(100, 2), 100, case.easy_problem)[0]
        accuracy = float((method.predictor().predict(test) == test.labels).mean())
        assert accuracy > case.chance + 0.4

    def test_nothing_but_batches_reaches_a_method(self, name: str, case: ProblemCase):
        """Tokens and targets are all there is; a target row holds what the problem declares and no task."""
        assert set(Batch.__dataclass_fields__) == {"tokens", "targets"}
        assert set(Example.__dataclass_fields__) == {"text", "label", "candidates"}
        experiment = experiment_of(name, case)
        given: list[Any] = []
        observe = experiment.method.observe

        def spy(*arguments: Any, **named: Any) -> Any:
            given.append((arguments, named))
            return observe(*arguments, **named)

        experiment.method.observe = spy  # type: ignore[method-assign]
        learn_all(experiment)
        assert given
        for arguments, named in given:
            assert [type(argument) for argument in arguments] == [Batch]
            assert not named

    # What it costs

    def test_the_ledger_counts_the_work(self, name: str, case: ProblemCase, stream: list[Batch]):
        expected = self.expected[name]
        method = learned(name, case, stream)
        meter = method.ledger.train
        assert meter.stream_examples == 48
        assert meter.inner_steps == expected.inner_steps
        assert meter.replays == expected.replays
        assert meter.memory_reads == expected.reads
        assert (meter.memory_reads > 0) == find_method(name).replays
        assert meter.memory_writes == len(method.memory)
        if expected.writes is None:
            assert 0 < meter.memory_writes < 48
        else:
            assert meter.memory_writes == expected.writes
        assert meter.replays_skipped == 0
        # Every token of the stream passes through the encoder at least once.
        assert meter.tokens_forward >= sum(len(batch.tokens.values) for batch in stream)
        assert meter.tokens_backward <= meter.tokens_forward

    @pytest.mark.parametrize(
        "settings",
        [
            {"batch_size": 5, "support_batches": 3, "replay_rate": 0.26},
            {"batch_size": 3, "support_batches": 1, "replay_interval": 7, "replay_rate": 1.0},
        ],
        ids=str,
    )
    def test_it_never_reads_more_than_the_rate_allows(self, name: str, case: ProblemCase, settings: dict[str, Any]):
        """At no point of the stream more than ⌊r · R_I⌋ for each R_I examples that have passed."""
        chosen = {**SETTINGS, **settings}
        size = int(chosen["replay_rate"] * chosen["replay_interval"])
        method = make(name, case, **settings)
        seen = 0
        for batch in tokenised(case.examples(60, 1), chosen["batch_size"], case.problem):
            feed(method, [batch])
            seen += len(batch)
            assert method.ledger.train.memory_reads <= size * (seen // chosen["replay_interval"])
        method.finish()
        assert method.ledger.train.memory_reads <= size * (seen // chosen["replay_interval"])
        assert (method.ledger.train.memory_reads > 0) == find_method(name).replays
        assert method.ledger.replay_rate <= chosen["replay_rate"]

    def test_without_replay_it_reads_nothing_while_it_learns(self, name: str, case: ProblemCase, stream: list[Batch]):
        method = learned(name, case, stream, replay=False)
        assert method.ledger.train.memory_reads == method.ledger.train.replays == 0

    def test_the_test_meter_moves_only_in_tests(
        self, name: str, case: ProblemCase, stream: list[Batch], held_out: Batch
    ):
        method = learned(name, case, stream)
        assert method.ledger.test == Meter()
        train = copy.copy(method.ledger.train)
        method.predictor().predict(held_out)
        assert method.ledger.train == train
        assert method.ledger.test.tokens_forward >= len(held_out.tokens.values)
        assert method.ledger.test.optimiser_steps == 0
        assert method.ledger.test.inner_steps == self.expected[name].test_inner_steps
        assert method.ledger.test.memory_reads == self.expected[name].test_reads
        # And learning that goes on is counted as learning.
        tested = copy.copy(method.ledger.test)
        feed(method, stream)
        assert method.ledger.test == tested

    # Stopping, seeds, streams

    def test_its_state_survives_a_checkpoint_unchanged(
        self, name: str, case: ProblemCase, stream: list[Batch], tmp_path: Path
    ):
        """A key that is not a text or a value that JSON cannot hold would come back as something else."""
        method = make(name, case)
        for batches in ([], stream[:1], stream[1:]):
            feed(method, batches)
            assert_same_state(saved_state(method, tmp_path), method.state())

    @pytest.mark.parametrize("stop", [4, 7])
    def test_it_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(
        self, name: str, case: ProblemCase, stream: list[Batch], held_out: Batch, stop: int, tmp_path: Path
    ):
        """In between episodes and in the middle of one, while a support set or a query is awaited."""
        memory = MemoryConfig(memory_capacity=13, write_probability=0.7)  # so that the memory's own draws matter
        whole = make(name, case, memory=memory)
        feed(whole, stream[:stop])
        whole.predictor()  # draws from the generator of meta-testing, which has to survive as well
        state = {"method": whole.state(), "memory": whole.memory.state(), "ledger": whole.ledger.as_dict()}
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
        assert_same_method(resumed, whole)
        assert_same_state(resumed.memory.state(), whole.memory.state())
        assert resumed.ledger == whole.ledger
        one, other = whole.predictor(), resumed.predictor()
        assert bool((output(one, held_out) == output(other, held_out)).all())

    def test_the_same_seed_gives_the_same_result_and_another_seed_another(self, name: str, case: ProblemCase):
        first, second = (learned_experiment(name, case, seed=7) for _ in range(2))
        assert_same_method(second.method, first.method)
        batch = first.test_sets[0].batch
        logits = output(first.method.predictor(), batch)
        assert bool((output(second.method.predictor(), batch) == logits).all())
        # Where no network is trained, the outcome may well be the same in any order of the stream.
        if isinstance(first.method, GradientMethod):
            other = learned_experiment(name, case, seed=8)
            assert not is_same_state(other.method.state(), first.method.state())
            if isinstance(logits, torch.Tensor):
                assert not torch.equal(output(other.method.predictor(), batch), logits)

    def test_two_methods_at_one_seed_see_the_same_stream(self, name: str, case: ProblemCase):
        texts, others = (
            [batch.tokens[row].tobytes() for batch in experiment_of(method, case).stream for row in range(len(batch))]
            for method in (name, "seq")
        )
        if find_method(name).lifelong:
            assert texts == others
        else:
            assert sorted(set(texts)) == sorted(others)  # the same pool, several times over

    def test_observing_never_uses_the_global_generator_of_numpy(
        self, name: str, case: ProblemCase, stream: list[Batch]
    ):
        np.random.seed(0)
        before = np.random.get_state()[1].copy()  # type: ignore[index]
        learned(name, case, stream).predictor()
        assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


class GradientContract(OfMethods):
    """What also holds for methods that train a network."""

    def test_it_changes_its_weights_and_reports_a_loss(self, name: str, case: ProblemCase, stream: list[Batch]):
        method = make(name, case)
        before = weights_of(method)
        observed = [*(method.observe(batch) for batch in stream), method.finish()]
        assert any("loss" in observations for observations in observed)
        assert any(not torch.equal(weight, before[key]) for key, weight in weights_of(method).items())

    def test_the_ledger_counts_steps_tokens_and_trained_parameters(
        self, name: str, case: ProblemCase, stream: list[Batch]
    ):
        method = learned(name, case, stream)
        meter, network = method.ledger.train, method.network
        assert meter.optimiser_steps == self.expected[name].optimiser_steps
        assert meter.tokens_forward >= sum(encoded_tokens(case, stream))
        assert 0 < meter.tokens_backward <= meter.tokens_forward
        assert method.ledger.parameters_trained == sum(w.numel() for w in network.parameters() if w.requires_grad)
        head = sum(w.numel() for w in network.head.parameters())
        encoder = sum(weight.numel() for weight in tiny_encoder().parameters()) * self.expected[name].trains_encoder
        assert method.ledger.parameters_trained == encoder + head + self.expected[name].beside

    def test_a_last_batch_that_is_not_full_makes_a_step(self, name: str, case: ProblemCase):
        stream = tokenised(case.examples(10, 1), 4, case.problem)
        assert learned(name, case, stream).ledger.train.optimiser_steps > 0

    def test_batches_that_do_not_fit_are_learned_in_parts_and_nothing_changes(
        self, name: str, case: ProblemCase, stream: list[Batch]
    ):
        """Five batches, a replay of eight among them. In double precision, since AdamW makes much of rounding."""
        whole, in_parts = make(name, case), make(name, case, micro_batch=3)
        for method in (whole, in_parts):
            method.network.double()
            feed(method, stream[:5])
            method.finish()
        assert in_parts.ledger.train.tokens_forward >= whole.ledger.train.tokens_forward
        assert_same_weights(weights_of(in_parts), weights_of(whole), tolerance=1e-9)

    def test_every_trained_parameter_belongs_to_the_optimiser_exactly_once(self, name: str, case: ProblemCase):
        method = make(name, case)
        held = [id(weight) for group in method.optimiser.param_groups for weight in group["params"]]
        assert sorted(held) == sorted(id(weight) for weight in method.network.trained().values())

    def test_two_methods_at_one_seed_start_from_the_same_weights(self, name: str, case: ProblemCase):
        weights = weights_of(experiment_of(name, case).method)
        others = weights_of(experiment_of("seq", case).method)
        assert_same_weights({key: weights[key] for key in others}, others)


class TestEveryMethod(Contract):
    expected = EXPECTED


class TestGradientMethods(GradientContract):
    expected: ClassVar = {
        name: expected
        for name, expected in EXPECTED.items()
        if name in METHODS and issubclass(METHODS[name], GradientMethod) and not expected.own_network
    }


class TestGEMWithAdapters(Contract, GradientContract):
    """GEM's other setting trains another part of the network."""

    # Query and value of two layers, each with two matrices of rank 2.
    expected: ClassVar = {
        "gem": replace(EXPECTED["gem"], trains_encoder=False, beside=2 * 2 * 2 * 2 * WIDTH, learns_with={"lr": 3e-2})
    }

    @pytest.fixture(autouse=True)
    def adapters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(SETTINGS, "gem_gradients", "lora")
        monkeypatch.setitem(SETTINGS, "lora_rank", 2)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.replays and name != "der++"])
def test_fresh_negatives_are_drawn_from_all_that_the_stream_has_shown(name: str):
    """However little a method stores, and however late: DER++ alone has no use for them."""
    case = PROBLEMS["ranking"]()
    method = make(name, case, refresher=NegativeRefresher(3, seed=1), diverse_share=0.0)
    shown: list[int] = []
    for batch in tokenised(case.examples(30, 1), 4, case.problem):
        feed(method, [batch])
        shown.extend(label for label in dict.fromkeys(batch.labels.tolist()) if label not in shown)
        assert method.memory.state()["refresher"]["seen"] == shown
    assert len(shown) == 6


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_tokens_of_seq_are_those_of_the_stream(problem: str):
    case = PROBLEMS[problem]()
    stream = tokenised(case.examples(48, 1), 4, case.problem)
    method = learned("seq", case, stream)
    tokens = sum(encoded_tokens(case, stream))
    assert method.ledger.train.tokens_forward == method.ledger.train.tokens_backward == tokens


@pytest.mark.parametrize("problem", PROBLEMS)
def test_oml_goes_backward_through_the_encoder_for_queries_only(problem: str):
    case = PROBLEMS[problem]()
    stream = tokenised(case.examples(12, 1), 4, case.problem)
    method = learned("oml-er", case, stream)
    tokens = encoded_tokens(case, stream)
    assert method.ledger.train.tokens_forward == sum(tokens)
    assert method.ledger.train.tokens_backward == tokens[2]
