"""Recipes that put others together: their tables under one roof, so that one command carries them all out."""

from pathlib import Path
from typing import Any

from everlearn.sweep.source import Line, Place, Source, read_source

INCLUDE = "include"
_KEYS = ("title", "shows", "command", "cost", INCLUDE, "tables")


def read_whole(path: Path) -> Source:
    """A recipe's file with the tables of those it includes in front of its own, each called after its recipe too."""
    source = read_source(path)
    if INCLUDE not in source.content:
        _check(source)
        return source
    source.check_keys((), source.content, _KEYS, needed=("title",))
    tables: dict[str, Any] = {}
    lines: dict[Place, Line] = dict(source.lines)
    for part in _included(source):
        title, own = str(part.content["title"]), part.content["tables"]
        for name, table in own.items():
            called = title if len(own) == 1 else f"{title}: {name}"
            tables[called] = table
            lines |= {("tables", called, *place[2:]): at for place, at in part.lines.items() if place[1:2] == (name,)}
    if "tables" in source.content:
        _check(source)
        for name in source.content["tables"].keys() & tables.keys():
            raise source.error(("tables", name), f"a table called '{name}' is included: give this one another name.")
        tables |= source.content["tables"]
    content = {key: value for key, value in source.content.items() if key != INCLUDE}
    return Source(path, {**content, "tables": tables}, lines)


def _included(source: Source) -> list[Source]:
    """The recipes that it names. They lie beside it, because their paths are meant from the folder of the recipe."""
    names = source.content[INCLUDE]
    if not isinstance(names, list) or not names or len(set(map(str, names))) < len(names):
        raise source.error((INCLUDE,), "include is a list of recipes beside this one, each once.")
    parts: dict[str, Source] = {}
    for number, name in enumerate(map(str, names)):
        path = source.path.parent / name
        if Path(name).name != name or not path.is_file():
            raise source.error((INCLUDE, number), f"there is no recipe {name} beside this one: check its name.")
        part = read_source(path)
        if INCLUDE in part.content:
            raise source.error((INCLUDE, number), f"{name} includes others itself: name those here.")
        _check(part)
        title = str(part.content["title"])
        if title in parts:
            raise part.error(("title",), f"{parts[title].path.name} has the title '{title}' too: give each its own.")
        parts[title] = part
    return list(parts.values())


def _check(source: Source) -> None:
    source.check_keys((), source.content, _KEYS, needed=("title", "tables"))
    tables = source.content["tables"]
    if not isinstance(tables, dict) or not tables:
        raise source.error(("tables",), "tables holds `name:` and, below it, settings, rows and so on.")
