"""The tasks of a stream as a table and as a figure (the paper's figure of relations and sentences per cluster)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from matplotlib.figure import Figure
from rich.table import Table

from everlearn.report.figure import save_figure
from everlearn.report.palette import INK, MUTED


class TaskDict(TypedDict):
    """A task in numbers."""

    task: str
    classes: int
    train: int
    validation: int
    test: int
    mean_words: float
    most_words: int
    mean_candidates: float


def tasks_table(stream: str, tasks: Sequence[TaskDict]) -> Table:
    """A row for each task, and their sum."""
    ranked = any(task["mean_candidates"] for task in tasks)
    table = Table(title=f"{stream}: {len(tasks)} tasks in the order of the stream", title_justify="left")
    columns = ["task", "classes", "train", "val.", "test", "words", "longest"]
    for column in [*columns, *(["candidates"] if ranked else [])]:
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in tasks:
        counts = [f"{task[key]:,}" for key in ("classes", "train", "validation", "test")]
        cells = [task["task"], *counts, f"{task['mean_words']:.1f}", f"{task['most_words']:,}"]
        table.add_row(*cells, *([f"{task['mean_candidates']:.1f}"] if ranked else []))
    table.add_section()
    sums = [f"{sum(task[key] for task in tasks):,}" for key in ("train", "validation", "test")]
    table.add_row("all", "", *sums, "", f"{max(task['most_words'] for task in tasks):,}")
    return table


def draw_tasks(stream: str, tasks: Sequence[TaskDict], path: Path) -> None:
    """Bars of classes and of training examples per task, in the order of the stream, as a PNG file."""
    figure = Figure(figsize=(10, 3.8), dpi=200, layout="constrained")
    figure.suptitle(f"{stream}: what each task holds, in the order of the stream", color=INK, fontweight="bold")
    names = [task["task"] for task in tasks]
    for position, (key, title) in enumerate((("classes", "classes per task"), ("train", "training examples per task"))):
        axes = figure.add_subplot(1, 2, position + 1)
        bars = axes.bar(names, [task[key] for task in tasks], color="#0072B2")  # type: ignore[literal-required]
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=8, color=INK, padding=2)
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=MUTED, labelsize=8)
        axes.margins(y=0.12)
        if max(map(len, names)) * len(names) > 60:
            axes.tick_params(axis="x", rotation=30)
    save_figure(figure, path)
