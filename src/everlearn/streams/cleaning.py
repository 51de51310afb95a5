"""The paper's clean-up of the text-classification data, so that scores can be compared with the published ones."""

import re
from collections.abc import Sequence

_URL = re.compile(r"(?:https?://|www\.)\S+")
_REPEATED_MARK = re.compile(r"([.?!])\1+")

SENTENCE_JOIN = ". "
# The published code joins the parts of a Yahoo question with nothing between them, which glues the last word of one
# part to the first of the next; a space keeps both words.
SPACE_JOIN = " "


def join(parts: Sequence[str], separator: str) -> str:
    """Title and body as one text, still raw.

    >>> join(["Oil falls ", " Prices fell on Friday."], SENTENCE_JOIN)
    'Oil falls. Prices fell on Friday.'
    """
    return separator.join(part.strip() for part in parts)


def clean(text: str) -> str:
    r"""Lower-case, without URLs and backslashes, without repeated marks and spaces.

    >>> clean("WAIT...  what?!!\\n\\nOnly $5 at https://x.example/a?b=1 today")
    'wait. what?! only $ 5 at today'

    A newline written as backslash and n parts two words, so a space takes its place; other backslashes just go.

    >>> clean(r"good.\nA \"great\" place")
    'good. a "great" place'
    """
    # The written newlines go before the URLs, or a URL at the end of a line would take the next word with it.
    text = text.lower().replace("\\n", " ")
    text = _URL.sub(" ", text)
    text = text.replace("\\", "").replace("$", "$ ")
    text = _REPEATED_MARK.sub(r"\1", text)
    return " ".join(text.split())
