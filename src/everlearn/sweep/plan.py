"""From a recipe to runs: each row with each order and seed, checked before anything is computed, named by a hash."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from everlearn.config import Config, settings, value_type
from everlearn.encoders import check_encoder
from everlearn.errors import UserError, unknown
from everlearn.methods import find_method
from everlearn.streams import STREAMS
from everlearn.sweep.recipe import Recipe, Row, Table
from everlearn.sweep.source import Place

PATHS = {declared.name for _, declared in settings() if value_type(declared)[0] is Path}
_DEFAULTS = {declared.name: declared.default for _, declared in settings()}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    name: str
    """The folder of the run. The same settings have the same name in every sweep and on every machine."""
    row: str
    config: Config
    place: Place
    """Where its row stands in the recipe."""

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.row}, order {self.config.stream.order}, seed {self.config.run.seed}"


def plan(recipe: Recipe, data: Mapping[str, Path] | None = None, only: str | None = None) -> list[PlannedRun]:
    """The runs of all tables, or of one, each once, first seeds first: a part of a sweep then shows every row.

    `data` says where a stream's data lies in place of what the recipe says.
    """
    tables = [table for table in recipe.tables if only in (None, table.name)]
    if not tables:
        raise unknown("table", str(only), [table.name for table in recipe.tables])
    runs: dict[str, PlannedRun] = {}
    for table in tables:
        for row in table.rows:
            for run in planned(recipe, table, row, data or {}):
                runs.setdefault(run.name, run)
    return sorted(runs.values(), key=lambda run: (run.config.run.seed, run.config.stream.order))


def planned(recipe: Recipe, table: Table, row: Row, data: Mapping[str, Path]) -> Iterator[PlannedRun]:
    """The runs of a row."""
    for seed in row.seeds:
        for order in row.orders:
            given = {**row.settings, "order": order, "seed": seed}
            yield planned_run(recipe, table, row, given, data)


def planned_run(
    recipe: Recipe, table: Table, row: Row, given: Mapping[str, Any], data: Mapping[str, Path]
) -> PlannedRun:
    """One run with these settings; an error names the line that causes it."""
    try:
        config = Config.build({**given, **_found(recipe, given, data)})
        if config.stream.stream not in STREAMS:
            raise unknown("stream", config.stream.stream, STREAMS)
    except UserError as error:
        raise recipe.source.error(cause(recipe, row.place, given, str(error)), str(error)) from error
    if table.curve and find_method(config.method.method).lifelong and config.flat()[table.curve] is None:
        message = f"'{row.name}' has no place on the curve of this table: give it a {table.curve}."
        raise recipe.source.error(_stated(recipe, row.place, table.curve), message)
    return PlannedRun(run_name(config, given), row.name, config, row.place)


def check_before_running(recipe: Recipe, runs: Sequence[PlannedRun]) -> None:
    """Refuse to start where data is missing, or an order or encoder does not exist."""
    for run in runs:
        stream = run.config.stream
        known = STREAMS[stream.stream]
        for name, path in vars(stream).items():
            if isinstance(path, Path) and not path.exists():
                raise recipe.source.error(
                    _stated(recipe, run.place, name),
                    f"there is no {path}, which is the {name} of '{run.row}': put it there, or pass "
                    f"--data {stream.stream}=DIR.",
                )
        if known.needs_data and stream.data is None:
            message = f"'{run.row}' has no data: the stream {stream.stream} needs `data:`."
            raise recipe.source.error(run.place, message)
        if stream.order.isdecimal() and stream.order not in known.orders and stream.task_column is None:
            message = f"{stream.stream} has no order {stream.order}: choose among {', '.join(known.orders)}."
            raise recipe.source.error(_stated(recipe, run.place, "order"), message)
        named = [] if stream.order in known.orders or not known.tasks else stream.order.split(",")
        for task in filter(None, map(str.strip, named)):
            if task not in known.tasks:
                raise recipe.source.error(_stated(recipe, run.place, "order"), str(unknown("task", task, known.tasks)))
        for name, check in (
            ("data", partial(known.check_files, stream)),
            ("encoder", partial(check_encoder, run.config.encoder.encoder)),
        ):
            try:
                check()
            except UserError as error:
                raise recipe.source.error(_stated(recipe, run.place, name), str(error)) from error


def run_name(config: Config, given: Mapping[str, Any]) -> str:
    """What the run's folder is called: what a person looks for, and a hash of all that decides the outcome.

    Settings at the default of their class are left out, so that a setting which is new in a later version does not
    give every old run another name; paths count as they are written, so that it is the same on every machine.
    """
    written = {name: str(given[name]) for name in PATHS & given.keys() if given[name] is not None}
    flat = {name: value for name, value in config.flat().items() if value != _DEFAULTS[name]}
    digest = hashlib.sha256(json.dumps({**flat, **written}, sort_keys=True).encode()).hexdigest()
    order = re.sub(r"[^\w]+", "_", config.stream.order)[:24]
    return f"{config.method.method}-order{order}-seed{config.run.seed}-{digest[:10]}"


def _found(recipe: Recipe, given: Mapping[str, Any], data: Mapping[str, Path]) -> dict[str, Any]:
    """The paths among the settings: relative ones are meant from the recipe's folder."""
    found: dict[str, Any] = {
        name: (recipe.source.path.parent / Path(str(given[name])).expanduser()).resolve()
        for name in PATHS & given.keys()
        if given[name] is not None
    }
    moved = data.get(str(given.get("stream")))
    return {**found, "data": moved} if moved else found


def cause(recipe: Recipe, row: Place, names: Iterable[str], message: str) -> Place:
    """The entry that an error speaks of: the setting that its message names first, one named as an option above all."""
    found: list[tuple[bool, int, Place]] = []
    message = message.partition(" Known: ")[0]  # behind it stand names that are in no fault
    for name in names:
        place = _stated(recipe, row, name)
        option = re.search(rf"--{re.escape(name.replace('_', '-'))}(?![\w-])", message)
        match = option or re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", message)
        if match and place != row:
            found.append((option is None, match.start(), place))
    return min(found, key=lambda entry: entry[:2])[2] if found else row


def _stated(recipe: Recipe, row: Place, name: str) -> Place:
    """Where a setting of a row is written down: with the row, with the table, or in a list of orders or seeds."""
    plural = {"order": "orders", "seed": "seeds"}.get(name, name)
    table = row[:2]
    for place in ((*row, name), (*row, plural), (*row, "search", name), (*table, "settings", name), (*table, plural)):
        if place in recipe.source.lines:
            return place
    return row


def portable(config: Config) -> dict[str, Any]:
    """The settings that must agree for two runs to be the same, wherever their data lies."""
    return {name: value for name, value in config.flat().items() if name not in PATHS}
