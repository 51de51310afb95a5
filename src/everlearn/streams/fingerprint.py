"""Which data a benchmark holds, in 64 characters: results of other data must not pass for results of this."""

import hashlib
import json
from typing import Any

from everlearn.streams.base import Benchmark


def fingerprint(benchmark: Benchmark) -> str:
    """SHA-256 of all that is learned and tested: names, texts, labels and candidates, in their order.

    Where the data lies has no part in it, nor has how it is gone through.

    >>> from everlearn.examples import Example
    >>> from everlearn.streams.base import Task
    >>> examples = [Example("a", 0), Example("b", 1)]
    >>> one, other = (Benchmark("x", ("A", "B"), (Task("t", part, [], examples),)) for part in (examples, examples[:1]))
    >>> len(fingerprint(one)), fingerprint(one) == fingerprint(other)
    (64, False)
    """
    digest = hashlib.sha256(_encoded([benchmark.name, benchmark.problem, benchmark.labels]))
    for task in benchmark.tasks:
        for part in (task.train, task.validation, task.test, task.pool):
            # With its length: what ends one part must not pass for what begins the next.
            digest.update(_encoded([task.name, None if part is None else len(part)]))
            for example in part or ():
                digest.update(_encoded([example.text, example.label, example.candidates]))
    return digest.hexdigest()


def _encoded(values: list[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
