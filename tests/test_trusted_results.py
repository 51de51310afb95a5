"""Which results a sweep and its report trust: whole ones, of the data that is there now."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everlearn.errors import UserError
from everlearn.progress import Screen
from everlearn.run import run
from everlearn.sweep import reading
from everlearn.sweep import sweep as sweep_module
from everlearn.sweep.events import Event, Job
from everlearn.sweep.folder import SweepFolder
from everlearn.sweep.gathering import gather
from everlearn.sweep.plan import plan
from everlearn.sweep.recipe import read_recipe
from everlearn.sweep.work import carry_out
from sweep_support import SAMPLE, make_sweep, results_in, write_recipe
from test_sweep import one_table


class InThisProcess:
    """An engine without workers, which take longer to start than these runs last."""

    at_once = 1

    def carry_out(self, jobs: Sequence[Job]) -> Iterator[Event]:
        for job in jobs:
            yield Event("started", job)
            carry_out(job, Screen(quiet=True))
            yield Event("ended", job, share=1.0)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "make_engine", lambda *given: InThisProcess())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two runs that is done, beside its recipe; to be copied."""
    home = tmp_path_factory.mktemp("finished")
    recipe = write_recipe(home / "recipe.yaml", one_table())
    for planned in plan(read_recipe(recipe)):
        run(planned.config, home / "out" / "runs" / planned.name)
        shutil.rmtree(home / "out" / "runs" / planned.name / "checkpoints")
    shutil.copy(recipe, home / "out" / "recipe.yaml")
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(finished, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def other_data(tmp_path: Path) -> Path:
    """The sample without one of its test sentences, elsewhere."""
    shutil.copytree(SAMPLE, tmp_path / "other")
    path = tmp_path / "other" / "val_data.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    return path.parent


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def run_folders(home: Path) -> list[Path]:
    return sorted((home / "out" / "runs").iterdir())


def signed(folder: Path) -> None:
    """Make the checksums fit, as if the run had written what is there."""
    files = [folder / name for name in ("config.yaml", "ledger.json", "result.json")]
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (folder / "checksums.json").write_text(json.dumps(sums))


def edited(change: Callable[[dict[str, Any]], Any], sign: bool = False) -> Callable[[Path], None]:
    """A damage: the result with something changed in it."""

    def damage(folder: Path) -> None:
        path = folder / "result.json"
        result = json.loads(path.read_text())
        change(result)
        path.write_text(json.dumps(result, indent=2) + "\n")
        if sign:
            signed(folder)

    return damage


def without_ledger(folder: Path) -> None:
    edited(lambda result: result.update(ledger={}))(folder)
    (folder / "ledger.json").write_text("{}\n")


def of_an_older_version(folder: Path) -> None:
    edited(lambda result: result.pop("data"))(folder)
    (folder / "checksums.json").unlink()


def with_other_settings(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("replay_rate: 0.25", "replay_rate: 0.5"))
    signed(folder)


def of_another_run(folder: Path) -> None:
    other = next(path for path in folder.parent.iterdir() if path != folder)
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


RESULT, LEDGER = ("result.json does not match its checksum", "ledger.json does not match its checksum")
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an accuracy": (edited(lambda result: result.update(accuracy=0.999)), RESULT),
    "an empty ledger": (without_ledger, LEDGER),
    "a curve without points": (edited(lambda result: result.update(curve=[{}])), RESULT),
    "a short matrix": (edited(lambda result: result["matrix"]["accuracy"].pop()), RESULT),
    "forgetting as a text": (edited(lambda result: result.update(forgetting="0.1")), RESULT),
    "other tasks": (edited(lambda result: result.update(per_task={"x": 0.5})), RESULT),
    "no count of tokens": (edited(lambda result: result["ledger"]["train"].update(tokens_forward=None)), RESULT),
    "half a file": (lambda folder: os.truncate(folder / "result.json", 100), RESULT),
    "no checksums": (lambda folder: (folder / "checksums.json").unlink(), "checksums.json is missing"),
    "no ledger": (lambda folder: (folder / "ledger.json").unlink(), "ledger.json cannot be read"),
    "an older version": (of_an_older_version, "checksums.json is missing"),
    # What a run itself would have written.
    "no data": (edited(lambda result: result.pop("data"), sign=True), "result.json lacks data"),
    "a NaN": (edited(lambda result: result.update(accuracy=float("nan")), sign=True), "holds the accuracy nan"),
    "a task's NaN": (edited(lambda result: result["per_task"].update(c1=float("nan")), sign=True), "the accuracy nan"),
    "another stream": (edited(lambda result: result.update(stream="textcls"), sign=True), "says stream 'textcls'"),
    "another encoder": (edited(lambda result: result.update(encoder="bert"), sign=True), "says encoder 'bert'"),
    "another split": (edited(lambda result: result.update(split="validation"), sign=True), "says split 'validation'"),
    "other settings": (with_other_settings, "it was computed with another replay_rate"),
    "another run": (of_another_run, "it was computed with another seed"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_result_is_left_out_and_computed_again(kind: str, home: Path):
    damage, reason = DAMAGES[kind]
    whole = results_in(home / "out")
    folder = run_folders(home)[1]
    damage(folder)
    study = gather(home / "out")
    assert [len(row.runs) for table in study.tables for row in table.rows] == [1]
    assert sum("is left out, as its result is damaged" in note and reason in note for note in study.notes) == 1

    sweep, screen = make_sweep(home / "recipe.yaml", home / "out")
    sweep.carry_out()
    assert sum("is damaged" in line and reason in line for line in screen.said) == 1
    assert "1 of 2 runs are done already" in screen.said
    assert results_in(home / "out") == whole
    assert (home / "out" / "logs" / "damaged" / folder.name).is_dir()  # nothing that took hours is thrown away
    assert not [note for note in gather(home / "out").notes if "damaged" in note]


def test_results_of_other_data_are_refused_before_anything_is_done(home: Path, other_data: Path, everlearn):
    damage, _ = DAMAGES["half a file"]
    damage(run_folders(home)[1])
    before = contents(home / "out" / "runs")
    code, _, error = everlearn("sweep", home / "recipe.yaml", "--out", home / "out", "--data", other_data)
    assert code == 2
    first = run_folders(home)[0].name
    assert error.splitlines()[-1] == (
        f"everlearn: the output folder {home / 'out'} holds runs that were computed on other data than {other_data} "
        f"(1, such as {first}): choose another folder, or delete these runs."
    )
    assert contents(home / "out" / "runs") == before


def test_the_same_data_elsewhere_is_the_same(home: Path, tmp_path: Path, everlearn):
    shutil.copytree(SAMPLE, tmp_path / "moved")
    before = contents(home / "out" / "runs")
    code, _, error = everlearn("sweep", home / "recipe.yaml", "--out", home / "out", "--data", tmp_path / "moved")
    assert code == 0
    assert "2 of 2 runs are done already" in error
    assert contents(home / "out" / "runs") == before


def test_runs_on_other_data_are_not_taken_from_another_sweep(home: Path, other_data: Path, tmp_path: Path, everlearn):
    reuse = ("--reuse", home / "out")
    for out, data in ((tmp_path / "a", other_data), (tmp_path / "b", SAMPLE)):
        code, _, error = everlearn("sweep", home / "recipe.yaml", "--out", out, "--data", data, *reuse)
        assert code == 0, error
        taken = "0; computed on other data, and therefore not taken: 2" if data == other_data else "2"
        assert f"runs taken from {home / 'out'}: {taken}\n" in error
        assert ("2 of 2 runs are done already" in error) == (data == SAMPLE)
    assert results_in(tmp_path / "b") == results_in(home / "out") != results_in(tmp_path / "a")


def test_damaged_runs_are_not_taken_from_another_sweep(home: Path, tmp_path: Path):
    damage, _ = DAMAGES["an accuracy"]
    whole = results_in(home / "out")
    damage(run_folders(home)[0])
    sweep, screen = make_sweep(home / "recipe.yaml", tmp_path / "out")
    replace(sweep, reuse=[SweepFolder(home / "out")]).carry_out()
    assert f"runs taken from {home / 'out'}: 1; damaged, and therefore not taken: 1" in screen.said
    assert results_in(tmp_path / "out") == whole


@pytest.mark.parametrize("wrong", ["nowhere", "recipe.yaml", "out/runs"])
def test_what_is_no_sweep_cannot_be_reused(wrong: str, home: Path, tmp_path: Path, everlearn):
    given = home / wrong
    code, _, error = everlearn("sweep", home / "recipe.yaml", "--out", tmp_path / "out", "--reuse", given)
    assert code == 2
    assert f"everlearn: {given} is not the folder of a sweep: pass the one" in error
    assert not (tmp_path / "out").exists()


def test_data_is_read_where_there_are_results_to_compare_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[str] = []
    known = reading.fingerprint
    monkeypatch.setattr(reading, "fingerprint", lambda benchmark: read.append(benchmark.name) or known(benchmark))
    recipe = write_recipe(tmp_path / "recipe.yaml", one_table(rows=("SEQ", "OML-ER")))
    for expected in ([], ["fewrel"]):
        sweep, _ = make_sweep(recipe, tmp_path / "out")
        sweep.carry_out()
        assert read == expected


def test_a_report_says_where_data_is_mixed(home: Path, other_data: Path):
    assert not [note for note in gather(home / "out").notes if "same data" in note]
    folder = run_folders(home)[1]
    recipe = read_recipe(home / "recipe.yaml")
    (other,) = (planned for planned in plan(recipe, {"fewrel": other_data}) if planned.name == folder.name)
    shutil.rmtree(folder)
    run(other.config, folder)
    notes = gather(home / "out").notes
    assert notes == ["relations: the runs on fewrel were not all computed on the same data, averages mix them."]


def test_runs_of_two_orders_differ_in_their_data_by_right(tmp_path: Path):
    content = one_table(orders=["1", "c3,c1"], seeds=[42])
    sweep, _ = make_sweep(write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "out")
    sweep.carry_out()
    assert len({result["data"] for result in results_in(tmp_path / "out").values()}) == 2
    assert not gather(tmp_path / "out").notes


def test_a_file_may_move_but_not_change(tmp_path: Path):
    """Its benchmark is called after the file."""
    content = one_table(seeds=[42])
    content["tables"]["relations"]["settings"].update(stream="file", data="tickets.csv")
    rows = [f"{'good day' if number % 2 else 'bad night'} {number},{number % 2}" for number in range(40)]
    recipe, file = write_recipe(tmp_path / "recipe.yaml", content), tmp_path / "tickets.csv"
    file.write_text("\n".join(["text,label", *rows]))
    sweep, _ = make_sweep(recipe, tmp_path / "out")
    sweep.carry_out()
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / "tickets.csv")

    again, screen = make_sweep(recipe, tmp_path / "out")
    replace(again, data={"file": moved}).carry_out()
    assert "1 of 1 runs are done already" in screen.said
    assert not gather(tmp_path / "out").notes  # the report needs no data

    moved.write_text("\n".join(["text,label", *rows[1:], "another,0"]))
    changed, _ = make_sweep(recipe, tmp_path / "out")
    with pytest.raises(UserError, match=r"holds runs that were computed on other data than .*moved/tickets\.csv"):
        replace(changed, data={"file": moved}).carry_out()
