"""What a report is made of: tables of rows, each row with its runs, the paper's figures and the expected ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from everlearn.report.results import MethodRuns, ResultDict, Spread, runs_by_seed, spread

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

    def complete_seeds(self) -> dict[int, list[ResultDict]]:
        """The runs of each seed that has all orders.

        Whatever is averaged over orders is averaged over these alone: an average that lacks an order would be of
        easier or harder runs than the next row's.
        """
        seeds = runs_by_seed(self.runs)
        return {seed: own for seed, own in seeds.items() if len({str(run["order"]) for run in own}) == len(self.orders)}

    def compared(self) -> MethodRuns | None:
        """The runs of complete seeds under the name of the row; None where no seed is complete."""
        return self._named([run for runs in self.complete_seeds().values() for run in runs])

    def of_order(self, order: str) -> MethodRuns | None:
        """The runs of one order; a row that is not lifelong has no order and stands for itself in each."""
        if not self.lifelong:
            return self.compared()
        return self._named([run for run in self.runs if str(run["order"]) == order])

    def accuracy(self, column: str) -> Spread | None:
        """Mean and deviation over seeds for one order, or of the average over orders.

        The average is taken over the orders of each seed first, as in the paper; seeds that lack an order are left out.
        """
        if column != AVERAGE:
            return spread([run["accuracy"] for run in self.runs if str(run["order"]) == column])
        group = self.compared()
        return group.over_seeds(lambda run: run["accuracy"]) if group else None

    def by_seed(self) -> dict[int, float]:
        """The average accuracy over orders for each seed that has them all."""
        return {seed: fmean(run["accuracy"] for run in runs) for seed, runs in self.complete_seeds().items()}

    def _named(self, runs: Sequence[ResultDict]) -> MethodRuns | None:
        """Runs under the name of the row: two rows may be one method with different settings."""
        named = tuple(cast(ResultDict, {**run, "method": self.name}) for run in runs)
        return MethodRuns(self.name, self.lifelong, named) if named else None


@dataclass(frozen=True)
class PublishedRow:
    """A row of the paper's table whose figures are those of others: nothing is run for it."""

    name: str
    paper: Mapping[str, Spread]


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
    published: tuple[PublishedRow, ...] = ()

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

    def compared(self) -> list[MethodRuns]:
        """The runs that averages over orders are taken over, of every row with a complete seed."""
        return [group for row in self.with_runs() if (group := row.compared())]

    def of_order(self, order: str) -> list[MethodRuns]:
        """The runs of one order, of every row that has some; rows without an order of their own are in all of them."""
        return [group for row in self.with_runs() if (group := row.of_order(order))]

    def incomplete(self) -> list[str]:
        """The rows that have no complete seed yet."""
        return [row.name for row in self.rows if not row.complete_seeds()]

    def orders(self) -> list[str]:
        """The orders in which something was learned, as the recipe lists them."""
        there = {str(run["order"]) for row in self.rows if row.lifelong for run in row.runs}
        return [order for order in dict.fromkeys(order for row in self.rows for order in row.orders) if order in there]


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
