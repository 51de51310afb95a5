"""The tables of the page, as HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from everlearn.report.statistics import LEVEL, PairedTest, p_value, points
from everlearn.report.study_tables import COSTS, TableLine, TableText
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


def tests(outcomes: Sequence[PairedTest]) -> str:
    """The differences that were tested; nothing where none were."""
    if not outcomes:
        return ""

    def line(test: PairedTest) -> str:
        interval = " to ".join(map(points, test.interval)) if test.interval else UNDEFINED
        significant = test.p is not None and test.p < LEVEL
        cells = [
            _cell(UNDEFINED if test.difference is None else points(test.difference)),
            _cell(interval),
            _cell(UNDEFINED if test.effect is None else f"{test.effect:.2f}".replace("-", "−")),
            _cell(UNDEFINED if test.p is None else p_value(test.p), "best" if significant else ""),
            _cell(UNDEFINED if test.paper_p is None else p_value(test.paper_p)),
            _cell(str(len(test.pairs)), "", f"<small>{escape(_in_short(test.pairs))}</small>"),
            _cell(test.warning or "", "text quiet"),
        ]
        return _line(f"{test.first} − {test.second}", cells)

    caption = (
        "Differences in points: two-tailed paired t-tests over runs of equal order and seed, not corrected for their "
        "number; d is the mean difference in units of its standard deviation"
    )
    header = ("difference", "points", "95 % interval", "d", "p", "paper’s p", "pairs", "warning")
    return "<h3>Is it more than chance?</h3>" + _table(caption, header, map(line, outcomes))


def costs(text: TableText) -> str:
    """What each row cost."""
    lines = (_line(cells[0], [_cell(cell) for cell in cells[1:]]) for cells in text.costs)
    caption = "Means over runs; tokens are forward plus backward"
    return "<h3>What it cost</h3>" + _table(caption, ("method", *COSTS), lines)


def _in_short(pairs: Sequence[str]) -> str:
    """Which runs make the pairs, without naming them all.

    >>> _in_short(["order 1 seed 42", "order 1 seed 43", "order 2 seed 42"]), _in_short(["seed 42", "seed 43"])
    ('orders 1, 2 × seeds 42, 43', 'seeds 42, 43')
    """
    words = [pair.split() for pair in pairs]
    parts = []
    for name in ("order", "seed"):
        values = list(dict.fromkeys(pair[pair.index(name) + 1] for pair in words if name in pair))
        if values:
            parts.append(f"{name}{'s' if len(values) > 1 else ''} {', '.join(values)}")
    return " × ".join(parts)


def _paper(figure: str) -> str:
    return f"<small>{escape(figure)}</small>" if figure != UNDEFINED else ""


def _cell(text: str, kind: str = "", below: str = "") -> str:
    return f"<td{_of_kind(kind)}>{escape(text)}{below}</td>"


def _line(name: str, cells: Sequence[str], kind: str = "") -> str:
    return f'<tr{_of_kind(kind)}><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>'


def _of_kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _table(caption: str, header: Sequence[str], lines: Iterable[str]) -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    # A table that is wider than the page scrolls inside it, also by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>{body}</table></div>"
    )
