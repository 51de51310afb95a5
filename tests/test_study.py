"""Tables of a study: averages as the paper takes them, the paper's figures beside them, Markdown and LaTeX."""

import copy
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from everlearn.report.forgetting import lost_per_task
from everlearn.report.formats import latex, markdown
from everlearn.report.frontier import frontier, frontier_figure
from everlearn.report.page import page
from everlearn.report.palette import LINES, MUTED, method_colours
from everlearn.report.pictures import pictures
from everlearn.report.provenance import provenance
from everlearn.report.results import Spread
from everlearn.report.setting_curve import setting_figure
from everlearn.report.study import AVERAGE, PlannedTest, PublishedRow, Study, StudyRow, StudyTable
from everlearn.report.study_tables import COSTS, table_text
from everlearn.report.tasks import tasks_figure
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
    table = StudyTable(
        "made up", "sorting", tuple(rows), settings.get("per_order", True), settings.get("curve"), tuple(tests)
    )
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


def test_what_is_averaged_is_averaged_over_complete_seeds_everywhere():
    """OML-ER's second seed lacks an order, REPLAY's every seed does: an outlier there must not show anywhere."""
    oml = study_row("OML-ER", {("1", 1): 0.60, ("2", 1): 0.50, ("1", 2): 0.99})
    outlier = copy.deepcopy(oml.runs[2])
    outlier.update(forgetting=0.9, learning_accuracy=0.1)
    outlier["ledger"]["train"]["tokens_forward"] = 10**12
    oml = replace(oml, runs=(*oml.runs[:2], outlier))
    replay = study_row("REPLAY", {("1", 1): 0.95, ("2", 2): 0.95})
    table = study([ROWS[0], oml, replay]).tables[0]
    assert [group.method for group in table.compared()] == ["SEQ", "OML-ER"]
    assert table.incomplete() == ["REPLAY"]
    text = table_text(table)
    costs = {name: dict(zip(text.cost_columns, cells, strict=True)) for name, *cells in text.costs}
    assert list(costs) == ["SEQ", "OML-ER"]
    shown = [costs["OML-ER"][name] for name in ("forgetting", "learning accuracy", "train tokens")]
    assert shown == ["12.5", "80.0", "3.00M"]
    assert "<b>12.5</b><span>points that OML-ER forgets per task" in page(study([oml, replay]), {"made up": []}, "0")
    groups = table.compared()
    figure = frontier_figure(groups, "", method_colours(groups))
    drawn = {round(float(y), 6) for axes in figure.axes for line in axes.lines for y in line.get_ydata()}
    assert drawn == {20.0, 55.0}
    # What shows one order takes every seed that has it.
    assert [len(group.runs) for group in table.of_order("1")] == [2, 2, 1]


def test_without_a_complete_seed_only_what_shows_one_order_is_drawn():
    table = study([study_row("REPLAY", {("1", 1): 0.95})]).tables[0]
    assert [picture.name for picture in pictures(table)] == ["stream-1", "matrix-1"]


def test_deviations_are_over_seeds_and_not_over_orders():
    """Forgetting 10 and 30 points in the orders of the first seed, 20 and 60 in those of the second: 20 and 40."""
    row = study_row("SEQ", {("1", 1): 0.1, ("2", 1): 0.1, ("1", 2): 0.1, ("2", 2): 0.1})
    lost = (0.1, 0.3, 0.2, 0.6)
    row = replace(row, runs=tuple({**run, "forgetting": f} for run, f in zip(row.runs, lost, strict=True)))
    assert only_costs(study([row]))["forgetting"] == "30.0±14.1"


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


def test_where_no_average_is_expected_the_orders_that_are_stand_in_its_place():
    row = study_row("SEQ", {("1", 1): 0.1})
    row = replace(row, expected={"1": Spread(0.449, None), "2": Spread(0.5, 0.01)})
    (line,) = table_text(study([row]).tables[0]).lines
    assert line.expected == "order 1: 44.9, order 2: 50.0 ± 1.0"


