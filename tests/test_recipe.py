"""Recipes: what they may hold, and how a mistake in one is named with its line before anything runs."""

import copy
import re
from pathlib import Path

import pytest
import yaml

from everlearn.errors import UserError
from everlearn.methods import METHODS
from everlearn.report.results import Spread
from everlearn.sweep.folder import SweepFolder
from everlearn.sweep.plan import check_before_running, plan
from everlearn.sweep.recipe import read_recipe
from everlearn.sweep.sweep import Means, Sweep, parse_data
from everlearn.sweep.tune import trials_of
from support import writes_texts
from sweep_support import RECIPE, Listener, write_recipe

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))

GOOD = """\
title: Something
tables:
  first:
    settings:
      stream: docstrings
      encoder: tiny
    seeds: [42, 43]
    orders: [1, 2]
    rows:
      - name: SEQ
        method: seq
        lr: 1e-3
        paper: {1: 16.7 ± 0.7, average: 20.8 ± 0.5}
      - name: MTL
        method: mtl
        orders: [1]
    compare:
      - {rows: [SEQ, MTL], paper_p: 0.01}
"""


def read_and_check(path):
    """All that is looked at before anything runs."""
    recipe = read_recipe(path)
    check_before_running(recipe, plan(recipe))


@pytest.fixture
def refused(tmp_path):
    """The sentence with which a changed recipe is refused, and the line it names."""

    def call(old, new):
        assert old in GOOD
        path = tmp_path / "recipe.yaml"
        path.write_text(GOOD.replace(old, new, 1))
        with pytest.raises(UserError) as caught:
            read_and_check(path)
        match = re.fullmatch(rf"{re.escape(str(path))} line (\d+): (.+)", str(caught.value), re.DOTALL)
        assert match, caught.value
        return match[2], path.read_text().splitlines()[int(match[1]) - 1]

    return call


def test_a_recipe_becomes_runs(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD)
    recipe = read_recipe(path)
    seq, mtl = recipe.tables[0].rows
    assert seq.paper == {"1": Spread(0.167, 0.007), "average": Spread(0.208, 0.005)}
    assert mtl.expected == {}
    runs = plan(recipe)
    asked = {(run.row, run.config.stream.order, run.config.run.seed) for run in runs}
    assert asked == {("SEQ", o, s) for o in "12" for s in (42, 43)} | {("MTL", "1", 42), ("MTL", "1", 43)}
    assert len({run.name for run in runs}) == 6
    # First seeds first, so that a sweep that is stopped half-way has something to show for every row.
    assert [run.config.run.seed for run in runs] == [42] * 3 + [43] * 3
    assert {run.config.method.lr for run in runs if run.row == "SEQ"} == {1e-3}


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("title:", "tittle:", "unknown key 'tittle': did you mean 'title'?", "tittle: Something"),
        ("    rows:", "    rowz:", "unknown key 'rowz'", "    rowz:"),
        ("        lr: 1e-3", "        lrr: 1e-3", "unknown setting 'lrr'", "        lrr: 1e-3"),
        ("        lr: 1e-3", "        lr: -1", "lr must be greater than 0, not -1", "        lr: -1"),
        ("        lr: 1e-3", "        lr: fast", "lr must be a number, not 'fast'", "        lr: fast"),
        ("method: seq", "method: sec", "unknown method 'sec': did you mean 'seq'?", "        method: sec"),
        ("encoder: tiny", "max_length: 1", "max_length must be at least 3, not 1", "      max_length: 1"),
        ("stream: docstrings", "stream: docs", "unknown stream 'docs'", "      stream: docs"),
        ("encoder: tiny", "data: /nowhere", "there is no /nowhere", "      data: /nowhere"),
        ("stream: docstrings", "stream: fewrel", "has no data", "      - name: SEQ"),
        ("orders: [1, 2]", "orders: [1, 9]", "docstrings has no order 9", "    orders: [1, 9]"),
        ("orders: [1, 2]", 'orders: [1, "torch,skleam"]', "unknown task 'skleam'", '    orders: [1, "torch,skleam"]'),
        ("encoder: tiny", "memory: cbsr", "unknown memory policy 'cbsr': did you mean 'cbrs'?", "      memory: cbsr"),
        ("encoder: tiny", "memory: ring", "'ring' needs a bound", "      memory: ring"),
        ("encoder: tiny", "pooling: men", "unknown pooling 'men': did you mean 'mean'?", "      pooling: men"),
        ("encoder: tiny", "precision: fp64", "unknown precision 'fp64'", "      precision: fp64"),
        ("encoder: tiny", "encoder: tinny", "unknown encoder 'tinny': did you mean 'tiny'?", "      encoder: tinny"),
        ("seeds: [42, 43]", "seeds: [42, 42]", "each entry once", "    seeds: [42, 42]"),
        ("seeds: [42, 43]", "seeds: [one]", "seeds is a list", "    seeds: [one]"),
        ("encoder: tiny", "seed: 3", "write `seeds:` with a list", "      seed: 3"),
        ("name: MTL", "name: SEQ", "two rows are called 'SEQ'", None),
        ("average: 20.8 ± 0.5", "average: about 20", "'about 20' is no accuracy", None),
        ("average: 20.8 ± 0.5", "average: 208", "'208' is no accuracy", None),
        ("[SEQ, MTL]", "[SEQ, MLT]", "unknown row 'MLT': did you mean 'MTL'?", None),
        ("paper_p: 0.01", "paper_p: 2", "paper_p lies between 0 and 1", None),
        ("    seeds:", "    curve: replayrate\n    seeds:", "unknown setting 'replayrate'", "    curve: replayrate"),
        ("    seeds:", "    curve: [lr]\n    seeds:", "curve is the name of one setting", "    curve: [lr]"),
        ("    seeds:", "    curve: encoder\n    seeds:", "a setting that is a number", "    curve: encoder"),
        (
            "    seeds:",
            "    curve: memory_capacity\n    seeds:",
            "'SEQ' has no place on the curve",
            "      - name: SEQ",
        ),
        ("    seeds:", "    trials: 0\n    seeds:", "trials is a whole number of at least 1", "    trials: 0"),
        ("    seeds:", "    chosen: {sqe: {lr: 1}}\n    seeds:", "unknown method 'sqe'", "    chosen: {sqe: {lr: 1}}"),
        ("average: 20.8 ± 0.5", "averge: 20.8", "unknown order of this row 'averge': did you mean 'average'?", None),
        ("average: 20.8 ± 0.5", "9: 20", "unknown order of this row '9'", None),
        ("[SEQ, MTL]", "[SEQ, SEQ]", "'SEQ' is compared with itself", None),
        ("paper_p: 0.01", "paper_p: true", "paper_p lies between 0 and 1", None),
        ("    seeds:", "    chosen: no.yaml\n    seeds:", "there is no file", "    chosen: no.yaml"),
        ("title: Something", "title: Something\ntitle: More", "a second time", "title: More"),
        ("    compare:", "    published: LAMOL\n    compare:", "published is a list", "    published: LAMOL"),
        (
            "    compare:",
            "    published: [{name: LAMOL}]\n    compare:",
            "`paper:` is missing",
            "    published: [{name: LAMOL}]",
        ),
        (
            "method: mtl",
            "method: mtl\n        split: validation",
            "'MTL' has another split",
            "        split: validation",
        ),
        ("method: mtl", "method: mtl\n        stream: file", "'MTL' has another stream", "        stream: file"),
        ("title: Something", "title: &a [*a]", "an anchor refers to what it stands in", "title: &a [*a]"),
    ],
)
def test_a_mistake_is_named_with_its_line(refused, old, new, message, line):
    sentence, where = refused(old, new)
    assert message in sentence
    if line is not None:
        assert where == line


