"""The tasks of a stream as a table and as a figure (the paper's figure of relations and sentences per cluster)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

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
    """Bars of classes and of training examples per task, in the order of the stream, as a PNG file."""
    save_figure(tasks_figure(stream, tasks), path)


def tasks_figure(stream: str, tasks: Sequence[TaskSizeDict]) -> Figure:
    """Bars of classes and of training examples per task, in the order given."""
    figure = titled_figure(f"{stream}: what each task holds", "in the order of the stream", 10.0, 3.8)
    names = [task["task"] for task in tasks]
    for position, (key, title) in enumerate((("classes", "classes per task"), ("train", "training examples per task"))):
        axes = figure.add_subplot(1, 2, position + 1)
        plain_axes(axes)
        panel_title(axes, title)
        bars = axes.bar(names, [task[key] for task in tasks], color=LINES[0])  # type: ignore[literal-required]
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=SMALL, color=INK, padding=2)
        axes.margins(y=0.12)
        axes.tick_params(axis="both", labelsize=SMALL)
        if max(map(len, names)) * len(names) > 60:
            axes.tick_params(axis="x", rotation=30)
    return figure
