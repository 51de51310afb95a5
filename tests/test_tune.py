"""Choosing settings: on validation data only, one order, the same trials every time, more seeds for the best."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from everlearn.errors import UserError
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from everlearn.sweep.tune import trials_of, tune
from sweep_support import RECIPE, SAMPLE, make_sweep, results_in, write_recipe


def search_recipe(**changed):
    content = {**copy.deepcopy(RECIPE), "command": "everlearn tune small.yaml"}
    table = content["tables"]["relations"]
    table["settings"].update(val_size=30, train_size=60)
    del table["compare"]
    table["rows"] = [
        {"name": "SEQ", "method": "seq", "search": {"lr": [1e-3, 1e-2]}},
        {"name": "REPLAY", "method": "replay", "search": {"lr": [1e-3, 1e-2], "batch_size": [4, 8, 32]}},
    ]
    table.update(changed)
    return content


def trials_in(recipe, tmp_path):
    sweep, screen = make_sweep(recipe, tmp_path / "out")
    return trials_of(sweep, sweep.recipe.tables[0]), screen


def test_a_search_finds_the_best_and_goes_on(tmp_path: Path, everlearn):
    recipe, out = write_recipe(tmp_path / "recipe.yaml", search_recipe(finalists=1)), tmp_path / "out"
    sweep, screen = make_sweep(recipe, out)
    best = tune(sweep)
    found = results_in(out)
    # Two trials of SEQ and four of REPLAY with one seed (batches of 32 cannot work), one finalist each with the second.
    assert len(found) == 2 + 4 + 2
    assert {result["split"] for result in found.values()} == {"validation"}
    assert {result["order"] for result in found.values()} == {"1"}
    assert any("2 of 6 trials cannot work" in line for line in screen.said)

    trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    chosen = yaml.safe_load((out / "chosen.yaml").read_text())
    for outcome in best:
        name = outcome.trial.row.name
        own = [trial for trial in trials if trial["row"] == name]
        first = max(trial["by_seed"][0] for trial in own)
        (finalist,) = [trial for trial in own if len(trial["by_seed"]) == 2]
        assert finalist["by_seed"][0] == first
        assert outcome.mean == pytest.approx(finalist["accuracy"])
        assert chosen[name.lower()] == {key: finalist[key] for key in outcome.trial.tried}

    told = [line for line in (out / "chosen.yaml").read_text().splitlines() if line.startswith("# ")]
    assert told[:2] == ["# A small sweep", "# everlearn tune small.yaml"]
    by_row = {outcome.trial.row.name: outcome.mean for outcome in best}
    assert set(told[2:]) == {
        f"# SEQ: {by_row['SEQ']:.1%} on validation data with 2 seeds, the best of 2 trials",
        f"# REPLAY: {by_row['REPLAY']:.1%} on validation data with 2 seeds, the best of 4 trials",
    }

    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}
    code, _, error = everlearn("tune", recipe, "--out", out)
    assert code == 0
    assert "on validation data (2 seeds) with lr" in error
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")} == before

    code, _, error = everlearn("report", out)
    assert code == 2
    assert "is the folder of a search" in error
    code, _, error = everlearn("sweep", recipe, "--out", tmp_path / "sweep")
    assert code == 2
    assert "this recipe is for `everlearn tune`" in error


def test_what_is_chosen_holds_what_its_row_fixed_too(tmp_path: Path):
    content = search_recipe(seeds=[42])
    fixed = {"replay_gradient": "sum", "batch_size": 8}
    content["tables"]["relations"]["rows"] = [
        {"name": "R", "method": "replay", **fixed, "search": {"lr": [1e-3, 1e-2]}}
    ]
    sweep, _ = make_sweep(write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "out")
    (best,) = tune(sweep)
    chosen = yaml.safe_load((tmp_path / "out" / "chosen.yaml").read_text())
    assert chosen == {"replay": {**fixed, **best.trial.tried}}
    used = copy.deepcopy(RECIPE)
    table = used["tables"]["relations"]
    table.update(chosen="out/chosen.yaml", rows=[{"name": "REPLAY", "method": "replay"}], compare=[])
    (run, *_) = plan(read_recipe(write_recipe(tmp_path / "used.yaml", used)))
    assert run.config.flat() | chosen["replay"] == run.config.flat()


def test_a_trial_that_failed_is_not_tried_again(tmp_path: Path):
    content = search_recipe()
    content["tables"]["relations"]["rows"] = [{"name": "SEQ", "method": "seq", "search": {"lr": [1e-3, 1e9]}}]
    content["tables"]["relations"]["seeds"] = [42]
    recipe, out = write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "out"
    sweep, screen = make_sweep(recipe, out)
    (best,) = tune(sweep)
    assert best.trial.tried == {"lr": 1e-3}
    assert sum("no longer a finite number" in line for line in screen.said) == 1

    again, screen = make_sweep(recipe, out)
    assert [outcome.trial.tried for outcome in tune(again)] == [{"lr": 1e-3}]
    left_out = f"runs that failed before and are left out: 1; delete {out / 'logs' / 'given-up'} to try them again"
    reading = f"reading {SAMPLE}, order 1, to see whether finished runs had the same data"
    assert screen.said == [left_out, reading, "1 of 2 runs are done already"]


def test_draws_are_always_the_same_and_can_be_added_to(tmp_path):
    space = {"lr": [1e-4, 3e-4, 1e-3, 3e-3], "batch_size": [2, 4, 8]}
    row = {"name": "SEQ", "method": "seq", "search": space}
    few, _ = trials_in(write_recipe(tmp_path / "few.yaml", search_recipe(rows=[row], trials=4)), tmp_path)
    more, _ = trials_in(write_recipe(tmp_path / "more.yaml", search_recipe(rows=[row], trials=9)), tmp_path)
    everything, _ = trials_in(write_recipe(tmp_path / "all.yaml", search_recipe(rows=[row])), tmp_path)
    assert [trial.tried for trial in few] == [trial.tried for trial in more][:4]
    assert len({json.dumps(trial.tried) for trial in more}) == 9
    assert len(everything) == 12
    assert [trial.tried["lr"] for trial in everything] == [rate for rate in space["lr"] for _ in range(3)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": [{"name": "SEQ", "method": "seq"}]}, "has no `search:`"),
        ({"orders": [1, 2]}, "one order, as in the paper"),
        ({"rows": [{"name": "SEQ", "method": "seq", "split": "test", "search": {"lr": [1e-3]}}]}, "validation data"),
        ({"rows": [{"name": n, "method": "seq", "search": {"lr": [1e-3]}} for n in "AB"]}, "the same method"),
        ({"rows": [{"name": "SEQ", "method": "seq", "search": {"lr": 1e-3}}]}, "search holds"),
        ({"rows": [{"name": "SEQ", "method": "seq", "search": {"lr": [-1]}}]}, "lr must be greater than 0"),
        (
            {"trials": "many", "rows": [{"name": "S", "method": "seq", "search": {"lr": [1]}}]},
            "trials is a whole number",
        ),
        *(
            ({"rows": [{"name": "SEQ", "method": "seq", "search": {"lr": [1e-3], **search}}]}, message)
            for search, message in (
                ({"seed": [1, 2]}, "seed cannot be searched for"),
                ({"order": [1, 2]}, "order cannot be searched for"),
                ({"split": ["validation"]}, "split cannot be searched for"),
                ({"method": ["seq", "replay"]}, "method cannot be searched for"),
                ({"pooling": ["mean", "men"]}, "unknown pooling 'men': did you mean 'mean'?"),
                ({"memory": ["cbrs", "cbsr"]}, "unknown memory policy 'cbsr'"),
                ({"head_lr": [1e-3, "fast"]}, "head_lr must be a number, not 'fast'"),
                ({"head_lr": [1e-3, 0.001]}, "head_lr 0.001 stands here twice"),
                ({"replayrate": [0.1]}, "unknown setting 'replayrate'"),
            )
        ),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_with_its_line(tmp_path, changed, message):
    path = write_recipe(tmp_path / "recipe.yaml", search_recipe(**changed))
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        trials_in(path, tmp_path)
    assert f"{path} line " in str(caught.value)


def test_a_value_that_cannot_work_by_itself_is_named_where_it_stands(tmp_path):
    rows = [{"name": "SEQ", "method": "seq", "search": {"lr": [1e-3, 1e-2, -1]}}]
    path = write_recipe(tmp_path / "recipe.yaml", search_recipe(rows=rows))
    with pytest.raises(UserError, match="lr must be greater than 0, not -1") as caught:
        trials_in(path, tmp_path)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if text.strip() == "- -1")
    assert str(caught.value).startswith(f"{path} line {line}: ")
