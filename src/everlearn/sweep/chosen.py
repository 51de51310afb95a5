"""Chosen settings: by method, in a recipe or in files beside it, such as `everlearn tune` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everlearn.errors import unknown
from everlearn.methods import METHODS
from everlearn.sweep.source import Line, Place, Source, read_source


@dataclass(frozen=True)
class ChosenSettings:
    """Settings by method, and where each of them stands: here, or in another file."""

    settings: Mapping[str, Mapping[str, Any]]
    lines: Mapping[tuple[str, str], Line]


def read_chosen(source: Source, place: Place, content: Any) -> ChosenSettings:
    """Settings by method: written here, or in files that `everlearn tune` wrote, beside the recipe."""
    if content is None:
        return ChosenSettings({}, {})
    if isinstance(content, str | list):
        return _from_files(source, place, [content] if isinstance(content, str) else content)
    return _by_method(source, place, content)


def _from_files(source: Source, place: Place, names: Sequence[Any]) -> ChosenSettings:
    """What several files choose together; a method has its settings from one of them."""
    settings: dict[str, Mapping[str, Any]] = {}
    lines: dict[tuple[str, str], Line] = {}
    for name in map(str, names):
        path = source.path.parent / name
        if not path.is_file():
            raise source.error(place, f"there is no file {path} of chosen settings.")
        file = read_source(path)
        own = _by_method(file, (), file.content)
        if twice := settings.keys() & own.settings.keys():
            raise source.error(place, f"{name} chooses settings for {', '.join(sorted(twice))} a second time.")
        settings.update(own.settings)
        lines.update(own.lines)
    return ChosenSettings(settings, lines)


def _by_method(source: Source, place: Place, content: Any) -> ChosenSettings:
    if not isinstance(content, dict) or not all(isinstance(value, dict) for value in content.values()):
        raise source.error(place, "chosen holds, for each method, the settings chosen for it.")
    for method in content:
        if method not in METHODS:
            raise source.error((*place, method), str(unknown("method", method, METHODS)))
    return ChosenSettings(content, {(m, name): source.lines[(*place, m, name)] for m in content for name in content[m]})
