"""Accuracy against cost: tokens, seconds, memory, and who is on the frontier."""

from collections.abc import Callable, Sequence
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from everlearn.report.palette import INK, LINE_OF_TEXT, MUTED, PAPER, SMALL, method_colours
from everlearn.report.panels import plain_axes, titled_figure
from everlearn.report.results import MethodRuns, ResultDict

MARKERS = "osD^vPX<>hp"
"""A shape for each row, so that nobody needs to tell them apart by colour alone."""
Cost = Callable[[ResultDict], float]


def _tokens(run: ResultDict) -> float:
    return run["ledger"]["train"]["tokens_forward"] + run["ledger"]["train"]["tokens_backward"]


COSTS: dict[str, tuple[Cost, str]] = {
    "tokens while learning, forward + backward": (_tokens, ""),
    "seconds of learning": (lambda run: run["ledger"]["train"]["seconds"], "s"),
    "memory of examples": (lambda run: run["ledger"]["memory_bytes"], "B"),
}


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the points (cost, accuracy) that no other beats in both, cheapest first.

    >>> frontier([(1, 20), (3, 50), (2, 50), (4, 40)])
    [0, 2]
    """
    best, found = float("-inf"), []
    for place in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1])):
        if points[place][1] > best:
            best = points[place][1]
            found.append(place)
    return found


def frontier_figure(methods: Sequence[MethodRuns], subtitle: str) -> Figure | None:
    """A panel for each cost; a line joins the lifelong rows that are on the frontier. None without any row."""
    if not methods:
        return None
    height = max(4.2, 0.8 + LINE_OF_TEXT * len(methods))  # the legend has a line for each
    figure = titled_figure("Accuracy against cost", subtitle, 10.0, height)
    colours = method_colours(methods)
    for place, (title, (cost, unit)) in enumerate(COSTS.items()):
        axes = figure.add_subplot(1, len(COSTS), place + 1)
        plain_axes(axes, grid="both")
        axes.set_xlabel(title)
        points = [
            (fmean(cost(run) for run in method.runs), 100 * fmean(run["accuracy"] for run in method.runs))
            for method in methods
        ]
        lifelong = [index for index, method in enumerate(methods) if method.lifelong]
        front = [lifelong[index] for index in frontier([points[index] for index in lifelong])]
        axes.plot(*zip(*(points[index] for index in front), strict=True), color=MUTED, linewidth=1, zorder=1)
        for index, (method, (x, y)) in enumerate(zip(methods, points, strict=True)):
            filled = colours[method.method] if index in front or not method.lifelong else PAPER
            marker = MARKERS[index % len(MARKERS)]
            axes.plot(x, y, marker, color=colours[method.method], markerfacecolor=filled, markersize=8, zorder=3)
        axes.xaxis.set_major_formatter(EngFormatter(unit=unit, sep=""))
        axes.yaxis.set_major_formatter("{x:g}%")
        axes.margins(0.18, 0.14)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    handles = [
        Line2D([], [], marker=MARKERS[index % len(MARKERS)], color=colours[method.method], linestyle="")
        for index, method in enumerate(methods)
    ]
    names = [method.label for method in methods]
    figure.legend(handles, names, frameon=False, fontsize=SMALL, labelcolor=INK, loc="outside right center")
    return figure
