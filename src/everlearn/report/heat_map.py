"""The lower panel of the figure: final accuracy per method and task, which shows who forgot what."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from everlearn.report.palette import GAIN_SHADE, MUTED, TEXT, shaded_cell, style_axes, task_name_style
from everlearn.report.results import MethodRuns

MOST_TASKS_WITH_NUMBERS = 12  # beyond, the numbers in the cells would touch
OVERALL_SET_OFF = 0.03  # as a part of the width of all tasks
NAMES_ABOVE = -0.15  # in rows


def heat_map_heading(methods: Sequence[MethodRuns], tasks: Sequence[str]) -> str:
    """What the panel shows."""
    changes = [change for method in methods for change in _change_since_learned(method, tasks)]
    if len(tasks) > MOST_TASKS_WITH_NUMBERS:
        return "Final accuracy per task, darker where higher"
    if any(change is not None for change in changes):
        return "Final accuracy per task and, below it, the change since the task was learned"
    return "Final accuracy per task"


def draw_heat_map(
    axes: Axes, methods: Sequence[MethodRuns], tasks: Sequence[str], slanted: bool, colours: Mapping[str, str]
) -> None:
    """A row per method, a column per task and one for all together; darker is higher."""
    style_axes(axes)
    overall_left = len(tasks) * (1 + OVERALL_SET_OFF)
    overall_width = max(1.0, len(tasks) / MOST_TASKS_WITH_NUMBERS)  # there is always room for this number
    for row, method in enumerate(methods):
        final = _final(method, tasks)
        for column, (value, change) in enumerate(zip(final, _change_since_learned(method, tasks), strict=True)):
            colour = _shade(axes, column, row, 1.0, value)
            if len(tasks) <= MOST_TASKS_WITH_NUMBERS:
                _write_numbers(axes, column + 0.5, row + 0.5, value, change, colour)
        # As the run measured it: over joint test sets it is not the mean of the columns.
        overall = 100 * float(np.mean([run["accuracy"] for run in method.runs]))
        colour = _shade(axes, overall_left, row, overall_width, overall)
        _write_numbers(axes, overall_left + overall_width / 2, row + 0.5, overall, None, colour)
    axes.set_xlim(0, overall_left + overall_width)
    axes.set_ylim(len(methods), 0)
    _label_rows(axes, methods, colours)
    for column, task in enumerate(tasks):
        axes.text(column + 0.5, NAMES_ABOVE, task, **task_name_style(slanted))
    axes.text(overall_left + overall_width / 2, NAMES_ABOVE, "overall", **task_name_style(slanted=False))
    axes.set_xticks([])


def _final(method: MethodRuns, tasks: Sequence[str]) -> list[float]:
    """Final accuracy per task in per cent, mean over runs."""
    return [100 * float(np.mean([run["per_task"][task] for run in method.runs])) for task in tasks]


def _change_since_learned(method: MethodRuns, tasks: Sequence[str]) -> list[float | None]:
    """Final accuracy less accuracy right after the task, in per cent, mean over runs; None where it is not known.

    It is not known without a matrix, and not of interest for the last task, which nothing came after.
    """
    changes: list[NDArray[np.float64]] = []
    for run in method.runs:
        matrix = run["matrix"]
        if matrix is None or matrix["tasks"] != list(tasks) or len(matrix["accuracy"]) != len(tasks) + 1:
            return [None] * len(tasks)
        accuracy = np.array(matrix["accuracy"], dtype=float)
        changes.append(accuracy[-1] - np.diagonal(accuracy, offset=-1))
    return [*(100 * np.mean(changes, axis=0)[:-1]).tolist(), None]


def _shade(axes: Axes, left: float, row: int, width: float, value: float) -> str:
    """A cell, darker where the value is higher; the colour of text on it."""
    gap = 0.03 * width
    return shaded_cell(axes, (left + gap / 2, row + 0.04, width - gap, 0.92), GAIN_SHADE, value / 100)


def _write_numbers(axes: Axes, x: float, y: float, value: float, change: float | None, colour: str) -> None:
    """Accuracy in the middle of the cell, with the change below it if there is one."""
    if change is None:
        axes.text(x, y, f"{value:.1f}", size=TEXT, color=colour, ha="center", va="center_baseline")
        return
    axes.text(x, y - 0.13, f"{value:.1f}", size=TEXT, color=colour, ha="center", va="center")
    axes.text(x, y + 0.26, f"{change:+.1f}".replace("-", "−"), size=7, color=colour, ha="center", va="center")


def _label_rows(axes: Axes, methods: Sequence[MethodRuns], colours: Mapping[str, str]) -> None:
    axes.set_yticks([row + 0.5 for row in range(len(methods))], [method.label for method in methods])
    for label, method in zip(axes.get_yticklabels(), methods, strict=True):
        colour = colours[method.method]
        label.set(color=colour, weight="normal" if colour == MUTED else "bold")
