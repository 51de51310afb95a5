"""A recipe: which runs make up a table, what the paper reports for each row, and what is expected here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlearn.config import settings, value_type
from everlearn.errors import UserError, unknown
from everlearn.report.results import Spread
from everlearn.report.study import AVERAGE, PlannedTest, PublishedRow
from everlearn.report.study_tables import NOT_MEASURED
from everlearn.sweep.chosen import ChosenSettings, read_chosen
from everlearn.sweep.including import read_whole
from everlearn.sweep.search import read_search
from everlearn.sweep.source import Place, Source

_FIGURE = re.compile(r"(\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?")

TABLE_KEYS = (
    "settings",
    "chosen",
    "orders",
    "seeds",
    "rows",
    "published",
    "per_order",
    "curve",
    "compare",
    "trials",
    "finalists",
)
ROW_KEYS = ("name", "paper", "expected", "orders", "seeds", "search")

Figures = Mapping[str, Spread]
"""Accuracies by order, and under `average`."""


@dataclass(frozen=True)
class Row:
    """A line of a table: settings that are run with every order and seed, and what is known of the outcome."""

    name: str
    settings: Mapping[str, Any]
    shared: Mapping[str, Any]
    """Those of the settings that the table gives to all of its rows."""
    orders: tuple[str, ...]
    seeds: tuple[int, ...]
    paper: Figures
    expected: Figures
    search: Mapping[str, Sequence[Any]]
    """For `everlearn tune`: settings and the values to try."""
    place: Place

    @property
    def own(self) -> dict[str, Any]:
        """The settings in which it differs from what the table says, chosen ones among them."""
        return {name: value for name, value in self.settings.items() if self.shared.get(name, _NOTHING) != value}


_NOTHING = object()


@dataclass(frozen=True)
class Table:
    """Rows that belong together, on one stream."""

    name: str
    rows: tuple[Row, ...]
    per_order: bool
    """Whether the orders have a column each, or only their average is shown."""
    curve: str | None
    """The setting that varies along the rows, for a curve."""
    comparisons: tuple[PlannedTest, ...]
    published: tuple[PublishedRow, ...]
    trials: int | None
    finalists: int
    place: Place


@dataclass(frozen=True)
class Recipe:
    """Everything that a recipe says."""

    source: Source
    title: str
    shows: str
    command: str
    cost: str
    tables: tuple[Table, ...]


def read_recipe(path: Path) -> Recipe:
    """The recipe in a YAML file; what does not fit is named with its line."""
    source = read_whole(path)
    content = source.content
    texts = {key: content.get(key, "") for key in ("title", "shows", "command", "cost")}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise source.error((key,), f"{key} is a text, not {text!r}.")
    read = tuple(_table(source, name, table) for name, table in content["tables"].items())
    return Recipe(source, tables=read, **{key: " ".join(text.split()) for key, text in texts.items()})


def figure(text: Any) -> Spread:
    """An accuracy in per cent, with its deviation where there is one.

    >>> figure("75.7 ± 0.4")
    Spread(mean=0.757, std=0.004)
    >>> figure(70.6)
    Spread(mean=0.706, std=None)
    """
    match = _FIGURE.fullmatch(str(text).strip())
    if not match or float(match[1]) > 100:
        raise UserError(f"'{text}' is no accuracy in per cent: write 75.7 or 75.7 ± 0.4.")
    return Spread(round(float(match[1]) / 100, 6), round(float(match[2]) / 100, 6) if match[2] else None)


def _table(source: Source, name: str, content: Any) -> Table:
    place: Place = ("tables", name)
    source.check_keys(place, content, TABLE_KEYS, needed=("rows",))
    shared = content.get("settings", {})
    if not isinstance(shared, dict):
        raise source.error((*place, "settings"), "settings holds `name: value` lines.")
    chosen = read_chosen(source, (*place, "chosen"), content.get("chosen"))
    rows_content = content["rows"]
    if not isinstance(rows_content, list) or not rows_content:
        raise source.error((*place, "rows"), "rows is a list: `- name: …` and the settings of that row.")
    rows = tuple(
        _row(source, (*place, "rows", number), row, shared, chosen, content) for number, row in enumerate(rows_content)
    )
    names = [row.name for row in rows]
    for row in rows:
        if names.count(row.name) > 1:
            raise source.error((*row.place, "name"), f"two rows are called '{row.name}': give each a name of its own.")
    for setting in ("stream", "split"):
        for row in rows:
            if row.settings.get(setting) != rows[0].settings.get(setting):
                message = f"'{row.name}' has another {setting} than '{rows[0].name}': give it a table of its own."
                raise source.error((*row.place, setting), message)
    per_order = content.get("per_order", False)
    if not isinstance(per_order, bool):
        raise source.error((*place, "per_order"), f"per_order is true or false, not {per_order!r}.")
    trials, finalists = content.get("trials"), content.get("finalists", 0)
    for key, value, least in (("trials", trials, 1), ("finalists", finalists, 0)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise source.error((*place, key), f"{key} is a whole number of at least {least}, not {value!r}.")
    return Table(
        name=name,
        rows=rows,
        per_order=per_order,
        curve=_curve(source, (*place, "curve"), content.get("curve")),
        comparisons=tuple(_comparisons(source, (*place, "compare"), content.get("compare", []), names)),
        published=tuple(_published(source, (*place, "published"), content.get("published", []), rows)),
        trials=trials,
        finalists=finalists,
        place=place,
    )


def _row(
    source: Source,
    place: Place,
    content: Any,
    shared: Mapping[str, Any],
    chosen: ChosenSettings,
    table: Mapping[str, Any],
) -> Row:
    if not isinstance(content, dict) or "name" not in content:
        raise source.error(place, "a row has a `name:` and the settings in which it differs.")
    own = {key: value for key, value in content.items() if key not in ROW_KEYS}
    method = own.get("method", shared.get("method"))
    for given, where in ((shared, (*place[:2], "settings")), (own, place)):
        for axis, key in (("order", "orders"), ("seed", "seeds")):
            if axis in given:
                raise source.error((*where, axis), f"write `{key}:` with a list, not {axis}.")
    settings = {**shared, **chosen.settings.get(str(method), {}), **own}
    # What is chosen for the row's method is as if it stood with the row: a mistake in it is named where it is written.
    for name in chosen.settings.get(str(method), {}):
        source.lines.setdefault((*place, name), chosen.lines[str(method), name])
    orders = tuple(map(str, _list(source, place, content, table, "orders", ["1"], (str, int))))
    return Row(
        name=str(content["name"]),
        settings=settings,
        shared=shared,
        orders=orders,
        seeds=tuple(_list(source, place, content, table, "seeds", [42], (int,))),
        paper=_figures(source, (*place, "paper"), content.get("paper"), orders),
        expected=_figures(source, (*place, "expected"), content.get("expected"), orders),
        search=read_search(source, (*place, "search"), content.get("search", {})),
        place=place,
    )


def _list(
    source: Source,
    place: Place,
    row: Mapping[str, Any],
    table: Mapping[str, Any],
    key: str,
    default: list[Any],
    kinds: tuple[type, ...],
) -> list[Any]:
    """A list that a row may give in place of the table's."""
    where = (*place, key) if key in row else (*place[:2], key)
    values = row.get(key, table.get(key, default))
    fits = isinstance(values, list) and values and all(type(value) in kinds for value in values)
    if not fits or len(set(map(str, values))) < len(values):
        raise source.error(where, f"{key} is a list such as [1, 2], each entry once, not {values!r}.")
    return list(values)


