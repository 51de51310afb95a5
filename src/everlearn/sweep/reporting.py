"""`everlearn report`: the page, the tables and the figures of a sweep, written into a folder."""

import re
from collections.abc import Callable
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
    for table, figures in drawn.items():
        for picture in figures:
            name = f"{_file_name(table)}-{_file_name(picture.name)}"
            save_figure(picture.figure, out / FIGURES / f"{name}.png")
            write_text(out / FIGURES / f"{name}.svg", picture.svg)
    write_text(out / PAGE, page(study, drawn, __version__))
    return out / PAGE


def _file_name(text: str) -> str:
    """A name for a file.

    >>> _file_name("Text classification (5 sets)")
    'text-classification-5-sets'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
