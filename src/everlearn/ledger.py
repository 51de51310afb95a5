"""What a run cost. Each part counts its own work here, so no method can forget to report."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Meter:
    """Counters of one kind of work: learning, following the run, or testing."""

    stream_examples: int = 0
    memory_writes: int = 0
    memory_reads: int = 0
    replays: int = 0
    replays_skipped: int = 0
    examples_generated: int = 0
    tokens_forward: int = 0
    tokens_backward: int = 0
    optimiser_steps: int = 0
    inner_steps: int = 0
    peak_device_bytes: int = 0
    seconds: float = field(default=0.0, compare=False)
    phases: dict[str, float] = field(default_factory=dict, compare=False)
    """How many of the seconds went into what."""

    def __post_init__(self) -> None:
        self.settle: Callable[[], None] = _nothing
        """Called at the end of a phase. Work on a GPU goes on behind the clock's back, unless this waits for it."""

    def take(self, other: "Meter") -> None:
        """Add what another meter has counted; that one starts again from nothing."""
        nothing = Meter()
        for name in (counter.name for counter in fields(Meter)):
            own, more = getattr(self, name), getattr(other, name)
            if name == "phases":
                own.update({phase: own.get(phase, 0.0) + spent for phase, spent in more.items()})
            else:
                setattr(self, name, max(own, more) if name == "peak_device_bytes" else own + more)
            setattr(other, name, getattr(nothing, name))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time spent inside to `seconds`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to the phase of this name; phases do not contain one another."""
        start = time.perf_counter()
        try:
            yield
            self.settle()
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start


def _nothing() -> None:
    """There is nothing to wait for."""


@dataclass
class Ledger:
    """The meters of a run and what it holds at the end.

    >>> ledger = Ledger()
    >>> ledger.train.stream_examples, ledger.train.memory_reads = 9600, 96
    >>> ledger.replay_rate
    0.01
    """

    train: Meter = field(default_factory=Meter)
    watch: Meter = field(default_factory=Meter)
    """Evaluations on the way, which follow the run: how many there are is the experimenter's choice."""
    test: Meter = field(default_factory=Meter)
    """The evaluation at the end: what it takes to predict the test set once."""
    memory_entries: int = 0
    memory_bytes: int = 0
    method_bytes: int = 0
    """What the method holds in the end beside the memory's examples, its network and the optimiser."""
    parameters_trained: int = 0

    @property
    def replay_rate(self) -> float:
        """Examples read from memory while learning, per example of the stream: the rate really used."""
        return self.train.memory_reads / self.train.stream_examples if self.train.stream_examples else 0.0

    @property
    def peak_device_bytes(self) -> int:
        """The most memory that was taken on the device, learning or testing."""
        return max(meter.peak_device_bytes for meter in (self.train, self.watch, self.test))

    def as_dict(self) -> dict[str, Any]:
        """Everything, for `ledger.json` and the tables."""
        return {**asdict(self), "replay_rate": self.replay_rate, "peak_device_bytes": self.peak_device_bytes}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting from a saved ledger, in place: other parts hold on to these meters."""
        for meter in ("train", "watch", "test"):
            vars(getattr(self, meter)).update(state[meter])
        for name in ("memory_entries", "memory_bytes", "method_bytes", "parameters_trained"):
            setattr(self, name, state[name])