def only_costs(study):
    """The costs of a study's only row."""
    text = table_text(study.tables[0])
    ((_, *cells),) = text.costs
    return dict(zip(text.cost_columns, cells, strict=True))


def test_what_a_row_pays():
    ledger = copy.deepcopy(ROWS[0].runs[0]["ledger"])
    ledger.update(parameters_trained=22_700_000, peak_device_bytes=1_500_000_000)
    ledger["test"].update(tokens_forward=40_000, tokens_backward=6_000)
    paid = replace(ROWS[0], runs=tuple({**run, "ledger": ledger} for run in ROWS[0].runs))
    costs = only_costs(study([paid]))
    assert (costs["train tokens"], costs["train time"], costs["memory"]) == ("3.00M", "3m05s", "1.15k / 2.5MB")
    assert (costs["test tokens"], costs["test time"]) == ("46.0k", "4.0s")
    assert (costs["weights trained"], costs["GPU memory"]) == ("22.7M", "1.50GB")
    assert "GPU memory" in COSTS
    assert "GPU memory" not in table_text(STUDY.tables[0]).cost_columns  # none was used: there is nothing to show


def test_the_tables_in_markdown_and_latex():
    text = markdown(STUDY)
    assert "| OML-ER | **61.0 ± 1.4** | **50.0** | **55.0** (75.7 ± 0.4) | 58.0 ± 1.0 | 3 of 4 |" in text
    assert "> a note" in text
    table = latex(STUDY)
    assert r"SEQ & 15.0 $\pm$ 7.1 {\scriptsize (16.7 $\pm$ 0.7)} &" in table
    accuracies, tests = table.split(r"\end{tabular}")[:2]
    for part, columns in ((accuracies, 4), (tests, 9)):
        assert part.count(r"\begin{tabular}") == 1
        lines = [line for line in part.splitlines() if line.endswith(r"\\")]
        assert {line.count("&") for line in lines} == {columns - 1}


def test_every_format_names_the_pairs_of_a_test_and_warns_of_too_few():
    """OML-ER lacks the second seed's second order: three pairs, whose t-test is worked out here by hand."""
    differences = [0.50, 0.42, 0.20]
    mean = sum(differences) / 3
    deviation = math.sqrt(sum((d - mean) ** 2 for d in differences) / 2)
    effect, t = f"{mean / deviation:.2f}", f"{mean / deviation * math.sqrt(3):.2f}"
    over = "order 1 × seeds 1, 2; order 2 × seed 1"
    text, table = markdown(STUDY), latex(STUDY)
    html = page(STUDY, {"made up": []}, "0")
    assert f"| OML-ER − SEQ | {over} | 3 | +37.3 | " in text
    assert f" | {t} | " in text
    assert f" | {effect} | 0.001 | only 3 pairs: an effect below d = 2.5 could not come out as significant |" in text
    assert r"OML-ER $-$ SEQ & order 1 $\times$ seeds 1, 2; order 2 $\times$ seed 1 & 3 & +37.3 &" in table
    assert f" & {t} & " in table
    assert r"\footnotesize OML-ER $-$ SEQ: only 3 pairs: an effect below d = 2.5" in table
    line = re.search(rf'<tr><th scope="row">OML-ER − SEQ<small>{over}</small></th>(.*?)</tr>', html)[1]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", line)
    assert cells[:2] == ["3", "+37.3"]
    assert (cells[3], cells[5]) == (t, effect)
    assert cells[-1].startswith("only 3 pairs")


