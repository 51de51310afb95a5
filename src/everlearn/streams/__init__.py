"""Where examples come from: benchmarks, their orders, any file, and the stream that is embedded."""

from collections.abc import Callable
from dataclasses import dataclass

from everlearn.errors import unknown
from everlearn.streams import docstrings, file, textcls
from everlearn.streams.base import Benchmark, StreamConfig, Task
from everlearn.streams.stream import Stream, one_pass, pooled, task_ends


@dataclass(frozen=True)
class KnownStream:
    """A stream that can be asked for by name."""

    description: str
    load: Callable[[StreamConfig], Benchmark]


STREAMS = {
    "docstrings": KnownStream(docstrings.DESCRIPTION, docstrings.load),
    "textcls": KnownStream(textcls.DESCRIPTION, textcls.load),
    "file": KnownStream(file.DESCRIPTION, file.load),
}


def load_benchmark(config: StreamConfig) -> Benchmark:
    """The benchmark that the configuration names."""
    if config.stream not in STREAMS:
        raise unknown("stream", config.stream, STREAMS)
    return STREAMS[config.stream].load(config)


__all__ = [
    "STREAMS",
    "Benchmark",
    "KnownStream",
    "Stream",
    "StreamConfig",
    "Task",
    "load_benchmark",
    "one_pass",
    "pooled",
    "task_ends",
]
