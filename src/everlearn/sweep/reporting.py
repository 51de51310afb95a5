"""`everlearn report`: the page, the tables and the figures of a sweep, written into a folder."""

import re
from collections.abc import Callable, Sequence
from itertools import chain, count
from pathlib import Path

from everlearn import __version__
from everlearn.errors import UserError
from everlearn.report.figure import save_figure
from everlearn.report.formats import latex, markdown
from everlearn.report.page import page
from everlearn.report.pictures import pictures
from everlearn.run_folder import write_text
from everlearn.sweep.gathering import gather

PAGE, MARKDOWN, LATEX, FIGURES = "index.html", "tables.md", "tables.tex", "figures"
LONGEST_NAME = 120
"""Letters of a file's name: an order may list the names of many tasks."""


def write_report(sweep: Path, out: Path, say: Callable[[str], None]) -> Path:
    """Everything there is to show of a sweep; the page's path."""
    study = gather(sweep)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {out} cannot be made: {error.strerror}.") from error
    for note in study.notes:
        say(note)
    write_text(out / MARKDOWN, markdown(study))
    write_text(out / LATEX, latex(study))
    drawn = {table.name: list(pictures(table)) for table in study.tables}
    figures = [(table, picture) for table, own in drawn.items() for picture in own]
    names = _file_names([f"{table}-{picture.name}" for table, picture in figures])
    for name, (_, picture) in zip(names, figures, strict=True):
        save_figure(picture.figure, out / FIGURES / f"{name}.png")
        write_text(out / FIGURES / f"{name}.svg", picture.svg)
    write_text(out / PAGE, page(study, drawn, __version__))
    return out / PAGE


def _file_names(texts: Sequence[str]) -> list[str]:
    """A name for a file for each of the texts, with a number where two would have the same.

    >>> _file_names(["Text classification (5 sets)-cost", "A +-cost", "A --cost", "A 2-cost"])
    ['text-classification-5-sets-cost', 'a-cost', 'a-cost-2', 'a-2-cost']
    """
    names: list[str] = []
    for text in texts:
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST_NAME]
        numbered = (f"{plain}-{number}" for number in count(2))
        names.append(next(name for name in chain([plain], numbered) if name not in names))
    return names
