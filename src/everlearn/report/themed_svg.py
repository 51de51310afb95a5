"""A figure as SVG that is part of a page: text stays text, and colours follow the page's light or dark scheme."""

import io
import re
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

from everlearn.report.palette import FAINT, GAIN_SHADE, INK, LINES, LOSS_SHADE, MUTED, PAPER
from everlearn.report.plain_text import take_names_literally

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
    take_names_literally(figure)
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
    # Tags alone: what stands between them are names, and stays as it is.
    svg = re.sub(r"<[^>]*>", lambda tag: _themed_tag(tag[0], number), svg)
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    if size:
        svg = svg.replace(size[0], f'style="max-width: {float(size[1]) * 4 / 3:.0f}px"', 1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def _themed_tag(tag: str, number: int) -> str:
    tag = re.sub(r'\bid="([^"]+)"', rf'id="f{number}-\1"', tag)
    tag = re.sub(r'"#([^"]+)"', rf'"#f{number}-\1"', tag)
    tag = re.sub(r"url\(#", f"url(#f{number}-", tag)
    for colour, variable in VARIABLES.items():
        tag = re.sub(re.escape(colour), f"var({variable})", tag, flags=re.IGNORECASE)
    return re.sub(r"font: ([^;\"]*?)'[^;\"]*(?=[;\"])", r"font: \1var(--font)", tag)
