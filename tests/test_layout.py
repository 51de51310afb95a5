"""What a run could not even start with is found before anything runs, once for each combination, with its line."""

import copy
from pathlib import Path

import pytest
import torch

from everlearn.errors import UserError
from everlearn.sweep import layout
from everlearn.sweep.layout import check_layouts
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from support import small_benchmark
from sweep_support import RECIPE, results_in, write_recipe


def check(path: Path, here: bool = True) -> None:
    recipe = read_recipe(path)
    check_layouts(recipe, plan(recipe), here)


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_size": 800}, "fewrel has 150 sentences to draw training sentences from, not 800"),
        ({"test_size": 1}, "1 test sentences are too few"),
        ({"split": "validation", "val_size": 0}, "has no validation examples: ask for some with --val-size"),
        ({"trained_layers": 7}, "the encoder has 2 layers, not 7"),
        ({"open_classes": True}, "has its candidates given"),
        ({"device": "cuda"}, "no CUDA device was found"),
    ],
)
@pytest.mark.usefixtures("without_gpu")
def test_what_no_run_can_do_is_named_with_its_line(tmp_path, changed, message):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["settings"].update(changed)
    path = write_recipe(tmp_path / "recipe.yaml", content)
    with pytest.raises(UserError, match=message) as caught:
        check(path)
    *_, cause = changed
    (line,) = [n for n, text in enumerate(path.read_text().splitlines(), 1) if text.strip().startswith(f"{cause}:")]
    assert str(caught.value).startswith(f"{path} line {line}: ")


@pytest.mark.usefixtures("without_gpu")
def test_machines_of_a_cluster_may_have_the_gpu_that_this_one_lacks(tmp_path):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["settings"]["device"] = "cuda"
    check(write_recipe(tmp_path / "recipe.yaml", content), here=False)


def test_each_combination_is_looked_at_once(tmp_path, monkeypatch):
    read, loaded = [], []
    monkeypatch.setattr(layout, "benchmark_for", lambda config: read.append(config.stream) or small_benchmark())
    monkeypatch.setattr(layout, "load_encoder", lambda config, device: loaded.append(config))
    content = copy.deepcopy(RECIPE)
    table = content["tables"]["relations"]
    del table["settings"]["data"]
    table["settings"].update(stream="docstrings")
    table.update(orders=[1, 2, "torch,scipy"], compare=[])
    table["rows"] = [
        {"name": "SEQ", "method": "seq"},
        {"name": "less", "method": "seq", "train_size": 8, "trained_layers": 1, "dropout": 0.1},
        {"name": "slower", "method": "seq", "lr": 1e-4},
    ]
    check(write_recipe(tmp_path / "recipe.yaml", content))
    assert [(stream.order, stream.train_size) for stream in read] == [
        ("1", None), ("1", 8), ("torch,scipy", None), ("torch,scipy", 8)
    ]  # fmt: skip
    assert [config.trained_layers for config in loaded] == [None, 1]


def test_a_sweep_and_a_search_are_refused_before_anything_runs(tmp_path, everlearn):
    content = copy.deepcopy(RECIPE)
    table = content["tables"]["relations"]
    table["rows"][1]["trained_layers"] = 7
    path = write_recipe(tmp_path / "recipe.yaml", content)
    code, _, error = everlearn("sweep", path, "--out", tmp_path / "out")
    assert code == 2
    assert f"{path} line " in error
    assert "the encoder has 2 layers, not 7" in error
    assert not results_in(tmp_path / "out")

    table.update(compare=[], rows=[{"name": "SEQ", "method": "seq", "search": {"trained_layers": [1, 7]}}])
    path = write_recipe(tmp_path / "search.yaml", content)
    code, _, error = everlearn("tune", path, "--out", tmp_path / "search")
    assert code == 2
    line = path.read_text().splitlines().index("        trained_layers:") + 1
    assert f"{path} line {line}: the encoder has 2 layers, not 7" in error
    assert not results_in(tmp_path / "search")
