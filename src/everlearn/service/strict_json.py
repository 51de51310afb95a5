"""Bodies as JSON by the letter: what has two readings is refused, for a wrong guess would be learned."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException


class StrictRoute(APIRoute):
    """A route that reads its body with `strict_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route, handed requests that do so."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


def strict_json(body: bytes) -> Any:
    """What a body says; it has to be in UTF-8, with finite numbers, and name no field twice.

    >>> strict_json(b'{"text": "a", "label": "b"}')
    {'text': 'a', 'label': 'b'}
    """
    try:
        return json.loads(body.decode("utf-8-sig"), object_pairs_hook=_fields, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is not valid JSON in UTF-8.") from error


class _StrictRequest(Request):
    async def json(self) -> Any:
        return strict_json(await self.body())


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise HTTPException(400, "the body names a field twice: it is not clear which one is meant.")
    return fields


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
