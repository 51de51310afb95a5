"""One run, as a worker of any engine carries it out: go on where it stood, and keep what is worth keeping."""

import shutil
import threading
from functools import lru_cache
from pathlib import Path

import torch

from everlearn.config import Config
from everlearn.experiment import benchmark_for
from everlearn.progress import Screen
from everlearn.run import run
from everlearn.streams import Benchmark
from everlearn.sweep.events import Job


def carry_out(job: Job, screen: Screen, alone: bool = True) -> None:
    """Run a job in its folder, from its newest checkpoint on; `alone` unless others go on in this process meanwhile."""
    torch.set_num_threads(job.threads)
    config = Config.build(job.settings)
    folder = Path(job.folder)
    run(config, folder, resume=True, screen=screen, benchmark=_benchmark(_Key(config)), alone=alone)
    # Hundreds of finished runs need no checkpoints, each as large as three copies of the encoder.
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


class _Key:
    """A configuration as far as its benchmark goes, so that runs of one worker share what they read."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._decides = (config.stream, config.encoder, config.run.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._decides == other._decides

    def __hash__(self) -> int:
        return hash(self._decides)


_READING = threading.Lock()
"""Runs that start together wait for the one that reads, instead of reading the same."""


def _benchmark(key: _Key) -> Benchmark:
    with _READING:
        return _read(key)


@lru_cache(maxsize=2)
def _read(key: _Key) -> Benchmark:
    return benchmark_for(key.config)
