"""What OpenAPI says of the answers that are no success, and of the token."""

from typing import Any

from fastapi import Depends, params
from fastapi.security import HTTPBearer

from everlearn.service import schemas

Responses = dict[int | str, dict[str, Any]]
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
BEARER = {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}}


def refusal(description: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    """A refusal: a sentence that says why, and perhaps headers."""
    return {
        "model": schemas.ErrorResponse,
        "description": description,
        **({"headers": headers} if headers else {}),
    }


TWICE = "a header that must be there once was sent more than once"
ANYWHERE: Responses = {400: refusal(f"{TWICE.capitalize()}.")}
WITH_BODY: Responses = {
    400: refusal(f"The body is not JSON in UTF-8 or names a field twice, or {TWICE}."),
    408: refusal("The body took too long."),
    413: refusal("The request is too large."),
    415: refusal("The body is not declared as JSON, or is compressed."),
    422: refusal("Something in the request is missing, wrong, too long or unknown."),
    429: refusal("Too much is waiting.", RETRY_AFTER),
}
WRITING: Responses = WITH_BODY | {
    503: refusal("Nothing more is learned; predictions go on."),
    507: refusal("Nothing can be written to the disk, so nothing was taken."),
}
ASKING: Responses = WITH_BODY | {409: refusal("Nothing has been learned yet.")}
LOOKING_UP: Responses = ANYWHERE | {
    404: refusal("There is no example of this number."),
    422: refusal("The number is none."),
}
METRICS: Responses = {200: {"content": {PROMETHEUS: {"schema": {"type": "string"}}}}}
UNWELL: Responses = {503: {"model": schemas.HealthResponse, "description": "Nothing more is learned."}}


def only_here(token: str | None) -> Responses:
    """How requests from elsewhere are refused: by their host where there is no token, and for want of it where there
    is one."""
    if token:
        return {401: refusal("The token is missing or wrong.", BEARER)}
    return {421: refusal("The request is for another host.")}


def security(token: str | None) -> list[params.Depends]:
    """What declares that a route needs the token; it is the guard that asks for it, before any route."""
    if not token:
        return []
    return [Depends(HTTPBearer(auto_error=False, scheme_name="token", description="The token the service has."))]
