"""A run that is killed at any moment and resumed ends, on the CPU, bit for bit where the undisturbed run ends."""

import contextlib
import importlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from everlearn.comparison import compare_methods
from everlearn.config import Config
from everlearn.progress import Screen
from everlearn.run import run
from everlearn.run_folder import damage
from support import CAUSAL_LENGTH, causal_folder, writes_texts

# Children are forked from a server that has done the slow imports already, and nothing else.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["pytest", "torch.utils.tensorboard", "transformers.models.bert.modeling_bert", "everlearn.comparison"]
)

SETTINGS = {
    "stream": "file",
    "task_column": "task",
    "encoder": "tiny",
    "device": "cpu",
    "batch_size": 4,
    "lr": 1e-3,
    "meta_lr": 1e-3,
    "inner_lr": 1e-2,
    "support_batches": 2,
    "replay_interval": 16,
    "replay_rate": 0.25,
    "write_probability": 0.9,
    "memory_capacity": 40,  # fewer than there are examples, so that entries are replaced
    "checkpoint_every": 24,
    "eval_every": 40,
    "log_every": 8,
}
OWN_SETTINGS = {  # other sources of randomness and other state
    "replay": {"memory": "ring", "clip_norm": 1.0},
    "a-gem": {"write_probability": 1.0, "memory_capacity": None},
    "seq": {"dropout": 0.1},
    "mtl": {"dropout": 0.1},
    "oml-er": {"dropout": 0.1},
    "anml-er": {"dropout": 0.1, "replay_gradient": "sum"},
    "ranpac": {"random_features": 64},
    "er-ace": {"memory": "cbrs"},
    "der++": {"memory": "surprise"},
    "mllre": {"memory": "forgetting"},
    "meta-mbpa": {"diverse_share": 0.5},
}


# --- where to die