@pytest.mark.parametrize("content", ["", "just text", "- a\n- b\n", "title: [unclosed"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path, content):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=re.escape(str(path))):
        read_recipe(path)


def test_a_missing_recipe_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no recipe"):
        read_recipe(tmp_path / "none.yaml")


def names(path, **changed):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["settings"].update(changed)
    return {run.name for run in plan(read_recipe(write_recipe(path, content)))}


@pytest.mark.parametrize(
    ("stream", "file"), [("fewrel", "relation_name.txt"), ("fewrel", "val_data.txt"), ("textcls", "train file of yelp")]
)
def test_a_data_folder_without_its_files_is_refused_before_anything_runs(tmp_path, everlearn, stream, file):
    (tmp_path / "data").mkdir()
    if stream == "fewrel":
        for name in {"relation_name.txt", "training_data.txt", "val_data.txt"} - {file}:
            (tmp_path / "data" / name).touch()
    path, out = tmp_path / "recipe.yaml", tmp_path / "out"
    path.write_text(GOOD.replace("stream: docstrings", f"stream: {stream}\n      data: data"))
    code, _, error = everlearn("sweep", path, "--out", out)
    assert code == 2
    assert f"{path} line 6: " in error
    assert file in error
    assert not out.exists()


def test_a_run_is_named_by_its_settings_alone(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    here = names(tmp_path / "recipe.yaml", data="data/fewrel")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert names(tmp_path / "elsewhere" / "other.yaml", data="data/fewrel") == here
    assert names(tmp_path / "recipe.yaml", data="data/fewrel", dropout=0.0) == here  # the default, written out
    assert not names(tmp_path / "recipe.yaml", data="data/fewrel", dropout=0.1) & here
    assert not names(tmp_path / "recipe.yaml", data="data/other") & here


def test_where_the_data_lies_does_not_change_a_name(tmp_path):
    recipe = read_recipe(write_recipe(tmp_path / "recipe.yaml"))
    moved = plan(recipe, parse_data(recipe, [f"fewrel={tmp_path}"]))
    assert {run.config.stream.data for run in moved} == {tmp_path}
    assert [run.name for run in moved] == [run.name for run in plan(recipe)]
    assert parse_data(recipe, [str(tmp_path)]) == {"fewrel": tmp_path}
    with pytest.raises(UserError, match="unknown stream"):
        parse_data(recipe, ["textcls=x"])


def test_chosen_settings_come_from_a_file_beside_the_recipe(tmp_path):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["chosen"] = "chosen.yaml"
    del content["tables"]["relations"]["settings"]["lr"]
    content["tables"]["relations"]["rows"].append({"name": "SEQ, own", "method": "seq", "lr": 5e-3})
    (tmp_path / "chosen.yaml").write_text(yaml.safe_dump({"seq": {"lr": 2e-3, "batch_size": 8}}))
    runs = plan(read_recipe(write_recipe(tmp_path / "recipe.yaml", content)))
    rates = {run.row: (run.config.method.lr, run.config.method.batch_size) for run in runs}
    assert rates["SEQ"] == (2e-3, 8)
    assert rates["SEQ, own"] == (5e-3, 8)  # what a row says wins
    assert rates["OML-ER"][1] == 4  # the stream's own


def test_settings_may_be_chosen_in_several_files_but_once_for_each_method(tmp_path):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["chosen"] = ["one.yaml", "two.yaml"]
    (tmp_path / "one.yaml").write_text("seq: {batch_size: 8}")
    (tmp_path / "two.yaml").write_text("oml-er: {batch_size: 2}")
    path = write_recipe(tmp_path / "recipe.yaml", content)
    assert {run.row: run.config.method.batch_size for run in plan(read_recipe(path))} == {"SEQ": 8, "OML-ER": 2}
    (tmp_path / "two.yaml").write_text("seq: {batch_size: 2}")
    with pytest.raises(UserError, match=r"line \d+: two\.yaml chooses settings for seq a second time"):
        read_recipe(path)


def test_a_method_that_nobody_knows_is_named_in_the_file_that_chooses_for_it(tmp_path):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["chosen"] = "chosen.yaml"
    chosen = tmp_path / "chosen.yaml"
    chosen.write_text("# a comment\nseq: {lr: 1e-3}\nreplai: {lr: 1e-3}\n")
    with pytest.raises(UserError, match=f"{re.escape(str(chosen))} line 3: unknown method 'replai'"):
        read_recipe(write_recipe(tmp_path / "recipe.yaml", content))


@pytest.mark.parametrize("stream", ["textcls", "fewrel"])
def test_every_method_that_needs_no_language_model_is_among_the_peers(stream):
    recipe = read_recipe(ROOT / "recipes" / f"peers-{stream}-minilm.yaml")
    runs = plan(recipe)
    assert {run.config.method.method for run in runs} == {name for name in METHODS if not writes_texts(name)}
    assert {run.config.method.replay_rate for run in runs} == {0.01}
    assert {run.config.method.replay_interval for run in runs} == {1600}
    # NCM has nothing to choose.
    searched = {
        row.settings["method"]
        for name in (f"tune-{stream}-minilm", f"tune-peers-{stream}-minilm")
        for row in read_recipe(ROOT / "recipes" / f"{name}.yaml").tables[0].rows
    }
    assert {run.config.method.method for run in runs} - searched == {"ncm"}


def runs_of_search(recipe):
    """Every trial with one seed and the finalists with all, or every trial with all seeds."""
    total = 0
    for table in recipe.tables:
        trials = trials_of(Sweep(recipe, SweepFolder(Path("nowhere")), Means(), Listener()), table)
        for row in table.rows:
            own = [trial for trial in trials if trial.row is row]
            more = len(row.seeds) - 1
            total += len(own) + more * (min(table.finalists, len(own)) if table.finalists else len(own))
    return total


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_that_is_shipped_can_be_planned(path):
    recipe = read_recipe(path)
    assert recipe.shows
    tunes = path.stem.startswith("tune-")
    assert recipe.command.startswith(f"everlearn {'tune' if tunes else 'sweep'} recipes/{path.name}")
    said = re.match(r"(\d+) runs", recipe.cost)
    assert said
    assert int(said[1]) == (runs_of_search(recipe) if tunes else len(plan(recipe)))


def test_the_sample_of_relations_is_the_one_of_the_tests(tmp_path):
    from fewrel_sample import write_sample

    made = write_sample(tmp_path / "sample")
    shipped = ROOT / "recipes" / "sample" / "fewrel"
    assert {p.name: p.read_text() for p in made.iterdir()} == {p.name: p.read_text() for p in shipped.iterdir()}


@pytest.mark.parametrize(
    ("chosen", "line", "message"),
    [
        ("seq:\n  batch_size: 8\n  lr: -1\n", 3, "lr must be greater than 0"),
        ("seq: {lr: 1e-3}\nmtl:\n  batch_sise: 8\n", 3, "unknown setting 'batch_sise': did you mean 'batch_size'?"),
    ],
)
def test_a_mistake_in_a_file_of_chosen_settings_is_named_where_it_stands(tmp_path, chosen, line, message):
    (tmp_path / "chosen.yaml").write_text(chosen)
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD.replace("    seeds:", "    chosen: chosen.yaml\n    seeds:").replace("        lr: 1e-3\n", ""))
    with pytest.raises(
        UserError, match=rf"^{re.escape(str(tmp_path / 'chosen.yaml'))} line {line}: {re.escape(message)}"
    ):
        read_and_check(path)
