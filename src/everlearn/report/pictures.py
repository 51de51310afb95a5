"""Which figures a table of a study has."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from matplotlib.figure import Figure

from everlearn.report.against_paper import against_paper_figure
from everlearn.report.figure import accuracy_figure
from everlearn.report.forgetting import forgetting_figure
from everlearn.report.frontier import frontier_figure
from everlearn.report.gates import gates_figure
from everlearn.report.matrices import matrices_figure
from everlearn.report.palette import method_colours
from everlearn.report.results import MethodRuns
from everlearn.report.setting_curve import setting_figure
from everlearn.report.study import StudyTable
from everlearn.report.tasks import tasks_figure
from everlearn.report.themed_svg import plain_svg
from everlearn.report.violations import violations_figure


@dataclass(frozen=True)
class Picture:
    """A figure with its names: for a file, for a reader, and for the tab among its like where there are several."""

    name: str
    title: str
    figure: Figure
    tab: str = ""

    @cached_property
    def svg(self) -> str:
        """The figure as a file of its own."""
        return plain_svg(self.figure)


def pictures(table: StudyTable) -> Iterator[Picture]:
    """All figures there is something to show in."""
    rows = table.with_runs()
    if not rows:
        return
    groups, orders, run = table.compared(), table.orders(), rows[0].runs[0]
    colours = method_colours([MethodRuns(row.name, row.lifelong, row.runs) for row in rows])
    about = f"{run['stream']} · {run['encoder']} · {run['split']} split"
    all_orders = f"{about} · mean over order{'s' if len(orders) > 1 else ''} {', '.join(orders)}" if orders else about
    whole: list[tuple[str, str, Figure | None]] = [
        ("setting", "Accuracy against the setting", setting_figure(table, all_orders)),
        ("accuracy", "Accuracy of each row", against_paper_figure(table, all_orders)),
    ]
    yield from (Picture(name, title, figure) for name, title, figure in whole if figure)
    for order in orders:
        subtitle = f"{about} · order {order}"
        yield Picture(
            f"stream-{order}",
            "Accuracy over the stream",
            accuracy_figure(table.of_order(order), subtitle, colours),
            f"order {order}",
        )
    lifelong = [group for group in groups if group.lifelong]
    lost = forgetting_figure(lifelong, f"{all_orders} · points lost since a task was known best")
    if lost:
        yield Picture("forgetting", "Forgetting per task", lost)
    for order in orders:
        matrices = matrices_figure([g for g in table.of_order(order) if g.lifelong], f"{about} · order {order}")
        if matrices:
            yield Picture(f"matrix-{order}", "What is known after each task", matrices, f"order {order}")
    others: list[tuple[str, str, Figure | None]] = [
        (
            "cost",
            "Accuracy against cost",
            frontier_figure(groups, f"{all_orders} · filled or bold: on the frontier", colours),
        ),
        ("violations", "Constraint violations", violations_figure(groups, f"{all_orders} · mean per run")),
        ("gates", "ANML-ER's gate", gates_figure(groups, about)),
    ]
    yield from (Picture(name, title, figure) for name, title, figure in others if figure)
    sizes = next((run["tasks"] for row in rows if row.lifelong for run in row.runs if "tasks" in run), None)
    if sizes and len({size["train"] for size in sizes}) > 1:
        yield Picture("tasks", "Task distribution", tasks_figure(run["stream"], sizes))
