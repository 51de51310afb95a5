"""Errors that are the user's to mend: one sentence that says what is wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Shown without a traceback; the command line exits with code 2."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing.

    >>> first_line(ValueError("no room\\nfor it")), first_line(RuntimeError())
    ('no room', 'RuntimeError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the closest one that does.

    >>> str(unknown("method", "omler", ["oml-er", "seq"]))
    "unknown method 'omler': did you mean 'oml-er'? Known: oml-er, seq."
    >>> str(unknown("method", "x", ["oml-er", "seq"]))
    "unknown method 'x'. Known: oml-er, seq."
    """
    choices = sorted(known)
    close = get_close_matches(name, choices, n=1)
    hint = f": did you mean '{close[0]}'?" if close else "."
    return UserError(f"unknown {kind} '{name}'{hint} Known: {', '.join(choices)}.")
