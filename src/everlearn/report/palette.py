"""Colours and text sizes that the panels of a figure share."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from everlearn.report.results import MethodRuns

# The Okabe-Ito palette, which colour-blind readers can tell apart, without its yellow: too pale for a line on white.
# Its black is not quite black: SVG leaves black out, and a dark page could not make it light.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#0a0a0a")
INK, MUTED, FAINT = "#1f2933", "#66727f", "#d5dbe1"
PAPER = "#ffffff"
# Cells are shaded with one colour, more or less of it, over whatever the page's own colour is.
GAIN_SHADE, LOSS_SHADE = "#0b3c66", "#7a2d0c"
TEXT, SMALL = 10.5, 8.5  # points
LETTER, LINE_OF_TEXT = 0.09, 0.2  # inches that a letter is wide, on average, and a line of text is high
SLANT = 35  # degrees, for task names that do not fit side by side
SLANT_RISE = 0.4  # height of a slanted name, as a part of its length


def method_colours(methods: Sequence[MethodRuns]) -> dict[str, str]:
    """A colour per lifelong method, or where there are more methods than colours, for the best of them.

    The others are grey, as are those that are not lifelong: no colour stands for two methods.
    """
    lifelong = [method for method in methods if method.lifelong]
    means = {method.method: fmean(run["accuracy"] for run in method.runs) for method in lifelong}
    best = sorted(means, key=lambda name: -means[name])[: len(LINES)]
    colours = dict(zip((name for name in means if name in best), LINES, strict=False))
    return {method.method: colours.get(method.method, MUTED) for method in methods}


def style_axes(axes: Axes) -> None:
    """No frame and no tick marks: the data are the picture."""
    axes.set_frame_on(False)
    axes.tick_params(length=0, labelsize=TEXT, labelcolor=INK)


def task_name_style(slanted: bool) -> dict[str, Any]:
    """How task names above a panel are written: side by side, or slanted where they would collide."""
    placed = {"rotation": SLANT, "ha": "left", "size": SMALL} if slanted else {"ha": "center", "size": TEXT}
    return {**placed, "color": MUTED, "rotation_mode": "anchor", "va": "baseline"}


def shaded_cell(axes: Axes, box: tuple[float, float, float, float], colour: str, share: float) -> str:
    """Fill a cell (left, top, width, height) with a share of a colour; the colour of text that stands out on it."""
    share = min(max(share, 0.0), 1.0)
    left, top, width, height = box
    axes.add_patch(Rectangle((left, top), width, height, facecolor=to_rgba(colour, 0.04 + 0.9 * share), linewidth=0))
    return PAPER if share > 0.6 else INK
