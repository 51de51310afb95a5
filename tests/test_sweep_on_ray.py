"""The Ray engine: what the local one does, to the last bit, with its progress; failures, and what has no room."""

import runpy
from pathlib import Path

import pytest
import torch
import yaml

from everlearn.errors import UserError
from everlearn.experiment import choose_device
from everlearn.run import run
from everlearn.sweep import on_ray
from everlearn.sweep.events import Job
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from sweep_support import RECIPE, make_sweep, results_in, write_recipe
from test_sweep import job_of, one_table

pytest.importorskip("ray")
ROOT = Path(__file__).parent.parent

SOME_OF_SMOKE = {
    "text classification": ("SEQ", "A-GEM"),
    "other systems, text classification": ("DER++",),
    "relation extraction": ("REPLAY", "OML-ER", "MTL"),
    "other systems, relation extraction": ("ridge",),
    "replay rates": ("REPLAY 10 %", "REPLAY 20 %"),
}
"""Both problems, methods of every kind, a comparison for each problem and a curve: all of it takes too long twice."""


def part_of_smoke(path: Path) -> Path:
    """The smoke recipe with some rows of each table."""
    content = yaml.safe_load((ROOT / "recipes" / "smoke.yaml").read_text())
    for name, table in content["tables"].items():
        kept = SOME_OF_SMOKE[name]
        table["seeds"] = [42]
        table["rows"] = [row for row in table["rows"] if row["name"] in kept]
        table["compare"] = [entry for entry in table.get("compare", []) if set(entry["rows"]) <= set(kept)]
        if "data" in table["settings"]:
            table["settings"]["data"] = str(ROOT / "recipes" / "sample" / "fewrel")
    return write_recipe(path, content)


@pytest.mark.timeout(900)  # on cores that others share
def test_the_smoke_recipe_reaches_the_same_with_both_engines_and_so_does_its_report(tmp_path, everlearn):
    recipe = part_of_smoke(tmp_path / "recipe.yaml")
    runs = {planned.name for planned in plan(read_recipe(recipe))}
    found, tables = {}, {}
    for engine, jobs in (("local", 1), ("ray", 2)):  # every further worker reads the embedded stream once more
        out = tmp_path / engine
        code, _, error = everlearn("sweep", recipe, "--out", out, "--engine", engine, "--jobs", jobs)
        assert code == 0, error
        found[engine] = results_in(out)
        code, _, error = everlearn("report", out)
        assert code == 0, error
        assert (out / "report" / "index.html").is_file()
        assert (out / "report" / "figures" / "replay-rates-setting.png").is_file()
        tables[engine] = (out / "report" / "tables.tex").read_text()  # accuracies and tests, but no times
    assert found["ray"].keys() == runs
    assert found["ray"] == found["local"]
    assert tables["ray"] == tables["local"]
    assert all(table in tables["ray"] for table in SOME_OF_SMOKE)


def test_how_far_a_run_is_comes_back_from_ray(tmp_path):
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    engine = on_ray.RayEngine(1, 1, None, None, tmp_path)
    job = job_of(recipe, tmp_path)
    first, *between, last = engine.carry_out([job])
    assert (first.kind, last.kind) == ("started", "ended")
    assert between
    assert {event.kind for event in between} == {"advanced"}
    shares = [event.share for event in between]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= 1


def test_a_run_whose_ray_worker_is_killed_is_tried_again(tmp_path, monkeypatch):
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    out, mark, carry_out = tmp_path / "out", tmp_path / "killed", on_ray._carry_out
    script = str(Path(__file__).parent / "dying_worker.py")

    def dies_once(job, shares):
        runpy.run_path(script)["die_after_a_checkpoint"](mark)  # Ray's processes do not find the tests' modules
        return carry_out(job, shares)

    monkeypatch.setattr(on_ray, "_carry_out", dies_once)
    sweep, screen = make_sweep(recipe, out, engine="ray")
    sweep.carry_out()
    assert mark.exists()
    assert any("the worker died" in line for line in screen.said)
    planned = plan(read_recipe(recipe))[0]
    assert planned.label in (out / "logs" / f"{planned.name}.log").read_text()
    run(planned.config, tmp_path / "single" / "runs" / planned.name)
    assert results_in(out) == results_in(tmp_path / "single")


