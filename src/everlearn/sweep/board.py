"""What a person sees while a sweep is under way: which runs have ended, how, and how much time is left."""

import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import fmean
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from everlearn.progress import Screen
from everlearn.report.table import duration
from everlearn.sweep.events import Event, Job

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_TICKS = 1.0
ENOUGH_TO_GUESS = 0.1
"""The share of a run after which its own pace says how long it will take: its start is slower than the rest."""


class Forecast:
    """The time left, from how long runs of the same kind took.

    >>> forecast = Forecast(at_once=2)
    >>> forecast.left(["slow"], [("slow", 0.01, 3.0, 0.0)]) is None
    True
    >>> forecast.ended("slow", 60.0); forecast.ended("fast", 20.0)
    >>> forecast.left(["slow", "fast", "new"], [])
    60.0
    >>> forecast.left([], [("new", 0.5, 30.0, 0.0), ("slow", 0.5, 50.0, 0.0)])
    30.0
    >>> forecast.left([], [("new", 0.5, 30.0, 10.0)])
    20.0
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._seconds: dict[str, list[float]] = {}

    def ended(self, kind: str, seconds: float) -> None:
        """A run of this kind took so long."""
        self._seconds.setdefault(kind, []).append(seconds)

    def left(self, waiting: Iterable[str], active: Iterable[tuple[str, float, float, float]]) -> float | None:
        """Seconds until everything is done.

        `active` holds, of each run under way, its kind, the share that was done when it was last heard of, the seconds
        it had taken for that, and those that have gone by since.
        """
        active = list(active)
        guesses = [elapsed / share for _, share, elapsed, _ in active if share > ENOUGH_TO_GUESS]
        known = [seconds for kind in self._seconds.values() for seconds in kind] or guesses
        if not known:
            return None

        def expected(kind: str) -> float:
            return fmean(self._seconds.get(kind, known))

        rest = []
        for kind, share, elapsed, since in active:
            own_pace = kind not in self._seconds and share > ENOUGH_TO_GUESS
            rest.append(max(0.0, (1 - share) * (elapsed / share if own_pace else expected(kind)) - since))
        return max([sum([*map(expected, waiting), *rest]) / self._at_once, *rest])


@dataclass(frozen=True)
class Active:
    """A run under way, as it was last heard of."""

    job: Job
    share: float
    started: float
    heard: float


class Board(AbstractContextManager["Board"]):
    """A bar on a terminal, plain lines elsewhere; a thread of its own keeps the time left going."""

    def __init__(self, screen: Screen, jobs: Iterable[Job], done: int, at_once: int) -> None:
        self._screen = screen
        self._waiting = {job.name: job for job in jobs}
        self._active: dict[str, Active] = {}
        self._done, self._total = done, done + len(self._waiting)
        self._forecast = Forecast(at_once)
        self._spoke = time.monotonic()
        self._one_at_a_time = threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)
        self._bar: Progress | None = None
        if screen.console.is_terminal:
            self._bar = Progress(
                TextColumn("runs"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[now]}"),
                console=screen.console,
                transient=True,
            )
            self._task = self._bar.add_task("runs", total=self._total, completed=done, now="")

    def __enter__(self) -> "Board":
        if self._bar:
            self._bar.start()
        self._clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._clock.join()
        if self._bar:
            self._bar.stop()

    def show(self, event: Event, outcome: str = "") -> None:
        """Take note of an event, and say what is worth saying; `outcome` is what an ended run reached."""
        with self._one_at_a_time:
            self._note(event, outcome)
            self._refresh()

    def _tick(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_TICKS):
            with self._one_at_a_time:
                self._refresh()

    def _note(self, event: Event, outcome: str) -> None:
        job, now = event.job, time.monotonic()
        if event.kind == "started":
            self._waiting.pop(job.name, None)
            self._active[job.name] = Active(job, 0.0, now, now)
        elif event.kind == "advanced" and job.name in self._active:
            self._active[job.name] = replace(self._active[job.name], share=event.share, heard=now)
        elif event.kind == "retried":
            self._active.pop(job.name, None)
            self._waiting[job.name] = job
            self._screen.say(f"{job.label}: the worker died ({event.text}); trying again from its last checkpoint")
        elif event.kind in ("ended", "failed"):
            took = now - self._active.pop(job.name, Active(job, 0.0, now, now)).started
            self._waiting.pop(job.name, None)
            self._done += 1
            if event.kind == "ended":
                self._forecast.ended(job.kind, took)
            told = f"{outcome} in {duration(took)}" if event.kind == "ended" else f"failed: {event.text}"
            self._screen.say(f"[{self._done}/{self._total}] {job.label}: {told}{self._left(now)}")
            self._spoke = now

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self._done, now=self._under_way() + self._left(now))
        elif now - self._spoke > SECONDS_BETWEEN_LINES:
            self._spoke = now
            self._screen.say(f"[{self._done}/{self._total}] {self._under_way()}{self._left(now)}")

    def _under_way(self) -> str:
        return "; ".join(f"{run.job.label}: {run.share:.0%}" for run in self._active.values())

    def _left(self, now: float) -> str:
        active = [(run.job.kind, run.share, run.heard - run.started, now - run.heard) for run in self._active.values()]
        left = self._forecast.left((job.kind for job in self._waiting.values()), active)
        return f"; about {duration(left)} left" if left is not None and (self._waiting or self._active) else ""
