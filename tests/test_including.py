"""Recipes that include others: one command, one folder, one page; and mistakes are named where they stand."""

import copy
import re

import pytest

from everlearn.errors import UserError
from everlearn.sweep.gathering import gather
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from sweep_support import RECIPE, make_sweep, results_in, write_recipe

WHOLE = """\
title: Both
shows: What two recipes show.
include:
  - first.yaml
  - second.yaml
"""


@pytest.fixture
def folder(tmp_path):
    """Two recipes that share a row, the second of which has two tables, and one that includes both."""
    write_recipe(tmp_path / "first.yaml", {**RECIPE, "title": "First"})
    second = copy.deepcopy(RECIPE)
    table = second["tables"]["relations"]
    table["rows"] = [table["rows"][0], {"name": "REPLAY", "method": "replay"}]
    table["compare"] = []
    other = copy.deepcopy(table)
    other["rows"] = [{"name": "A-GEM", "method": "a-gem"}]
    write_recipe(tmp_path / "second.yaml", {**second, "title": "Second", "tables": {"one": table, "two": other}})
    (tmp_path / "whole.yaml").write_text(WHOLE)
    return tmp_path


def refused(folder, old="", new="", name="whole.yaml"):
    path = folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        plan(read_recipe(folder / "whole.yaml"))
    return str(caught.value)


def test_tables_are_called_after_their_recipes_and_shared_runs_are_planned_once(folder):
    whole = read_recipe(folder / "whole.yaml")
    assert [table.name for table in whole.tables] == ["First", "Second: one", "Second: two"]
    parts = [read_recipe(folder / name) for name in ("first.yaml", "second.yaml")]
    runs = [{run.name for run in plan(recipe)} for recipe in (whole, *parts)]
    assert runs[0] == runs[1] | runs[2]
    assert len(runs[0]) == len(runs[1]) + len(runs[2]) - len(RECIPE["tables"]["relations"]["seeds"])


def test_own_tables_come_after_those_included(folder):
    with (folder / "whole.yaml").open("a") as file:
        file.write("tables:\n  own:\n    settings: {stream: docstrings}\n    rows:\n      - {name: SEQ, method: seq}\n")
    assert [table.name for table in read_recipe(folder / "whole.yaml").tables][-2:] == ["Second: two", "own"]
    assert refused(folder, "method: seq", "method: sec").startswith(f"{folder / 'whole.yaml'} line 10: ")
    assert "line 7: a table called 'First' is included" in refused(folder, "  own:", "  First:")


def test_one_sweep_carries_all_of_them_out_and_its_folder_stands_alone(folder, tmp_path):
    sweep, _ = make_sweep(folder / "whole.yaml", tmp_path / "out")
    sweep.carry_out()
    alone, _ = make_sweep(folder / "first.yaml", tmp_path / "alone")
    alone.carry_out()
    whole, first = results_in(tmp_path / "out"), results_in(tmp_path / "alone")
    assert len(whole) == 8
    assert {name: whole[name] for name in first} == first
    for path in folder.glob("*.yaml"):
        path.unlink()
    study = gather(tmp_path / "out")
    assert [(table.name, len(table.rows)) for table in study.tables] == [
        ("First", 2),
        ("Second: one", 2),
        ("Second: two", 1),
    ]
    assert all(len(row.runs) == 2 for table in study.tables for row in table.rows)


def test_a_mistake_in_an_included_recipe_is_named_where_it_stands(folder):
    lines = (folder / "second.yaml").read_text().splitlines()
    number = next(number for number, line in enumerate(lines, start=1) if "method: replay" in line)
    error = refused(folder, "method: replay", "method: replai", "second.yaml")
    assert error.startswith(f"{folder / 'second.yaml'} line {number}: unknown method 'replai'")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("second.yaml", "secund.yaml", "line 5: there is no recipe secund.yaml beside this one"),
        ("second.yaml", "../second.yaml", "line 5: there is no recipe ../second.yaml beside this one"),
        ("second.yaml", "first.yaml", "line 3: include is a list of recipes beside this one, each once"),
        ("\n  - first.yaml\n  - second.yaml", " first.yaml", "line 3: include is a list of recipes"),
        ("\n  - first.yaml\n  - second.yaml", " []", "line 3: include is a list of recipes"),
        ("second.yaml", "whole.yaml", "line 5: whole.yaml includes others itself"),
        ("title: Both\n", "", "line 1: `title:` is missing"),
        ("shows:", "show:", "line 2: unknown key 'show'"),
    ],
)
def test_what_cannot_be_included_is_refused(folder, old, new, expected):
    assert refused(folder, old, new).startswith(f"{folder / 'whole.yaml'} {expected}")


def test_two_recipes_of_one_title_are_refused(folder):
    error = refused(folder, "title: Second", "title: First", "second.yaml")
    assert re.match(rf"{re.escape(str(folder / 'second.yaml'))} line 1: first.yaml has the title 'First' too", error)


def test_a_search_cannot_be_swept_with_others(folder, tmp_path):
    second = copy.deepcopy(RECIPE)
    second["tables"]["relations"]["rows"][0]["search"] = {"lr": [1e-3, 1e-2]}
    write_recipe(folder / "second.yaml", {**second, "title": "Second"})
    sweep, _ = make_sweep(folder / "whole.yaml", tmp_path / "out")
    with pytest.raises(UserError, match=r"second\.yaml line \d+: this recipe is for `everlearn tune`"):
        sweep.carry_out()
