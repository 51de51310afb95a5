"""Sweeps with the local engine: done runs are skipped, stopped ones resumed, those that fail are tried again."""

import copy
import os
import queue
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from everlearn.errors import UserError
from everlearn.run import run
from everlearn.run_folder import damage
from everlearn.sweep import local
from everlearn.sweep.events import ATTEMPTS, Job
from everlearn.sweep.folder import SweepFolder
from everlearn.sweep.local import LocalEngine, WorkerProcess
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from sweep_support import RECIPE, SAMPLE, make_sweep, results_in, write_recipe

TESTS = Path(__file__).parent


def undisturbed(recipe: Path, out: Path) -> dict:
    """What the runs reach in one process, one after the other."""
    for planned in plan(read_recipe(recipe)):
        run(planned.config, out / "runs" / planned.name)
    return results_in(out)


def one_table(rows=("SEQ",), **changed):
    content = copy.deepcopy(RECIPE)
    table = content["tables"]["relations"]
    table["rows"] = [row for row in table["rows"] if row["name"] in rows]
    table["compare"] = []
    table.update(changed)
    return content


def job_of(recipe: Path, out: Path) -> Job:
    planned = plan(read_recipe(recipe))[0]
    return Job(planned.name, planned.label, "seq", planned.config.flat(), str(out / "runs" / planned.name), 1)


def test_a_sweep_does_what_single_runs_do_and_only_once(tmp_path, monkeypatch):
    recipe, out = write_recipe(tmp_path / "recipe.yaml"), tmp_path / "out"
    sweep, screen = make_sweep(recipe, out)
    sweep.carry_out()
    found = results_in(out)
    assert len(found) == 4
    assert found == undisturbed(recipe, tmp_path / "single")
    assert not list(out.glob("runs/*/checkpoints"))
    assert sum("accuracy" in line for line in screen.said) == 4
    assert any("left" in line for line in screen.said)

    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}
    again, screen = make_sweep(recipe, out)
    with monkeypatch.context() as nothing_is_laid_out:
        nothing_is_laid_out.delattr("everlearn.sweep.sweep.check_layouts")
        again.carry_out()
    reading = f"reading {SAMPLE}, order 1, to see whether finished runs had the same data"
    assert screen.said == [reading, "4 of 4 runs are done already"]
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")} == before

    # Another sweep takes what is the same from this one.
    names = sorted(found)
    content = one_table(rows=("SEQ",), seeds=[42, 43])
    other = write_recipe(tmp_path / "other.yaml", content)
    taking, screen = make_sweep(other, tmp_path / "other")
    replace(taking, reuse=[SweepFolder(out)]).carry_out()
    assert screen.said == [reading, f"runs taken from {out}: 2", "2 of 2 runs are done already"]
    assert results_in(tmp_path / "other") == {name: found[name] for name in names if name.startswith("seq")}
    assert all(damage(folder) is None for folder in (tmp_path / "other" / "runs").iterdir())


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def state_and_parent(process: int) -> tuple[str, int]:
    """A process's letter, Z for one that has ended and that nobody has asked about, and its parent."""
    try:
        state, parent, *_ = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "Z", 0
    return state, int(parent)


def children_of(parent: int) -> list[int]:
    processes = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [process for process in processes if state_and_parent(process)[1] == parent]


def test_a_folder_of_another_recipe_is_refused(tmp_path):
    out = tmp_path / "out"
    write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    sweep, _ = make_sweep(tmp_path / "recipe.yaml", out)
    with sweep.folder.claimed(sweep.recipe, {planned.name for planned in plan(sweep.recipe)}):
        (out / "runs" / plan(sweep.recipe)[0].name).mkdir()
        second, _ = make_sweep(tmp_path / "recipe.yaml", out)
        with pytest.raises(UserError, match="another sweep is at work"):
            second.carry_out()

    changed = one_table(seeds=[42])
    changed["tables"]["relations"]["settings"]["lr"] = 2e-3
    other, _ = make_sweep(write_recipe(tmp_path / "other.yaml", changed), out)
    with pytest.raises(UserError, match="belongs to another recipe"):
        other.carry_out()

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("…")
    foreign, _ = make_sweep(tmp_path / "recipe.yaml", tmp_path / "full")
    with pytest.raises(UserError, match="holds other files"):
        foreign.carry_out()


