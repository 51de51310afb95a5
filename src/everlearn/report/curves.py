"""The upper panel of the figure: accuracy over the stream, a line per method."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from everlearn.report.palette import FAINT, LINE_OF_TEXT, MUTED, TEXT, style_axes, task_name_style
from everlearn.report.results import MethodRuns

MOST_POINTS_WITH_DOTS = 60


def has_curve(method: MethodRuns) -> bool:
    """Whether there is a line to draw for the method."""
    return method.lifelong and bool(_curve(method)[0].size)


def draw_curves(
    axes: Axes, methods: Sequence[MethodRuns], tasks: Sequence[str], slanted: bool, colours: Mapping[str, str]
) -> None:
    """A line per method with its name at the end, a dashed level for methods that are not lifelong."""
    style_axes(axes)
    ends: list[tuple[MethodRuns, float]] = []
    for method in methods:
        if has_curve(method):
            ends.append((method, _draw_line(axes, method, colours[method.method])))
        elif not method.lifelong:
            ends.append((method, _draw_level(axes, method, colours[method.method])))
    low, high = axes.get_ylim()
    axes.set_ylim(max(0, 10 * np.floor(low / 10)), min(100, 10 * np.ceil(high / 10)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter("{x:g}%")
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("examples seen", size=TEXT, color=MUTED, labelpad=6)
    _mark_tasks(axes, methods, tasks, slanted)
    _label_ends(axes, ends, colours)


def spread_apart(heights: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """The heights, moved as little as possible (in least squares) until any two are at least `gap` apart.

    Heights that are too close form a block around their mean. All stay between `low` and `high`, if there is room.

    >>> spread_apart([70.0, 20.0, 71.0, 69.0], gap=5.0)
    [70.0, 20.0, 75.0, 65.0]
    >>> spread_apart([3.0, 20.0, 2.0, 1.0], gap=5.0, low=0.0, high=100.0)
    [10.0, 20.0, 5.0, 0.0]
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    blocks: list[tuple[float, int]] = []  # where the stack of all labels would start to suit the block; its size
    for place, index in enumerate(order):
        start, size = heights[index] - place * gap, 1
        while blocks and blocks[-1][0] > start:
            start_below, size_below = blocks.pop()
            start = (start * size + start_below * size_below) / (size + size_below)
            size += size_below
        blocks.append((start, size))
    highest = max(low, high - (len(heights) - 1) * gap)
    starts = [min(max(start, low), highest) for start, size in blocks for _ in range(size)]
    placed = {index: starts[place] + place * gap for place, index in enumerate(order)}
    return [placed[index] for index in range(len(heights))]


def _curve(method: MethodRuns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The evaluation points that all runs share, and accuracy in per cent: a row per run, a column per point."""
    curves = [{point["examples"]: 100 * point["accuracy"] for point in run["curve"]} for run in method.runs]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return np.array(shared, dtype=float), np.array([[curve[examples] for examples in shared] for curve in curves])


def _draw_line(axes: Axes, method: MethodRuns, colour: str) -> float:
    """The mean over runs with a band of one standard deviation; returns where the line ends.

    A grey line is background to those in colour: thin and without a band.
    """
    examples, runs = _curve(method)
    mean = runs.mean(axis=0)
    if colour == MUTED:
        axes.plot(examples, mean, color=colour, linewidth=0.9, alpha=0.75, zorder=2, clip_on=False)
        return float(mean[-1])
    marker = "o" if examples.size <= MOST_POINTS_WITH_DOTS else ""
    axes.plot(examples, mean, color=colour, linewidth=2, marker=marker, markersize=3.4, zorder=3, clip_on=False)
    if len(runs) > 1:
        std = runs.std(axis=0, ddof=1)
        axes.fill_between(examples, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0, zorder=2)
    return float(mean[-1])


def _draw_level(axes: Axes, method: MethodRuns, colour: str) -> float:
    """Final accuracy as a level; returns its height."""
    level = 100 * float(np.mean([run["accuracy"] for run in method.runs]))
    axes.axhline(level, color=colour, linestyle=(0, (4, 3)), linewidth=1.3, zorder=2)
    return level


def _mark_tasks(axes: Axes, methods: Sequence[MethodRuns], tasks: Sequence[str], slanted: bool) -> None:
    """Thin lines where one task ends and the next begins, with names above."""
    ends = next(run["task_ends"] for method in methods if has_curve(method) for run in method.runs)
    axes.set_xlim(0, max([1, axes.dataLim.xmax, *ends]))
    for end in ends[:-1]:
        axes.axvline(end, color=MUTED, linewidth=0.8, alpha=0.55, zorder=1)
    if len(ends) != len(tasks):
        return
    for task, start, end in zip(tasks, [0, *ends[:-1]], ends, strict=True):
        above = axes.get_xaxis_transform()
        axes.text((start + end) / 2, 1.02, task, transform=above, **task_name_style(slanted))


def _label_ends(axes: Axes, ends: Sequence[tuple[MethodRuns, float]], colours: Mapping[str, str]) -> None:
    """Each method's name beside the end of its line, joined to it by a thin leader."""
    low, high = axes.get_ylim()
    line = LINE_OF_TEXT / _inches_high(axes) * (high - low)
    places = spread_apart([end for _, end in ends], line, low, high)
    for (method, end), place in zip(ends, places, strict=True):
        colour = colours[method.method]
        beside = axes.get_yaxis_transform()
        axes.plot([1.008, 1.03], [end, place], transform=beside, color=colour, linewidth=0.9, clip_on=False)
        weight = "normal" if colour == MUTED else "bold"
        axes.text(1.037, place, method.label, transform=beside, color=colour, size=TEXT, weight=weight, va="center")


def _inches_high(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes that are drawn on belong to one
    return float(axes.get_position().height * figure.get_figheight())
