"""A study's tables as cells: what was measured, the paper's figure beside it, what was expected. One source for all
formats."""

from collections.abc import Sequence
from dataclasses import dataclass

from everlearn.report.provenance import Provenance, provenance
from everlearn.report.results import Spread
from everlearn.report.statistics import PairedTest, compare_rows
from everlearn.report.study import AVERAGE, PublishedRow, StudyRow, StudyTable
from everlearn.report.table import COLUMNS, MORE_COLUMNS, UNDEFINED

NOT_MEASURED = "not measured yet"
COSTS = {name: cell for name, cell in (COLUMNS | MORE_COLUMNS).items() if name not in ("method", "accuracy")}
"""Header and how its cell is made, for what each row pays."""


@dataclass(frozen=True)
class Cell:
    """One accuracy, here and in the paper."""

    here: str
    paper: str
    best: bool


@dataclass(frozen=True)
class TableLine:
    """A row, ready to be written."""

    name: str
    cells: tuple[Cell, ...]
    expected: str
    runs: str
    lifelong: bool


@dataclass(frozen=True)
class TableText:
    """A table, ready to be written in any format."""

    name: str
    columns: tuple[str, ...]
    lines: tuple[TableLine, ...]
    cost_columns: tuple[str, ...]
    """Of `COSTS`, those in which some row has something to show."""
    costs: tuple[tuple[str, ...], ...]
    tests: tuple[PairedTest, ...]
    provenance: Provenance | None


def table_text(table: StudyTable) -> TableText:
    """The table's cells; the best lifelong row of a column is marked."""
    best = {column: _best(table, column) for column in table.columns}
    lines = [
        TableLine(
            row.name,
            tuple(
                Cell(accuracy(_shown(row, column)), accuracy(row.paper.get(column)), row.name in best[column])
                for column in table.columns
            ),
            _expected(row),
            f"{len(row.runs)} of {row.planned}",
            row.lifelong,
        )
        for row in table.rows
    ]
    lines += [_published(row, table.columns) for row in table.published]
    compared = table.compared()
    paid = {name: cell for name, cell in COSTS.items() if any(cell(group) != UNDEFINED for group in compared)}
    return TableText(
        table.name,
        tuple("average" if column == AVERAGE else f"order {column}" for column in table.columns),
        tuple(sorted(lines, key=lambda line: not line.lifelong)),
        tuple(paid),
        tuple((group.method, *(cell(group) for cell in paid.values())) for group in compared),
        tuple(compare_rows(table.row(test.first), table.row(test.second), test.paper_p) for test in table.tests),
        provenance([run for row in table.rows for run in row.runs]),
    )


def _published(row: PublishedRow, columns: Sequence[str]) -> TableLine:
    """What stands in the paper's table, with nothing of ours beside it."""
    cells = tuple(Cell(UNDEFINED, accuracy(row.paper.get(column)), False) for column in columns)
    return TableLine(row.name, cells, UNDEFINED, UNDEFINED, lifelong=True)


def accuracy(value: Spread | None) -> str:
    """In per cent, as the paper writes it.

    >>> accuracy(Spread(0.757, 0.004)), accuracy(Spread(0.706, None)), accuracy(None)
    ('75.7 ± 0.4', '70.6', '–')
    """
    if value is None:
        return UNDEFINED
    mean = f"{100 * value.mean:.1f}"
    return mean if value.std is None else f"{mean} ± {100 * value.std:.1f}"


def _expected(row: StudyRow) -> str:
    """The average, or, as long as it is not known, the orders that are."""
    if AVERAGE in row.expected:
        return accuracy(row.expected[AVERAGE])
    return ", ".join(f"order {order}: {accuracy(value)}" for order, value in row.expected.items()) or NOT_MEASURED


def _shown(row: StudyRow, column: str) -> Spread | None:
    """What stands in a column; a row that is not lifelong has no order, only an average."""
    return row.accuracy(column) if row.lifelong or column == AVERAGE else None


def _best(table: StudyTable, column: str) -> set[str]:
    """The lifelong rows with the highest accuracy as it is written, where there are several to choose from."""
    means = {
        row.name: round(100 * value.mean, 1)
        for row in table.rows
        if row.lifelong and (value := row.accuracy(column)) is not None
    }
    return {name for name, mean in means.items() if mean == max(means.values())} if len(means) > 1 else set()
