"""The page in a real browser: teach two labels, ask, see the answer, add a third label, ask again."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from chromium import Chromium, find_chromium
from everlearn.service.learning import Learning
from running_service import service

PROGRAM = find_chromium()
if PROGRAM is None:
    pytest.skip("no Chromium or Chrome was found: the page is not tested in a browser", allow_module_level=True)

SENTENCES = {"fruit": "the of and", "cars": "to in is", "music": "it for on"}
SHAPES = {"desktop": (1280, 900, False), "phone": (390, 844, True)}


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Chromium]:
    assert PROGRAM is not None
    with service(tmp_path / "model") as (client, _), Chromium(PROGRAM, tmp_path / "profile") as browser:
        browser.open(client.address)
        yield browser
        assert not [message for message in browser.messages if "409" not in message]


def teach(page: Chromium, label: str, text: str) -> None:
    page.fill("teach-text", text)
    page.fill("teach-label", label)
    page.press_enter()  # in the label's field, as one would
    said = json.dumps(f"Learned as “{label}”.")
    page.wait_for(f"document.getElementById('teach-result').textContent === {said}")
    page.wait_for("document.getElementById('teach-text').value === ''")
    page.run("document.getElementById('teach-result').textContent = ''")


def ask(page: Chromium, text: str) -> str:
    page.run("document.getElementById('ask-result').replaceChildren()")
    page.fill("ask-text", text)
    page.run("document.querySelector('#ask button').click()")
    page.wait_for("document.querySelector('#ask-result').textContent !== ''")
    answer: str = page.run("document.querySelector('#ask-result .answer')?.textContent ?? ''")
    return answer


def test_teach_ask_teach_more_ask_again(page: Chromium):
    assert ask(page, "the of") == ""
    assert "Nothing has been learned yet" in page.run("document.getElementById('ask-result').textContent")
    for _ in range(6):
        for label in ("fruit", "cars"):
            teach(page, label, SENTENCES[label])
    assert [ask(page, SENTENCES[label]) for label in ("fruit", "cars")] == ["fruit", "cars"]
    for _ in range(8):
        for label in SENTENCES:
            teach(page, label, SENTENCES[label])
    assert [ask(page, text) for text in SENTENCES.values()] == list(SENTENCES)
    page.wait_for("document.getElementById('fact-examples').textContent === '36'")
    assert page.run("document.getElementById('fact-labels').textContent") == "3"
    labels = page.run("[...document.querySelectorAll('#labels .name')].map((one) => one.textContent)")
    assert labels == ["cars", "fruit", "music"]
    assert page.run("document.querySelectorAll('#recent li').length") == 5
    assert page.run("document.querySelectorAll('#curve .line').length") == 1


def test_what_is_taught_is_shown_as_text_and_never_run(page: Chromium):
    attack = "<img src=x onerror=\"document.title='taken'\">"
    teach(page, attack, f"{attack} the of")
    ask(page, "the of")
    page.wait_for(f"document.getElementById('labels').textContent.includes({json.dumps(attack)})")
    assert page.run("document.title") == "everlearn"
    assert page.run("document.querySelectorAll('main img').length") == 0


def test_it_says_learned_only_when_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    go_on, original = threading.Event(), Learning._learn_portion

    def held(learning: Learning) -> bool:
        go_on.wait(60)
        return original(learning)

    monkeypatch.setattr(Learning, "_learn_portion", held)
    assert PROGRAM is not None
    with service(tmp_path / "model") as (client, _), Chromium(PROGRAM, tmp_path / "profile") as page:
        page.open(client.address)
        for count in (1, 2):
            page.fill("teach-text", "the of")
            page.fill("teach-label", "fruit")
            page.press_enter()
            said = json.dumps(f"Written down, not learned yet: {count} waiting.")
            page.wait_for(f"document.getElementById('teach-result').textContent === {said}")
        page.wait_for("document.getElementById('status').textContent === 'learning'")
        page.wait_for("document.getElementById('learning').textContent.startsWith('2 examples are waiting')")
        assert page.run("document.getElementById('fact-examples').textContent") == "0"
        go_on.set()
        page.wait_for("document.getElementById('teach-result').textContent === 'Learned as “fruit”.'")
        page.wait_for("document.getElementById('status').textContent === 'up to date'")
        page.wait_for("document.getElementById('fact-examples').textContent === '2'")


def test_an_answer_becomes_an_example_and_reading_is_not_disturbed(page: Chromium):
    teach(page, "fruit", SENTENCES["fruit"])
    page.wait_for("document.querySelector('#labels .name')")
    page.run("window.row = document.querySelector('#labels li'), null")
    page.run("window.asked = performance.getEntriesByType('resource').length, null")
    page.wait_for("performance.getEntriesByType('resource').length >= window.asked + 4")
    assert page.run("window.row === document.querySelector('#labels li')"), "rows are replaced though nothing changed"
    assert page.run("document.getElementById('memory-bound').textContent") == "in memory, of 10,000"
    ask(page, "what is asked")
    page.run("document.getElementById('correct').click()")
    assert page.run("document.getElementById('teach-text').value") == "what is asked"
    assert page.run("document.getElementById('teach-label').value") == "fruit"
    assert page.run("document.activeElement.id") == "teach-label"


def test_a_token_unlocks_it(tmp_path: Path):
    assert PROGRAM is not None
    token = "secret ✓"
    with service(tmp_path / "model", token=token) as (client, _), Chromium(PROGRAM, tmp_path / "profile") as page:
        page.open(client.address)
        page.wait_for("!document.getElementById('token-form').hidden")
        visible = (
            "[...document.querySelectorAll('form, section')].filter((one) => one.offsetHeight).map((one) => one.id)"
        )
        assert page.run(visible) == ["token-form"]
        assert page.run("document.activeElement.id") == "token"
        assert page.run("document.getElementById('token-result').textContent") == ""
        page.fill("token", "wrong")
        page.press_enter()
        page.wait_for("document.getElementById('token-result').textContent === 'This is not the right token.'")
        page.fill("token", token)
        page.press_enter()
        page.wait_for("document.getElementById('token-form').hidden")
        teach(page, "fruit", SENTENCES["fruit"])
        assert ask(page, "the of") == "fruit"


def test_a_service_that_has_stopped_is_said_to_have(tmp_path: Path):
    assert PROGRAM is not None
    with Chromium(PROGRAM, tmp_path / "profile") as page:
        with service(tmp_path / "model") as (client, _):
            page.open(client.address)
            page.wait_for("document.getElementById('status').textContent === 'up to date'")
        page.wait_for("document.getElementById('status').textContent === 'not connected'")
        assert "does not answer" in page.run("document.getElementById('problem').textContent")
        ask(page, "the of")
        assert "does not answer" in page.run("document.getElementById('ask-result').textContent")


def test_what_it_says_after_a_restart_and_when_learning_has_failed(tmp_path: Path):
    assert PROGRAM is not None
    with service(tmp_path / "model") as (client, _):
        client.wait_until_learned(client.teach(("the of", "fruit"))[-1])
    with service(tmp_path / "model") as (client, learning), Chromium(PROGRAM, tmp_path / "profile") as page:
        page.open(client.address)
        page.wait_for("document.getElementById('learning').textContent === 'Nothing is waiting.'")
        recent = page.run("document.getElementById('recent').textContent")
        assert recent == "Nothing new since the service was started."
        learning.failure = "the loss is no longer a finite number"
        page.wait_for("document.getElementById('status').textContent === 'stopped'")
        said = "Nothing more is learned: the loss is no longer a finite number."
        assert page.run("document.getElementById('problem').textContent") == said
        assert ask(page, "the of") == "fruit"


def test_the_keyboard_and_a_screen_reader_reach_everything(page: Chromium):
    teach(page, "fruit", SENTENCES["fruit"])
    ask(page, "the of")
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(9):
        page.press_tab()
        reached.append(page.run("document.activeElement.id || document.activeElement.textContent"))
    order = [
        "Skip to teaching",
        "teach-text",
        "teach-label",
        "Teach",
        "ask-text",
        "Ask",
        "correct",
        "OpenAPI",
        "Metrics",
    ]
    start = reached.index("Skip to teaching")
    assert (reached[start:] + reached[:start])[: len(order) - start] == order[: len(order) - start]
    named = "[...document.querySelectorAll('form, section, ul.long, ol, svg')].every((one) => one.ariaLabel || "
    assert page.run(named + "document.getElementById(one.getAttribute('aria-labelledby'))?.textContent)")
    spoken = "['status', 'teach-result', 'ask-result', 'token-result'].every((id) => "
    assert page.run(spoken + "document.getElementById(id).getAttribute('role') === 'status')")
    assert page.run("document.getElementById('problem').getAttribute('role')") == "alert"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_every_screen_and_can_be_read(page: Chromium, shape: str, dark: bool, tmp_path: Path):
    width, height, phone = SHAPES[shape]
    page.look_like(width, height, phone, dark)
    teach(page, "a label that is very long and has to be cut somewhere", "the of " * 40)
    ask(page, "the of")
    assert page.run("document.documentElement.scrollWidth") <= width
    # Every field has a name, every button is large enough for a thumb, and text stands out from what is behind it.
    assert page.run("[...document.querySelectorAll('input, textarea')].every((one) => one.labels.length === 1)")
    heights = (
        "[...document.querySelectorAll('button')].filter((one) => one.offsetHeight).map((one) => one.offsetHeight)"
    )
    assert min(page.run(heights)) >= 44
    assert page.run(CONTRAST) >= 4.5
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


# The least contrast of any visible text with the colour behind it, as WCAG defines it.
CONTRAST = """
(() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let place = one; place; place = place.parentElement) {
      const colour = getComputedStyle(place).backgroundColor;
      const parts = parse(colour);
      if (parts.length < 4 || parts[3] > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const ratios = [...document.querySelectorAll('h1, h2, p, label, button, dt, dd, li span, a:not(.skip)')]
    .filter((one) => one.offsetHeight && one.textContent.trim())
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
  return Math.min(...ratios);
})()
"""
