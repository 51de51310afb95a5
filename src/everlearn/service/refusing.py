"""What is said of a request that is refused: where it is wrong and how, in one sentence."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

REASONS = {
    "missing": "is missing.",
    "extra_forbidden": "is not known here.",
    "model_type": "has to be an object.",
    "model_attributes_type": "has to be an object.",
    "list_type": "has to be a list.",
    "too_short": "is empty.",
    "too_long": "has {actual_length:,} entries: send no more than {max_length:,} at a time.",
    "string_type": "has to be a text.",
    "string_unicode": "holds half a character: send whole ones.",
    "string_too_short": "is empty.",
    "string_too_long": "has more than {max_length:,} characters.",
    "greater_than_equal": "has to be at least {ge}.",
    "less_than_equal": "has to be at most {le}.",
    "int_parsing": "has to be a whole number.",
    "int_parsing_size": "has to be a whole number that is not so large.",
}
"""By what the validation calls a mistake; what is not here is said in its own words."""


def handle_errors(app: FastAPI) -> None:
    """Answer every refusal with a sentence."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence(error.errors()[0])}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        headers = error.headers or {}
        if error.status_code == 405:
            said = f"{request.method[:20]} is not possible here: use {headers.get('Allow', 'another method')}."
        elif error.detail == "Not Found":
            said = "there is nothing at this path."
        else:
            said = error.detail
        return JSONResponse({"error": said}, error.status_code, headers)


def sentence(mistake: dict[str, Any]) -> str:
    """Where it is and what is wrong, but not what was sent: that may be of any size and need not even be text.

    >>> sentence({"type": "missing", "loc": ("body", "examples", 0, "label"), "msg": "Field required"})
    'examples.0.label: is missing.'
    """
    parts = [str(part) for part in mistake["loc"][1:]]
    if "label" in parts[:-1]:
        parts = parts[: parts.index("label") + 1]  # what follows is the kind of label that it was taken for
    place = ".".join(parts)[:200].encode("utf-8", "replace").decode()
    if mistake["type"] in REASONS:
        reason = REASONS[mistake["type"]].format(**mistake.get("ctx", {}))
    else:
        reason = mistake["msg"].removeprefix("Value error, ") + "."
    return f"{place or 'the body'}: {reason}"
