"""What a method holds beside memory, network and optimiser is counted, and is what its paper says it is."""

from typing import Any

import pytest

from everlearn.config import Config
from everlearn.run import run
from support import MethodFactory, feed, labelled_texts, small_benchmark, tiny_encoder, tokenised

SMALL = {"batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, "support_batches": 2, "random_features": 64}
FLOAT, DOUBLE = 4, 8
WIDTH, CLASSES = 32, 6
ENCODER = sum(weight.numel() for weight in tiny_encoder().parameters())
HEAD = CLASSES * WIDTH + CLASSES
SUMS = CLASSES * (WIDTH + 1) * DOUBLE
TEXTS = 48


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("seq", 0),
        ("replay", 0),
        ("a-gem", 0),
        ("oml-er", 0),
        ("anml-er", ENCODER * FLOAT),  # the modulator's frozen encoder
        ("a-gem-cached", (ENCODER + HEAD) * FLOAT),  # one gradient
        ("mllre", (ENCODER + HEAD) * FLOAT),  # θ₀
        ("ewc", 2 * (ENCODER + HEAD) * FLOAT),  # importance and anchor
        ("mbpa++", ENCODER * FLOAT),  # the keys' encoder; keys count with the memory's examples
        ("ea-emr", WIDTH * WIDTH * FLOAT),  # the aligner
        ("ncm", SUMS),
        # A second moment, and features that wait until there are enough of them to be added.
        ("slda", SUMS + (WIDTH + TEXTS) * WIDTH * DOUBLE),
        ("ridge", SUMS + (WIDTH + TEXTS) * WIDTH * DOUBLE),
        # All as wide as the random layer; and the layer itself.
        ("ranpac", (CLASSES * 65 + (64 + TEXTS) * 64 + WIDTH * 64) * DOUBLE),
    ],
)
def test_it_is_what_the_method_is_known_to_keep(name: str, expected: int, make_method: MethodFactory):
    method = make_method(name, **SMALL)
    feed(method, tokenised(labelled_texts(TEXTS, range(CLASSES)), 4))
    method.finish()
    assert method.bytes_kept() == pytest.approx(expected, abs=64)  # a count or two beside it


def test_an_index_for_tests_is_a_second_copy_of_the_keys(make_method: MethodFactory):
    method = make_method("mbpa++", **SMALL)
    feed(method, tokenised(labelled_texts(TEXTS, range(CLASSES)), 4))
    before = method.bytes_kept()  # nothing was looked up yet
    assert before == pytest.approx(ENCODER * FLOAT, abs=64)
    method.predictor()
    assert method.bytes_kept() == before + TEXTS * WIDTH * FLOAT


def test_an_index_for_learning_is_a_second_copy_of_the_keys(make_method: MethodFactory):
    method = make_method("meta-mbpa", **SMALL, diverse_share=1.0)
    before = method.bytes_kept()
    assert before == pytest.approx(ENCODER * FLOAT, abs=64)
    feed(method, tokenised(labelled_texts(TEXTS, range(CLASSES)), 4))
    method._searched.now()
    assert method.bytes_kept() == before + len(method.memory) * WIDTH * FLOAT


def test_gem_keeps_a_gradient_of_its_head_for_each_group(make_method: MethodFactory):
    method = make_method("gem", gem_groups=3, **SMALL)
    feed(method, tokenised(labelled_texts(TEXTS, range(CLASSES)), 4))
    assert method.bytes_kept() == len(method.constraints) * HEAD * FLOAT
    assert len(method.constraints) > 1


def test_a_run_says_it_in_its_ledger():
    given: dict[str, Any] = {"method": "a-gem-cached", "encoder": "tiny", "device": "cpu", **SMALL}
    result = run(Config.build(given), benchmark=small_benchmark())
    assert result["ledger"]["method_bytes"] == (ENCODER + HEAD) * FLOAT