def test_tables_of_two_problems_are_kept_apart():
    tables = [replace(STUDY.tables[0], name=name, problem=p) for name, p in (("a", "x"), ("b", "y"), ("c", "x"))]
    both = replace(STUDY, tables=tuple(tables))
    headings = ["## On x", "### a", "### c", "## On y", "### b"]
    assert [line for line in markdown(both).splitlines() if line.startswith("##")] == headings
    html = page(both, {table.name: [] for table in tables}, "0")
    titles = re.findall(r'<h[23] class="(?:problem|title)"[^>]*>(.*?)</h', html)
    assert titles == ["On x", "a", "c", "On y", "b"]
    assert re.findall(r'href="#(table-\d)"', html) == re.findall(r'<section id="(table-\d)"', html)
    parts = re.findall(r"\\subsection\*{(.*?)}|more: (\w)\. Accuracy", latex(both))
    assert [heading or name for heading, name in parts] == ["On x", "a", "c", "On y", "b"]
    # One problem alone needs no heading.
    assert [line for line in markdown(STUDY).splitlines() if line.startswith("##")] == ["## made up"]
    assert 'class="problem"' not in page(STUDY, {"made up": []}, "0")


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


HOSTILE = """x "A" & <b>'$a_{$' | ~^\\#%</b><img src=x onerror=alert(1)>\n\n#0072B2 id="y" url(#z)"""


def hostile_study():
    """A study in which everything that data or a recipe can name is called something dangerous."""
    tasks = tuple(f"{number} {HOSTILE}" for number in range(2))
    said = {"device": f"{HOSTILE} device", "precision": HOSTILE, "notes": [f"note {HOSTILE}"]}
    sizes = [{"task": task, "classes": 2, "train": 3 + number} for number, task in enumerate(tasks)]
    orders = (f"1 {HOSTILE}", f"2 {HOSTILE}")
    rows = []
    for name in ("A", "B"):
        runs = [
            make_result(f"{name} {HOSTILE}", seed, 0.5, tasks, order=order, stream=HOSTILE, encoder=HOSTILE)
            | said
            | {"tasks": sizes, "violations": dict.fromkeys(tasks, 1), "checks_per_task": dict.fromkeys(tasks, 2)}
            for seed in (1, 2)
            for order in orders
        ]
        rows.append(StudyRow(f"{name} {HOSTILE}", {"method": HOSTILE, "lr": 1.0}, orders, (1, 2), tuple(runs), {}, {}))
    test = PlannedTest(rows[0].name, rows[1].name, None)
    tables = [
        StudyTable(f"{name} {HOSTILE}", f"{name} {HOSTILE}", tuple(rows), True, "lr", (test,)) for name in ("a", "b")
    ]
    return Study(HOSTILE, HOSTILE, HOSTILE, HOSTILE, tuple(tables), (HOSTILE,))


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts = set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_data(self, text):
        self.texts.append(text)


def test_names_from_data_and_recipes_are_shown_as_text_and_never_as_markup():
    hostile = hostile_study()
    drawn = {table.name: list(pictures(table)) for table in hostile.tables}
    html = page(hostile, drawn, "0")
    harmless = page(STUDY, {table.name: list(pictures(table)) for table in STUDY.tables}, "0")
    found, expected = Elements(html), Elements(harmless)
    assert found.tags - expected.tags == {"h4"}  # tables of several problems stand a level lower
    assert {name for name, _ in found.attributes if name.startswith("on") or name == "src"} == set()
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[\w.-]+", value) for value in ids)
    # Tabs have an order's name as it is; names in figures are not changed with their colours and ids.
    tabs = [value for name, value in found.attributes if name == "data-tab"]
    assert tabs == [f"order {number} {HOSTILE}" for _ in hostile.tables for _ in range(2) for number in (1, 2)]
    last_line = HOSTILE.splitlines()[-1]
    assert sum(last_line in text for text in found.texts) > 20
    assert not any("var(--" in text for text in found.texts if "{" not in text)


