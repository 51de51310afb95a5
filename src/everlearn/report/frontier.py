"""Accuracy against cost: tokens, seconds, memory, and who is on the frontier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from everlearn.report.palette import INK, LINE_OF_TEXT, MUTED, PAPER, SMALL
from everlearn.report.panels import plain_axes, titled_figure
from everlearn.report.results import MethodRuns, ResultDict, bytes_held

MARKERS = "osD^vPX<>hp"
"""Shapes of rows, so that nobody needs to tell them apart by colour alone; rows beyond these and the colours have a
number each."""


@dataclass(frozen=True)
class Cost:
    """What a panel is about: its title, what a run paid, and in what."""

    title: str
    paid: Callable[[ResultDict], float]
    unit: str = ""
    pool_counts: bool = True
    """Whether it says something of a method that is given the pool."""

    def of(self, method: MethodRuns) -> float:
        """The mean over runs."""
        return fmean(self.paid(run) for run in method.runs)


def _tokens(run: ResultDict) -> float:
    return run["ledger"]["train"]["tokens_forward"] + run["ledger"]["train"]["tokens_backward"]


COSTS = (
    Cost("tokens while learning, forward + backward", _tokens),
    Cost("time of learning", lambda run: run["ledger"]["train"]["seconds"], "s"),
    Cost("memory: examples and what else is kept", bytes_held, "B", pool_counts=False),
    Cost("time of one test", lambda run: run["ledger"]["test"]["seconds"], "s"),
)


def unit_of_time(longest: float) -> tuple[str, float]:
    """In what an axis up to so many seconds is marked, and how many seconds that is.

    >>> unit_of_time(0.5), unit_of_time(100.0), unit_of_time(3000.0), unit_of_time(9000.0)
    (('s', 1.0), ('s', 1.0), ('min', 60.0), ('h', 3600.0))
    """
    return next(
        (unit, size) for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)) if longest > 2 * size or size == 1
    )


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


def frontier_figure(methods: Sequence[MethodRuns], subtitle: str, colours: Mapping[str, str]) -> Figure | None:
    """A panel for each cost; a line joins the lifelong rows that are on the frontier. None without any row."""
    if not methods:
        return None
    height = max(4.2, 0.8 + LINE_OF_TEXT * len(methods))  # the legend has a line for each
    figure = titled_figure("Accuracy against cost", subtitle, 12.5, height)
    markers = _markers(methods, colours)
    for place, cost in enumerate(COSTS):
        axes = figure.add_subplot(1, len(COSTS), place + 1)
        plain_axes(axes, grid="both")
        unit, size = unit_of_time(max(map(cost.of, methods))) if cost.unit == "s" else ("", 1.0)
        axes.set_xlabel(f"{cost.title}, {unit}" if unit else cost.title)
        points = [(cost.of(method) / size, 100 * fmean(run["accuracy"] for run in method.runs)) for method in methods]
        lifelong = [index for index, method in enumerate(methods) if method.lifelong]
        front = [lifelong[index] for index in frontier([points[index] for index in lifelong])]
        axes.plot(*zip(*(points[index] for index in front), strict=True), color=MUTED, linewidth=1, zorder=1)
        for index, (method, (x, y)) in enumerate(zip(methods, points, strict=True)):
            if not (method.lifelong or cost.pool_counts):
                continue
            marked = index in front or not method.lifelong
            axes.plot(x, y, zorder=3, **_style(markers[method.method], colours[method.method], marked))
        axes.xaxis.set_major_formatter("{x:g}" if unit else EngFormatter(unit=cost.unit, sep=""))
        axes.yaxis.set_major_formatter("{x:g}%")
        axes.margins(0.18, 0.14)
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    handles = [Line2D([], [], linestyle="", **_style(markers[m.method], colours[m.method], True)) for m in methods]
    names = [method.label for method in methods]
    figure.legend(handles, names, frameon=False, fontsize=SMALL, labelcolor=INK, loc="outside right center")
    return figure


def _markers(methods: Sequence[MethodRuns], colours: Mapping[str, str]) -> dict[str, str]:
    """A shape for each row; where there are more rows than shapes, those in grey are numbered instead."""
    if len(methods) <= len(MARKERS):
        return dict(zip((method.method for method in methods), MARKERS, strict=False))
    grey = [method.method for method in methods if method.lifelong and colours[method.method] == MUTED]
    shapes = iter(MARKERS * len(methods))
    return {
        method.method: f"${grey.index(method.method) + 1}$" if method.method in grey else next(shapes)
        for method in methods
    }


def _style(marker: str, colour: str, marked: bool) -> dict[str, Any]:
    """How a row's point looks: filled where it is marked; a number, which has no inside, is bold instead."""
    if marker.startswith("$"):
        # Markers are scaled to a width: two digits need more of it to be as high as one.
        size = 6 if len(marker) == len("$1$") else 9
        weight = {"color": INK, "markeredgewidth": 0.8} if marked else {"color": colour, "markeredgewidth": 0.1}
        return {"marker": marker, "markersize": size, **weight}
    return {"marker": marker, "color": colour, "markerfacecolor": colour if marked else PAPER, "markersize": 8}
