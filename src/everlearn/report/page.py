"""The report as one HTML page: no other file, no network, light or dark as the reader has it."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import count, groupby

from everlearn.report.page_tables import accuracies, costs, provenance, tests
from everlearn.report.pictures import Picture
from everlearn.report.study import AVERAGE, Study, StudyTable, problem_heading
from everlearn.report.study_tables import table_text
from everlearn.report.themed_svg import themed_svg


def page(study: Study, pictures: Mapping[str, Sequence[Picture]], version: str) -> str:
    """The whole page; `pictures` holds the figures of each table."""
    style, script = (files("everlearn.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    figures = _Figures()
    problems, numbers = study.by_problem(), count(1)
    # Tables of several problems stand one level lower, below a heading for each problem.
    level = 3 if len(problems) > 1 else 2
    sections, links = "", ""
    for problem, tables in problems.items():
        sections += f'<h2 class="problem">{escape(problem_heading(problem))}</h2>\n' if level == 3 else ""
        for table, number in zip(tables, numbers, strict=False):
            sections += _section(table, number, level, pictures[table.name], figures)
            links += f'<li><a href="#table-{number}">{escape(table.name)}</a></li>'
    notes = "".join(f'<p class="note" role="note">{escape(note)}</p>' for note in study.notes)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(study.title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n'
        '<body>\n<a class="skip" href="#content">Skip to the tables</a>\n'
        f'<header>\n<h1>{escape(study.title)}</h1>\n<p class="lead">{escape(study.shows)}</p>\n{_how(study)}{notes}'
        f'</header>\n<nav aria-label="Tables"><ul>{links}</ul></nav>\n<main id="content">\n{sections}</main>\n'
        f"<footer><p>Made by everlearn {escape(version)} from the results alone. {_EXPLAINED}</p></footer>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


_EXPLAINED = (
    "Accuracies are in per cent, mean ± standard deviation over seeds; an average is taken over the orders of each "
    "seed first, and seeds that lack an order are left out of it. Rows below the line see all tasks at once and bound "
    "what can be reached."
)


class _Figures:
    """Numbers the figures of a page."""

    def __init__(self) -> None:
        self.count = 0

    def html(self, picture: Picture) -> str:
        self.count += 1
        title = f"{picture.title}{f', {picture.tab}' if picture.tab else ''}"
        return f"<figure>{themed_svg(picture.svg, title, self.count)}</figure>"


def _how(study: Study) -> str:
    if not study.command:
        return ""
    cost = f"<p>{escape(study.cost)}</p>" if study.cost else ""
    return (
        f"<details><summary>How to repeat this</summary><pre><code>{escape(study.command)}</code></pre>{cost}</details>"
    )


def _section(table: StudyTable, number: int, level: int, pictures: Sequence[Picture], figures: _Figures) -> str:
    text = table_text(table)
    parts = [
        f'<section id="table-{number}" aria-labelledby="table-{number}-title">',
        f'<h{level} class="title" id="table-{number}-title">{escape(table.name)}</h{level}>',
        _facts(table),
        accuracies(text),
        provenance(text),
        tests(text.tests, level + 1),
        *_groups(pictures, figures),
        costs(text, level + 1),
        "</section>\n",
    ]
    return "\n".join(part for part in parts if part)


def _facts(table: StudyTable) -> str:
    """The figures to remember: the best row, how far it is from the bound, how many runs there are."""
    found = {row.name: value.mean for row in table.with_runs() if (value := row.accuracy(AVERAGE))}
    lifelong = {row.name: found[row.name] for row in table.with_runs() if row.lifelong and row.name in found}
    facts: list[tuple[str, str]] = []
    if lifelong:
        best = max(lifelong, key=lambda name: lifelong[name])
        facts.append((f"{100 * lifelong[best]:.1f} %", f"{best}, the best lifelong row"))
        bounds = {name: value for name, value in found.items() if name not in lifelong}
        if bounds:
            bound = max(bounds, key=lambda name: bounds[name])
            above = round(100 * (lifelong[best] - bounds[bound]), 1)
            side = "above" if above > 0 else "below"
            facts.append((f"{abs(above):.1f}", f"points {side} {bound}, the upper bound"))
        group = table.row(best).compared()
        forgetting = group and group.over_seeds(lambda run: run["forgetting"])
        if forgetting:
            facts.append((f"{100 * forgetting.mean:.1f}", f"points that {best} forgets per task"))
    runs, planned = sum(len(row.runs) for row in table.rows), sum(row.planned for row in table.rows)
    facts.append((f"{runs} of {planned}", "runs"))
    items = "".join(f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>" for value, name in facts)
    return f'<ul class="facts">{items}</ul>'


def _groups(pictures: Sequence[Picture], figures: _Figures) -> Iterator[str]:
    """Figures one after the other; those that come once per order as tabs."""
    for title, group in groupby(pictures, key=lambda picture: picture.title):
        alike = list(group)
        if len(alike) == 1:
            yield figures.html(alike[0])
            continue
        drawn = [(picture.tab, figures.html(picture), figures.count) for picture in alike]
        panels = "".join(f'<div id="panel-{place}" data-tab="{escape(tab)}">{html}</div>' for tab, html, place in drawn)
        yield f'<div data-tabs="{escape(title)}">{panels}</div>'
