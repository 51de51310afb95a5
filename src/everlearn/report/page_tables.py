"""The tables of the page, as HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from everlearn.report.comparisons import CAPTION, HEADER, comparison_cells
from everlearn.report.statistics import LEVEL, PairedTest
from everlearn.report.study_tables import TableLine, TableText
from everlearn.report.table import UNDEFINED


def accuracies(text: TableText) -> str:
    """Accuracy per row, the paper's below each figure."""
    paper = any(cell.paper != UNDEFINED for line in text.lines for cell in line.cells)

    def line(line: TableLine) -> str:
        cells = [
            _cell(cell.here, "best" if cell.best else "", _paper(cell.paper) if paper else "") for cell in line.cells
        ]
        quiet = [_cell(line.expected, "quiet"), _cell(line.runs, "quiet")]
        return _line(line.name, [*cells, *quiet], "" if line.lifelong else "bound")

    caption = "Accuracy in %" + ("; below each figure the paper’s" if paper else "")
    return _table(caption, ("method", *text.columns, "expected here", "runs"), map(line, text.lines))


def tests(outcomes: Sequence[PairedTest], level: int) -> str:
    """The differences that were tested, under a heading of this level; nothing where none were."""
    if not outcomes:
        return ""

    def line(test: PairedTest) -> str:
        significant = test.p is not None and test.p < LEVEL
        kinds = {"p": "best" if significant else "", "warning": "text quiet"}
        name, over, *cells = comparison_cells(test)
        named = zip(header, cells, strict=True)
        return _line(name, [_cell(cell, kinds.get(column, "")) for column, cell in named], below=over)

    first, second, *header = HEADER
    heads = (f"{first}, {second}", *header)
    return _heading(level, "Is it more than chance?") + _table(CAPTION, heads, map(line, outcomes))


def costs(text: TableText, level: int) -> str:
    """What each row cost, under a heading of this level."""
    lines = (_line(cells[0], [_cell(cell) for cell in cells[1:]]) for cells in text.costs)
    caption = "Means over the runs of complete seeds; tokens are forward plus backward"
    return _heading(level, "What it cost") + _table(caption, ("method", *text.cost_columns), lines, "costs")


def provenance(text: TableText) -> str:
    """What the runs were computed with and what they noted; nothing where that is not known."""
    found = text.provenance
    if found is None:
        return ""
    warnings = "".join(f'<p class="note" role="note">{escape(warning)}</p>' for warning in found.warnings)
    return f'<p class="provenance">{escape(found.line)}</p>{warnings}'


def _heading(level: int, text: str) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"


def _paper(figure: str) -> str:
    return f"<small>{escape(figure)}</small>" if figure != UNDEFINED else ""


def _cell(text: str, kind: str = "", below: str = "") -> str:
    return f"<td{_of_kind(kind)}>{escape(text)}{below}</td>"


def _line(name: str, cells: Sequence[str], kind: str = "", below: str = "") -> str:
    small = f"<small>{escape(below)}</small>" if below else ""
    return f'<tr{_of_kind(kind)}><th scope="row">{escape(name)}{small}</th>{"".join(cells)}</tr>'


def _of_kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _table(caption: str, header: Sequence[str], lines: Iterable[str], kind: str = "") -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    # A table that is wider than the page scrolls inside it, also by keyboard.
    return (
        f'<div class="{f"scroll {kind}".strip()}" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption><span>{escape(caption)}</span></caption>{body}</table></div>"
    )
