"""Measured speed as a figure: speed-up per method and problem, and how cost grows."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from speed_targets import METHODS, PROBLEMS, SPEED_UPS, Figures

from everlearn.report.palette import INK, LINES, MUTED, SMALL
from everlearn.report.panels import panel_title, plain_axes, titled_figure

GROWTH = {"length": "tokens a text", "classes": "classes"}


def speed_figure(figures: Figures, subtitle: str) -> Figure:
    """Above, a panel of bars for each problem; below, one for each thing that cost may grow with."""
    found = [key.split("/") for key in figures if key.count("/") == 2]
    problems = [stream for stream in PROBLEMS if any(key[1] == stream for key in found)]
    grown = [part for part in GROWTH if any(key.endswith(f"/{part}") for key in figures)]
    below = len(grown) + ("memory" in figures)
    rows = [count for count in (len(problems), below) if count]
    drawn = titled_figure("How fast, and what makes it slower", subtitle, 11.0, 0.8 + 3.1 * max(1, len(rows)))
    parts = iter(drawn.subfigures(len(rows), 1, squeeze=False).flat if rows else ())
    if problems:
        for axes, stream in zip(next(parts).subplots(1, len(problems), squeeze=False).flat, problems, strict=True):
            _speed_ups(axes, figures, stream, [key[0] for key in found if key[1] == stream])
    if below:
        panels = list(next(parts).subplots(1, below, squeeze=False).flat)
        for axes, part in zip(panels, grown, strict=False):
            measured = {key.split("/")[0]: figures[key] for key in figures if key.endswith(f"/{part}")}
            _growth(axes, measured, GROWTH[part])
        if "memory" in figures:
            _memory(panels[-1], figures["memory"])
    return drawn


def _speed_ups(axes: Axes, figures: Figures, stream: str, encoders: list[str]) -> None:
    """A group of bars for each method, one for each encoder; a line across a bar is the aim."""
    plain_axes(axes)
    panel_title(axes, f"Speed-up, {PROBLEMS[stream]} (black line: the aim)")
    encoders = list(dict.fromkeys(encoders))
    methods = [m for m in METHODS if any(f"{encoder}/{stream}/{m}" in figures for encoder in encoders)]
    wide = 0.8 / len(encoders)
    for number, encoder in enumerate(encoders):
        for place, method in enumerate(methods):
            arm = f"{encoder}/{stream}/{method}"
            if arm not in figures:
                continue
            left, ratio = place - 0.4 + number * wide, figures[arm]["ratio"]
            label = encoder if method == methods[0] else None
            axes.bar(left, ratio, 0.94 * wide, align="edge", color=LINES[number], label=label)
            axes.text(left + wide / 2, ratio, f"{ratio:.1f}", ha="center", va="bottom", size=SMALL, color=INK)
            if arm in SPEED_UPS:
                axes.hlines(SPEED_UPS[arm], left, left + wide, color=INK, linewidth=1.4)
    axes.set_xticks(range(len(methods)), [METHODS[method] for method in methods], size=SMALL)
    axes.yaxis.set_major_formatter("{x:g} ×")
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=MUTED)


def _growth(axes: Axes, by_encoder: Mapping[str, Figures], name: str) -> None:
    plain_axes(axes, grid="both")
    panel_title(axes, f"OML-ER by {name}")
    for number, (encoder, figures) in enumerate(by_encoder.items()):
        rates = [at["examples_per_second"] for at in figures.values()]
        axes.plot([int(size) for size in figures], rates, "o-", color=LINES[number], label=encoder)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    sizes = sorted({int(size) for figures in by_encoder.values() for size in figures})
    axes.set_xticks(sizes)
    axes.minorticks_off()
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(name)
    axes.set_ylabel("examples/s")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=MUTED)


def _memory(axes: Axes, figures: Figures) -> None:
    """Time of a read, and on an axis of its own what the memory takes."""
    plain_axes(axes)
    panel_title(axes, "The memory by its size")
    sizes = [int(size) for size in figures]
    reads = [at["read_milliseconds"] for at in figures.values()]
    (time,) = axes.plot(sizes, reads, "o-", color=LINES[0])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.minorticks_off()
    axes.set_ylim(0, 1.6 * max(reads))
    axes.set_xlabel("entries")
    axes.set_ylabel("a read of 96, ms")
    other = axes.twinx()
    plain_axes(other, grid="x")
    (room,) = other.plot(sizes, [at["bytes"] / 1e6 for at in figures.values()], "s--", color=LINES[1])
    other.set_yscale("log")
    other.yaxis.set_major_formatter(EngFormatter(sep=""))
    other.minorticks_off()
    other.set_ylabel("MB")
    axes.legend([time, room], ["time", "size"], frameon=False, fontsize=SMALL, labelcolor=MUTED, loc="upper left")
