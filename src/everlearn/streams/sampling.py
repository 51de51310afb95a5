"""Which rows of a data set are used, and for what: drawn with a seed of the data's own, the same in every run."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from everlearn.errors import UserError
from everlearn.seeding import generator
from everlearn.streams.base import StreamConfig

# The paper's code draws with this seed; the run's own seed must not change what the data are.
DATA_SEED = 42

T = TypeVar("T")


def data_generator(name: str) -> np.random.Generator:
    """The generator that draws the rows of the data called `name`."""
    return generator(DATA_SEED, name)


def check_sizes(config: StreamConfig) -> None:
    """Refuse sizes that no data could meet. An empty validation set is allowed, the other two are not."""
    for option, size, least in (
        ("--train-size", config.train_size, 1),
        ("--val-size", config.val_size, 0),
        ("--test-size", config.test_size, 1),
    ):
        if size is not None and size < least:
            raise UserError(f"{option} is {size}: give at least {least}.")


def sample(rows: Iterable[T], size: int, generator: np.random.Generator) -> tuple[list[T], int]:
    """`size` rows drawn uniformly in one pass (all, where there are fewer), in random order, and how many there were.

    >>> drawn, there = sample(iter(range(1000)), 3, data_generator("doctest"))
    >>> len(set(drawn)), there
    (3, 1000)
    """
    kept: list[T] = []
    seen = 0
    for row in rows:
        if seen < size:
            kept.append(row)
        # Row number n belongs to the sample with probability size / n, and then replaces any row drawn so far.
        elif (place := int(generator.random() * (seen + 1))) < size:
            kept[place] = row
        seen += 1
    return [kept[place] for place in generator.permutation(len(kept))], seen
