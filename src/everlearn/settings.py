"""How a configuration field is declared: a default, the sentence that becomes its help text, and what it may be."""

import dataclasses
import math
from collections.abc import Collection, Iterator
from typing import Any

from everlearn.errors import unknown


def setting(
    default: Any,
    help: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    choices: Collection[str] | None = None,
    kind: str | None = None,
) -> Any:
    """A dataclass field whose help text the command line shows.

    A number lies above `above`, and from `least` to `most`; a text is one of the `choices`, each the name of a `kind`.
    """
    bounds = {"above": above, "least": least, "most": most, "choices": choices, "kind": kind}
    return dataclasses.field(default=default, metadata={"help": help, **bounds})


def help_text(field: "dataclasses.Field[Any]") -> str:
    """The sentence given to `setting`."""
    return str(field.metadata["help"])


def flaws(field: "dataclasses.Field[Any]", value: Any) -> Iterator[str]:
    """What is wrong with a setting's value by itself; a setting that may be left out is never wrong without a value."""
    if value is None:
        return
    above, least, most, choices, kind = (field.metadata[name] for name in ("above", "least", "most", "choices", "kind"))
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{field.name} must be a finite number, not {value}."
    elif above is not None and value <= above:
        yield f"{field.name} must be greater than {above}, not {value}."
    elif least is not None and most is not None and not least <= value <= most:
        yield f"{field.name} must lie between {least} and {most}, not {value}."
    elif least is not None and value < least:
        yield f"{field.name} must be at least {least}, not {value}."
    elif choices is not None and value not in choices:
        told = f"{field.name} must be one of {', '.join(choices)}, not '{value}'."
        yield str(unknown(kind, value, choices)) if kind else told
