"""What a person sees while a run is under way: a bar on a terminal, plain lines elsewhere. Always on stderr."""

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 15.0


class Screen:
    """Shows progress, examples per second, loss and the time left; `quiet` shows only notices."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.quiet = quiet

    def say(self, text: str) -> None:
        """A line for the user."""
        self.console.print(text, markup=False, soft_wrap=True)

    def say_all(self, texts: Iterable[str]) -> None:
        """A line for each text."""
        for text in texts:
            self.say(text)

    def track(self, title: str, total: int | None, done: int) -> "Tracker":
        """Follow a run of `total` examples (None: nobody knows how many), `done` of which are behind it."""
        return Tracker(self, title, total, done, bar=self.console.is_terminal and not self.quiet, mute=self.quiet)


class Tracker:
    """Progress of one run; a context manager."""

    def __init__(self, screen: Screen, title: str, total: int | None, done: int, bar: bool, mute: bool) -> None:
        self._screen = screen
        self._title = title
        self._total = total
        self._first = done
        self._started = self._spoke = time.monotonic()
        self._mute = mute
        self._loss = "–"
        self._progress = (
            Progress(
                TextColumn("{task.description:<10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]} examples/s  loss {task.fields[loss]}"),
                TimeRemainingColumn(),
                console=screen.console,
                transient=True,
            )
            if bar
            else None
        )
        if self._progress:
            self._task = self._progress.add_task(title, total=total, completed=done, rate="–", loss="–")

    def __enter__(self) -> "Tracker":
        if self._progress:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress:
            self._progress.stop()

    def advance(self, done: int, loss: float | None) -> None:
        """`done` examples are behind it now."""
        self._loss = self._loss if loss is None else f"{loss:.3f}"
        now = time.monotonic()
        rate = (done - self._first) / max(now - self._started, 1e-9)
        if self._progress:
            self._progress.update(self._task, completed=done, rate=f"{rate:,.0f}", loss=self._loss)
        elif not self._mute and now - self._spoke >= SECONDS_BETWEEN_LINES:
            self._spoke = now
            of, left = "", ""
            if self._total is not None:
                of, left = f" of {self._total:,}", f", about {(self._total - done) / max(rate, 1e-9):,.0f} s left"
            self._screen.say(f"{self._title}: {done:,}{of} examples, {rate:,.0f} examples/s, loss {self._loss}{left}")
