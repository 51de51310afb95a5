"""What every request passes before it reaches a route: host, token, content type, size."""

import hmac
import json
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.service.schemas import LARGEST_BODY

OPEN_PATHS = ("/", "/health")
"""Paths that need no token; the page's own files are the others."""
OPEN_FOLDER = "/page/"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class _TooLargeError(Exception):
    pass


class Guard:
    """Refuses requests that should not get any further, with a sentence that says why."""

    def __init__(self, app: ASGIApp, token: str | None, loopback_only: bool, count: Callable[[str, int], None]) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._loopback_only = loopback_only
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def reply(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message["headers"], *HEADERS]}
                self._count(scope["method"], message["status"])
            await send(message)

        headers = dict(scope["headers"])
        refusal = self._refusal(scope, headers)
        if refusal:
            await _answer(reply, *refusal)
            return
        try:
            await self._app(scope, _limited(receive), reply)
        except _TooLargeError:
            if not started:
                await _answer(reply, 413, f"the request is larger than {LARGEST_BODY:,} bytes: send less at a time.")

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").rpartition(":")
        name = host[0] if host[0] and host[2].isdecimal() else "".join(host)
        if self._loopback_only and name not in LOOPBACK:
            # A web page elsewhere may have made its own name point here.
            return 421, "this service answers to localhost only."
        path: str = scope["path"]
        if self._token and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDER):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
                return 401, "a token is needed: send it as `Authorization: Bearer TOKEN`."
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get(b"content-type", b"").decode("latin-1").lower().replace(" ", "")
            if kind not in ("application/json", "application/json;charset=utf-8"):
                return 415, "the body has to be JSON: send it with the content type application/json."
            length = headers.get(b"content-length", b"0")
            if length.isdigit() and int(length) > LARGEST_BODY:
                return 413, f"the request is larger than {LARGEST_BODY:,} bytes: send less at a time."
        return None


def _limited(receive: Receive) -> Receive:
    taken = 0

    async def take() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            raise _TooLargeError
        return message

    return take


async def _answer(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
