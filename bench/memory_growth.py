"""What a read from memory costs, and how much room it takes, as it grows."""

import time
from statistics import median

import numpy as np

from everlearn.batches import Batch, Ragged
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig

ENTRIES = (1_000, 10_000, 100_000, 1_000_000)
READS = 1000
"""So many reads from a memory are timed."""


def memory_growth() -> dict[str, dict[str, float]]:
    """Median time of a read of 96 examples and bytes taken, for memories of different sizes."""
    rng = np.random.default_rng(0)
    figures = {}
    for entries in ENTRIES:
        ledger = Ledger()
        memory = Memory(MemoryConfig(), np.uint16, ledger, seed=0)
        lengths = rng.integers(20, 200, size=1000)
        tokens = Ragged(rng.integers(0, 30_000, size=int(lengths.sum())).astype(np.uint16), lengths)
        batch = Batch(tokens, Ragged.from_rows([[number % 33] for number in range(1000)]))
        for _ in range(entries // 1000):
            memory.write(batch)
        seconds = []
        for _ in range(READS):
            start = time.perf_counter()
            memory.read(96)
            seconds.append(time.perf_counter() - start)
        figures[str(entries)] = {"read_milliseconds": 1000 * median(seconds), "bytes": ledger.memory_bytes}
    return figures
