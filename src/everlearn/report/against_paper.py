"""The first figure of a table: what every row reached here, beside what the paper reports for it."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from everlearn.report.palette import FAINT, INK, LINES, MUTED, PAPER, SMALL, TEXT
from everlearn.report.panels import plain_axes, titled_figure
from everlearn.report.results import Spread
from everlearn.report.study import AVERAGE, StudyTable

HERE, PAPER_MARK = "o", "D"


def against_paper_figure(table: StudyTable, subtitle: str) -> Figure | None:
    """A dot for here, a hollow diamond for the paper, bars of one standard deviation; None without a complete seed."""
    rows = [row for row in table.with_runs() if row.complete_seeds()]
    if not rows:
        return None
    with_paper = any(AVERAGE in row.paper for row in rows)
    title = "Accuracy here and in the paper" if with_paper else "Accuracy"
    figure = titled_figure(title, subtitle, 10.0, 1.5 + 0.42 * len(rows))
    axes = figure.add_subplot()
    plain_axes(axes, grid="x")
    for place, row in enumerate(rows):
        here, paper = row.accuracy(AVERAGE), row.paper.get(AVERAGE)
        colour = LINES[0] if row.lifelong else MUTED
        if here and paper:
            axes.plot([100 * here.mean, 100 * paper.mean], [place, place], color=FAINT, linewidth=5, zorder=1)
        if paper:
            axes.errorbar(**_mark(paper, place), fmt=PAPER_MARK, color=MUTED, markerfacecolor=PAPER, zorder=3)
        if here:
            axes.errorbar(**_mark(here, place), fmt=HERE, color=colour, zorder=4)
            name = f"{100 * here.mean:.1f}"
            axes.annotate(
                name, (100 * here.mean, place), xytext=(0, 8), textcoords="offset points", ha="center", size=SMALL,
                color=colour, weight="bold",
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.name for row in rows], color=INK, size=TEXT)
    axes.set_ylim(len(rows) - 0.5, -0.7)
    axes.xaxis.set_major_formatter("{x:g}%")
    if with_paper:
        marks = [
            Line2D([], [], marker=HERE, color=LINES[0], linestyle="", label="here"),
            Line2D([], [], marker=PAPER_MARK, color=MUTED, markerfacecolor=PAPER, linestyle="", label="the paper"),
        ]
        style: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "labelcolor": MUTED, "ncols": 2}
        axes.legend(handles=marks, loc="lower right", bbox_to_anchor=(1.0, 1.0), **style)
    return figure


def _mark(value: Spread, place: int) -> dict[str, Any]:
    return {
        "x": 100 * value.mean, "y": place, "xerr": 100 * (value.std or 0.0), "markersize": 7, "linewidth": 1.6,
        "capsize": 3,
    }  # fmt: skip
