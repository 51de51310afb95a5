"""What several test files build on: a synthetic benchmark, the tiny encoder, methods made from fresh parts."""

import atexit
import copy
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from everlearn import checkpoint
from everlearn.batches import Batch, Ragged
from everlearn.encoders import Encoder, EncoderConfig, Tokenizer, load_encoder
from everlearn.encoders.tiny import tiny_tokenizer, vocabulary
from everlearn.examples import Example
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.methods import Method, MethodConfig, Parts, find_method
from everlearn.methods.lamol import LanguageMethod
from everlearn.problems import Classification, NegativeRefresher, Problem
from everlearn.streams import Benchmark, Task

MethodFactory = Callable[..., Any]

# Each class has three words of its own, and each of them is one token of the tiny vocabulary.
CLASS_WORDS = [
    ["the", "of", "and"],
    ["to", "in", "is"],
    ["it", "for", "on"],
    ["with", "as", "are"],
    ["this", "that", "be"],
    ["by", "an", "or"],
]


def labelled_texts(count: int, labels: Sequence[int], seed: int = 0) -> list[Example]:
    """`count` texts of three to nine words, the labels taking turns."""
    rng = np.random.default_rng([seed, *labels])
    examples = []
    for number in range(count):
        label = labels[number % len(labels)]
        words = rng.choice(CLASS_WORDS[label], size=int(rng.integers(3, 10)))
        # The number makes every text different, so that examples can be told apart.
        examples.append(Example(f"{' '.join(words)} {number}", label))
    return examples


def with_candidates(examples: Sequence[Example], labels: Sequence[int], seed: int = 0) -> list[Example]:
    """The same texts to be ranked: each against one to three other labels, its own anywhere among them."""
    rng = np.random.default_rng([seed, *labels])
    ranked = []
    for example in examples:
        others = rng.permutation([label for label in labels if label != example.label])[: rng.integers(1, 4)]
        candidates = tuple(rng.permutation([example.label, *others]).tolist())
        ranked.append(replace(example, candidates=candidates))
    return ranked


def small_benchmark(train: int = 16, test: int = 8, shuffle: bool = True) -> Benchmark:
    """Three tasks of two classes each."""
    tasks = tuple(
        Task(
            name=f"task{number}",
            train=labelled_texts(train, [2 * number, 2 * number + 1], seed=1),
            validation=labelled_texts(test, [2 * number, 2 * number + 1], seed=2),
            test=labelled_texts(test, [2 * number, 2 * number + 1], seed=3),
        )
        for number in range(3)
    )
    return Benchmark("small", tuple(f"class{label}" for label in range(6)), tasks, shuffle=shuffle)


def small_ranking_benchmark() -> Benchmark:
    """The same three tasks, their classes to be chosen among candidates by the words that name them."""
    small = small_benchmark()
    tasks = tuple(
        replace(
            task,
            train=with_candidates(task.train, range(6), seed=1),
            validation=with_candidates(task.validation, range(6), seed=2),
            test=with_candidates(task.test, range(6), seed=3),
        )
        for task in small.tasks
    )
    names = tuple(" ".join(words) for words in CLASS_WORDS)
    return replace(small, labels=names, tasks=tasks, problem="ranking", joint_test=True)


def tiny_encoder(**settings: Any) -> Encoder:
    """The tiny encoder with these settings."""
    return load_encoder(EncoderConfig(encoder="tiny", **settings), torch.device("cpu"))


@cache
def _tiny() -> Encoder:
    """To be copied, which is faster than to build it."""
    return tiny_encoder()


@cache
def causal_folder() -> str:
    """A folder with a small random causal language model that has the tiny encoder's tokenizer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = Path(tempfile.mkdtemp(prefix="everlearn-causal-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = GPT2Config(
        vocab_size=len(vocabulary()), n_positions=512, n_embd=32, n_layer=2, n_head=2, initializer_range=0.1
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        GPT2LMHeadModel(config).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


CAUSAL_LENGTH = 32
"""Longest row of the language model: a random one ends nowhere by itself."""


@cache
def _causal() -> Encoder:
    return load_encoder(EncoderConfig(encoder=causal_folder(), max_length=CAUSAL_LENGTH), torch.device("cpu"))


def writes_texts(name: str) -> bool:
    """Whether a method needs a causal language model."""
    return issubclass(find_method(name), LanguageMethod)


def encoder_settings(name: str) -> dict[str, Any]:
    """The smallest encoder that a method can work with."""
    return {"encoder": causal_folder(), "max_length": CAUSAL_LENGTH} if writes_texts(name) else {"encoder": "tiny"}


def tiny_tokens() -> Tokenizer:
    """The tiny encoder's tokenizer, in which nothing ever changes."""
    return _tiny().tokenizer


def build_method(
    name: str,
    *,
    problem: Problem | None = None,
    seed: int = 1,
    memory: MemoryConfig | None = None,
    encoder: Encoder | None = None,
    refresher: NegativeRefresher | None = None,
    **settings: Any,
) -> Any:
    """A method from fresh parts, in the way an experiment puts them together."""
    torch.manual_seed(seed)
    encoder = encoder or copy.deepcopy(_causal() if writes_texts(name) else _tiny())
    ledger = Ledger()
    parts = Parts(
        encoder=encoder,
        problem=problem or Classification(6),
        memory=Memory(memory or MemoryConfig(), encoder.tokenizer.dtype, ledger, seed, refresher),
        ledger=ledger,
        seed=seed,
    )
    return find_method(name)(MethodConfig(method=name, **settings), parts)


def tokenised(
    examples: Sequence[Example], size: int, problem: Problem | None = None, tokenizer: Tokenizer | None = None
) -> list[Batch]:
    """Examples as consecutive batches of `size`."""
    problem = problem or Classification(6)
    tokenizer = tokenizer or tiny_tokens()
    return [problem.tokenise(examples[i : i + size], tokenizer) for i in range(0, len(examples), size)]


def feed(method: Method, batches: Iterable[Batch]) -> None:
    """Let a method meet and observe batches, counted as the run counts them."""
    for batch in batches:
        method.ledger.train.stream_examples += len(batch)
        method.meet(batch)
        method.observe(batch)


def numbered(*numbers: int) -> Batch:
    """A batch of bare examples that are known by their numbers: each is token and label of one of them."""
    return Batch(Ragged.from_rows([[n] for n in numbers], np.uint16), Ragged.from_rows([[n] for n in numbers]))


def numbers(*batches: Batch) -> list[int]:
    """Which examples of `numbered` batches these are."""
    return [int(label) for batch in batches for label in batch.labels]


def weights_of(method: Any) -> dict[str, torch.Tensor]:
    """A copy of all of a method's weights, the frozen ones too."""
    return {name: weight.detach().clone() for name, weight in method.network.state_dict().items()}


def saved_state(method: Method, folder: Path) -> Any:
    """A method's state as a checkpoint brings it back."""
    checkpoint.save(folder, 1, {"method": method.state()})
    loaded = checkpoint.load_newest(folder, _refuse)
    assert loaded is not None
    return loaded[1]["method"]


def _refuse(message: str) -> None:
    raise AssertionError(message)


def assert_same_weights(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float = 0.0
) -> None:
    """Equal name by name; to the last bit, unless a tolerance is given."""
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def assert_same_state(found: Any, expected: Any) -> None:
    """Equal to the last bit, however deeply nested; a list that became a tuple on the way counts as equal."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same_state(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_state(one, other)
    elif isinstance(expected, torch.Tensor | np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert bool((found == expected).all())
    else:
        assert found == expected