@pytest.mark.parametrize(
    ("threads", "processes", "gpus", "tokenising"),
    [(1, 4, 0, 1), (3, 4, 0, 3), (1, 1, 1, 16), (2, 4, 4, 4), (1, 32, 1, 1), (6, 4, 1, 6)],
)
def test_a_worker_tokenises_with_its_share_of_the_cores_where_a_gpu_waits_for_it(
    threads, processes, gpus, tokenising, monkeypatch
):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert local.tokenising_threads(threads, processes, gpus) == tokenising


@pytest.mark.parametrize(("tokenising", "parallel"), [(1, "false"), (5, "true")])
def test_a_worker_is_told_with_how_many_threads_it_tokenises(tokenising, parallel, tmp_path, monkeypatch):
    shown = "import os, sys; print(*(os.environ[name] for name in sys.argv[1].split()), file=sys.stderr)"
    names = "OMP_NUM_THREADS TOKENIZERS_PARALLELISM RAYON_NUM_THREADS"
    monkeypatch.setattr(local, "WORKER", [sys.executable, "-c", shown, names])
    worker = WorkerProcess(0, 2, tokenising, 1, 0, tmp_path, queue.Queue())
    worker.fate()
    worker.stop()
    assert worker.log.read_text().split() == ["2", parallel, str(tokenising)]


def test_a_run_whose_worker_is_killed_is_tried_again_from_its_checkpoint(tmp_path, monkeypatch):
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(local, "WORKER", [sys.executable, str(TESTS / "dying_worker.py"), str(tmp_path / "killed")])
    engine = LocalEngine(1, 1, 0, tmp_path / "logs")
    started: list[WorkerProcess] = []
    start = engine._start
    engine._start = lambda number: started.append(start(number)) or started[-1]
    events = [event for event in engine.carry_out([job_of(recipe, tmp_path)]) if event.kind != "advanced"]
    assert len(started) == 2
    assert [event.kind for event in events] == ["started", "retried", "started", "ended"]
    assert events[1].text == "it was killed by signal 9"
    assert "going on after" in (tmp_path / "logs" / "worker-0.log").read_text()
    assert results_in(tmp_path) == undisturbed(recipe, tmp_path / "single")


def test_a_run_whose_worker_dies_every_time_fails_and_the_others_go_on(tmp_path):
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    (tmp_path / "logs").mkdir()
    engine = LocalEngine(1, 1, 0, tmp_path / "logs")
    good = job_of(recipe, tmp_path)
    bad = Job("bad", "bad", "seq", {**good.settings, "method": "seq"}, "/dev/null/impossible", 1)
    workers: list[WorkerProcess] = []
    start = engine._start
    engine._start = lambda number: workers.append(start(number)) or workers[-1]
    ends = []
    for event in engine.carry_out([bad, good]):
        if event.kind == "started" and event.job.name == "bad":
            os.kill(workers[-1]._process.pid, signal.SIGKILL)
        if event.kind in ("ended", "failed"):
            ends.append((event.job.name, event.kind, event.text))
    assert ends[0][:2] == ("bad", "failed")
    assert f"died {ATTEMPTS} times" in ends[0][2]
    assert "signal 9" in ends[0][2]
    assert ends[1][:2] == (good.name, "ended")


def test_runs_that_share_a_process_reach_what_they_reach_alone(tmp_path):
    content = copy.deepcopy(RECIPE)
    content["tables"]["relations"]["rows"].append({"name": "MER", "method": "mer"})
    recipe, out = write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "out"
    sweep, screen = make_sweep(recipe, out, together=2)
    sweep.carry_out()
    assert [path.name for path in (out / "logs").glob("worker-*")] == ["worker-0.log"]
    assert len(screen.said) == 6
    assert results_in(out) == undisturbed(recipe, tmp_path / "single")


def test_a_run_that_breaks_its_process_costs_the_others_in_it_no_attempt(tmp_path, monkeypatch):
    """They go on from their checkpoints as often as it takes."""
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(seeds=[42]))
    (tmp_path / "logs").mkdir()
    good = job_of(recipe, tmp_path)
    bad = Job("bad", "bad", "seq", {**good.settings, "order": "1"}, str(tmp_path / "bad"), -1)  # no such thread count
    kinds: dict[str, list[str]] = {"bad": [], good.name: []}
    for event in LocalEngine(2, 1, 0, tmp_path / "logs", together=2).carry_out([bad, good]):
        if event.kind != "advanced":
            kinds[event.job.name].append(event.kind)
    assert kinds["bad"] == [*["started", "retried"] * (ATTEMPTS - 1), "started", "failed"]
    assert kinds[good.name] == [*["started", "retried"] * kinds[good.name].count("retried"), "started", "ended"]
    assert results_in(tmp_path) == undisturbed(recipe, tmp_path / "single")


