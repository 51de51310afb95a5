"""The clock of the speed benchmark: when an arm is warm, and how much it does in each of a few windows of time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from machine import wait

LONGEST_WARM_UP = 90.0
"""Seconds after which an arm is measured though it is still recording."""

Work = Callable[[], int]
"""Does a piece of work and says how much it was."""
Count = Callable[[], int]


def nothing() -> int:
    """A count of what does not occur."""
    return 0


@dataclass(frozen=True)
class Clock:
    """Measures work on one device."""

    device: torch.device
    seconds: float
    """How long a window is."""
    warm_up: float
    """An arm is warm when it recorded nothing for so many seconds."""
    windows: int

    def measure(
        self, work: Work, begun: float, warm_up: float, recorded: Count = nothing, replays: Count = nothing
    ) -> dict[str, Any]:
        """Examples a second once everything is warm, what getting warm cost, and the replays among what was timed."""
        warm, known = self.until_warm(work, warm_up, recorded)
        warmed, before = time.perf_counter(), replays()
        rates = self.rates(work)
        rate = median(rates)
        return {
            "examples_per_second": rate,
            "windows": rates,
            "replays": replays() - before,
            "start_up_seconds": max(0.0, warmed - begun - warm / rate),
            "shapes_recorded": known,
            "peak_bytes": torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None,
        }

    def until_warm(self, work: Work, warm_up: float, recorded: Count) -> tuple[int, int]:
        """Work until nothing was recorded for `warm_up` seconds; how much that was, and how many recordings.

        Each shape is recorded when it comes again, and until the last one was, the rate is that of recording.
        """
        warm, known = 0, recorded()
        begun = since = time.perf_counter()
        while (now := time.perf_counter()) - since < warm_up and now - begun < LONGEST_WARM_UP:
            warm += work()
            if recorded() > known:
                known, since = recorded(), time.perf_counter()
        wait(self.device)
        return warm, known

    def rates(self, work: Work) -> list[float]:
        """How much is done a second, window by window."""
        return [self.rate(work) for _ in range(self.windows)]

    def rate(self, work: Work) -> float:
        """How much is done a second in one window."""
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            done += work()
        wait(self.device)
        return done / (time.perf_counter() - start)
