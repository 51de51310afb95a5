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
        # The keys' encoder, and the index over the keys, which themselves count with the memory's examples.
        ("mbpa++", ENCODER * FLOAT + TEXTS * WIDTH * FLOAT),
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


@pytest.mark.parametrize("name", ["mbpa++", "meta-mbpa"])
def test_an_index_over_the_keys_is_a_second_copy_of_them(name: str, make_method: MethodFactory):
    """Whether one is there at the moment or not, or a run that was interrupted would not count what others do."""
    method = make_method(name, **SMALL, diverse_share=1.0)
    frozen = method.bytes_kept()  # nothing is in memory yet
    assert frozen == pytest.approx(ENCODER * FLOAT, abs=64)
    batches = tokenised(labelled_texts(TEXTS, range(CLASSES)), 4)
    for part in (batches[:6], batches[6:]):
        feed(method, part)
        expected = frozen + len(method.memory) * WIDTH * FLOAT
        assert method.bytes_kept() == expected
        method.predictor().predict(batches[0])
        assert method.bytes_kept() == expected


def test_gem_keeps_a_gradient_of_its_head_for_each_group(make_method: MethodFactory):
    method = make_method("gem", gem_groups=3, **SMALL)
    feed(method, tokenised(labelled_texts(TEXTS, range(CLASSES)), 4))
    assert method.bytes_kept() == len(method.constraints) * HEAD * FLOAT
    assert len(method.constraints) > 1


def test_a_run_says_it_in_its_ledger():
    given: dict[str, Any] = {"method": "a-gem-cached", "encoder": "tiny", "device": "cpu", **SMALL}
    result = run(Config.build(given), benchmark=small_benchmark())
    assert result["ledger"]["method_bytes"] == (ENCODER + HEAD) * FLOAT
