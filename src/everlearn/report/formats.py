"""A study's tables in Markdown and in LaTeX."""

from everlearn.report.statistics import in_words
from everlearn.report.study import Study
from everlearn.report.study_tables import COSTS, Cell, TableText, table_text

CAPTION = "Accuracy in %, mean ± standard deviation over seeds; in brackets the paper's."
TEST_CAPTION = "Two-tailed paired t-tests over runs of equal order and seed, not corrected for their number:"


def markdown(study: Study) -> str:
    """All tables, their costs and their tests."""
    parts = [f"# {study.title}", study.shows, *(f"> {note}" for note in study.notes)]
    for table in map(table_text, study.tables):
        parts += [f"## {table.name}", CAPTION, _markdown_accuracy(table)]
        if table.costs:
            parts += ["What it cost, means over runs:", _markdown_rows(("row", *COSTS), table.costs)]
        if table.tests:
            parts += [TEST_CAPTION, "\n".join(f"- {in_words(test)}" for test in table.tests)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_accuracy(table: TableText) -> str:
    def cell(cell: Cell) -> str:
        here = f"**{cell.here}**" if cell.best else cell.here
        return f"{here} ({cell.paper})" if cell.paper != "–" else here

    rows = [(line.name, *map(cell, line.cells), line.expected, line.runs) for line in table.lines]
    return _markdown_rows(("row", *table.columns, "expected", "runs"), rows)


def _markdown_rows(header: tuple[str, ...], rows: "list[tuple[str, ...]] | tuple[tuple[str, ...], ...]") -> str:
    alignment = ("---", *["---:"] * (len(header) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, alignment, *rows))


def latex(study: Study) -> str:
    """The tables of accuracies for a paper, with booktabs."""
    return "\n".join(_latex_table(study.title, table_text(table)) for table in study.tables)


def _latex_table(title: str, table: TableText) -> str:
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"    \toprule",
        f"    Method & {' & '.join(column.capitalize() for column in table.columns)} \\\\",
        r"    \midrule",
    ]
    previous = True
    for line in table.lines:
        if previous and not line.lifelong and line != table.lines[0]:
            lines.append(r"    \midrule")
        previous = line.lifelong
        lines.append(f"    {_escaped(line.name)} & {' & '.join(map(_latex_cell, line.cells))} \\\\")
    caption = _escaped(f"{title}: {table.name}. {CAPTION}")
    lines += [r"    \bottomrule", r"  \end{tabular}", rf"  \caption{{{caption}}}", r"\end{table}", ""]
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    here = _escaped(cell.here)
    here = rf"\textbf{{{here}}}" if cell.best else here
    return rf"{here} {{\scriptsize ({_escaped(cell.paper)})}}" if cell.paper != "–" else here


def _escaped(text: str) -> str:
    """Text that LaTeX takes as it is meant.

    >>> _escaped("REPLAY 10 % − A_B ± 1")
    'REPLAY 10 \\\\% $-$ A\\\\_B $\\\\pm$ 1'
    """
    for plain, command in (("\\", r"\textbackslash "), *((c, "\\" + c) for c in "&%$#_{}")):
        text = text.replace(plain, command)
    for plain, command in (("±", r"$\pm$"), ("−", "$-$"), ("–", "--"), ("→", r"$\rightarrow$"), ("·", r"$\cdot$")):
        text = text.replace(plain, command)
    return text
