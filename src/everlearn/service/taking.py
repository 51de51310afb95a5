"""Takes examples: no more than may wait, with labels of one kind, each on the disk before it is acknowledged."""

import asyncio
import math
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from everlearn.classifier import Label
from everlearn.classifier.journal import JournalFullError
from everlearn.service.learning import Learning


class Taking:
    """Takes one request after another, so that two that come at once are measured against each other."""

    def __init__(self, learning: Learning, most_waiting: int) -> None:
        self._learning, self._most_waiting = learning, most_waiting
        self._turn = asyncio.Lock()
        waiting = learning.journal.read(learning.position, 1)
        self._kind = learning.classifier.label_kind or (type(waiting[0].label) if waiting else None)
        """Labels are all texts or all numbers; the first example that is taken decides, and the model's before it."""

    async def take(self, pairs: Sequence[tuple[str, Label]]) -> list[int]:
        """Write examples down, all or none; their numbers, once they are on the disk."""
        if len(pairs) > self._most_waiting:  # to come back later would not help
            raise HTTPException(413, f"no more than {self._most_waiting:,} examples may wait: send fewer at a time.")
        async with self._turn:
            self._check_room(len(pairs))
            kind = self._kind_with(pairs)
            try:
                ids = await run_in_threadpool(self._learning.journal.append, pairs)
            except JournalFullError as error:
                raise HTTPException(
                    507, f"nothing can be written down ({error}), so nothing was taken: make room on the disk."
                ) from error
            self._kind = kind
        self._learning.wake()
        return ids

    def _check_room(self, more: int) -> None:
        learning = self._learning
        if learning.failure:
            raise HTTPException(503, f"nothing more is learned ({learning.failure}): see the service's log.")
        if learning.backlog + more > self._most_waiting:
            seconds = math.ceil(min(60, max(1, learning.backlog / 2 / max(learning.rate, 1))))
            said = f"{learning.backlog:,} examples are waiting to be learned: try again."
            raise HTTPException(429, said, {"Retry-After": str(seconds)})

    def _kind_with(self, pairs: Sequence[tuple[str, Label]]) -> type:
        kinds = {type(label) for _, label in pairs} | ({self._kind} if self._kind else set())
        if len(kinds) > 1:
            raise HTTPException(422, "labels have to be all texts or all whole numbers, as in the model.")
        (kind,) = kinds
        return kind
