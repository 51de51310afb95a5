"""The bodies of requests: how large one may be, how long it may take, and how much memory all of them may hold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from everlearn.service.connection import client_gone
from everlearn.service.schemas import LARGEST_BODY

MOST_HELD = 64 * 1024 * 1024
"""Bytes of all requests that are being read or answered."""
LONGEST_READ = 60.0
"""Seconds that a body may take to arrive."""


def too_large() -> HTTPException:
    """The refusal of a body that is larger than allowed."""
    return HTTPException(413, f"the request is larger than {LARGEST_BODY:,} bytes: send less at a time.")


class Bodies:
    """Reads bodies within these limits."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of bodies in memory."""

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[Receive]:
        """A body read whole, to be received again; it counts as held until this is left."""
        parts: list[bytes] = []
        try:
            try:
                async with asyncio.timeout(LONGEST_READ):
                    await self._take(receive, parts)
            except TimeoutError as error:
                raise HTTPException(408, f"the body took longer than {LONGEST_READ:.0f} seconds.") from error
            yield _again(b"".join(parts), receive)
        finally:
            self.held -= sum(map(len, parts))

    async def _take(self, receive: Receive, parts: list[bytes]) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise client_gone()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self.held += len(parts[-1])
            if size > LARGEST_BODY:  # whatever its length was said to be
                raise too_large()
            if self.held > MOST_HELD:
                raise HTTPException(429, "too many large requests at a time: try again.", {"Retry-After": "1"})
            more = message.get("more_body", False)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def take() -> Message:
        return waiting.pop() if waiting else await receive()

    return take
