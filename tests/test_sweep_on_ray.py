"""The Ray engine: the smoke recipe on a local Ray, and a worker that is killed in the middle of a run."""

import runpy
from pathlib import Path

import pytest

from everlearn.errors import UserError
from everlearn.run import run
from everlearn.sweep import on_ray
from everlearn.sweep.events import Job
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from sweep_support import RECIPE, make_sweep, results_in, write_recipe
from test_sweep import one_table

pytest.importorskip("ray")
ROOT = Path(__file__).parent.parent


def test_the_smoke_recipe_reaches_the_same_on_ray(tmp_path, everlearn):
    """One of its tables: what the others do on Ray is no different."""
    out, table = tmp_path / "out", "relation extraction"
    recipe = ROOT / "recipes" / "smoke.yaml"
    code, _, error = everlearn("sweep", recipe, "--out", out, "--table", table, "--engine", "ray", "--jobs", 2)
    assert code == 0, error
    runs = plan(read_recipe(recipe), only=table)
    found = results_in(out)
    assert found.keys() == {planned.name for planned in runs}
    # Every method once, in this process: to the last bit the same.
    for planned in {planned.config.method.method: planned for planned in runs}.values():
        run(planned.config, tmp_path / "single" / "runs" / planned.name)
    single = results_in(tmp_path / "single")
    assert single == {name: found[name] for name in single}


def test_a_run_whose_ray_worker_is_killed_is_tried_again(tmp_path, monkeypatch):
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    out, mark, carry_out = tmp_path / "out", tmp_path / "killed", on_ray._carry_out
    script = str(Path(__file__).parent / "dying_worker.py")

    def dies_once(job):
        runpy.run_path(script)["die_after_a_checkpoint"](mark)  # Ray's processes do not find the tests' modules
        return carry_out(job)

    monkeypatch.setattr(on_ray, "_carry_out", dies_once)
    sweep, screen = make_sweep(recipe, out, engine="ray")
    sweep.carry_out()
    assert mark.exists()
    assert any("the worker died" in line for line in screen.said)
    planned = plan(read_recipe(recipe))[0]
    run(planned.config, tmp_path / "single" / "runs" / planned.name)
    assert results_in(out) == results_in(tmp_path / "single")


def test_results_come_back_from_a_machine_with_other_files(tmp_path, monkeypatch):
    """What a worker elsewhere has written is handed over and written here."""
    planned = plan(read_recipe(write_recipe(tmp_path / "recipe.yaml", RECIPE)))[0]
    there, here = tmp_path / "there" / "runs" / planned.name, tmp_path / "here" / "runs" / planned.name
    answer = on_ray._carry_out(Job(planned.name, "", "seq", planned.config.flat(), str(there), 1).as_dict())
    engine = on_ray.RayEngine.__new__(on_ray.RayEngine)
    engine._ray = type("Ray", (), {"get": staticmethod(lambda reference: reference), "exceptions": on_ray})
    monkeypatch.setattr(on_ray, "RayError", RuntimeError, raising=False)
    event = engine._outcome(answer, Job(planned.name, "", "seq", {}, str(here), 1))
    assert event.kind == "ended"
    assert results_in(tmp_path / "here") == results_in(tmp_path / "there")


def test_a_cluster_that_is_not_there_is_named(tmp_path):
    recipe = write_recipe(tmp_path / "recipe.yaml")
    sweep, _ = make_sweep(recipe, tmp_path / "out", engine="ray", address="127.0.0.1:1")
    with pytest.raises(UserError, match=r"Ray cannot be used at 127\.0\.0\.1:1"):
        sweep.carry_out()
