"""What the classifier takes: texts and labels in the shapes people have them in, checked before anything is learned."""

import copy
import dataclasses
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from everlearn.classifier.labels import Label
from everlearn.encoders import EncoderConfig
from everlearn.errors import UserError, unknown
from everlearn.memory import MemoryConfig
from everlearn.methods import MethodConfig

LARGEST_NUMBER = 2**53 - 1
"""The largest label; larger numbers are not the same in JSON and elsewhere."""
MEANINGLESS = {"open_classes", "epochs", "as_published", "refresh_negatives"}
"""Settings of methods and memory that mean nothing to a classifier, which does these things in one way only."""
SECTIONS = (MethodConfig, MemoryConfig, EncoderConfig)
"""Where the others are from."""


class BadInputError(UserError, ValueError):
    """Texts or labels that cannot be learned; a ValueError, as scikit-learn's users expect."""


def as_texts(texts: Any) -> list[str]:
    """A list of texts from a list, an array, a column of a table or a table of one column.

    >>> as_texts(np.array([["one"], ["column"]]))
    ['one', 'column']
    """
    if isinstance(texts, str):
        raise BadInputError("a single text was given: put it into a list.")
    values = list(_column(texts))
    for place, text in enumerate(values):
        if not isinstance(text, str):
            raise BadInputError(f"text number {place + 1} is {_describe(text)}: all of them have to be strings.")
        if not text.strip():
            raise BadInputError(f"text number {place + 1} is empty: leave it out.")
    # Half a character can be neither tokenised nor written down.
    return [str(text).encode("utf-8", "replace").decode() for text in values]


def as_labels(labels: Any, texts: int, kind: type | None) -> list[Label]:
    """One label for each text, all of them strings or all of them whole numbers, and of `kind` where that is set.

    >>> as_labels(np.array([3, 1]), texts=2, kind=None)
    [3, 1]
    """
    if isinstance(labels, str):
        raise BadInputError("a single label was given: put it into a list.")
    values = [_as_label(label, place) for place, label in enumerate(_column(labels))]
    if len(values) != texts:
        raise BadInputError(f"there are {texts} texts and {len(values)} labels: give one label for each text.")
    kinds = {type(label) for label in values} | ({kind} if kind else set())
    if len(kinds) > 1:
        raise BadInputError("some labels are strings and some are whole numbers: use one of the two throughout.")
    return values


def announced_labels(classes: Any, labels: Sequence[Label], kind: type | None) -> list[Label]:
    """All labels that may come, as scikit-learn's `classes`; those of the examples at hand are among them."""
    if isinstance(classes, str):
        raise BadInputError("a single class was given: put all of them into a list.")
    values = list(_column(classes))
    announced = as_labels(values, len(values), type(labels[0]) if labels else kind)
    others = sorted({str(label) for label in labels} - set(map(str, announced)))
    if others:
        raise BadInputError(f"the label {others[0]!r} is not among the classes given: add it, or leave them out.")
    return announced


def holds_control_character(label: str) -> bool:
    """Whether a label does more than be shown: a terminal or a log would obey it, and NumPy drops some."""
    return any(unicodedata.category(character) == "Cc" for character in label)


def checked_params(params: dict[str, Any]) -> dict[str, Any]:
    """A copy of the parameters as plain values; settings that are none of a classifier's are refused."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    settings = plain["settings"] or {}
    if not isinstance(settings, Mapping):
        raise BadInputError(f"settings have to be a dict of settings by name, not {settings!r}.")
    if not isinstance(plain["method"], str):
        raise BadInputError(f"method has to be the name of one, not {plain['method']!r}.")
    own = {field.name for section in SECTIONS for field in dataclasses.fields(section)} - MEANINGLESS
    for name in settings:
        if name in plain:
            raise BadInputError(f"{name} is a parameter of its own: leave it out of the settings.")
        if name not in own:
            raise unknown("setting", str(name), own)
    return copy.deepcopy({**plain, "settings": dict(settings) or None})


def _as_label(label: Any, place: int) -> Label:
    if isinstance(label, str):
        if not label.strip():
            raise BadInputError(f"label number {place + 1} is empty: leave the example out.")
        if holds_control_character(label):
            raise BadInputError(
                f"label number {place + 1} holds a control character, such as a line break: take it out."
            )
        return str(label).encode("utf-8", "replace").decode()
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        if abs(int(label)) > LARGEST_NUMBER:
            raise BadInputError(f"label number {place + 1} is larger than 2**53: use a text for it.")
        return int(label)
    raise BadInputError(f"label number {place + 1} is {_describe(label)}: labels have to be strings or whole numbers.")


def _column(values: Any) -> Iterable[Any]:
    if isinstance(values, Sequence):
        return values
    if not hasattr(values, "__array__") and isinstance(values, Iterable):
        return values
    array = np.asarray(values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadInputError("texts and labels have to be lists, or tables with one column.")
    column: list[Any] = array.tolist()
    return column


def _describe(value: Any) -> str:
    return "missing" if value is None or value != value else f"of the type {type(value).__name__}"
