"""A fingerprint tells data apart by all that is learned and tested, and by nothing else."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from everlearn.examples import Example
from everlearn.streams import Benchmark, StreamConfig, Task, fingerprint, load_benchmark
from support import small_benchmark, small_ranking_benchmark
from sweep_support import SAMPLE

RANKING = small_ranking_benchmark()
FIRST, *OTHERS = RANKING.tasks
EXAMPLE = FIRST.train[0]


def with_first(**changed: object) -> Benchmark:
    return replace(RANKING, tasks=(replace(FIRST, **changed), *OTHERS))


CHANGED = {
    "a text": with_first(train=[replace(EXAMPLE, text=f"{EXAMPLE.text}!"), *FIRST.train[1:]]),
    "a label": with_first(train=[replace(EXAMPLE, label=5 - EXAMPLE.label), *FIRST.train[1:]]),
    "candidates": with_first(train=[replace(EXAMPLE, candidates=EXAMPLE.candidates[::-1]), *FIRST.train[1:]]),
    "a test text": with_first(test=[*FIRST.test[:-1], replace(FIRST.test[-1], text="")]),
    "a validation text": with_first(validation=FIRST.validation[1:]),
    "the order of examples": with_first(train=[*FIRST.train[1:], EXAMPLE]),
    "from training to validation": with_first(train=FIRST.train[:-1], validation=[FIRST.train[-1], *FIRST.validation]),
    "a pool": with_first(pool=FIRST.train),
    "an empty pool": with_first(pool=[]),
    "a task's name": with_first(name="other"),
    "the order of tasks": replace(RANKING, tasks=(*OTHERS, FIRST)),
    "the names of labels": replace(RANKING, labels=RANKING.labels[::-1]),
    "the problem": replace(RANKING, problem="classification"),
    "the stream": replace(RANKING, name="other"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_whatever_is_learned_or_tested_counts(change: str):
    assert fingerprint(CHANGED[change]) != fingerprint(RANKING)


def test_equal_data_is_the_same_wherever_it_lies(tmp_path: Path):
    assert fingerprint(small_ranking_benchmark()) == fingerprint(RANKING)
    shutil.copytree(SAMPLE, tmp_path / "moved")
    here, there = (
        fingerprint(load_benchmark(StreamConfig("fewrel", folder), lambda texts: pytest.fail("nothing to group")))
        for folder in (SAMPLE, tmp_path / "moved")
    )
    assert here == there


def test_it_is_the_same_in_every_process():
    program = "from everlearn.streams import fingerprint; import support; print(fingerprint(support.small_benchmark()))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {fingerprint(small_benchmark())}


def test_a_text_that_is_no_valid_unicode_has_one_too():
    broken = [Example("half a pair: \ud800", 0)]
    assert len(fingerprint(Benchmark("broken", ("a",), (Task("t", broken, [], broken),)))) == 64


def test_the_papers_data_takes_seconds():
    """As many texts as the paper learns from, in work and not by the clock."""
    examples = [Example(f"{number} " + "word " * 80, number % 33) for number in range(60_000)]
    tasks = tuple(Task(str(number), examples, [], []) for number in range(10))
    before = time.process_time()
    fingerprint(Benchmark("large", ("a",), tasks))
    assert time.process_time() - before < 10
