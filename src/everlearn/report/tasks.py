"""The tasks of a stream as a table and as a figure (the paper's figure of relations and sentences per cluster)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.markup import escape
from rich.table import Table

from everlearn.errors import UserError
from everlearn.report.figure import save_figure
from everlearn.report.palette import INK, LINES, SMALL
from everlearn.report.panels import panel_title, plain_axes, titled_figure
from everlearn.report.results import TaskSizeDict


class TaskDict(TaskSizeDict):
    """A task in numbers."""

    validation: int
    test: int
    mean_words: float
    most_words: int
    mean_candidates: float


def tasks_table(stream: str, tasks: Sequence[TaskDict]) -> Table:
    """A row for each task, and their sum."""
    ranked = any(task["mean_candidates"] for task in tasks)
    table = Table(title=f"{escape(stream)}: {len(tasks)} tasks in the order of the stream", title_justify="left")
    columns = ["task", "classes", "train", "val.", "test", "words", "longest"]
    for column in [*columns, *(["candidates"] if ranked else [])]:
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in tasks:
        counts = [f"{task[key]:,}" for key in ("classes", "train", "validation", "test")]
        cells = [escape(task["task"]), *counts, f"{task['mean_words']:.1f}", f"{task['most_words']:,}"]
        table.add_row(*cells, *([f"{task['mean_candidates']:.1f}"] if ranked else []))
    table.add_section()
    sums = [f"{sum(task[key] for task in tasks):,}" for key in ("train", "validation", "test")]
    table.add_row("all", "", *sums, "", f"{max(task['most_words'] for task in tasks):,}")
    return table


def draw_tasks(stream: str, tasks: Sequence[TaskDict], path: Path) -> None:
    """Classes, training examples and lengths per task, in the order of the stream, as a PNG file."""
    if path.suffix.lower() != ".png":
        raise UserError(f"the figure is a PNG file: call {path} something that ends in .png.")
    figure, (classes, train, words) = _panels(stream, 3)
    _bars(classes, "classes per task", tasks, [task["classes"] for task in tasks])
    _bars(train, "training examples per task", tasks, [task["train"] for task in tasks])
    _bars(words, "words per text: mean, longest", tasks, [task["mean_words"] for task in tasks], "{:,.1f}")
    words.plot([task["most_words"] for task in tasks], linestyle="", marker="_", markersize=12, color=INK)
    words.set_ylim(bottom=0)
    save_figure(figure, path)


def tasks_figure(stream: str, tasks: Sequence[TaskSizeDict]) -> Figure:
    """Bars of classes and of training examples per task, in the order given."""
    figure, (classes, train) = _panels(stream, 2)
    _bars(classes, "classes per task", tasks, [task["classes"] for task in tasks])
    _bars(train, "training examples per task", tasks, [task["train"] for task in tasks])
    return figure


def _panels(stream: str, count: int) -> tuple[Figure, list[Axes]]:
    figure = titled_figure(f"{stream}: what each task holds", "in the order of the stream", 5.0 * count, 3.8)
    return figure, [figure.add_subplot(1, count, place + 1) for place in range(count)]


def _bars(
    axes: Axes, title: str, tasks: Sequence[TaskSizeDict], heights: Sequence[float], written: str = "{:,.0f}"
) -> None:
    names = [task["task"] for task in tasks]
    plain_axes(axes)
    panel_title(axes, title)
    bars = axes.bar(names, heights, color=LINES[0])
    axes.bar_label(bars, fmt=written, fontsize=SMALL, color=INK, padding=2)
    axes.margins(y=0.12)
    axes.tick_params(axis="both", labelsize=SMALL)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if max(map(len, names)) * len(names) > 60:
        axes.tick_params(axis="x", rotation=30)
