"""What every request passes before it reaches a route: host, token, content type, size. And what every answer gets."""

import hmac
import re
from collections import Counter
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everlearn.service.bodies import Bodies, too_large
from everlearn.service.schemas import LARGEST_BODY

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
WITH_BODY = ("POST", "PUT", "PATCH")
JSON = re.compile(r'application/json\s*(;\s*charset\s*=\s*("utf-8"|utf-8)\s*)?', re.IGNORECASE)
ONCE = (b"host", b"authorization", b"content-type", b"content-length", b"content-encoding")
"""Headers of which two would be read differently here and in a proxy in front."""

HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Refuses requests that should not get any further, with a sentence that says why."""

    def __init__(
        self, app: ASGIApp, token: str | None, host: str, open_paths: set[str], count: Callable[[str, str, int], None]
    ) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._hosts = (*LOOPBACK, in_address(host))
        self._open_paths = open_paths
        self._count = count
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, started = scope["method"], False
        if method == "HEAD":  # as GET; the server leaves out the body
            scope = {**scope, "method": "GET"}

        async def reply(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message["headers"], *HEADERS]}
                self._count(method, getattr(scope.get("route"), "path", "other"), message["status"])
            await send(message)

        try:
            self._check(scope)
            if method in WITH_BODY:
                async with self._bodies.read(receive) as receive_again:
                    await self._app(scope, receive_again, reply)
            else:
                await self._app(scope, receive, reply)
        except HTTPException as refusal:  # of this guard: the routes' own do not come this far
            refused = JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
            await refused(scope, receive, reply)
        except Exception:
            if not started:
                broken = JSONResponse({"error": "something is wrong in the service: its log says what."}, 500)
                await broken(scope, receive, reply)
            raise  # to the log

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        named = Counter(name for name, _ in scope["headers"])
        for name in ONCE:
            if named[name] > 1:
                raise HTTPException(400, f"the header {name.decode()} was sent more than once.")
        host = headers.get(b"host", b"").decode("latin-1").rpartition(":")
        address = host[0] if host[0] and host[2].isdecimal() else "".join(host)
        if not self._token and address.lower() not in self._hosts:
            # A web page elsewhere may have made its own name point here; it would not know a token.
            raise HTTPException(421, "this service answers to localhost only, or to any name when it has a token.")
        trusted = not self._token or _given_token(headers, self._token)
        if not trusted and scope["path"] not in self._open_paths:
            said = "a token is needed: send it as `Authorization: Bearer TOKEN`."
            raise HTTPException(401, said, {"WWW-Authenticate": "Bearer"})
        scope.setdefault("state", {})["trusted"] = trusted
        if scope["method"] in WITH_BODY:
            _check_body(headers)


def _given_token(headers: dict[bytes, bytes], token: bytes) -> bool:
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def _check_body(headers: dict[bytes, bytes]) -> None:
    if not JSON.fullmatch(headers.get(b"content-type", b"").decode("latin-1")):
        raise HTTPException(415, "the body has to be JSON: send it with the content type application/json.")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise HTTPException(415, "the body must not be compressed.")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise too_large()


def in_address(host: str) -> str:
    """A host as it stands in an address.

    >>> in_address("::1"), in_address("127.0.0.2")
    ('[::1]', '127.0.0.2')
    """
    return f"[{host}]" if ":" in host else host.lower()
