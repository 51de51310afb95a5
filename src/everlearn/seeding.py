"""Every random choice has an owner: one generator per part, drawn from one seed and the part's name."""

import zlib
from typing import Any

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator that the part called `name` owns in a run with this seed.

    >>> a, b = generator(1, "memory"), generator(1, "memory")
    >>> bool((a.random(3) == b.random(3)).all())
    True
    >>> bool((generator(1, "stream").random(3) == generator(1, "memory").random(3)).any())
    False
    """
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """What has to be saved to go on drawing the same numbers (plain JSON values)."""
    return dict(generator.bit_generator.state)


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Make `generator` go on where the saved one stood."""
    generator.bit_generator.state = state
