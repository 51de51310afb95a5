"""Tables of a study: averages as the paper takes them, the paper's figures beside them, Markdown and LaTeX."""

import re

import pytest

from everlearn.report.forgetting import lost_per_task
from everlearn.report.formats import latex, markdown
from everlearn.report.frontier import frontier
from everlearn.report.page import page
from everlearn.report.pictures import pictures
from everlearn.report.results import Spread
from everlearn.report.study import AVERAGE, PlannedTest, Study, StudyRow, StudyTable
from everlearn.report.study_tables import table_text
from test_report import make_result


def study_row(name, accuracies, paper=None, expected=None, lifelong=True, orders=("1", "2"), **settings):
    """A row with runs {(order, seed): accuracy}."""
    runs = [
        make_result(name.lower(), seed, accuracy, lifelong=lifelong, order=order)
        for (order, seed), accuracy in accuracies.items()
    ]
    given = {"method": name.lower(), "replay_rate": 0.01, **settings}
    return StudyRow(name, given, orders, (1, 2), tuple(runs), paper or {}, expected or {})


def study(rows, tests=(), **settings):
    table = StudyTable("made up", tuple(rows), settings.get("per_order", True), settings.get("curve"), tuple(tests))
    return Study("A <study> & more", "What it shows.", "everlearn sweep x --out y", "3 runs", (table,), ("a note",))


ROWS = [
    study_row(
        "SEQ",
        {("1", 1): 0.10, ("1", 2): 0.20, ("2", 1): 0.30, ("2", 2): 0.20},
        paper={"1": Spread(0.167, 0.007), AVERAGE: Spread(0.208, 0.005)},
    ),
    study_row(
        "OML-ER",
        {("1", 1): 0.60, ("1", 2): 0.62, ("2", 1): 0.50},
        paper={AVERAGE: Spread(0.757, 0.004)},
        expected={AVERAGE: Spread(0.58, 0.01)},
    ),
    study_row("MTL", {("1", 1): 0.70, ("1", 2): 0.74}, lifelong=False, orders=("1",)),
]
STUDY = study(ROWS, [PlannedTest("OML-ER", "SEQ", 0.001)])


def test_an_average_is_taken_over_orders_first_and_then_over_seeds():
    seq, oml, mtl = ROWS
    assert seq.accuracy("1") == Spread(pytest.approx(0.15), pytest.approx(0.0707107, abs=1e-6))
    # Seeds: (0.10 + 0.30) / 2 and (0.20 + 0.20) / 2, which do not differ.
    assert seq.accuracy(AVERAGE) == Spread(pytest.approx(0.20), pytest.approx(0.0, abs=1e-12))
    # The second seed lacks an order: its average would be over other runs than the first one's.
    assert oml.accuracy(AVERAGE) == Spread(pytest.approx(0.55), None)
    assert mtl.accuracy(AVERAGE) == Spread(pytest.approx(0.72), pytest.approx(0.0282843, abs=1e-6))


def test_the_cells_of_a_table():
    text = table_text(STUDY.tables[0])
    assert text.columns == ("order 1", "order 2", "average")
    seq, oml, mtl = text.lines
    assert [cell.here for cell in seq.cells] == ["15.0 ± 7.1", "25.0 ± 7.1", "20.0 ± 0.0"]
    assert [cell.paper for cell in seq.cells] == ["16.7 ± 0.7", "–", "20.8 ± 0.5"]
    assert [cell.best for cell in oml.cells] == [True, True, True]
    assert [cell.here for cell in mtl.cells] == ["–", "–", "72.0 ± 2.8"]
    assert not any(cell.best for cell in mtl.cells)
    assert (seq.expected, oml.expected) == ("not measured yet", "58.0 ± 1.0")
    assert (seq.runs, oml.runs) == ("4 of 4", "3 of 4")


def test_the_tables_in_markdown_and_latex():
    text = markdown(STUDY)
    assert "| OML-ER | **61.0 ± 1.4** | **50.0** | **55.0** (75.7 ± 0.4) | 58.0 ± 1.0 | 3 of 4 |" in text
    assert "> a note" in text
    assert "- OML-ER − SEQ: +" in text
    table = latex(STUDY)
    assert r"SEQ & 15.0 $\pm$ 7.1 {\scriptsize (16.7 $\pm$ 0.7)} &" in table
    assert table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") == 1
    lines = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in lines} == {3}


def test_the_page_needs_nothing_else():
    figures = {table.name: list(pictures(table)) for table in STUDY.tables}
    html = page(STUDY, figures, "0")
    assert "<title>A &lt;study&gt; &amp; more</title>" in html
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)""", html.replace("xlink:href", "href"))
    assert "@import" not in html
    assert not re.findall(r"url\((?!#)", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert used <= set(ids)
    assert html.count("<figure>") == sum(map(len, figures.values()))
    assert "var(--ink)" in html
    assert "prefers-color-scheme: dark" in html


def test_which_figures_there_are():
    names = [picture.name for picture in pictures(STUDY.tables[0])]
    assert names == ["accuracy", "stream-1", "stream-2", "forgetting", "matrix-1", "matrix-2", "cost"]
    rates = [study_row("REPLAY", {("1", 1): 0.5, ("2", 1): 0.5}, replay_rate=rate) for rate in (0.01, 0.04)]
    curve = study(rates, curve="replay_rate", per_order=False)
    assert next(pictures(curve.tables[0])).name == "setting"


def test_a_study_without_a_matrix_or_run_still_has_a_page():
    empty = study([study_row("SEQ", {}), *ROWS[2:]])
    figures = {table.name: list(pictures(table)) for table in empty.tables}
    assert [picture.name for picture in figures["made up"]] == ["accuracy", "cost"]
    assert "0 of 4" in page(empty, figures, "0")


def test_what_is_lost_is_counted_from_when_a_task_was_known_best():
    tasks = ["a", "b", "c"]
    matrix = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    assert lost_per_task({"matrix": {"tasks": tasks, "accuracy": matrix}}) == pytest.approx({"a": 0.4, "b": 0.1})


def test_the_frontier_has_no_point_that_another_beats():
    points = [(3.0, 5.0), (1.0, 1.0), (2.0, 5.0), (4.0, 9.0), (4.0, 2.0), (0.5, 0.5)]
    on = frontier(points)
    assert on == [5, 1, 2, 3]
