"""ANML-ER's gate: a text's features before it, the gate itself, and the features after it (paper, appendix A.7)."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from everlearn.report.palette import INK, MUTED, SMALL, style_axes
from everlearn.report.panels import panel_title, titled_figure
from everlearn.report.results import MethodRuns

SHAPES = {768: (16, 48), 384: (16, 24)}
"""Rows and columns that features are laid out in, as in the paper; other widths in as square a shape as they allow."""


def gates_figure(methods: Sequence[MethodRuns], subtitle: str) -> Figure | None:
    """Three pictures for each text that was kept, from the first run that kept some."""
    runs = [run for method in methods for run in method.runs if run.get("signals")]
    if not runs:
        return None
    signals = {name: np.array(values) for name, values in runs[0]["signals"].items()}
    texts, width = signals["gate"].shape
    open_share = float((signals["gate"] > 0.9).mean())
    told = f"{subtitle} · seed {runs[0]['seed']} · gate: mean {signals['gate'].mean():.2f}, {open_share:.0%} above 0.9"
    figure = titled_figure("ANML-ER: what the gate lets through", told, 10.0, 5.2)
    shape = SHAPES.get(width) or _squarest(width)
    reach = float(np.abs(np.concatenate([signals["before"], signals["after"]])).max())
    for row, name in enumerate(("before", "gate", "after")):
        low, high, colours = (0.0, 1.0, "cividis") if name == "gate" else (-reach, reach, "RdBu")
        for column in range(texts):
            axes = figure.add_subplot(3, texts, row * texts + column + 1)
            style_axes(axes)
            image = axes.imshow(signals[name][column].reshape(shape), vmin=low, vmax=high, cmap=colours, aspect="auto")
            axes.set_xticks([])
            axes.set_yticks([])
            if row == 0:
                panel_title(axes, f"text {column + 1}")
            if column == 0:
                label = {"before": "features", "gate": "gate", "after": "features × gate"}[name]
                axes.set_ylabel(label, size=SMALL, color=INK)
            if column == texts - 1:
                bar = figure.colorbar(image, ax=axes, shrink=0.9)
                bar.outline.set_visible(False)
                bar.ax.tick_params(length=0, labelsize=SMALL - 1, labelcolor=MUTED)
    return figure


def _squarest(width: int) -> tuple[int, int]:
    """Rows and columns that give `width`, as equal as can be.

    >>> _squarest(32), _squarest(7)
    ((4, 8), (1, 7))
    """
    rows = next(rows for rows in range(math.isqrt(width), 0, -1) if width % rows == 0)
    return rows, width // rows
