"""Rows that a thread reads ahead, so that waiting for a pipe can be broken off and what came can be saved meanwhile."""

import threading
from collections.abc import Callable, Iterable
from queue import Empty, Queue
from typing import Generic, TypeVar

AHEAD = 128
"""Rows that are read ahead at most."""
POLL_SECONDS = 0.1
"""Seconds between two looks at whether to stop."""

T = TypeVar("T")


class Arriving(Generic[T]):
    """Hands out rows as they come.

    >>> rows = Arriving(iter("abc"), stopped=lambda: False)
    >>> rows.take(2), rows.take(2), rows.ended
    (['a', 'b'], ['c'], True)
    """

    def __init__(self, rows: Iterable[T], stopped: Callable[[], bool]) -> None:
        self.ended = False
        """Whether all rows have been handed out."""
        self._stopped = stopped
        self._error: BaseException | None = None
        self._queue: Queue[list[T] | BaseException] = Queue(AHEAD)
        # A daemon: it may be waiting for a pipe that nobody writes to any more.
        threading.Thread(target=self._read, args=(rows,), daemon=True).start()

    def take(self, most: int, patience: float = float("inf")) -> list[T]:
        """The next rows; fewer than `most` at the end, when told to stop, or when none comes for so many seconds.

        What goes wrong while reading is raised when everything before it has been handed out.
        """
        taken: list[T] = []
        waited = 0.0
        if self._error:
            raise self._error
        while len(taken) < most and not self.ended and waited < patience:
            try:
                found = self._queue.get(timeout=POLL_SECONDS)
            except Empty:
                waited += POLL_SECONDS
                if self._stopped():
                    break
                continue
            waited = 0.0
            if isinstance(found, BaseException):
                self._error = found
                if taken:
                    break
                raise found
            taken += found
            self.ended = not found
        return taken

    def _read(self, rows: Iterable[T]) -> None:
        try:
            for row in rows:
                self._queue.put([row])
            self._queue.put([])
        except BaseException as error:  # is raised where the rows are taken
            self._queue.put(error)
