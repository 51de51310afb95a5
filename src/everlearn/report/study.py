"""What a report is made of: tables of rows, each row with its runs, the paper's figures and the expected ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from everlearn.report.results import MethodRuns, ResultDict, Spread, spread

AVERAGE = "average"


@dataclass(frozen=True)
class StudyRow:
    """A row of a table with the runs that are there."""

    name: str
    settings: Mapping[str, Any]
    orders: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: tuple[ResultDict, ...]
    paper: Mapping[str, Spread]
    expected: Mapping[str, Spread]

    @property
    def lifelong(self) -> bool:
        """Whether it learned in one pass; a row without runs is taken to."""
        return all(run["lifelong"] for run in self.runs)

    @property
    def planned(self) -> int:
        """How many runs it should have."""
        return len(self.orders) * len(self.seeds)

    def named(self) -> MethodRuns:
        """The runs under the name of the row: two rows may be one method with different settings."""
        runs = tuple(cast(ResultDict, {**run, "method": self.name}) for run in self.runs)
        return MethodRuns(self.name, self.lifelong, runs)

    def accuracy(self, column: str) -> Spread | None:
        """Mean and deviation over seeds for one order, or of the average over orders.

        The average is taken over the orders of each seed first, as in the paper; seeds that lack an order are left out.
        """
        if column != AVERAGE:
            return spread([run["accuracy"] for run in self.runs if str(run["order"]) == column])
        return spread(list(self.by_seed().values()))

    def by_seed(self) -> dict[int, float]:
        """The average over orders for each seed that has them all."""
        found: dict[int, list[float]] = {}
        for run in self.runs:
            found.setdefault(run["seed"], []).append(run["accuracy"])
        return {seed: fmean(values) for seed, values in sorted(found.items()) if len(values) == len(self.orders)}


@dataclass(frozen=True)
class PlannedTest:
    """Two rows whose difference is to be tested, and what the paper found."""

    first: str
    second: str
    paper_p: float | None


@dataclass(frozen=True)
class StudyTable:
    """Rows on one stream."""

    name: str
    problem: str
    """What is learned on that stream, such as relation extraction."""
    rows: tuple[StudyRow, ...]
    per_order: bool
    curve: str | None
    tests: tuple[PlannedTest, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of accuracies: each order where that is asked for, and the average."""
        orders = list(dict.fromkeys(order for row in self.rows for order in row.orders))
        return [*orders, AVERAGE] if self.per_order and len(orders) > 1 else [AVERAGE]

    def row(self, name: str) -> StudyRow:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    def with_runs(self) -> list[StudyRow]:
        """The rows that have something to show, those that are not lifelong last."""
        return sorted((row for row in self.rows if row.runs), key=lambda row: not row.lifelong)

    def of_order(self, order: str) -> list[MethodRuns]:
        """The runs of one order, of every row that has some; rows without an order of their own are in all of them."""
        groups = []
        for row in self.with_runs():
            runs = tuple(run for run in row.named().runs if str(run["order"]) == order or not run["lifelong"])
            if runs:
                groups.append(MethodRuns(row.name, row.lifelong, runs))
        return groups


def problem_heading(problem: str) -> str:
    """What stands above the tables of a problem, where a study has several."""
    return f"On {problem}"


@dataclass(frozen=True)
class Study:
    """A recipe and what became of it."""

    title: str
    shows: str
    command: str
    cost: str
    tables: tuple[StudyTable, ...]
    notes: Sequence[str] = ()
    """What the reader has to know: runs that are missing or damaged."""

    def by_problem(self) -> dict[str, list[StudyTable]]:
        """The tables of each problem, in order of first appearance: figures of two problems are never side by side."""
        problems: dict[str, list[StudyTable]] = {}
        for table in self.tables:
            problems.setdefault(table.problem, []).append(table)
        return problems
