"""From the folder of a sweep to the files of its report: one that is not finished, and names that are not harmless."""

import re
import shutil
from copy import deepcopy
from html import unescape

import pytest

from chromium import Chromium, find_chromium
from everlearn.report.page import page
from everlearn.report.pictures import pictures
from everlearn.sweep.reporting import write_report
from sweep_support import RECIPE, make_sweep, write_recipe
from test_study import many_rows, study

PROGRAM = find_chromium()
ROW = 'SEQ | a_b <i>"'


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a sweep of two tables whose names differ in signs alone; equal runs are computed once."""
    recipe = deepcopy(RECIPE)
    (table,) = recipe["tables"].values()
    table["seeds"], table["orders"] = [42], [1, 2]
    table["rows"][0]["name"] = ROW
    table["compare"] = [{"rows": ["OML-ER", ROW]}]
    recipe["tables"] = {"A +": table, "A -": deepcopy(table)}
    folder = tmp_path_factory.mktemp("sweep")
    sweep, _ = make_sweep(write_recipe(folder / "recipe.yaml", recipe), folder / "out")
    sweep.carry_out()
    return folder / "out"


@pytest.fixture
def report(tmp_path):
    """Writes a report; what it says, and its folder."""

    def write(sweep):
        said = []
        write_report(sweep, tmp_path / "report", said.append)
        return said, tmp_path / "report"

    return write


def test_tables_and_figures_of_similar_names_do_not_overwrite_each_other(finished, report):
    said, folder = report(finished)
    assert said == []
    names = sorted(path.name for path in (folder / "figures").glob("*.png"))
    assert {"a-accuracy.png", "a-accuracy-2.png"} < set(names)
    html = (folder / "index.html").read_text()
    assert html.count("<figure>") == len(names)
    assert unescape(re.findall(r'<th scope="row">(.*?)</th>', html)[0]) == ROW
    text = (folder / "tables.md").read_text()
    lines = [line for line in text.splitlines() if r"SEQ \| a\_b &lt;i>" in line and "of 2" in line]
    assert len(lines) == 2
    assert re.search(
        r"^Computed on .+ \(cpu\), fp32, torch 2\.\S+, everlearn \S+, 2 runs at once\.$", text, re.MULTILINE
    )


def test_an_unfinished_sweep_names_the_rows_that_cannot_be_compared_yet(finished, report, tmp_path):
    partly = tmp_path / "partly"
    shutil.copytree(finished, partly)
    (missing,) = (partly / "runs").glob("oml-er-order2-*")
    shutil.rmtree(missing)
    said, folder = report(partly)
    assert said[0].startswith("2 of 8 runs are not there yet: averages and costs are over the seeds of a row that have")
    assert [note.endswith("as no seed is complete yet: OML-ER.") for note in said] == [False, True, True]
    text = (folder / "tables.md").read_text()
    assert "| OML-ER | – (69.5 ± 0.5) | not measured yet | 1 of 2 |" in text
    assert len(re.findall(r"^\| OML-ER \|", text, re.MULTILINE)) == 2  # the costs have no line for it
    assert "**" not in text


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium was found: the page's width is not looked at")
def test_every_table_fits_a_page_of_1280_pixels(tmp_path):
    many = study(many_rows(27))
    for run in (run for row in many.tables[0].rows for run in row.runs):
        run["ledger"].update(parameters_trained=22_700_000, peak_device_bytes=11_260_000_000)
        run["ledger"]["train"].update(seconds=40_000.0, optimiser_steps=123_456)
        run["ledger"]["test"].update(seconds=400.0, tokens_forward=10**11)
    html = tmp_path / "index.html"
    html.write_text(page(many, {"made up": list(pictures(many.tables[0]))}, "0"))
    with Chromium(PROGRAM, tmp_path / "profile") as browser:
        browser.look_like(1280, 900, False, False)
        browser.open(html.as_uri())
        too_wide = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
        assert browser.run(too_wide) == 0
        assert browser.run("document.querySelectorAll('.costs').length") == 1
