"""One run, as a worker of any engine carries it out: go on where it stood, and keep what is worth keeping."""

import shutil
import threading
from functools import lru_cache
from pathlib import Path

import torch

from everlearn.config import Config
from everlearn.progress import Screen
from everlearn.run import run
from everlearn.streams import Benchmark
from everlearn.sweep.events import Job
from everlearn.sweep.reading import Reading


def carry_out(job: Job, screen: Screen, alone: bool = True) -> None:
    """Run a job in its folder, from its newest checkpoint on; `alone` unless others go on in this process meanwhile."""
    torch.set_num_threads(job.threads)
    config = Config.build(job.settings)
    folder = Path(job.folder)
    benchmark = _benchmark(Reading.of(config))
    run(config, folder, resume=True, screen=screen, benchmark=benchmark, alone=alone, at_once=job.at_once)
    # Hundreds of finished runs need no checkpoints, each as large as three copies of the encoder.
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


_READING = threading.Lock()
"""Runs that start together wait for the one that reads, instead of reading the same."""


def _benchmark(reading: Reading) -> Benchmark:
    with _READING:
        return _read(reading)


@lru_cache(maxsize=2)
def _read(reading: Reading) -> Benchmark:
    return reading.benchmark()
