"""What the figures of a study share: a titled figure with room for panels, and axes in the house style."""

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from everlearn.report.palette import FAINT, INK, MUTED, TEXT, style_axes

DOTS_PER_INCH = 150


def titled_figure(title: str, subtitle: str, width: float, height: float) -> Figure:
    """An empty figure; the panels are laid out below its title."""
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - 0.62 / height), w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor="#ffffff", layout=layout)
    FigureCanvasAgg(figure)
    figure.text(0.1 / width, 1 - 0.2 / height, title, size=13, color=INK, weight="bold", va="center")
    figure.text(0.1 / width, 1 - 0.45 / height, subtitle, size=TEXT - 1, color=MUTED, va="center")
    return figure


def panel_title(axes: Axes, text: str) -> None:
    """The name of a panel, at its left."""
    axes.set_title(text, size=TEXT, color=INK, weight="bold", loc="left")


def plain_axes(axes: Axes, grid: str = "y") -> None:
    """The house style with a faint grid behind the data."""
    style_axes(axes)
    axes.grid(axis=grid, color=FAINT, linewidth=0.7)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.xaxis.label.set(size=TEXT - 1, color=MUTED)
    axes.yaxis.label.set(size=TEXT - 1, color=MUTED)