def test_a_worker_that_is_replaced_leaves_its_number(tmp_path, monkeypatch):
    """The number decides about GPU and log."""
    recipe = write_recipe(tmp_path / "recipe.yaml")
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(local, "WORKER", [sys.executable, str(TESTS / "dying_worker.py"), str(tmp_path / "killed")])
    engine = LocalEngine(2, 1, 0, tmp_path / "logs")
    workers: list[WorkerProcess] = []
    start = engine._start
    engine._start = lambda number: workers.append(start(number)) or workers[-1]
    jobs = [replace(job_of(recipe, tmp_path), name=name, folder=str(tmp_path / name)) for name in "ab"]
    dead: list[int] = []
    for event in engine.carry_out(jobs):
        if event.kind == "retried":
            dead += [worker.number for worker in workers if event.job.name in worker.jobs]
    assert len(dead) == 1
    assert [worker.number for worker in workers] == [0, 1, *dead]


def test_a_run_that_cannot_work_is_reported_at_the_end(tmp_path):
    content = one_table(rows=("SEQ", "OML-ER"), seeds=[42])
    content["tables"]["relations"]["rows"][0]["lr"] = 1e9
    recipe = write_recipe(tmp_path / "recipe.yaml", content)
    sweep, screen = make_sweep(recipe, tmp_path / "out")
    reason = r"1 of 2 runs failed, the first \(SEQ, order 1, seed 42\) because .*finite number.*; the others are kept"
    with pytest.raises(UserError, match=reason):
        sweep.carry_out()
    assert len(results_in(tmp_path / "out")) == 1
    assert any("failed: " in line and "finite number" in line for line in screen.said)

    del content["tables"]["relations"]["rows"][1]
    sweep, _ = make_sweep(write_recipe(recipe, content), tmp_path / "nothing")
    with pytest.raises(UserError, match=r"1 of 1 runs failed, .*; nothing was computed\.$"):
        sweep.carry_out()


def test_a_sweep_that_is_killed_leaves_no_worker_behind_and_goes_on(tmp_path):
    recipe, out = write_recipe(tmp_path / "recipe.yaml"), tmp_path / "out"
    command = [sys.executable, "-m", "everlearn", "sweep", str(recipe), "--out", str(out), "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(out.glob("runs/*/result.json")) or process.poll() is not None)
    process.send_signal(signal.SIGSTOP)  # it hands out nothing more, however slow this test is
    (worker,) = children_of(process.pid)
    process.kill()
    process.wait()
    wait_for(lambda: state_and_parent(worker)[0] == "Z")
    assert len(list(out.glob("runs/*/result.json"))) < 4
    sweep, screen = make_sweep(recipe, out)
    sweep.carry_out()
    assert any("are done already" in line for line in screen.said)
    assert results_in(out) == undisturbed(recipe, tmp_path / "single")


def test_runs_that_draw_from_a_shared_generator_do_not_share_a_process(tmp_path):
    content = one_table()
    content["tables"]["relations"]["settings"]["dropout"] = 0.1
    sweep, _ = make_sweep(write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "out", together=2)
    with pytest.raises(UserError, match="--together does not go with SEQ, order 1, seed 42: dropout"):
        sweep.carry_out()
    assert not results_in(tmp_path / "out")


def test_the_wrong_means_are_refused(tmp_path, everlearn):
    recipe = write_recipe(tmp_path / "recipe.yaml")
    for options, message in (
        (["--engine", "slurm"], "unknown engine 'slurm'"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--together", "0"], "--together must be at least 1"),
        (["--together", "2", "--engine", "ray"], "--together is for --engine local"),
        (["--address", "auto"], "--address is for --engine ray"),
        (["--table", "relation"], "unknown table 'relation': did you mean 'relations'?"),
        (["--data", "textcls=x"], "unknown stream with data"),
    ):
        code, _, error = everlearn("sweep", recipe, "--out", tmp_path / "out", *options)
        assert code == 2
        assert message in error
        assert not results_in(tmp_path / "out")
