"""Accuracy against a setting that varies along the rows, such as the replay rate: here and in the paper."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everlearn.report.palette import INK, LINES, MUTED, SMALL
from everlearn.report.panels import plain_axes, titled_figure
from everlearn.report.results import Spread
from everlearn.report.study import AVERAGE, StudyRow, StudyTable

NAMES = {"write_probability": "share of the stream that is kept", "replay_interval": "replay interval R_I"}
PAPERS_LINE = {"linestyle": (0, (4, 3)), "alpha": 0.65}
IN_PER_CENT = {"replay_rate", "write_probability"}


def setting_figure(table: StudyTable, subtitle: str) -> Figure | None:
    """A line for each method, with bars of one standard deviation, and the paper's beside it, dashed.

    A row that sees all tasks at once is a level: the setting means nothing to it.
    """
    setting = table.curve
    complete = [row for row in table.with_runs() if row.complete_seeds()]
    rows = [row for row in complete if row.lifelong]
    if setting is None or not rows:
        return None
    name = NAMES.get(setting, setting.replace("_", " "))
    figure = titled_figure(f"Accuracy against the {name}", subtitle, 7.5, 4.0)
    axes = figure.add_subplot()
    plain_axes(axes)
    scale = 100 if setting in IN_PER_CENT else 1
    methods = list(dict.fromkeys(str(row.settings["method"]) for row in rows))
    for number, method in enumerate(methods):
        own = [row for row in rows if row.settings["method"] == method]
        colour = LINES[number % len(LINES)]
        for source, dashed in (("here", False), ("paper", True)):
            points = [
                (scale * float(row.settings[setting]), value)
                for row in sorted(own, key=lambda row: float(row.settings[setting]))
                if (value := _value(row, paper=dashed)) is not None
            ]
            if points:
                _draw(axes, points, colour, dashed, f"{method.upper()}, {source}")
    for row in complete:
        if not row.lifelong:
            _draw_levels(axes, row)
    if scale == 100:
        axes.xaxis.set_major_formatter("{x:g}%")
    if max(_values(rows, setting)) > 20 * min(_values(rows, setting)):
        axes.set_xscale("log")
    ticks = sorted({scale * value for value in _values(rows, setting)})
    axes.set_xticks(ticks, [f"{tick:g}{'%' if scale == 100 else ''}" for tick in ticks], color=INK)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}%")
    axes.set_xlabel(name)
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=MUTED, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _draw(axes: Axes, points: Sequence[tuple[float, Spread]], colour: str, dashed: bool, label: str) -> None:
    x = [place for place, _ in points]
    mean = [100 * value.mean for _, value in points]
    bars = [100 * (value.std or 0.0) for _, value in points]
    style: dict[str, Any] = {**PAPERS_LINE, "marker": "D"} if dashed else {"marker": "o"}
    axes.errorbar(x, mean, yerr=bars, color=colour, linewidth=1.8, markersize=5, capsize=3, label=label, **style)


def _draw_levels(axes: Axes, row: StudyRow) -> None:
    """Each level with its name above it, the paper's at the other end so that the two do not collide."""
    for source, dashed in (("here", False), ("paper", True)):
        value = _value(row, paper=dashed)
        if value is None:
            continue
        height, place = 100 * value.mean, 0.0 if dashed else 1.0
        style: dict[str, Any] = PAPERS_LINE if dashed else {}
        axes.axhline(height, color=MUTED, linewidth=1.3, **style)
        axes.annotate(
            f"{row.name}, {source}", (place, height), xycoords=axes.get_yaxis_transform(), xytext=(0, 3),
            textcoords="offset points", ha="left" if dashed else "right", size=SMALL, color=MUTED,
        )  # fmt: skip


def _value(row: StudyRow, paper: bool) -> Spread | None:
    return row.paper.get(AVERAGE) if paper else row.accuracy(AVERAGE)


def _values(rows: Sequence[StudyRow], setting: str) -> list[float]:
    return [float(row.settings[setting]) for row in rows]
