"""How a configuration field is declared: a default and the sentence that becomes its help text."""

import dataclasses
from typing import Any


def setting(default: Any, help: str) -> Any:
    """A dataclass field whose help text the command line shows."""
    return dataclasses.field(default=default, metadata={"help": help})


def help_text(field: "dataclasses.Field[Any]") -> str:
    """The sentence given to `setting`."""
    return str(field.metadata["help"])