def test_names_do_not_break_tables_in_markdown_and_latex():
    hostile = hostile_study()
    text, table = markdown(hostile), latex(hostile)
    assert "<" not in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 6
    for lines in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines.splitlines()}) == 1
    assert "\n\n#0072B2" not in text
    for block in table.split(r"\begin{tabular}")[1:]:
        body = block[: block.index(r"\end{tabular}")]
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1
    plain = re.sub(r"\\[&%$#_{}]|\\text\w+{}", "", table.split("\n", 1)[1])
    assert not set("~^#%_<>|") & set(plain)
    assert r"x \"A\" \& \textless{}b\textgreater{}'\$a\_\{\$' \textbar{}".replace(r"\"", '"') in table


def test_a_table_says_what_its_runs_were_computed_with_and_what_they_noted():
    said = [
        {"device": "cuda", "precision": "bf16", "notes": ["texts are cut", "tasks are groups"]},
        {"device": "cuda", "precision": "bf16", "notes": ["tasks are groups"]},
    ]
    runs = tuple({**run, **own} for run, own in zip(ROWS[2].runs, said, strict=True))
    alike = study([replace(ROWS[2], runs=runs)])
    line = "Computed on cuda, bf16. Noted by the runs: texts are cut (1 of 2 runs); tasks are groups."
    assert f"\n\n{line}\n\n" in markdown(alike)
    html = page(alike, {"made up": []}, "0")
    assert f'</table></div>\n<p class="provenance">{line}</p>\n' in html
    assert "differ in" not in html

    mixed = study([replace(ROWS[2], runs=(runs[0], {**runs[1], "device": "cpu", "precision": "fp32"}))])
    html = page(mixed, {"made up": []}, "0")
    assert "Computed on cuda, bf16 (1 run); cpu, fp32 (1 run)." in html
    for warning in ("differ in device (cpu, cuda): their times", "differ in precision (bf16, fp32): a difference"):
        assert f"> The runs of this table {warning}" in markdown(mixed)
        assert f'<p class="note" role="note">The runs of this table {warning}' in html
    # Results of an earlier version do not say.
    assert "Computed on" not in markdown(STUDY)


def test_rows_of_the_papers_table_that_are_not_run_stand_before_the_bound():
    published = (PublishedRow("LAMOL <s>", {AVERAGE: Spread(0.765, None)}),)
    table = replace(STUDY.tables[0], published=published)
    text = table_text(table)
    names = [line.name for line in text.lines]
    assert names.index("LAMOL <s>") == sum(line.lifelong for line in text.lines) - 1
    shown = next(line for line in text.lines if line.name == "LAMOL <s>")
    assert [(cell.here, cell.paper) for cell in shown.cells][-1] == ("–", "76.5")
    study = replace(STUDY, tables=(table,))
    assert "LAMOL &lt;s&gt;" in page(study, {table.name: []}, "0")
    assert "| LAMOL" in markdown(study)
    assert "LAMOL" in latex(study)
    assert "LAMOL <s>" not in [row[0] for row in text.costs]


def test_versions_machines_and_runs_at_once_that_differ_are_warned_of():
    machine = {"processor": "A", "torch": "2.13", "transformers": "5.17", "python": "3.11", "commit": None}
    runs = [
        {"everlearn": "0.1.0", "device": "cuda", "precision": "bf16", "computed_with": {**machine, **own}}
        for own in ({"runs_at_once": 1}, {"runs_at_once": 4, "processor": "B", "commit": "abc"})
    ]
    found = provenance(runs)
    assert found.computed == (
        "Computed on A (cuda), bf16, torch 2.13, everlearn 0.1.0 (1 run); "
        "B (cuda), bf16, torch 2.13, everlearn abc, 4 runs at once (1 run)."
    )
    warned = [re.search(r"differ in (.+) \(", warning)[1] for warning in found.warnings]
    assert warned == ["processor", "number of runs at once"]


