"""Names in figures as they are written."""

from matplotlib.figure import Figure
from matplotlib.text import Text


def take_names_literally(figure: Figure) -> None:
    """Names come from data and recipes: a `$` in one is a dollar and never the beginning of a formula."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)
