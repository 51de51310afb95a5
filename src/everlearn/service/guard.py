"""What every request passes before it reaches a route: host, token, content type, size."""

import hmac
import json
from collections.abc import Callable
from email.message import Message as Headers

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.service.schemas import LARGEST_BODY

OPEN_PATHS = ("/", "/health")
"""Paths that need no token; the page's own files are the others."""
OPEN_FOLDER = "/page/"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

WITH_BODY = ("POST", "PUT", "PATCH")
TOO_LARGE = 413, f"the request is larger than {LARGEST_BODY:,} bytes: send less at a time."

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Refuses requests that should not get any further, with a sentence that says why."""

    def __init__(self, app: ASGIApp, token: str | None, host: str, count: Callable[[str, int], None]) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._hosts = (*LOOPBACK, in_address(host))
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def reply(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
                self._count(scope["method"], message["status"])
            await send(message)

        headers = dict(scope["headers"])
        refusal = self._refusal(scope, headers)
        if refusal:
            await _answer(reply, *refusal)
            return
        if scope["method"] in WITH_BODY:
            body = await _read(receive)
            if body is None:
                await _answer(reply, *TOO_LARGE)
                return
            receive = _again(body, receive)
        await self._app(scope, receive, reply)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").rpartition(":")
        name = host[0] if host[0] and host[2].isdecimal() else "".join(host)
        if not self._token and name.lower() not in self._hosts:
            # A web page elsewhere may have made its own name point here; it would not know a token.
            return 421, "this service answers to localhost only."
        path: str = scope["path"]
        if self._token and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDER):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
                return 401, "a token is needed: send it as `Authorization: Bearer TOKEN`."
        if scope["method"] in WITH_BODY:
            if not _is_json(headers.get(b"content-type", b"").decode("latin-1")):
                return 415, "the body has to be JSON: send it with the content type application/json."
            length = headers.get(b"content-length", b"0")
            if length.isdigit() and int(length) > LARGEST_BODY:
                return TOO_LARGE
        return None


def in_address(host: str) -> str:
    """A host as it stands in an address.

    >>> in_address("::1"), in_address("127.0.0.2")
    ('[::1]', '127.0.0.2')
    """
    return f"[{host}]" if ":" in host else host.lower()


def _is_json(content_type: str) -> bool:
    """Whether a content type says JSON in UTF-8, however it is spelled."""
    parsed = Headers()
    parsed["content-type"] = content_type
    return parsed.get_content_type() == "application/json" and parsed.get_content_charset("utf-8") == "utf-8"


async def _read(receive: Receive) -> bytes | None:
    """The body; None where it is too large, whatever its length was said to be."""
    parts, size = [], 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def take() -> Message:
        return waiting.pop() if waiting else await receive()

    return take


async def _answer(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
