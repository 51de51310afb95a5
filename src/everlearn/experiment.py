"""A run laid out before it starts: every part built from the configuration, and all of their state in one place."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from everlearn.batches import Sequences
from everlearn.config import Config
from everlearn.encoders import EncoderConfig, Tokenizer, load_encoder
from everlearn.errors import UserError
from everlearn.evaluation.evaluator import TestSet
from everlearn.evaluation.history import History
from everlearn.examples import Example
from everlearn.feed import Feed
from everlearn.ledger import Ledger
from everlearn.memory import Memory
from everlearn.methods import Method, Parts, find_method
from everlearn.problems import Classification, NegativeRefresher, OpenClassification, Problem, Ranking
from everlearn.seeding import generator
from everlearn.streams import Benchmark, Stream, Task, load_benchmark, one_pass, pooled, task_ends

_DRAWING = threading.Lock()
"""Fresh weights come from PyTorch's own generator. There is one: runs that share a process take turns with it."""


@dataclass(frozen=True)
class Experiment:
    """The parts of a run."""

    stream: Feed
    problem: Problem
    memory: Memory
    method: Method
    test_sets: list[TestSet]
    history: History
    ledger: Ledger
    device: torch.device
    notes: tuple[str, ...]
    """What the user should be told about how the settings meet the data."""

    def state(self) -> dict[str, Any]:
        """Everything that changes while a run goes on."""
        dropout = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            dropout["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            "cursor": self.stream.cursor,
            "problem": self.problem.state(),
            "method": self.method.state(),
            "memory": self.memory.state(),
            "history": self.history.state(),
            "ledger": self.ledger.as_dict(),
            "dropout": dropout,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a saved run stood."""
        self.stream.skip_to(state["cursor"])
        self.problem.restore(state["problem"])
        self.method.restore(state["method"])
        self.memory.restore(state["memory"])
        self.history.restore(state["history"])
        self.ledger.restore(state["ledger"])
        with _DRAWING:
            torch.set_rng_state(state["dropout"]["cpu"])
            if "cuda" in state["dropout"] and self.device.type == "cuda":
                torch.cuda.set_rng_state(state["dropout"]["cuda"], self.device)


def draws_on_its_own(config: Config) -> bool:
    """Whether a run draws nothing from PyTorch's generator once it is built, so that others may go on beside it."""
    return config.encoder.dropout == 0 and not find_method(config.method.method).generates


def check_fit(config: Config, benchmark: Benchmark) -> None:
    """Refuse settings that do not go with this benchmark, before anything is built."""
    ranks = benchmark.problem == "ranking"
    if config.method.open_classes and ranks:
        raise UserError(f"--open-classes is for classification: {benchmark.name} has its candidates given.")
    if config.memory.refresh_negatives and not ranks:
        raise UserError(f"--refresh-negatives is for streams with candidates: {benchmark.name} has none.")
    split = config.stream.split
    for task in benchmark.tasks:
        if not _tested(task, split):
            option = "--test-size" if split == "test" else "--val-size"
            raise UserError(f"the task '{task.name}' has no {split} examples: ask for some with {option}.")


def build_experiment(config: Config, benchmark: Benchmark) -> Experiment:
    """All parts of the run that `config` describes."""
    with _DRAWING:
        return _built(config, benchmark)


def _built(config: Config, benchmark: Benchmark) -> Experiment:
    check_fit(config, benchmark)
    device = choose_device(config.run.device)
    seed = config.run.seed
    # PyTorch's own generator, which draws fresh weights and dropout, is seeded like every other owner.
    torch.manual_seed(int(generator(seed, "torch").integers(2**62)))
    ledger = Ledger()
    encoder = load_encoder(config.encoder, device)
    # What outlives this function holds on to the tokenizer alone: a method may have a network of its own instead.
    tokenizer = encoder.tokenizer
    problem = _problem(config, benchmark, tokenizer)
    memory = Memory(config.memory, tokenizer.dtype, ledger, seed, _refresher(config, benchmark))
    kind = find_method(config.method.method)
    method = kind(config.method, Parts(encoder, problem, memory, ledger, seed))
    batch_size = config.method.batch_size
    stream = (
        one_pass(benchmark, batch_size, seed)
        if kind.lifelong
        else pooled(benchmark, batch_size, seed, config.method.epochs)
    )
    test_sets = _test_sets(config, benchmark, problem, tokenizer)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    return Experiment(
        stream=Feed(stream, lambda examples: problem.tokenise(examples, tokenizer)),
        problem=problem,
        memory=memory,
        method=method,
        test_sets=test_sets,
        history=History([task.name for task in benchmark.tasks], task_ends(benchmark), benchmark.joint_test),
        ledger=ledger,
        device=device,
        notes=tuple(_notes(config, stream, test_sets, tokenizer.max_length - problem.room)),
    )


def benchmark_for(config: Config) -> Benchmark:
    """The benchmark of a run; where labels have to be grouped by meaning, the run's encoder gives the vectors.

    What the groups are is part of the data: no other setting of the run, and no device, has a say in it.
    """

    def embed(texts: Sequence[str]) -> NDArray[np.floating]:
        with _DRAWING:
            as_it_comes = EncoderConfig(encoder=config.encoder.encoder, precision="fp32")
            encoder = load_encoder(as_it_comes, torch.device("cpu")).eval()
        with torch.no_grad():
            vectors: NDArray[np.floating] = encoder(Sequences(encoder.tokenizer(texts))).numpy()
        return vectors

    return load_benchmark(config.stream, embed)


def _problem(config: Config, benchmark: Benchmark, tokenizer: Tokenizer) -> Problem:
    if benchmark.problem == "ranking":
        return Ranking(benchmark.labels, tokenizer)
    if config.method.open_classes:
        return OpenClassification(benchmark.labels)
    return Classification(len(benchmark.labels), benchmark.labels)


def _refresher(config: Config, benchmark: Benchmark) -> NegativeRefresher | None:
    if not config.memory.refresh_negatives:
        return None
    most = max(len(example.candidates) for task in benchmark.tasks for example in task.pool or task.train)
    return NegativeRefresher(most - 1, config.run.seed)


def _notes(config: Config, stream: Stream, test_sets: list[TestSet], limit: int) -> Iterator[str]:
    method = config.method
    kind = find_method(method.method)
    if config.memory.refresh_negatives:
        if not (kind.replays and method.replay):
            yield f"--refresh-negatives changes nothing: {method.method} replays nothing"
        elif not kind.replays_candidates:
            yield f"--refresh-negatives changes nothing: {method.method} replays examples without their candidates"
    if (kind.replays or kind.generates) and method.replay and stream.length < method.replay_interval:
        yield (
            f"the stream of {stream.length:,} examples ends before the first replay (replay_interval is "
            f"{method.replay_interval:,}): lower --replay-interval to see one"
        )
    lengths = np.concatenate([test_set.batch.tokens.lengths for test_set in test_sets])
    if cut := float((lengths >= limit).mean()):
        yield f"{cut:.0%} of the test texts reach the limit of {limit} tokens: --max-length raises it"


def choose_device(name: str) -> torch.device:
    """The device to compute on."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device was found: pass --device cpu, or install a PyTorch built for your GPU.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _tested(task: Task, split: str) -> Sequence[Example]:
    """The examples that a task is evaluated on."""
    return task.test if split == "test" else task.validation


def _test_sets(config: Config, benchmark: Benchmark, problem: Problem, tokenizer: Tokenizer) -> list[TestSet]:
    sets = [(task.name, _tested(task, config.stream.split)) for task in benchmark.tasks]
    if benchmark.joint_test:
        together = [example for _, examples in sets for example in examples]
        owners = [name for name, examples in sets for _ in examples]
        return [TestSet(problem.tokenise(together, tokenizer), owners)]
    return [TestSet(problem.tokenise(examples, tokenizer), [name] * len(examples)) for name, examples in sets]
