"""Predictions: requests that wait at the same time are answered together, in one thread, with one snapshot."""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from everlearn.classifier import Snapshot

TEXTS_AT_ONCE = 64
"""Most texts of several requests that go through the encoder together."""
MOST_WAITING = 512
"""Requests that may wait; one more is told to come back later."""
RANKED = 5
"""Labels listed for each text."""

Answer = list[dict[str, Any]]


class BusyError(Exception):
    """Too many requests are waiting."""


class NothingLearnedError(Exception):
    """There is no label to predict yet."""


@dataclass(frozen=True)
class _Request:
    texts: Sequence[str]
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Answer]"

    def resolve(self, answer: Answer | Exception) -> None:
        def settle() -> None:
            if self.answer.done():  # the client has gone
                return
            if isinstance(answer, Exception):
                self.answer.set_exception(answer)
            else:
                self.answer.set_result(answer)

        self.loop.call_soon_threadsafe(settle)


class Predicting(threading.Thread):
    """Collects what is waiting and answers it."""

    def __init__(self, snapshot: Callable[[], Snapshot | None]) -> None:
        super().__init__(name="predicting", daemon=True)
        self._snapshot = snapshot
        self._waiting: queue.Queue[_Request | None] = queue.Queue(MOST_WAITING)

    async def predict(self, texts: Sequence[str]) -> Answer:
        """The answer for each text, when its turn has come."""
        loop = asyncio.get_running_loop()
        request = _Request(texts, loop, loop.create_future())
        try:
            self._waiting.put_nowait(request)
        except queue.Full as error:
            raise BusyError from error
        return await request.answer

    def stop(self) -> None:
        """Answer what is waiting, and end."""
        self._waiting.put(None)

    def run(self) -> None:
        """Answer until told to stop."""
        while (first := self._waiting.get()) is not None:
            requests = [first, *self._more(TEXTS_AT_ONCE - len(first.texts))]
            try:
                answers = self._answer([text for request in requests for text in request.texts])
            except Exception as error:
                for request in requests:
                    request.resolve(error)
                continue
            for request in requests:
                request.resolve(answers[: len(request.texts)])
                answers = answers[len(request.texts) :]

    def _more(self, room: int) -> list[_Request]:
        requests: list[_Request] = []
        while room > 0:
            try:
                request = self._waiting.get_nowait()
            except queue.Empty:
                break
            if request is None:
                self._waiting.put(None)
                break
            requests.append(request)
            room -= len(request.texts)
        return requests

    def _answer(self, texts: Sequence[str]) -> Answer:
        snapshot = self._snapshot()
        if snapshot is None:
            raise NothingLearnedError
        rankings = [list(map(asdict, ranked)) for ranked in snapshot.ranked(texts, RANKED)]
        return [{**ranking[0], "ranking": ranking} for ranking in rankings]
