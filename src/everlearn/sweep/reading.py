"""What runs read: which of them share a benchmark, and which data it holds."""

from collections.abc import Callable
from dataclasses import dataclass

from everlearn.config import Config
from everlearn.encoders import EncoderConfig
from everlearn.experiment import benchmark_for
from everlearn.streams import Benchmark, StreamConfig, fingerprint


@dataclass(frozen=True)
class Reading:
    """All that decides about the benchmark of a run: runs in which it is equal share one."""

    stream: StreamConfig
    encoder: str
    """Where labels are grouped by meaning, it says which are alike."""

    @classmethod
    def of(cls, config: Config) -> "Reading":
        """What a run reads."""
        return cls(config.stream, config.encoder.encoder)

    def benchmark(self) -> Benchmark:
        """Read it, which may take a minute."""
        return benchmark_for(Config(stream=self.stream, encoder=EncoderConfig(encoder=self.encoder)))


class Fingerprints:
    """Of the benchmarks that runs would learn from: each is laid out once, when it is first asked for, and let go."""

    def __init__(self) -> None:
        self._known: dict[Reading, str] = {}

    def of(self, config: Config, say: Callable[[str], None]) -> str:
        """The fingerprint of what a run would learn from now."""
        reading = Reading.of(config)
        if reading not in self._known:
            where, order = config.stream.data or config.stream.stream, config.stream.order
            say(f"reading {where}, order {order}, to see whether finished runs had the same data")
            self._known[reading] = fingerprint(reading.benchmark())
        return self._known[reading]