@dataclass(frozen=True)
class Death:
    """SIGKILL at the n-th call of a function, before it or, where `halfway` is given, in the middle of its work."""

    target: str
    call: int
    halfway: str = ""

    def arrange(self):
        module, path = self.target.split(":")
        *owners, name = path.split(".")
        owner = importlib.import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        original = getattr(owner, name)
        calls = itertools.count(1)

        def deadly(*args, **kwargs):
            if next(calls) == self.call:
                if self.halfway:
                    globals()[self.halfway](original, *args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        setattr(owner, name, deadly)


def half_the_file(save_file, tensors, path):
    save_file(tensors, path)
    os.truncate(path, path.stat().st_size // 2)


def half_the_line(write, recorder, examples, numbers):
    with recorder._folder.metrics.open("a") as file:
        file.write('{"examples": 1')


def half_the_picture(savefig, figure, path, **options):
    path.write_bytes(b"half")


def half_the_folder(rmtree, path, *args, **kwargs):
    min(path.iterdir()).unlink()


AT_A_BATCH = "everlearn.feed:Feed.__next__"
IN_A_STEP = "everlearn.methods.gradient:GradientMethod.update"
IN_AN_EVALUATION = "everlearn.methods.network:NetworkPredictor.predict"

# Checkpoints come after batches 6, 12, 18, ...; an episode takes three batches, or two where it replays.
DEATHS = {
    "before the first checkpoint": Death(AT_A_BATCH, 4),
    "in the middle of an episode": Death(AT_A_BATCH, 9),
    "in a learning step": Death(IN_A_STEP, 7),
    "in an evaluation before the first batch": Death(IN_AN_EVALUATION, 2),
    "in an evaluation": Death(IN_AN_EVALUATION, 8),
    "in a line of metrics": Death("everlearn.recorder:Recorder._write", 9, "half_the_line"),
    "in the first checkpoint's tensors": Death("everlearn.checkpoint:save_file", 1, "half_the_file"),
    "in a later checkpoint's tensors": Death("everlearn.checkpoint:save_file", 2, "half_the_file"),
    "between tensors and checksums": Death("everlearn.checkpoint:_checksum", 5),
    "before a checkpoint is renamed": Death("everlearn.checkpoint:Path.rename", 3),
    "after the rename, before old ones go": Death("everlearn.checkpoint:_newest_first", 4),
    "while an old checkpoint goes": Death("everlearn.checkpoint:shutil.rmtree", 1, "half_the_folder"),
    "after the last checkpoint": Death("everlearn.run_folder:RunFolder.finish", 1),
    "before the ledger is written": Death("everlearn.run_folder:write_text", 2),
    "before the checksums are written": Death("everlearn.run_folder:write_text", 3),
    "before the result is written": Death("everlearn.run_folder:write_text", 4),
    "before the folder has a configuration": Death("everlearn.run_folder:write_text", 1),
    "while the configuration is written": Death("everlearn.run_folder:os.fsync", 1),
    "while the checksums are written": Death("everlearn.run_folder:Path.replace", 3),
    "while the result is written": Death("everlearn.run_folder:Path.replace", 4),
}

# One after the other, each process going on from what the one before it left behind.
ROW_OF_DEATHS = [
    Death(AT_A_BATCH, 4),
    Death("everlearn.checkpoint:save_file", 1, "half_the_file"),
    Death(AT_A_BATCH, 9),
    Death("everlearn.checkpoint:_checksum", 3),
    Death("everlearn.checkpoint:Path.rename", 1),
    Death("everlearn.checkpoint:_newest_first", 2),
    Death(IN_A_STEP, 4),
    Death("everlearn.recorder:Recorder._write", 2, "half_the_line"),
    Death(IN_AN_EVALUATION, 2),
    Death("everlearn.run_folder:RunFolder.finish", 1),
    Death("everlearn.run_folder:write_text", 4),
]


# Where methods that do not train and predict with the problem's head learn and predict.
BY_LABEL = {IN_AN_EVALUATION: "everlearn.methods.label_scorer:LabelScorer.predict"}
BY_SUMS = {**BY_LABEL, IN_A_STEP: "everlearn.methods.statistics:ClassSums.add"}
BY_ANSWER = {IN_AN_EVALUATION: "everlearn.methods.lamol:AnswerPredictor.predict"}
OWN_PLACES = {
    "ncm": BY_SUMS,
    "slda": BY_SUMS,
    "ridge": BY_SUMS,
    "ranpac": BY_SUMS,
    "emar": BY_LABEL,
    "mbpa++": {IN_AN_EVALUATION: "everlearn.methods.local_adaptation:LocalAdaptation.predict"},
    "lamol": BY_ANSWER,
    "lamol-real": BY_ANSWER,
}


def row_of_deaths(method):
    places = OWN_PLACES.get(method, {})
    return [replace(death, target=places.get(death.target, death.target)) for death in ROW_OF_DEATHS]


# --- running in processes of their own


def child(work, given, out, death):
    import torch

    torch.set_num_threads(1)
    if death:
        death.arrange()
    with out.with_suffix(".said").open("a") as said, contextlib.redirect_stderr(said):
        work(given, out)


def one_run(given, out):
    run(Config.build(given), out, resume=True, screen=Screen())


def comparison(given, out):
    compare_methods(given, ["seq", "replay"], [1], out, resume=True, screen=Screen())


def start(given, out, death=None, work=one_run):
    process = PROCESSES.Process(target=child, args=(work, given, out, death))
    process.start()
    return process


def killed(given, out, death, work=one_run):
    process = start(given, out, death, work)
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the run should have died on the way"


def finished(given, out, work=one_run):
    process = start(given, out, work=work)
    process.join()
    assert process.exitcode == 0, out.with_suffix(".said").read_text()


def completed(given, out):
    finished(given, out)
    return outcome(out)


# --- what has to be the same


def outcome(out):
    """All that a finished run leaves behind, but for the time it took."""
    assert damage(out) is None
    checkpoints = sorted((out / "checkpoints").iterdir())
    return {
        "files": sorted(path.name for path in out.iterdir()),
        "config": (out / "config.yaml").read_bytes(),
        "metrics": (out / "metrics.jsonl").read_bytes(),
        "result": without_times(json.loads((out / "result.json").read_text())),
        "ledger": without_times(json.loads((out / "ledger.json").read_text())),
        "checkpoints": [path.name for path in checkpoints],
        "tensors": [(path / "tensors.safetensors").read_bytes() for path in checkpoints],
        "states": [without_times(json.loads((path / "state.json").read_text())) for path in checkpoints],
    }


def without_times(tree):
    if isinstance(tree, dict):
        return {k: without_times(v) for k, v in tree.items() if k not in ("seconds", "phases", "peak_device_bytes")}
    return [without_times(value) for value in tree] if isinstance(tree, list) else tree


def assert_same(one, other):
    # Part by part, so that a failure names the part and does not print all weights.
    for part in one:
        assert part in ("tensors", "states") or one[part] == other[part]
        assert one[part] == other[part], f"{part} differ"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    rows = [
        f"task {task} {words[i % 8]} {words[(3 * i + task) % 8]} {i},{'abcdef'[2 * task + i % 2]},{task}"
        for task in range(3)
        for i in range(66)
    ]
    path = tmp_path_factory.mktemp("data") / "stream.csv"
    path.write_text("\n".join(["text,label,task", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def given(data):
    def settings(method):
        causal = {"encoder": causal_folder(), "max_length": CAUSAL_LENGTH} if writes_texts(method) else {}
        return SETTINGS | {"data": str(data), "method": method} | causal | OWN_SETTINGS.get(method, {})

    return settings


@pytest.fixture(scope="module")
def undisturbed(given, tmp_path_factory):
    """What the run of a method leaves behind when nobody disturbs it; computed once for each."""
    known = {}

    def find(method):
        if method not in known:
            out = tmp_path_factory.mktemp("undisturbed") / method
            known[method] = completed(given(method), out), out
        return known[method][0]

    find.folder = lambda method: find(method) and known[method][1]
    return find


# --- the tests


# What a method saves is under the contract of every method; processes are killed in one of each kind.
KINDS = ("seq", "replay", "a-gem", "maml-er", "oml-er", "anml-er", "mtl", "slda", "gem", "mbpa++", "emar", "lamol")


@pytest.mark.parametrize("method", KINDS)
def test_every_kind_of_method_survives_a_row_of_kills(method, given, undisturbed, tmp_path):
    out = tmp_path / "run"
    for death in row_of_deaths(method):
        killed(given(method), out, death)
    assert_same(completed(given(method), out), undisturbed(method))


@pytest.mark.parametrize("moment", DEATHS)
def test_a_run_survives_a_kill(moment, given, undisturbed, tmp_path):
    out = tmp_path / "run"
    killed(given("oml-er"), out, DEATHS[moment])
    assert_same(completed(given("oml-er"), out), undisturbed("oml-er"))


@pytest.mark.parametrize("delays", [(0.15, 0.4, 0.25), (0.3, 0.2, 0.35, 0.3)], ids=str)
def test_a_run_survives_kills_from_outside(delays, given, undisturbed, tmp_path):
    out = tmp_path / "run"
    for delay in delays:
        process = start(given("anml-er"), out)
        deadline = time.monotonic() + 60
        while not (out / "metrics.jsonl").exists() and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)  # only from here on does it learn
        time.sleep(delay)
        process.kill()
        process.join()
    assert_same(completed(given("anml-er"), out), undisturbed("anml-er"))


@pytest.mark.parametrize("method", ["replay", "oml-er"])
def test_a_damaged_checkpoint_is_passed_over_on_resume(method, given, undisturbed, tmp_path):
    out = tmp_path / "run"
    killed(given(method), out, Death("everlearn.checkpoint:save_file", 4))
    before, newest = sorted((out / "checkpoints").glob("*[0-9]"))
    tensors = newest / "tensors.safetensors"
    data = bytearray(tensors.read_bytes())
    data[len(data) // 2] ^= 1
    tensors.write_bytes(data)
    assert_same(completed(given(method), out), undisturbed(method))
    said = out.with_suffix(".said").read_text().splitlines()
    assert [line for line in said if f"{newest.name} is damaged" in line and "using the one before it" in line]
    assert f"going on after {int(before.name)} examples" in said


def test_with_every_checkpoint_damaged_the_run_starts_over(given, undisturbed, tmp_path):
    out = tmp_path / "run"
    killed(given("seq"), out, Death("everlearn.checkpoint:save_file", 4))
    for state in out.glob("checkpoints/*/state.json"):
        os.truncate(state, 20)
    killed(given("seq"), out, Death(AT_A_BATCH, 9))
    # What was saved since then counts, although the damaged ones claim to be further on.
    killed(given("seq"), out, Death(AT_A_BATCH, 2))
    assert "going on after 24 examples" in out.with_suffix(".said").read_text()
    assert_same(completed(given("seq"), out), undisturbed("seq"))


def test_a_run_without_checkpoints_starts_over(given, undisturbed, tmp_path):
    settings = given("seq") | {"checkpoint_every": 0}
    out = tmp_path / "run"
    killed(settings, out, Death(AT_A_BATCH, 20))
    finished(settings, out)
    assert not (out / "checkpoints").exists()
    assert (out / "metrics.jsonl").read_bytes() == undisturbed("seq")["metrics"]


@pytest.mark.parametrize(
    "death",
    [
        Death(AT_A_BATCH, 60),  # in the second run
        Death("everlearn.run_folder:Path.replace", 9),
        Death("everlearn.report.figure:Figure.savefig", 1, "half_the_picture"),
    ],
    ids=["in a run", "while the results are written", "while the figure is written"],
)
def test_a_comparison_survives_a_kill(death, given, tmp_path):
    settings = given("seq") | {"checkpoint_every": 0}
    out = tmp_path / "comparison"
    killed(settings, out, death, comparison)
    finished(settings, out, comparison)
    assert sorted(path.name for path in out.iterdir()) == [
        "accuracy.png",
        "replay-seed1",
        "results.json",
        "seq-seed1",
        "table.md",
    ]


def test_resuming_a_finished_run_changes_nothing(given, undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "run"
    shutil.copytree(undisturbed.folder("oml-er"), out)
    files = {path: path.is_file() and (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*")}
    monkeypatch.setattr("everlearn.run.benchmark_for", None)  # not even the data is read
    result = run(Config.build(given("oml-er")), out, resume=True)
    assert without_times(result) == undisturbed("oml-er")["result"]
    assert files == {path: path.is_file() and (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*")}


def test_checkpoints_hold_no_pickle(undisturbed):
    folder = undisturbed.folder("anml-er") / "checkpoints"
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".json", ".safetensors"}


def test_the_runs_really_exercise_what_they_should(undisturbed):
    """A test of the tests: the memory overflows, replays happen, checkpoints fall into the middle of episodes."""
    ledger = undisturbed("oml-er")["ledger"]
    assert ledger["memory_entries"] == 40 < ledger["train"]["memory_writes"]
    assert ledger["train"]["replays"] > 3
    assert sum(undisturbed("a-gem")["result"]["checks_per_task"].values()) > 3
    assert Path(undisturbed.folder("mtl"), "result.json").exists()