def _curve(source: Source, place: Place, setting: Any) -> str | None:
    """The setting that a figure is drawn along: there have to be numbers."""
    if setting is None:
        return None
    kinds = {declared.name: value_type(declared)[0] for _, declared in settings()}
    if not isinstance(setting, str):
        raise source.error(place, f"curve is the name of one setting, such as replay_rate, not {setting!r}.")
    if setting not in kinds:
        raise source.error(place, str(unknown("setting", setting, kinds)))
    if kinds[setting] not in (int, float):
        raise source.error(place, f"curve needs a setting that is a number, as replay_rate is and {setting} is not.")
    return setting


def _figures(source: Source, place: Place, content: Any, orders: Sequence[str]) -> Figures:
    """`75.7 ± 0.4`, or one for each order; nothing where it says that there is none yet."""
    if content is None or content == NOT_MEASURED:
        return {}
    found = {}
    for key, value in content.items() if isinstance(content, dict) else [(AVERAGE, content)]:
        where = (*place, key) if isinstance(content, dict) else place
        if key not in (*orders, AVERAGE):
            raise source.error(where, str(unknown("order of this row", key, (*orders, AVERAGE))))
        try:
            found[key] = figure(value)
        except UserError as error:
            raise source.error(where, str(error)) from error
    return found


def _published(source: Source, place: Place, content: Any, rows: Sequence[Row]) -> list[PublishedRow]:
    """What the paper's table says of systems that are not run here."""
    if not isinstance(content, list):
        raise source.error(place, "published is a list of `{name: LAMOL, paper: 76.5}`.")
    orders = list(dict.fromkeys(order for row in rows for order in row.orders))
    found = []
    for number, entry in enumerate(content):
        where = (*place, number)
        source.check_keys(where, entry, ("name", "paper"), needed=("name", "paper"))
        found.append(PublishedRow(str(entry["name"]), _figures(source, (*where, "paper"), entry["paper"], orders)))
    return found


def _comparisons(source: Source, place: Place, content: Any, names: Sequence[str]) -> list[PlannedTest]:
    if not isinstance(content, list):
        raise source.error(place, "compare is a list of `{rows: [A, B], paper_p: 0.01}`.")
    found = []
    for number, entry in enumerate(content):
        where = (*place, number)
        source.check_keys(where, entry, ("rows", "paper_p"), needed=("rows",))
        rows, p = entry["rows"], entry.get("paper_p")
        if not isinstance(rows, list) or len(rows) != 2:
            raise source.error((*where, "rows"), "rows names the two rows to compare, as in [OML-ER, REPLAY].")
        for row in map(str, rows):
            if row not in names:
                raise source.error((*where, "rows"), str(unknown("row", row, names)))
        if str(rows[0]) == str(rows[1]):
            raise source.error((*where, "rows"), f"'{rows[0]}' is compared with itself: name two rows.")
        if p is not None and (not isinstance(p, int | float) or isinstance(p, bool) or not 0 <= p <= 1):
            raise source.error((*where, "paper_p"), f"paper_p lies between 0 and 1, it is not {p!r}.")
        found.append(PlannedTest(str(rows[0]), str(rows[1]), p))
    return found
