"""From a sweep's folder to the study that a report shows."""

from collections.abc import Iterator
from pathlib import Path

from everlearn.errors import UserError
from everlearn.report.results import ResultDict
from everlearn.report.study import Study, StudyRow, StudyTable
from everlearn.streams import STREAMS
from everlearn.sweep.folder import DamagedError, SweepFolder
from everlearn.sweep.plan import PlannedRun, planned
from everlearn.sweep.reading import Reading
from everlearn.sweep.recipe import Recipe, Row, Table, read_recipe
from everlearn.sweep.tune import TRIALS


def gather(path: Path) -> Study:
    """Everything that a sweep has found so far; what is missing or damaged is left out and noted."""
    folder = SweepFolder.existing(path)
    recipe = read_recipe(folder.recipe)
    if any(row.search for table in recipe.tables for row in table.rows):
        raise UserError(f"{path} is the folder of a search: what it found is in {path / TRIALS}.")
    notes: list[str] = []
    tables = tuple(_table(recipe, table, folder, notes) for table in recipe.tables)
    found = sum(len(row.runs) for table in tables for row in table.rows)
    if not found:
        raise UserError(f"{path} holds no finished run yet: go on with `everlearn sweep`.")
    missing = sum(row.planned for table in tables for row in table.rows) - found
    if missing:
        notes[:0] = _unfinished(missing, tables)
    return Study(recipe.title, recipe.shows, recipe.command, recipe.cost, tables, notes)


def _unfinished(missing: int, tables: tuple[StudyTable, ...]) -> Iterator[str]:
    """What is averaged while runs are missing, and which rows cannot be compared yet."""
    planned = sum(row.planned for table in tables for row in table.rows)
    yield (
        f"{missing} of {planned} runs are not there yet: averages and costs are over the seeds of a row that have all "
        "their orders, what shows one order is over the seeds that have it, and tests are over the pairs there are."
    )
    for table in tables:
        rows = ", ".join(table.incomplete())
        if rows:
            yield f"{table.name}: without average, costs and place on the frontier, as no seed is complete yet: {rows}."


def _table(recipe: Recipe, table: Table, folder: SweepFolder, notes: list[str]) -> StudyTable:
    found: dict[Reading, set[str]] = {}
    rows = tuple(_row(recipe, table, row, folder, notes, found) for row in table.rows)
    mixed = {reading.stream.stream for reading, data in found.items() if len(data) > 1}
    notes += [
        f"{table.name}: the runs on {stream} were not all computed on the same data, averages mix them."
        for stream in sorted(mixed)
    ]
    problem = STREAMS[rows[0].settings["stream"]].problem
    return StudyTable(table.name, problem, rows, table.per_order, table.curve, table.comparisons, table.published)


def _row(
    recipe: Recipe, table: Table, row: Row, folder: SweepFolder, notes: list[str], found: dict[Reading, set[str]]
) -> StudyRow:
    """A row with its results; the fingerprints of their data are added to those `found` so far.

    Runs of different orders or sizes differ in their data by right, so they are kept apart.
    """
    runs = list(planned(recipe, table, row, {}))
    results = []
    for run in runs:
        if (result := _trusted(folder, run, notes)) is not None:
            results.append(result)
            found.setdefault(Reading.of(run.config), set()).add(result["data"])
    settings = runs[0].config.flat()
    return StudyRow(row.name, settings, row.orders, row.seeds, tuple(results), row.paper, row.expected)


def _trusted(folder: SweepFolder, run: PlannedRun, notes: list[str]) -> ResultDict | None:
    try:
        return folder.result(run)
    except DamagedError as flaw:
        notes.append(
            f"{run.label} is left out, as its result is damaged ({flaw}): `everlearn sweep` computes it again."
        )
        return None
