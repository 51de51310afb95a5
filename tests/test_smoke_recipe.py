"""The smoke recipe from command to page: every method, both problems, and a look at it in a browser."""

import json
import re
import resource
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

import browser
from everlearn.methods import METHODS
from support import writes_texts
from sweep_support import results_in

ROOT = Path(__file__).parent.parent
CORE_SECONDS_PROMISED = 2 * 180
"""Three minutes on two cores, as work and not by the clock: others may be at work on them."""
PAGES = {False: (255, 255, 255), True: (0x12, 0x17, 0x1D)}
"""The page's own colour, light and dark."""

# What a reader with a keyboard does: go to the first tab and press the right arrow.
KEYS = """<script>
const tabs = [...document.querySelectorAll("[role=tab]")];
tabs[0].focus();
tabs[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
const chosen = tabs.map((tab) => tab.getAttribute("aria-selected"));
const shown = tabs.map((tab) => !document.getElementById(tab.getAttribute("aria-controls")).hidden);
document.body.dataset.tested = JSON.stringify({chosen, shown, focus: tabs.indexOf(document.activeElement)});
</script></body>"""


def core_seconds_of_children() -> float:
    """What processes that were started here, and have ended, took of the cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_smoke_recipe_from_command_to_page(tmp_path, everlearn):
    out = tmp_path / "smoke"
    before = core_seconds_of_children()
    code, _, error = everlearn("sweep", ROOT / "recipes" / "smoke.yaml", "--out", out)
    assert code == 0, error
    assert 0 < core_seconds_of_children() - before < CORE_SECONDS_PROMISED
    found = results_in(out)
    for stream in ("docstrings", "fewrel"):
        methods = {run["method"] for run in found.values() if run["stream"] == stream}
        assert methods == {name for name in METHODS if not writes_texts(name)}

    code, _, error = everlearn("report", out)
    assert code == 0, error
    report = out / "report"
    figures = {path.name for path in (report / "figures").iterdir()}
    for name in ("accuracy", "stream-1", "stream-2", "forgetting", "matrix-1", "cost", "violations", "gates"):
        assert {f"text-classification-{name}.png", f"text-classification-{name}.svg"} <= figures
    assert "replay-rates-setting.png" in figures
    assert "relation-extraction-tasks.png" in figures
    tables = (report / "tables.md").read_text()
    assert "not measured yet" in tables
    headings = [line for line in tables.splitlines() if line.startswith("## ")]
    assert headings == ["## On text classification", "## On relation extraction"]
    assert r"\toprule" in (report / "tables.tex").read_text()

    if browser.CHROMIUM is None:
        pytest.skip(browser.MISSING)
    page = report / "index.html"
    html, console = browser.dom(page, tmp_path / "profile")
    assert not console
    assert html.count("<figure>") == len(figures) / 2
    assert len(re.findall(r'role="tablist"', html)) == 2  # two kinds of figure come once per order
    tested = tmp_path / "tested.html"
    tested.write_text(page.read_text().replace("</body>", KEYS))
    html, console = browser.dom(tested, tmp_path / "profile")
    assert not console
    outcome = json.loads(unescape(re.search(r'data-tested="([^"]*)"', html)[1]))
    assert outcome["chosen"] == ["false", "true", "true", "false"]
    assert outcome["shown"] == [False, True, True, False]
    assert outcome["focus"] == 1
    for dark, colour in PAGES.items():
        picture = tmp_path / f"{dark}.png"
        browser.screenshot(page, picture, tmp_path / f"profile-{dark}", dark)
        image = Image.open(picture).convert("RGB")
        assert image.getpixel((2, 2)) == colour
        assert len(image.getcolors(1 << 24)) > 100  # it is not an empty page


def test_a_folder_without_a_sweep_has_no_report(tmp_path, everlearn):
    code, _, error = everlearn("report", tmp_path)
    assert code == 2
    assert "is not the folder of a sweep" in error
