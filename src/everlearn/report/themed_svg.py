"""A figure as SVG that is part of a page: text stays text, and colours follow the page's light or dark scheme."""

import io
import re

import matplotlib as mpl
from matplotlib.figure import Figure

from everlearn.report.palette import FAINT, GAIN_SHADE, INK, LINES, LOSS_SHADE, MUTED, PAPER

# Colours of the palette and the page's variables for them.
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    FAINT: "--faint",
    PAPER: "--page",
    GAIN_SHADE: "--gain",
    LOSS_SHADE: "--loss",
    **{colour: f"--line-{number}" for number, colour in enumerate(LINES)},
}


def plain_svg(figure: Figure) -> str:
    """The figure as a file of its own."""
    # No date and no random names: the same results give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "everlearn"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def themed_svg(svg: str, title: str, number: int) -> str:
    """A figure for a page: no header, a name for screen readers, and the page's colours and font.

    `number` makes its ids its own: a page holds several figures.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="f{number}-\1"', svg)
    svg = re.sub(r'"#([^"]+)"', rf'"#f{number}-\1"', svg)
    svg = re.sub(r"url\(#", f"url(#f{number}-", svg)
    for colour, variable in VARIABLES.items():
        svg = re.sub(re.escape(colour), f"var({variable})", svg, flags=re.IGNORECASE)
    svg = re.sub(r"font: ([^;\"]*?)'[^;\"]*(?=[;\"])", r"font: \1var(--font)", svg)
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    if size:
        svg = svg.replace(size[0], f'style="max-width: {float(size[1]) * 4 / 3:.0f}px"', 1)
    name = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
