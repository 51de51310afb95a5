"""How much of a run is done: told by the process that carries it out, instead of shown there."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from everlearn.progress import Screen, Tracker

SECONDS_BETWEEN_SHARES = 0.5


class ShareScreen(Screen):
    """Tells the share of a run that is done; lines for the user go to the log of the process."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        super().__init__(quiet=True)
        self._tell = tell

    def say(self, text: str) -> None:
        """A line for the log."""
        print(text, file=sys.stderr, flush=True)

    def track(self, title: str, total: int | None, done: int) -> Tracker:
        """Follow a run."""
        return ShareTracker(self._tell, total)


class ShareTracker(Tracker):
    """Tells how much is done, not more often than anybody could look."""

    def __init__(self, tell: Callable[[float], None], total: int | None) -> None:
        self._tell, self._total, self._told = tell, total, 0.0

    def __enter__(self) -> "ShareTracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def advance(self, done: int, loss: float | None) -> None:
        """`done` examples are behind the run now."""
        if self._total and time.monotonic() - self._told >= SECONDS_BETWEEN_SHARES:
            self._told = time.monotonic()
            self._tell(done / self._total)


class Shares:
    """What runs in many processes have told since somebody last looked.

    >>> shares = Shares()
    >>> shares.note("seq", 0.2); shares.note("seq", 0.4)
    >>> shares.take(), shares.take()
    ({'seq': 0.4}, {})
    """

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def note(self, name: str, share: float) -> None:
        """So much of a run is done."""
        self._shares[name] = share

    def take(self) -> dict[str, float]:
        """The newest share of each run that has got on."""
        taken, self._shares = self._shares, {}
        return taken
