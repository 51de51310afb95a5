"""The accuracy matrices: after each task, what is known of every task."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from everlearn.report.palette import GAIN_SHADE, INK, MUTED, SMALL, shaded_cell, style_axes
from everlearn.report.panels import panel_title, titled_figure
from everlearn.report.results import MethodRuns

ACROSS = 3
MOST_TASKS_WITH_NUMBERS = 10


def matrices_figure(methods: Sequence[MethodRuns], subtitle: str) -> Figure | None:
    """A heat map for each method, mean over its runs (of one order); None where no run has a matrix."""
    shown = [(method.method, matrix, tasks) for method in methods for matrix, tasks in _mean_matrix(method)]
    if not shown:
        return None
    down = -(-len(shown) // ACROSS)
    figure = titled_figure("What is known after each task", subtitle, 10.0, 0.75 + 2.9 * down)
    for place, (name, matrix, tasks) in enumerate(shown):
        axes = figure.add_subplot(down, ACROSS, place + 1)
        style_axes(axes)
        panel_title(axes, name)
        for (row, column), value in np.ndenumerate(matrix):
            colour = shaded_cell(axes, (column + 0.03, row + 0.03, 0.94, 0.94), GAIN_SHADE, value / 100)
            if len(tasks) <= MOST_TASKS_WITH_NUMBERS:
                axes.text(column + 0.5, row + 0.5, f"{value:.0f}", size=7, color=colour, ha="center", va="center")
        axes.set_xlim(0, len(tasks))
        axes.set_ylim(len(tasks) + 1, 0)
        ticks = np.arange(len(tasks)) + 0.5
        axes.set_xticks(ticks, tasks, size=SMALL - 1, color=INK, rotation=45, ha="right", rotation_mode="anchor")
        names = ["before", *(f"after {task}" for task in tasks)]
        axes.set_yticks(np.arange(len(names)) + 0.5, names, size=SMALL - 1, color=MUTED)
    return figure


def _mean_matrix(method: MethodRuns) -> list[tuple["np.typing.NDArray[np.float64]", list[str]]]:
    matrices = [run["matrix"] for run in method.runs if run["matrix"] is not None]
    if not matrices:
        return []
    return [(100 * np.mean([matrix["accuracy"] for matrix in matrices], axis=0), matrices[0]["tasks"])]
