"""Where examples come from: benchmarks, their orders, any file, and the stream that is embedded."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from everlearn.errors import unknown
from everlearn.streams import docstrings, fewrel, file, tables, textcls
from everlearn.streams.base import Benchmark, Embed, StreamConfig, Task
from everlearn.streams.fingerprint import fingerprint
from everlearn.streams.stream import Stream, one_pass, pooled, task_ends


@dataclass(frozen=True)
class KnownStream:
    """A stream that can be asked for by name."""

    description: str
    load: Callable[[StreamConfig, Embed], Benchmark]
    orders: Collection[str]
    """The names of its orders; others are lists of tasks."""
    tasks: Collection[str] = ()
    """The names of its tasks, where they are known before anything is read."""
    needs_data: bool = True
    check_files: Callable[[StreamConfig], None] = lambda config: None
    """Refuses data that is not there, without reading it."""
    problem: str = "text classification"
    """What is learned on it, for readers."""


STREAMS = {
    "docstrings": KnownStream(
        docstrings.DESCRIPTION,
        lambda config, _: docstrings.load(config),
        docstrings.ORDERS,
        tasks=docstrings.ORDERS["1"],
        needs_data=False,
    ),
    "textcls": KnownStream(
        textcls.DESCRIPTION,
        lambda config, _: textcls.load(config),
        textcls.ORDERS,
        tasks=tuple(textcls.SETS),
        check_files=textcls.check_files,
    ),
    "fewrel": KnownStream(
        fewrel.DESCRIPTION,
        fewrel.load,
        fewrel.ORDERS,
        check_files=fewrel.check_files,
        problem="relation extraction",
    ),
    "file": KnownStream(file.DESCRIPTION, lambda config, _: file.load(config), ("1",)),
}


def load_benchmark(config: StreamConfig, embed: Embed) -> Benchmark:
    """The benchmark that the configuration names; `embed` gives vectors to a stream that has to group its labels."""
    if config.stream not in STREAMS:
        raise unknown("stream", config.stream, STREAMS)
    return STREAMS[config.stream].load(config, embed)


def benchmark_name(stream: str, data: Path | None) -> str:
    """What the benchmark of a stream is called, without reading it.

    >>> benchmark_name("fewrel", Path("data/fewrel")), benchmark_name("file", Path("data/tickets.csv.gz"))
    ('fewrel', 'tickets')
    """
    return tables.stem(data) if stream == "file" and data else stream


__all__ = [
    "STREAMS",
    "Benchmark",
    "Embed",
    "KnownStream",
    "Stream",
    "StreamConfig",
    "Task",
    "benchmark_name",
    "fingerprint",
    "load_benchmark",
    "one_pass",
    "pooled",
    "task_ends",
]
