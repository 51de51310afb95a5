"""The stream itself: examples in mini-batches, once, with a cursor that can be saved."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from everlearn.batches import Integers
from everlearn.examples import Example
from everlearn.seeding import generator
from everlearn.streams.base import Benchmark


class Stream(Iterator[list[Example]]):
    """Hands out each batch once. There is no way to ask for it again, and nothing in it says where a task ends.

    >>> examples = [Example(text, 0) for text in "abc"]
    >>> stream = Stream(examples, order=[2, 0, 1], batch_size=2)
    >>> ["".join(e.text for e in batch) for batch in stream], list(stream)
    (['ca', 'b'], [])
    """

    def __init__(self, examples: Sequence[Example], order: Sequence[int] | Integers, batch_size: int) -> None:
        self._examples = examples
        self._order = np.asarray(order, dtype=np.int64)
        self._batch_size = batch_size
        self._cursor = 0

    @property
    def cursor(self) -> int:
        """How many examples have been handed out."""
        return self._cursor

    @property
    def length(self) -> int:
        """How many examples there are in all."""
        return len(self._order)

    @property
    def ended(self) -> bool:
        """Whether every example has been handed out."""
        return self._cursor >= self.length

    def skip_to(self, cursor: int) -> None:
        """Go on where a saved run stood. Only forward: what has been seen stays seen."""
        if cursor < self._cursor:
            raise ValueError("a stream does not go back")
        self._cursor = cursor

    def __next__(self) -> list[Example]:
        if self.ended:
            raise StopIteration
        chosen = self._order[self._cursor : self._cursor + self._batch_size]
        self._cursor += len(chosen)
        return [self._examples[i] for i in chosen]


def one_pass(benchmark: Benchmark, batch_size: int, seed: int) -> Stream:
    """Task after task, shuffled within each task. A batch may hold the end of one task and the start of the next."""
    rng = generator(seed, "stream")
    order, start = [], 0
    for task in benchmark.tasks:
        count = len(task.train)
        order.append(start + (rng.permutation(count) if benchmark.shuffle else np.arange(count)))
        start += count
    examples = [example for task in benchmark.tasks for example in task.train]
    return Stream(examples, np.concatenate(order), batch_size)


def pooled(benchmark: Benchmark, batch_size: int, seed: int, epochs: int) -> Stream:
    """All tasks shuffled together, several times over: for methods that are not lifelong."""
    rng = generator(seed, "stream")
    pool = [example for task in benchmark.tasks for example in task.pool or task.train]
    return Stream(pool, np.concatenate([rng.permutation(len(pool)) for _ in range(epochs)]), batch_size)


def task_ends(benchmark: Benchmark) -> list[int]:
    """How many examples have passed when each task ends. For the evaluation; no method is told."""
    return list(itertools.accumulate(len(task.train) for task in benchmark.tasks))