def test_which_figures_there_are():
    names = [picture.name for picture in pictures(STUDY.tables[0])]
    assert names == ["accuracy", "stream-1", "stream-2", "forgetting", "matrix-1", "matrix-2", "cost"]
    rates = [study_row("REPLAY", {("1", 1): 0.5, ("2", 1): 0.5}, replay_rate=rate) for rate in (0.01, 0.04)]
    curve = study(rates, curve="replay_rate", per_order=False)
    assert next(pictures(curve.tables[0])).name == "setting"


def many_rows(count):
    """Rows that are better the later they come, and a bound."""
    accuracies = [0.2 + 0.5 * place / count for place in range(count)]
    rows = [
        study_row(f"ROW {place}", dict.fromkeys([("1", 1), ("2", 1)], accuracy))
        for place, accuracy in enumerate(accuracies)
    ]
    return [*rows, study_row("MTL", {("1", 1): 0.9}, lifelong=False, orders=("1",))]


@pytest.mark.parametrize("count", [7, 27])
def test_no_two_rows_look_alike(count):
    table = study(many_rows(count)).tables[0]
    drawn = {picture.name: picture.figure for picture in pictures(table)}
    lines = [line for line in drawn["stream-2"].axes[0].lines if len(line.get_xdata()) > 2]
    assert len(lines) == count
    coloured = [line.get_color() for line in lines if line.get_color() != MUTED]
    assert sorted(coloured) == sorted(LINES)
    assert [line.get_color() != MUTED for line in lines] == [place >= count - 7 for place in range(count)]
    names = {text.get_text(): text.get_color() for text in drawn["stream-2"].axes[0].texts}
    assert {f"ROW {place}" for place in range(count)} < names.keys()
    assert names[f"ROW {count - 1}"] == lines[-1].get_color() == drawn["stream-1"].axes[0].texts[-2].get_color()
    looks = {(handle.get_marker(), handle.get_color()) for handle in drawn["cost"].legends[0].legend_handles}
    assert len(looks) == count + 1


def test_text_in_a_figure_has_a_colour_that_the_page_can_change():
    """SVG leaves out what is black: it would stay black on a dark page."""
    for picture in pictures(study(many_rows(7)).tables[0]):
        for style in re.findall(r'<text [^>]*style="([^"]*)"', picture.svg):
            assert "fill: #" in style


def test_a_bound_is_a_level_in_the_curve_over_a_setting():
    rates = [study_row("REPLAY", {("1", 1): 0.5, ("2", 1): 0.5}, replay_rate=rate) for rate in (0.01, 0.04)]
    bound = study_row("MTL", {("1", 1): 0.85}, paper={AVERAGE: Spread(0.8, None)}, lifelong=False, orders=("1",))
    (axes,) = setting_figure(study([*rates, bound], curve="replay_rate").tables[0], "").axes
    levels = [line.get_ydata()[0] for line in axes.lines if list(line.get_xdata()) == [0, 1]]
    assert levels == pytest.approx([85, 80])
    assert [text.get_text() for text in axes.texts] == ["MTL, here", "MTL, paper"]
    low, high = axes.get_ylim()
    assert low < 50 < 85 < high


@pytest.mark.parametrize(
    ("bound", "fact"), [(0.581, "3.1</b><span>points below MTL"), (0.5, "5.0</b><span>points above")]
)
def test_the_distance_to_the_bound_has_a_side_and_no_sign(bound, fact):
    html = page(
        study([ROWS[1], study_row("MTL", {("1", 1): bound}, lifelong=False, orders=("1",))]), {"made up": []}, "0"
    )
    assert f"<b>{fact}" in html


def test_small_counts_have_whole_numbers_at_the_axis():
    sizes = [{"task": name, "classes": 1, "train": 2} for name in ("a", "b")]
    figure = tasks_figure("tiny", sizes)
    figure.canvas.draw()
    for axes in figure.axes:
        written = [label.get_text() for label in axes.get_yticklabels()]
        assert len(written) == len(set(written)) > 1


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
