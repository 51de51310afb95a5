"""Whatever a user gets wrong ends with one sentence that says so, exit code 2, and nothing lost or half-written."""

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from everlearn.methods import METHODS
from everlearn.methods.gradient import GradientMethod
from everlearn.run_folder import damage

SMALL = [
    *("--encoder", "tiny", "--device", "cpu", "--batch-size", "4", "--support-batches", "2"),
    *("--replay-interval", "16", "--replay-rate", "0.25", "--log-every", "8", "--checkpoint-every", "16"),
]
MARKER = "Traceback"


def table(rows=40, tasks="xy"):
    lines = [f"some {task} words {i},{task}{i % 2},{task}" for task in tasks for i in range(rows // len(tasks))]
    return "\n".join(["text,label,task", *lines]) + "\n"


def snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of its own to work in, with a good file in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "good.csv").write_text(table())
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def refused(everlearn, home):
    """Run a command that has to be refused; the sentence. Nothing may be created or changed."""

    def call(*arguments):
        before = snapshot(home)
        sentence = one_sentence(*everlearn(*arguments))
        assert snapshot(home) == before
        return sentence

    return call


@pytest.fixture
def refused_run(refused):
    def call(*options, data="good.csv", method="replay", out="out"):
        stream = ["--stream", "file", "--data", data, "--task-column", "task"]
        return refused("run", "--method", method, *stream, *SMALL, "--out", out, "--json", *options)

    return call


def one_sentence(code, out, err):
    assert code == 2, err
    assert out == ""
    assert MARKER not in err
    assert err.startswith("everlearn: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1, err
    return err


def good_run(everlearn, *options, out="out"):
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    code, _, err = everlearn("run", "--method", "replay", *stream, *SMALL, "--out", out, *options)
    assert code == 0, err


# --- data


def test_a_missing_file(refused_run):
    assert "there is no file nowhere.csv" in refused_run(data="nowhere.csv")


def test_a_missing_folder(refused):
    assert "there is no folder nowhere" in refused("run", "--stream", "textcls", "--data", "nowhere", "--out", "out")


def test_a_folder_without_the_files(refused, home):
    (home / "empty").mkdir()
    sentence = refused("run", "--stream", "textcls", "--data", "empty", "--out", "out")
    assert "yelp" in sentence
    assert "everlearn data get textcls" in sentence


def test_a_folder_where_a_file_is_needed(refused_run, home):
    (home / "folder.csv").mkdir()
    assert "folder.csv is a folder" in refused_run(data="folder.csv")
    assert "." in refused_run(data=".")


@pytest.mark.parametrize("stream", ["file", "textcls"])
def test_no_data_at_all(refused, stream):
    assert f"the stream {stream} needs --data" in refused("run", "--stream", stream, *SMALL)


def test_a_missing_column(refused_run):
    sentence = refused_run("--text-column", "txt")
    assert "no column 'txt'" in sentence
    assert "did you mean 'text'?" in sentence
    assert "no column 'topic'" in refused_run("--task-column", "topic")


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file(refused_run, home, content):
    (home / "empty.csv").write_text(content)
    assert "empty.csv" in refused_run(data="empty.csv")


def test_a_header_and_nothing_else(refused_run, home):
    (home / "header.csv").write_text("text,label,task\n")
    assert "header.csv has no row" in refused_run(data="header.csv")


def test_rows_without_text_or_label_stop_only_a_strict_run(refused_run, everlearn, home):
    (home / "gaps.csv").write_text(table() + ",x0,x\nno label,,x\n" + "".join(f",,{i}\n" for i in range(5)))
    assert "line 42 of gaps.csv has no 'text'" in refused_run("--strict", data="gaps.csv")
    stream = ["--stream", "file", "--data", "gaps.csv", "--task-column", "task"]
    code, out, err = everlearn("run", "--method", "seq", *stream, *SMALL, "--json")
    assert code == 0
    assert "skipped 7 rows of gaps.csv without text or label (lines 42, 43, 44, 45, 46, ...)" in err
    assert json.loads(out)["notes"]


def test_invalid_utf8(refused_run, home):
    (home / "latin.csv").write_bytes(table().encode() + "schön,x0,x\n".encode("latin-1"))
    assert "line 42 of latin.csv is not valid UTF-8" in refused_run(data="latin.csv")


def test_a_binary_file(refused_run, home):
    (home / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    assert "picture.csv" in refused_run(data="picture.csv")
    (home / "zeros.csv").write_bytes(b"\0" * 4096)
    assert "zeros.csv" in refused_run(data="zeros.csv")


def test_a_file_of_unknown_kind(refused_run, home):
    (home / "good.txt").write_text(table())
    assert "how good.txt is written" in refused_run(data="good.txt")


def test_a_corrupt_gz(refused_run, home):
    packed = gzip.compress(table().encode())
    for name, content in {
        "cut.csv.gz": packed[: len(packed) // 2],
        "wrong.csv.gz": packed[:-6] + b"xxxxxx",
        "plain.csv.gz": table().encode(),
    }.items():
        (home / name).write_bytes(content)
        sentence = refused_run(data=name)
        assert name in sentence
        assert "damaged" in sentence


def test_broken_json_lines(refused_run, home):
    (home / "broken.jsonl").write_text('{"text": "a", "label": "b", "task": "x"}\n{"text": "a\n')
    assert "line 2 of broken.jsonl" in refused_run(data="broken.jsonl")


def test_a_single_label(refused_run, home):
    (home / "same.csv").write_text("text,label,task\n" + "word,only,x\n" * 30)
    assert "only the label 'only'" in refused_run(data="same.csv")


def test_a_task_with_too_few_rows(refused_run, home):
    (home / "few.csv").write_text(table() + "word,x0,rare\n")
    assert "the task 'rare' has 1 rows" in refused_run(data="few.csv")


@pytest.mark.parametrize("option", ["--train-size", "--val-size", "--test-size"])
@pytest.mark.parametrize("stream", [["--stream", "file", "--data", "good.csv"], ["--stream", "docstrings"]])
def test_sizes_that_cannot_be(refused, option, stream):
    sentence = refused("run", *stream, *SMALL, option, "-3", "--out", "out")
    assert "-3" in sentence


def test_more_rows_than_there_are(refused_run):
    assert "the task 'x' has 20 rows, too few" in refused_run("--train-size", "1000")


def test_an_order_that_is_not_there(refused_run):
    assert "unknown task 'z'" in refused_run("--order", "x,z")
    assert "there is no order 9" in refused_run("--order", "9")


def test_evaluating_on_a_split_without_examples(refused_run):
    assert "no validation examples" in refused_run("--split", "validation", "--val-size", "0")


def test_a_name_too_long_for_a_file(refused_run):
    assert "long" in refused_run(data="a" * 300 + ".csv")


def test_a_home_folder_that_nobody_has(refused_run):
    assert "~nobody-at-all" in refused_run(data="~nobody-at-all/good.csv")


# --- names


def test_an_unknown_method(refused_run):
    assert "unknown method 'omler': did you mean 'oml-er'?" in refused_run(method="omler")


def test_an_unknown_stream(refused):
    sentence = refused("run", "--stream", "textcsl", "--out", "out")
    assert "unknown stream 'textcsl': did you mean 'textcls'?" in sentence


def test_an_unknown_encoder(refused_run):
    assert "unknown encoder 'minlim': did you mean 'minilm'?" in refused_run("--encoder", "minlim")
    assert "unknown encoder 'aaa" in refused_run("--encoder", "a" * 300)


def test_a_folder_that_holds_no_encoder(refused_run, home):
    (home / "model").mkdir()
    assert "the encoder 'model' cannot be loaded" in refused_run("--encoder", "model")


def test_an_unknown_pooling_and_memory(refused_run):
    assert "unknown pooling 'men': did you mean 'mean'?" in refused_run("--pooling", "men")
    assert "did you mean 'reservoir'?" in refused_run("--memory", "resevoir")


def test_an_unknown_list(refused):
    assert "did you mean 'methods'?" in refused("list", "method")


def test_an_unknown_benchmark_to_download(refused):
    assert "textcls" in refused("data", "get", "textcsl", "--out", "there")


# --- settings


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--replay-rate", "0.05"], "replay_rate × replay_interval is 0.8, less than one"),
        (["--replay-rate", "0"], "less than one"),
        (["--support-batches", "0"], "support_batches must be greater than 0"),
        (["--replay-interval", "3"], "replay_interval (3) is smaller than batch_size (4)"),
        (["--replay-rate", "1.5"], "replay_rate must lie between 0 and 1, not 1.5"),
        (["--replay-rate", "-0.1"], "replay_rate must lie between 0 and 1"),
        (["--replay-rate", "nan"], "replay_rate must be a finite number"),
        (["--write-probability", "2"], "write_probability must lie between 0 and 1"),
        (["--dropout", "-1"], "dropout must lie between 0 and 1"),
        (["--batch-size", "0"], "batch_size must be greater than 0"),
        (["--batch-size", "-4"], "batch_size must be greater than 0"),
        (["--lr", "0"], "lr must be greater than 0"),
        (["--lr", "nan"], "lr must be"),
        (["--inner-lr", "inf"], "inner_lr must be"),
        (["--meta-lr", "-1"], "meta_lr must be greater than 0"),
        (["--epochs", "0"], "epochs must be greater than 0"),
        (["--micro-batch", "0"], "micro_batch must be greater than 0"),
        (["--max-length", "2"], "max_length must be at least 3"),
        (["--eval-every", "0"], "eval_every must be greater than 0"),
        (["--log-every", "0"], "log_every must be greater than 0"),
        (["--checkpoint-every", "-1"], "checkpoint_every must be at least 0"),
        (["--memory-capacity", "0"], "memory_capacity must be greater than 0"),
        (["--memory", "ring"], "--memory-capacity"),
        (["--device", "gpu"], "device must be one of auto, cpu, cuda"),
        (["--split", "train"], "split must be one of test, validation"),
        (["--replay-gradient", "max"], "replay_gradient must be one of mean, sum"),
        (["--seed", "-1"], "seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_cannot_work(refused_run, options, named):
    assert named in refused_run(*options, method="oml-er")


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.replays])
def test_every_method_that_replays_wants_something_to_replay(refused_run, method):
    assert "less than one example" in refused_run("--replay-rate", "0.01", method=method)


def test_cuda_without_a_gpu(refused_run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device was found" in refused_run("--device", "cuda")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("- a\n- b\n", "must hold `name: value` lines"),
        ("just words", "must hold `name: value` lines"),
        ("", "must hold `name: value` lines"),
        ("metod: seq\n", "unknown setting 'metod': did you mean 'method'?"),
        ("batch_size: many\n", "batch_size must be a whole number, not 'many'"),
        ("batch_size: 2.5\n", "batch_size must be a whole number"),
        ("batch_size: true\n", "batch_size must be a whole number"),
        ("batch_size: [4]\n", "batch_size must be a whole number"),
        ("batch_size:\n", "batch_size must be a whole number"),
        ("lr: fast\n", "lr must be a number"),
        (f"lr: 1{'0' * 400}\n", "lr must be a number"),
        ("replay: 7\n", "replay must be true or false"),
        ("encoder: {a: b}\n", "encoder must be a text"),
        ("data: [a]\n", "data must be a path"),
        ("data: 5\nstream: file\n", "5"),
        ("a: [b\n", "cannot be read"),
        ("a: b: c\n", "cannot be read"),
        ("\x00", "cannot be read"),
        ("a: !!python/object:os.system b\n", "cannot be read"),
        (b"a: \xff\n", "cannot be read"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_configuration_files_that_are_wrong(refused, home, content, named):
    (home / "c.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert named in refused("run", "--config", "c.yaml", "--out", "out")


def test_a_configuration_file_that_is_not_there(refused, home):
    assert "no configuration file none.yaml" in refused("run", "--config", "none.yaml")
    (home / "folder.yaml").mkdir()
    assert "folder.yaml cannot be read" in refused("run", "--config", "folder.yaml")


@pytest.mark.parametrize("arguments", [["run", "--batch-size", "many"], ["run", "--nonsense"], ["runn"], ["list"]])
def test_usage_errors_are_short_too(everlearn, arguments):
    """These come from the command-line library, which shows them in its own way."""
    code, out, err = everlearn(*arguments)
    assert (code, out) == (2, "")
    assert MARKER not in err
    assert "-h" in err


# --- the output folder


def test_a_folder_with_other_files(refused_run, home):
    (home / "out").mkdir()
    (home / "out" / "thesis.tex").write_text("years of work")
    assert "holds other files" in refused_run()
    assert "holds other files" in refused_run("--resume")


def test_an_empty_folder_is_welcome(everlearn, home):
    (home / "out").mkdir()
    good_run(everlearn)


def test_a_folder_that_holds_this_run_already(everlearn, refused_run):
    good_run(everlearn)
    assert "already holds this run: pass --resume" in refused_run()


def test_a_folder_that_holds_another_run(everlearn, refused_run):
    good_run(everlearn)
    for resume in ([], ["--resume"]):
        sentence = refused_run("--seed", "1", "--lr", "0.5", *resume)
        assert "holds another run" in sentence
        assert "seed: 42, not 1" in sentence
        assert "not 0.5" in sentence
        assert "batch_size" not in sentence


def test_a_run_folder_whose_configuration_is_damaged(everlearn, refused_run, home):
    good_run(everlearn)
    (home / "out" / "config.yaml").write_text("a: [")
    assert "config.yaml cannot be read" in refused_run("--resume")


@pytest.mark.parametrize(
    ("name", "damaged", "reason"),
    [
        ("result.json", lambda text: '{"accuracy": ', "result.json does not match its checksum"),
        ("result.json", lambda text: text.replace('"seed": ', '"seed": 1'), "result.json does not match its checksum"),
        ("ledger.json", lambda text: "{}", "ledger.json does not match its checksum"),
        ("checksums.json", lambda text: "[]", "config.yaml does not match its checksum"),
        ("checksums.json", lambda text: text[:20], "checksums.json cannot be read"),
        ("checksums.json", None, "checksums.json is missing"),
        ("ledger.json", None, "ledger.json cannot be read"),
    ],
)
def test_a_result_that_is_damaged(everlearn, refused_run, home, name, damaged, reason):
    good_run(everlearn)
    path = home / "out" / name
    if damaged:
        path.write_text(damaged(path.read_text()))
    else:
        path.unlink()
    sentence = refused_run("--resume")
    assert f"result.json is damaged ({reason})" in sentence
    assert "delete it and go on with --resume" in sentence
    (home / "out" / "result.json").unlink()
    good_run(everlearn, "--resume")
    assert damage(home / "out") is None


def test_out_is_a_file(refused_run):
    sentence = refused_run(out="good.csv")
    assert "good.csv" in sentence
    assert "file" in sentence


def test_out_lies_below_a_file(refused_run):
    assert "good.csv/out cannot be made" in refused_run(out="good.csv/out")


def test_out_has_a_name_too_long(refused_run):
    assert "long" in refused_run(out="a" * 300)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_parent_that_must_not_be_written(refused_run, home):
    (home / "locked").mkdir(mode=0o500)
    assert "locked/out" in refused_run(out="locked/out")


def test_resume_without_out(refused):
    assert "pass --out" in refused("run", "--resume")


# --- compare


@pytest.fixture
def refused_comparison(refused):
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task", *SMALL]
    return lambda methods, *options: refused("compare", "--methods", methods, *stream, "--out", "out", *options)


def test_compare_with_unknown_or_repeated_methods(refused_comparison):
    assert "unknown method 'sek': did you mean 'seq'?" in refused_comparison("seq,sek")
    assert "each only once" in refused_comparison("seq,mtl,seq")
    assert "at least one method" in refused_comparison(" , ")


@pytest.mark.parametrize("seeds", ["abc", "1,,2", "", "1.5"])
def test_compare_with_seeds_that_are_none(refused_comparison, seeds):
    assert "--seeds must be whole numbers" in refused_comparison("seq", "--seeds", seeds)


def test_compare_with_repeated_and_negative_seeds(refused_comparison):
    assert "each only once" in refused_comparison("seq", "--seeds", "1,1")
    assert "seed" in refused_comparison("seq", "--seeds=-1")


def test_compare_refuses_what_only_the_last_method_cannot_do_before_it_starts(refused_comparison):
    assert "less than one example" in refused_comparison("seq,oml-er", "--replay-rate", "0.01")


def test_compare_into_other_folders(refused_comparison, everlearn, home):
    (home / "out").write_text("a file")
    assert "out is a file" in refused_comparison("seq")
    (home / "out").unlink()
    (home / "out").mkdir()
    (home / "out" / "thesis.tex").write_text("years of work")
    assert "holds other files (thesis.tex)" in refused_comparison("seq")
    assert "holds other files (thesis.tex)" in refused_comparison("seq", "--resume")
    shutil.rmtree(home / "out")
    good_run(everlearn)
    assert "holds other files" in refused_comparison("seq")


def test_compare_again_without_resume_or_with_other_settings(refused_comparison, everlearn):
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task", *SMALL]
    assert everlearn("compare", "--methods", "seq", *stream, "--out", "out")[0] == 0
    assert "pass --resume" in refused_comparison("seq")
    sentence = refused_comparison("seq", "--resume", "--lr", "0.5")
    assert "holds another run" in sentence
    assert "not 0.5" in sentence


# --- while it runs


def test_a_loss_that_is_not_a_number(everlearn, home, monkeypatch):
    plain = GradientMethod.loss
    monkeypatch.setattr(GradientMethod, "loss", lambda *args: plain(*args) * float("nan"))
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    sentence = one_sentence(*everlearn("run", "--method", "seq", *stream, *SMALL, "--out", "out", "--json"))
    assert "no longer a finite number after 8 examples" in sentence
    assert not (home / "out" / "result.json").exists()


def test_a_loss_that_is_not_a_number_in_the_last_few_examples(everlearn, home, monkeypatch):
    """Fewer examples than `log_every` are left when the stream ends: the check must not be left out for them."""
    plain = GradientMethod.loss
    monkeypatch.setattr(GradientMethod, "loss", lambda *args: plain(*args) * float("nan"))
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    call = ["run", "--method", "seq", *stream, *SMALL, "--log-every", "1000", "--out", "out", "--json"]
    assert "no longer a finite number" in one_sentence(*everlearn(*call))
    assert not (home / "out" / "result.json").exists()


def no_space(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def after(calls, function, then=no_space):
    """The function for so many calls, then a full disk."""
    left = iter(range(calls))

    def limited(*args, **kwargs):
        return (function if next(left, None) is not None else then)(*args, **kwargs)

    return limited


def test_a_disk_that_is_full_at_the_second_checkpoint(everlearn, home, monkeypatch):
    from everlearn import checkpoint

    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    command = ["run", "--method", "replay", *stream, *SMALL, "--json"]
    _, undisturbed, _ = everlearn(*command, "--out", "undisturbed")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", after(1, checkpoint.save_file))
        sentence = one_sentence(*everlearn(*command, "--out", "out"))
    assert "the disk is full" in sentence
    assert "--resume" in sentence
    assert [path.name for path in (home / "out" / "checkpoints").iterdir()] == ["000000000016"]
    code, resumed, err = everlearn(*command, "--out", "out", "--resume")
    assert code == 0
    assert "going on after 16 examples" in err
    assert json.loads(resumed)["matrix"] == json.loads(undisturbed)["matrix"]
    metrics = [(home / out / "metrics.jsonl").read_bytes() for out in ("out", "undisturbed")]
    assert metrics[0] == metrics[1]


def test_a_disk_that_is_full_when_the_folder_is_made(everlearn, home, monkeypatch):
    monkeypatch.setattr("everlearn.run_folder.os.fsync", no_space)
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    sentence = one_sentence(*everlearn("run", "--method", "seq", *stream, *SMALL, "--out", "out", "--json"))
    assert "could not write out/config.yaml: No space left on device" in sentence
    assert not list((home / "out").iterdir())


@pytest.mark.parametrize("call", ["__init__", "add_scalar", "close"])
def test_a_disk_that_is_full_when_events_are_written(everlearn, monkeypatch, call):
    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.setattr(SummaryWriter, call, no_space)
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task"]
    code, out, err = everlearn("run", "--method", "seq", *stream, *SMALL, "--out", "out", "--json")
    # The same numbers stand in metrics.jsonl, so a run may do without events, but not end with a traceback.
    assert MARKER not in err
    if code:
        one_sentence(code, out, err)


def test_a_disk_that_is_full_when_the_figure_is_drawn(everlearn, home, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", no_space)
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task", *SMALL]
    code, _, err = everlearn("compare", "--methods", "seq", *stream, "--out", "out")
    assert (code, MARKER in err) == (2, False)
    assert err.splitlines()[-1].startswith("everlearn: ")
    assert not (home / "out" / "accuracy.png").exists()


# A small disk, in a namespace of its own so that nobody else sees it. Not every machine allows that.
SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


@pytest.mark.parametrize(
    ("kilobytes", "every", "named"),
    [(700, 16, "the disk is full"), (8, 0, "No space left")],
    ids=["checkpoint", "events"],
)
def test_a_disk_that_is_really_full(home, kilobytes, every, named):
    disk = home / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={kilobytes}k tmpfs '{disk}'"
    if shutil.which("unshare") is None or subprocess.run([*SMALL_DISK, mount], capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a small disk")
    stream = ["--stream", "file", "--data", "good.csv", "--task-column", "task", *SMALL]
    options = " ".join([*stream, "--checkpoint-every", str(every), "--out", "disk/run", "--json"])
    command = (
        f"{mount} && '{sys.executable}' -m everlearn run --method seq {options}; code=$?; ls disk/run/* >&3; exit $code"
    )
    done = subprocess.run([*SMALL_DISK, f"exec 3>listing; {command}"], capture_output=True, text=True)
    assert named in one_sentence(done.returncode, done.stdout, done.stderr)
    listing = (home / "listing").read_text()
    assert "config.yaml" in listing
    assert "partial" not in listing
    assert ("000000000016" in listing) == bool(every)
