"""A recipe's YAML with the line of every entry, so that a mistake can be named where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from everlearn.errors import UserError, unknown

Place = tuple[str | int, ...]
"""The keys and positions that lead from the top of the file to an entry."""


@dataclass(frozen=True)
class Line:
    """A line of a file, by its number."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path} line {self.number}"


@dataclass(frozen=True)
class Source:
    """A file's content and where each entry stands: in that file, or in one whose entries it takes over."""

    path: Path
    content: dict[str, Any]
    lines: dict[Place, Line]

    def error(self, place: Place, message: str) -> UserError:
        """The error for an entry; one that has no line of its own is named by what it belongs to."""
        while place and place not in self.lines:
            place = place[:-1]
        return UserError(f"{self.lines.get(place, Line(self.path, 1))}: {message}")

    def check_keys(self, place: Place, content: Any, known: Sequence[str], needed: Sequence[str] = ()) -> None:
        """Refuse an entry that is no mapping, has a key that is not `known`, or lacks one that is `needed`."""
        if not isinstance(content, dict):
            raise self.error(place, f"this holds `name: value` lines ({', '.join(known)}).")
        for key in content:
            if key not in known:
                raise self.error((*place, key), str(unknown("key", key, known)))
        for key in needed:
            if key not in content:
                raise self.error(place, f"`{key}:` is missing.")


def read_source(path: Path) -> Source:
    """The file as nested dicts and lists of plain values."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError as error:
        raise UserError(f"there is no recipe {path}: check the path.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"the recipe {path} cannot be read: {' '.join(str(error).split())}.") from error
    lines: dict[Place, Line] = {}
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{path} line 1: a recipe holds `name: value` lines; see docs/recipes.md.")
    try:
        content = _plain(node, (), lines, path)
    except RecursionError as error:
        raise UserError(f"{path} line 1: an anchor refers to what it stands in: write it out.") from error
    return Source(path, content, lines)


def _plain(node: yaml.Node, place: Place, lines: dict[Place, Line], path: Path) -> Any:
    """The value of a node; the lines of it and of everything in it are noted."""
    lines.setdefault(place, Line(path, node.start_mark.line + 1))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*place, number), lines, path) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        loader = yaml.SafeLoader("")
        value = loader.construct_object(node, deep=True)
        # YAML reads 1e-5 as a text: here it is the number that was meant.
        return _number(value) if isinstance(value, str) and isinstance(node, yaml.ScalarNode) else value
    content: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), Line(path, key_node.start_mark.line + 1)
        if key in content:
            raise UserError(f"{line}: '{key}' stands here a second time: leave one of them out.")
        lines[(*place, key)] = line
        content[key] = _plain(value_node, (*place, key), lines, path)
    return content


def _number(text: str) -> str | float:
    """A number in exponential notation, which YAML 1.1 only knows with a point and a sign.

    >>> _number("1e-5"), _number("oml-er"), _number("1_0")
    (1e-05, 'oml-er', '1_0')
    """
    if "e" not in text.lower() or not text[:1].isdigit() or "_" in text:
        return text
    try:
        return float(text)
    except ValueError:
        return text