class Told:
    """Stands for the process that gathers how far runs are."""

    def __init__(self):
        self.note = self
        self.shares = []

    def remote(self, name, share):
        self.shares.append((name, share))


def engine_without_ray(logs: Path) -> on_ray.RayEngine:
    """Takes answers themselves for references to them."""
    engine = on_ray.RayEngine.__new__(on_ray.RayEngine)
    exceptions = type("exceptions", (), {"RayError": RuntimeError})
    engine._ray = type(
        "Ray", (), {"get": staticmethod(lambda reference, timeout=None: reference), "exceptions": exceptions}
    )
    engine._logs = logs
    return engine


def test_results_come_back_from_a_machine_with_other_files(tmp_path):
    """What a worker elsewhere has written is handed over and written here."""
    planned = plan(read_recipe(write_recipe(tmp_path / "recipe.yaml", RECIPE)))[0]
    there, here = tmp_path / "there" / "runs" / planned.name, tmp_path / "here" / "runs" / planned.name
    told = Told()
    answer = on_ray._carry_out(Job(planned.name, "", "seq", planned.config.flat(), str(there), 1).as_dict(), told)
    event = engine_without_ray(tmp_path)._outcome(answer, Job(planned.name, "", "seq", {}, str(here), 1))
    assert event.kind == "ended"
    assert results_in(tmp_path / "here") == results_in(tmp_path / "there")
    assert told.shares
    assert all(name == planned.name and 0 < share <= 1 for name, share in told.shares)


@pytest.mark.parametrize(
    ("device", "kind", "sentence"),
    [("cuda", "failed", "no CUDA device was found"), ("cpu", "retried", "ValueError: two")],
)
def test_what_went_wrong_on_ray_is_written_down_in_full(tmp_path, monkeypatch, device, kind, sentence):
    def breaks(job, screen):
        choose_device(job.settings["device"])
        raise ValueError("two\nlines")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("everlearn.sweep.work.carry_out", breaks)
    job = Job("seq-1", "SEQ, order 1", "seq", {"device": device}, str(tmp_path), 1)
    event = engine_without_ray(tmp_path)._outcome(on_ray._carry_out(job.as_dict(), Told()), job)
    assert event.kind == kind
    assert event.text.startswith(sentence)
    assert "\n" not in event.text
    log = (tmp_path / "seq-1.log").read_text()
    assert log.startswith("--- SEQ, order 1")
    assert "Traceback" in log
    assert "in breaks" in log


def test_runs_go_on_when_nobody_knows_how_far_they_are(tmp_path):
    def lost():
        raise RuntimeError("the machine is gone")

    take = type("take", (), {"remote": staticmethod(lost)})
    assert engine_without_ray(tmp_path)._told(type("shares", (), {"take": take})) == {}


def test_what_has_no_room_is_refused_instead_of_waited_for(tmp_path):
    sweep, _ = make_sweep(write_recipe(tmp_path / "recipe.yaml"), tmp_path / "out", engine="ray", gpus=1000.0)
    with pytest.raises(UserError, match="no room for a run that needs 1 cores and 1000 GPUs"):
        sweep.carry_out()
    sweep, _ = make_sweep(write_recipe(tmp_path / "recipe.yaml"), tmp_path / "out", engine="ray", gpus=1.5)
    with pytest.raises(UserError, match=r"--gpus is a whole number, or a part of one GPU, not 1\.5"):
        sweep.carry_out()


def test_a_cluster_that_is_not_there_is_named(tmp_path):
    recipe = write_recipe(tmp_path / "recipe.yaml")
    sweep, _ = make_sweep(recipe, tmp_path / "out", engine="ray", address="127.0.0.1:1")
    with pytest.raises(UserError, match=r"Ray cannot be used at 127\.0\.0\.1:1"):
        sweep.carry_out()
