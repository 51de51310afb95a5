"""Predictions: what waits at the same time is answered together, in slices, so that nobody waits for one large request.

One thread takes slices in turn. All slices of a request are answered with the snapshot of its first one, so that its
answer is of one moment; a request whose client has gone is dropped with what is left of it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from everlearn.classifier import Snapshot

TEXTS_AT_ONCE = 64
"""Most texts that go through the encoder together."""
CHARACTERS_AT_ONCE = 100_000
"""Most characters of them: reading the longest texts that are allowed takes longer than encoding 64 short ones."""
MOST_TEXTS_WAITING = 4_096
"""Texts that may wait; who brings more is told to come back later."""
RANKED = 5
"""Labels listed for each text."""

Answer = list[dict[str, Any]]


class BusyError(Exception):
    """Too much is waiting."""


class NothingLearnedError(Exception):
    """There is no label to predict yet."""


@dataclass(eq=False)
class _Request:
    texts: Sequence[str]
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Answer]"
    snapshot: Snapshot | None = None
    """What it is answered with, from its first slice on."""
    done: Answer = field(default_factory=list)

    @property
    def left(self) -> int:
        return len(self.texts) - len(self.done)

    def slice(self, texts: int, characters: int) -> list[str]:
        """The next texts, as many as these bounds allow; the last one may be longer, so that there is always one."""
        taken: list[str] = []
        for text in self.texts[len(self.done) : len(self.done) + texts]:
            if characters <= 0:
                break
            taken.append(text)
            characters -= len(text)
        return taken

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
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False

    async def predict(self, texts: Sequence[str]) -> Answer:
        """The answer for each text, when its turn has come. Cancelled, it makes room for others at once."""
        loop = asyncio.get_running_loop()
        request = _Request(texts, loop, loop.create_future())
        with self._changed:
            if sum(other.left for other in self._waiting) + len(texts) > MOST_TEXTS_WAITING:
                raise BusyError
            self._waiting.append(request)
            self._changed.notify()
        try:
            return await request.answer
        except asyncio.CancelledError:
            with self._changed:
                if request in self._waiting:
                    self._waiting.remove(request)
            raise

    def stop(self) -> None:
        """Answer what is waiting, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        """Answer until told to stop."""
        while slices := self._next():
            try:
                answers = self._answer(slices)
            except Exception as error:
                for request, _ in slices:
                    request.resolve(error)
                continue
            for request, texts in slices:
                request.done += answers[: len(texts)]
                answers = answers[len(texts) :]
                if request.left:
                    self._again(request)
                else:
                    request.resolve(request.done)

    def _next(self) -> list[tuple[_Request, list[str]]]:
        """What goes through the encoder next: the first in turn, and what fits beside it; nothing at the end."""
        with self._changed:
            self._changed.wait_for(self._ready)
            if not self._waiting:
                return []
            snapshot = self._waiting[0].snapshot or self._snapshot()
            slices: list[tuple[_Request, list[str]]] = []
            texts, characters = TEXTS_AT_ONCE, CHARACTERS_AT_ONCE
            while self._waiting and texts > 0 and characters > 0:
                request = self._waiting[0]
                if request.snapshot is not None and request.snapshot is not snapshot:
                    break
                self._waiting.popleft()
                if slices and request.answer.done():
                    continue
                taken = request.slice(texts, characters)
                request.snapshot = snapshot
                slices.append((request, taken))
                texts -= len(taken)
                characters -= sum(map(len, taken))
            return slices

    def _ready(self) -> bool:
        """Whether somebody waits or it is time to end; who has just gone and not been removed yet is passed over."""
        while self._waiting and self._waiting[0].answer.done():
            self._waiting.popleft()
        return bool(self._waiting) or self._stopping

    def _again(self, request: _Request) -> None:
        with self._changed:
            if not request.answer.done():
                self._waiting.append(request)

    def _answer(self, slices: Sequence[tuple[_Request, list[str]]]) -> Answer:
        snapshot = slices[0][0].snapshot
        if snapshot is None:
            raise NothingLearnedError
        rankings = snapshot.ranked([text for _, texts in slices for text in texts], RANKED)
        listed = [list(map(asdict, ranked)) for ranked in rankings]
        return [{**ranking[0], "ranking": ranking} for ranking in listed]
