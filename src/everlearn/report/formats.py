"""A study's tables in Markdown and in LaTeX."""

import re
from collections.abc import Sequence

from everlearn.report import comparisons
from everlearn.report.comparisons import comparison_cells, difference
from everlearn.report.statistics import PairedTest
from everlearn.report.study import Study, problem_heading
from everlearn.report.study_tables import Cell, TableText, table_text

SIGNS = {"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "–": "--", "→": r"$\rightarrow$", "·": r"$\cdot$"}
SPECIAL = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
"""What LaTeX would take for something else, or set as something else."""
CAPTION = "Accuracy in %, mean ± standard deviation over seeds; in brackets the paper's."


def markdown(study: Study) -> str:
    """All tables, their costs and their tests."""
    parts = [f"# {_one_line(study.title)}", _one_line(study.shows), *map(_quoted, study.notes)]
    problems = study.by_problem()
    for problem, tables in problems.items():
        if len(problems) > 1:
            parts.append(f"## {_one_line(problem_heading(problem))}")
        for table in map(table_text, tables):
            level = "##" if len(problems) == 1 else "###"
            parts += [f"{level} {_markdown_cell(table.name)}", CAPTION, _markdown_accuracy(table)]
            if table.provenance:
                parts += [_one_line(table.provenance.line), *map(_quoted, table.provenance.warnings)]
            if table.costs:
                parts += [
                    "What it cost, means over the runs of complete seeds:",
                    _markdown_rows(("row", *table.cost_columns), table.costs),
                ]
            if table.tests:
                rows = tuple(map(comparison_cells, table.tests))
                parts += [comparisons.CAPTION, _markdown_rows(comparisons.HEADER, rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_accuracy(table: TableText) -> str:
    def cell(cell: Cell) -> str:
        here = f"**{cell.here}**" if cell.best else cell.here
        return f"{here} ({cell.paper})" if cell.paper != "–" else here

    rows = [
        (_markdown_cell(line.name), *map(cell, line.cells), _markdown_cell(line.expected), line.runs)
        for line in table.lines
    ]
    return _markdown_lines(("row", *map(_markdown_cell, table.columns), "expected", "runs"), rows)


def _markdown_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text."""
    return _markdown_lines(header, [list(map(_markdown_cell, row)) for row in rows])


def _markdown_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    alignment = ("---", *["---:"] * (len(header) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, alignment, *rows))


def _markdown_cell(text: str) -> str:
    """A name that Markdown takes as it is meant, also in a cell.

    >>> print(_markdown_cell("SEQ | a_b <i>"))
    SEQ \\| a\\_b &lt;i>
    """
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", _one_line(text))


def _quoted(sentence: str) -> str:
    return f"> {_one_line(sentence)}"


def _one_line(text: str) -> str:
    """A sentence that stays one paragraph and holds no HTML; code in it, such as a command, stays code."""
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def latex(study: Study) -> str:
    """The tables of accuracies, and of the differences that were tested, for a paper, with booktabs."""
    problems, parts = study.by_problem(), [r"% needs \usepackage{booktabs}"]
    for problem, tables in problems.items():
        if len(problems) > 1:
            parts.append(rf"\subsection*{{{_escaped(problem_heading(problem))}}}")
        for table in map(table_text, tables):
            parts.append(_latex_table(study.title, table))
            if table.tests:
                parts.append(_latex_tests(study.title, table))
    return "\n".join(parts)


def _latex_table(title: str, table: TableText) -> str:
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"    \toprule",
        f"    Method & {' & '.join(_escaped(f'{name[0].upper()}{name[1:]}') for name in table.columns)} \\\\",
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


def _latex_tests(title: str, table: TableText) -> str:
    """The tested differences; warnings, which are sentences, stand below the figures."""
    *header, _ = comparisons.HEADER

    def line(test: PairedTest) -> str:
        *cells, _ = comparison_cells(test)
        return f"    {' & '.join(map(_escaped, cells))} \\\\"

    warnings = [
        rf"  \par\footnotesize {_escaped(f'{difference(test)}: {test.warning}.')}"
        for test in table.tests
        if test.warning
    ]
    caption = _escaped(f"{title}: {table.name}. {comparisons.CAPTION}")
    lines = [
        r"\begin{table}[t]",
        r"  \centering\small",
        rf"  \begin{{tabular}}{{ll{'r' * (len(header) - 2)}}}",
        r"    \toprule",
        f"    {' & '.join(_escaped(name.capitalize() if len(name) > 1 else name) for name in header)} \\\\",
        r"    \midrule",
        *map(line, table.tests),
        r"    \bottomrule",
        r"  \end{tabular}",
        *warnings,
        rf"  \caption{{{caption}}}",
        r"\end{table}",
        "",
    ]
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
    commands = SIGNS | SPECIAL
    return "".join(commands.get(sign, sign) for sign in " ".join(text.split()))
