"""The documents only show commands that exist."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from everlearn.cli import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "REPRODUCIBILITY.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCED = re.compile(r"^( *)(```+|~~~+)[^\n]*\n(.*?)^\1\2", re.MULTILINE | re.DOTALL)


def code_lines(text):
    """Lines of code: in fences, or indented by four spaces; a line that ends in a backslash goes on in the next."""
    blocks = [block for _, _, block in FENCED.findall(text)]
    blocks += re.findall(r"(?:^ {4}.*\n?)+", FENCED.sub("", text), re.MULTILINE)
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()


def commands(text):
    """The `everlearn` commands among the code, each as a list of words."""
    for line in code_lines(text):
        line = re.sub(r"^\s*(\$|>) ", "", line).strip()
        # Names to be filled in, such as <folder>, would be redirections to a shell.
        line = re.sub(r"<[\w -]+>", "X", line)
        for part in re.split(r"&&|\|\|?|;", line):
            words = part.split()
            if any(is_everlearn(word) for word in words[:4]) and "everlearn[" not in part:
                words = shlex.split(part, comments=True)
                start = next((place for place, word in enumerate(words) if is_everlearn(word)), len(words))
                # `everlearn` as an argument of another program, such as `pip install everlearn`, is not meant.
                if words[:start] in ([], ["time"]) or words[start - 1] == "-m":
                    yield words[start + 1 :]


def is_everlearn(word):
    return word == "everlearn" or word.endswith("/everlearn")


def complaint(words):
    """What is wrong with a command, if anything."""
    command = typer.main.get_command(app)
    words = words.copy()
    # Down to the subcommand: options of the program itself may stand before it.
    while hasattr(command, "commands"):
        while words and words[0].startswith("-"):
            if words[0] not in known_options(command):
                return f"there is no option {words[0]}"
            words.pop(0)
        if not words:
            return None
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    options = known_options(command)
    arguments = sum(not is_option(p) for p in command.params)
    value_of = None
    for word in words:
        if value_of:
            value_of = None
        elif word in ("...", "…") or word.startswith((">", "2>")):
            break
        elif word.startswith("-"):
            name, equals, _ = word.partition("=")
            if name not in options:
                return f"there is no option {name}"
            takes_value = options[name] is not None and not options[name].is_flag
            value_of = name if takes_value and not equals else None
        elif arguments:
            arguments -= 1
        else:
            return f"{word} belongs to no option"
    if value_of:
        return f"{value_of} needs a value"
    return None


def is_option(parameter):
    return parameter.param_type_name == "option"


def known_options(command):
    """Every way to write an option, with the option; None for help, which every command has."""
    known = {name: p for p in command.params if is_option(p) for name in (*p.opts, *p.secondary_opts)}
    return {"--help": None, "-h": None, **known}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_shown_exists(document):
    wrong = {
        " ".join(words): problem
        for words in commands(document.read_text())
        if (problem := complaint(words)) is not None
    }
    assert not wrong


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("run --stream file --no-replay --seed=3 --json", None),
        ("--version", None),
        ("list methods", None),
        ("data get textcls --out data", None),
        ("compare --methods a,b --out x", None),
        ("run --help", None),
        ("run --steam file", "there is no option --steam"),
        ("train --stream file", "there is no command train"),
        ("data fetch", "there is no command fetch"),
        ("run --json result.json", "result.json belongs to no option"),
        ("run --seed", "--seed needs a value"),
        ("compare --seed 3", "there is no option --seed"),
    ],
)
def test_the_check_notices(words, problem):
    assert complaint(words.split()) == problem


def test_the_check_finds_commands():
    text = """
Text `everlearn nothing`.

```sh
$ everlearn run --stream file \\
    --data "my file.csv"   # a comment
pip install everlearn
pip install 'everlearn[minilm]'
OUT=1 && .venv/bin/everlearn list methods | head
python -m everlearn compare --out <folder>
```

    everlearn --version
"""
    assert list(commands(text)) == [
        ["run", "--stream", "file", "--data", "my file.csv"],
        ["list", "methods"],
        ["compare", "--out", "X"],
        ["--version"],
    ]


def test_the_readme_names_the_two_ways_to_start():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_makefile_has_what_the_readme_promises():
    dry = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True)
    assert dry.returncode == 0, dry.stderr
    shown = [words for line in dry.stdout.splitlines() for words in commands(f"```\n{line}\n```")]
    assert [words[0] for words in shown] == ["compare"]
    assert [complaint(words) for words in shown] == [None]
    targets = re.findall(r"^([\w./-]+)\s*:(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "setup"} <= set(targets)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(document):
    text = FENCED.sub("", document.read_text())
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_make_target_shown_exists(document):
    targets = set(re.findall(r"^([\w-]+)\s*:(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        match[1]
        for line in code_lines(document.read_text())
        if (match := re.match(r"\s*(?:\$ )?make ([a-z]+)\b", line))
    }
    assert shown <= targets
