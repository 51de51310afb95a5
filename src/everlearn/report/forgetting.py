"""The figure of what was lost: forgetting per task and row, as a heat map."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from everlearn.report.palette import INK, LOSS_SHADE, TEXT, shaded_cell, style_axes, task_name_style
from everlearn.report.panels import titled_figure
from everlearn.report.results import MethodRuns, ResultDict


def forgetting_figure(methods: Sequence[MethodRuns], subtitle: str) -> Figure | None:
    """Points lost since each task was known best, mean over runs; None where no run has a matrix."""
    rows = {method.method: losses for method in methods if (losses := _losses(method))}
    if not rows:
        return None
    tasks = list(dict.fromkeys(task for losses in rows.values() for task in losses))
    figure = titled_figure("Forgetting per task", subtitle, 10.0, 1.3 + 0.42 * len(rows))
    axes = figure.add_subplot()
    style_axes(axes)
    for row, losses in enumerate(rows.values()):
        for column, task in enumerate(tasks):
            if task in losses:
                value = losses[task]
                colour = shaded_cell(axes, (column + 0.02, row + 0.05, 0.96, 0.9), LOSS_SHADE, value / 100)
                written = f"{value:.1f}".replace("-", "−")
                axes.text(column + 0.5, row + 0.5, written, size=TEXT, color=colour, ha="center", va="center")
    axes.set_xlim(0, len(tasks))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([row + 0.5 for row in range(len(rows))], list(rows), color=INK)
    axes.set_xticks([])
    slanted = max(map(len, tasks)) * len(tasks) > 90
    for column, task in enumerate(tasks):
        axes.text(column + 0.5, -0.15, task, **task_name_style(slanted))
    return figure


def _losses(method: MethodRuns) -> dict[str, float]:
    """Points lost per task, mean over the runs in which something came after the task."""
    found: dict[str, list[float]] = {}
    for run in method.runs:
        for task, loss in lost_per_task(run).items():
            found.setdefault(task, []).append(100 * loss)
    return {task: float(np.mean(values)) for task, values in found.items()}


def lost_per_task(run: ResultDict) -> dict[str, float]:
    """For every task but the last: the best it was known from then on, less what is known at the end."""
    if run["matrix"] is None:
        return {}
    accuracy, tasks = np.array(run["matrix"]["accuracy"]), run["matrix"]["tasks"]
    return {
        task: float(accuracy[place + 1 : -1, place].max() - accuracy[-1, place])
        for place, task in enumerate(tasks[:-1])
    }
