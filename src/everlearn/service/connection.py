"""Work for a client that may hang up: it is given up then, and not done for nobody."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

GONE = 499
"""The status that is counted for a client that has gone, as nginx does; nobody receives it."""

T = TypeVar("T")


def client_gone() -> HTTPException:
    """The end of a request that nobody waits for."""
    return HTTPException(GONE, "the client has gone.")


async def while_connected(connection: Request, work: Coroutine[Any, Any, T]) -> T:
    """What some work comes to; it is cancelled when the client hangs up."""
    doing, hanging_up = asyncio.ensure_future(work), asyncio.ensure_future(_end_of(connection))
    try:
        await asyncio.wait((doing, hanging_up), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise client_gone()
        return doing.result()
    finally:
        doing.cancel()
        hanging_up.cancel()


async def _end_of(connection: Request) -> None:
    """Until the client hangs up; its request has been read already."""
    while (await connection.receive())["type"] != "http.disconnect":
        pass
