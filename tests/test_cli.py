import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from everlearn import __version__
from everlearn.cli import experiments
from everlearn.config import Config, settings
from everlearn.encoders import KNOWN
from everlearn.errors import UserError
from everlearn.memory import POLICIES
from everlearn.methods import METHODS
from everlearn.settings import help_text
from everlearn.streams import STREAMS

SMALL = [
    *("--encoder", "tiny", "--device", "cpu", "--batch-size", "4", "--support-batches", "2"),
    *("--replay-interval", "16", "--replay-rate", "0.25"),
    *("--log-every", "8", "--checkpoint-every", "24", "--eval-every", "20"),
]


@pytest.fixture
def data(tmp_path):
    rows = [
        f"{('good', 'bad', 'warm', 'cold')[i % 4]} {task} {i},{task}{i % 2},{task}" for task in "xy" for i in range(30)
    ]
    path = tmp_path / "texts.csv"
    path.write_text("\n".join(["text,label,task", *rows]) + "\n")
    return path


@pytest.fixture
def stream(data):
    return ["--stream", "file", "--data", data, "--task-column", "task", *SMALL]


def without_times(tree):
    if isinstance(tree, dict):
        return {k: without_times(v) for k, v in tree.items() if k not in ("seconds", "phases", "runs_at_once")}
    return [without_times(value) for value in tree] if isinstance(tree, list) else tree


def is_whole_png(path):
    content = path.read_bytes()
    return content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")


# --- run


def test_run_with_json_prints_the_result_and_nothing_else(everlearn, stream, tmp_path):
    code, out, err = everlearn("run", *stream, "--method", "oml-er", "--out", tmp_path / "run", "--json")
    assert code == 0
    result = json.loads(out)  # raises where anything else stands beside it
    assert {"accuracy", "per_task", "forgetting", "learning_accuracy", "ledger"} <= result.keys()
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["method"] == "oml-er"
    assert set(result["per_task"]) == {"x", "y"}
    assert 0 <= result["accuracy"] <= 1
    assert result["ledger"]["train"]["stream_examples"] == 48
    assert result["ledger"] == json.loads((tmp_path / "run" / "ledger.json").read_text())
    assert "Traceback" not in err


def test_a_run_folder_holds_everything(everlearn, stream, tmp_path):
    everlearn("run", *stream, "--out", tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoints",
        "checksums.json",
        "config.yaml",
        "ledger.json",
        "metrics.jsonl",
        "result.json",
        "tensorboard",
    ]
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "000000000024",
        "000000000048",
    ]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("loss" in line for line in lines)
    assert any("accuracy/y" in line for line in lines)
    assert [line["examples"] for line in lines] == sorted(line["examples"] for line in lines)


def test_config_yaml_is_complete_and_can_be_run_again(everlearn, stream, tmp_path):
    everlearn("run", *stream, "--method", "anml-er", "--dropout", "0.1", "--seed", "7", "--out", tmp_path / "first")
    config = tmp_path / "first" / "config.yaml"
    assert set(yaml.safe_load(config.read_text())) == {setting.name for _, setting in settings()}
    code, out, _ = everlearn("run", "--config", config, "--out", tmp_path / "again", "--json")
    assert code == 0
    first = json.loads((tmp_path / "first" / "result.json").read_text())
    assert without_times(json.loads(out)) == without_times(first)
    for name in ("config.yaml", "metrics.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_tensorboard_can_read_the_events(everlearn, stream, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everlearn("run", *stream, "--method", "replay", "--out", tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"loss", "replay_loss", "accuracy", "accuracy/x", "accuracy/y"} <= set(events.Tags()["scalars"])
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "accuracy"):
        written = [(line["examples"], line[name]) for line in lines if name in line]
        assert [(event.step, event.value) for event in events.Scalars(name)] == [
            (step, pytest.approx(value)) for step, value in written
        ]


def test_without_json_a_table_is_printed(everlearn, stream):
    code, out, err = everlearn("run", *stream, "--method", "seq")
    assert code == 0
    assert "seq" in out
    assert "accuracy" in out
    assert "--out" in err  # that nothing was saved is said beside the table, not in it


def test_profile_shows_where_the_time_went(everlearn, stream):
    code, out, _ = everlearn("profile", *stream, "--method", "oml-er")
    assert code == 0
    for phase in ("waiting for the next batch", "adapting on support sets", "steps on the slow weights", "evaluation"):
        assert phase in out
    assert "examples/s" in out
    result = json.loads(everlearn("profile", *stream, "--method", "oml-er", "--json")[1])
    phases, seconds = result["ledger"]["train"]["phases"], result["ledger"]["train"]["seconds"]
    assert set(phases) == {"data", "memory", "support", "gradient", "optimiser"}
    assert (
        0.5 * seconds < sum(phases.values()) <= seconds
    )  # they lie within the time of learning, and make up most of it


def test_skipped_rows_are_counted_and_named_on_stderr(everlearn, stream, data):
    with data.open("a") as file:
        file.write(",x0,x\nno label,,x\n")
    code, out, err = everlearn("run", *stream, "--method", "seq", "--json")
    assert code == 0
    assert "skipped 2 rows of texts.csv without text or label (lines 62, 63)" in err
    assert any("skipped 2 rows" in note for note in json.loads(out)["notes"])


def test_progress_is_plain_lines_where_there_is_no_terminal(everlearn, stream, monkeypatch):
    monkeypatch.setattr("everlearn.progress.SECONDS_BETWEEN_LINES", 0.0)
    _, out, err = everlearn("run", *stream, "--method", "seq", "--json")
    json.loads(out)
    assert re.search(r"^seq: 24 of 48 examples, [\d,]+ examples/s, loss \d+\.\d+, about [\d,]+ s left$", err, re.M)
    assert "\x1b" not in err


def test_progress_is_a_bar_on_a_terminal(everlearn, stream, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    code, out, err = everlearn("run", *stream, "--method", "seq", "--json")
    assert code == 0
    json.loads(out)
    assert "━" in err


def test_resume_goes_on_and_then_only_reads(everlearn, stream, tmp_path):
    everlearn("run", *stream, "--out", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    code, again, err = everlearn("run", *stream, "--out", tmp_path / "run", "--resume", "--json")
    assert code == 0
    assert "going on after 48 examples" in err
    code, once_more, err = everlearn("run", *stream, "--out", tmp_path / "run", "--resume", "--json")
    assert code == 0
    assert once_more == again
    assert "finished earlier: showing its result" in err


# --- how options reach the configuration


@pytest.fixture
def built(everlearn, monkeypatch):
    """The configuration that a command leads to, without running it."""

    def build(*arguments):
        seen = []

        def stop(config, *rest):
            seen.append(config)
            raise UserError("enough")

        monkeypatch.setattr(experiments, "run_once", stop)
        everlearn("run", *arguments)
        return seen[0]

    return build


def test_flags_turn_things_off(built):
    plain = built().method
    assert (plain.replay, plain.meta_test, plain.neuromodulation) == (True, True, True)
    method = built("--no-replay", "--no-meta-test", "--no-neuromodulation").method
    assert (method.replay, method.meta_test, method.neuromodulation) == (False, False, False)


def test_options_win_over_the_file(built, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("method: replay\nseed: 3\nlr: 3e-4\nreplay: false\norder: 2\n")
    config = built("--config", file, "--seed", "5", "--replay")
    assert (config.method.method, config.run.seed, config.method.lr) == ("replay", 5, 3e-4)
    assert config.method.replay is True
    assert config.stream.order == "2"


def test_a_flag_in_the_file_stays_where_no_option_is_given(built, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("replay: false\n")
    assert built("--config", file).method.replay is False


def test_every_setting_has_an_option(built):
    values = {
        name: {str: "x", int: "3", float: "0.5"}.get(type(value))
        for name, value in Config().flat().items()
        if not isinstance(value, bool)
    }
    values |= {"stream": "file", "method": "seq", "device": "cpu", "split": "validation", "replay_gradient": "sum"}
    values |= dict.fromkeys(
        ("eval_every", "train_size", "val_size", "test_size", "memory_capacity", "trained_layers"), "3"
    )
    values |= {
        "data": "/d",
        "test_data": "/t",
        "clusters": "/c",
        "glove": "/g",
        "task_column": "c",
        "head_lr": "0.5",
        "clip_norm": "0.5",
        "shrinkage": "0.5",
    }
    values |= {"memory": "ring", "pooling": "cls", "precision": "bf16"}
    values |= {"replay_interval": "100", "local_adaptation": "full", "gem_gradients": "lora"}
    flags = [
        f"--{'no-' if on else ''}{n.replace('_', '-')}" for n, on in Config().flat().items() if isinstance(on, bool)
    ]
    options = [part for name, value in values.items() for part in (f"--{name.replace('_', '-')}", value)]
    # Two commands: a frozen encoder has no layers to train, so those two options exclude each other.
    named = built(*options).flat()
    assert {name: str(named[name]) for name in values} == values
    flagged = built(*flags).flat()
    assert all(flagged[n] is not on for n, on in Config().flat().items() if isinstance(on, bool))


# --- compare


def test_compare_gives_one_table_and_one_figure(everlearn, stream, tmp_path, monkeypatch):
    out_folder = tmp_path / "comparison"
    command = ["compare", "--methods", "seq,oml-er,mtl", "--seeds", "1,2", *stream, "--out", out_folder]
    code, out, err = everlearn(*command)
    assert code == 0, err
    assert [name for name in ("seq", "oml-er", "mtl") if name in out] == ["seq", "oml-er", "mtl"]
    assert out.count("forgetting") == 1
    runs = [f"{method}-seed{seed}" for seed in (1, 2) for method in ("seq", "oml-er", "mtl")]
    assert sorted(p.name for p in out_folder.iterdir()) == sorted([*runs, "accuracy.png", "results.json", "table.md"])
    assert is_whole_png(out_folder / "accuracy.png")
    assert "| oml-er" in (out_folder / "table.md").read_text()
    results = json.loads((out_folder / "results.json").read_text())
    assert [f"{r['method']}-seed{r['seed']}" for r in results] == runs
    assert all(
        r == json.loads((out_folder / run / "result.json").read_text()) for r, run in zip(results, runs, strict=True)
    )
    assert f"figure: {out_folder}/accuracy.png" in err

    # The second time nothing is learned again.
    monkeypatch.setattr("everlearn.run.build_experiment", pytest.fail)
    code, out, _ = everlearn(*command, "--resume", "--json")
    assert code == 0
    assert json.loads(out) == results


def test_compare_finishes_only_what_is_missing(everlearn, stream, tmp_path):
    out_folder = tmp_path / "comparison"
    everlearn("compare", "--methods", "seq", *stream, "--out", out_folder)
    before = (out_folder / "seq-seed42" / "result.json").stat().st_mtime_ns
    code, out, err = everlearn("compare", "--methods", "seq,replay", *stream, "--out", out_folder, "--resume", "--json")
    assert code == 0, err
    assert [result["method"] for result in json.loads(out)] == ["seq", "replay"]
    assert (out_folder / "seq-seed42" / "result.json").stat().st_mtime_ns == before


def test_compare_reaches_the_same_with_several_runs_at_once(everlearn, stream, tmp_path):
    command = ["compare", "--methods", "seq,oml-er,mtl", "--seeds", "1,2", *stream, "--json"]
    _, one_by_one, _ = everlearn(*command, "--out", tmp_path / "one")
    code, together, err = everlearn(*command, "--together", "4", "--out", tmp_path / "four")
    assert code == 0, err
    assert without_times(json.loads(together)) == without_times(json.loads(one_by_one))
    assert err.count(": accuracy ") == 6
    code, _, err = everlearn(*command, "--together", "2", "--dropout", "0.1", "--out", tmp_path / "dropout")
    assert (code, "--together does not go with dropout" in err) == (2, True)
    code, _, err = everlearn(*command, "--together", "2", "--trained-layers", "7", "--out", tmp_path / "layers")
    assert (code, "the encoder has 2 layers, not 7" in err) == (2, True)


def test_compare_gives_every_method_what_was_asked_for(everlearn, stream, tmp_path):
    everlearn("compare", "--methods", "seq,mtl", *stream, "--dropout", "0.2", "--lr", "0.01", "--out", tmp_path / "c")
    for method in ("seq", "mtl"):
        config = yaml.safe_load((tmp_path / "c" / f"{method}-seed42" / "config.yaml").read_text())
        assert (config["dropout"], config["lr"], config["batch_size"]) == (0.2, 0.01, 4)
        assert (config["method"], config["seed"]) == (method, 42)


# --- list, help, version


@pytest.mark.parametrize(
    ("what", "known"),
    [("methods", METHODS), ("streams", STREAMS), ("encoders", KNOWN), ("memories", POLICIES)],
)
def test_list_names_everything_known(everlearn, what, known):
    code, out, err = everlearn("list", what)
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert names[what == "methods" :] == list(known)  # the methods' list has a header


def test_the_list_of_methods_shows_family_replay_and_what_a_prediction_takes(everlearn):
    _, out, _ = everlearn("list", "methods")
    shown = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if not line.startswith(" ")}
    assert shown["method"] == "method family replays at test time what it does"
    assert shown["oml-er"].startswith("oml-er meta-learning memory m SGD steps on memory, one pass")
    assert shown["ncm"].startswith("ncm closed form – one pass a frozen encoder")
    assert all(method.family != "other" for method in METHODS.values())


@pytest.mark.parametrize("command", ["run", "compare"])
def test_help_shows_the_help_text_of_every_setting(everlearn, command):
    code, out, _ = everlearn(command, "--help")
    assert code == 0
    shown = " ".join(re.sub(r"[│╭╮╰╯─\s]+", " ", out).split())
    assert "batches in a support set (m)" in shown
    for _, setting in settings():
        if command == "run" or setting.name not in ("method", "seed"):
            assert help_text(setting) in shown, setting.name


def test_help_shows_defaults_that_are_words(everlearn):
    """Square brackets around a word are markup to rich, which would swallow it."""
    _, out, _ = everlearn("run", "--help")
    assert "(default: docstrings)" in out
    assert "(default: oml-er)" in out


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_commands(everlearn, option):
    code, out, _ = everlearn(option)
    assert code == 0
    assert all(command in out for command in ("run", "compare", "list", "data"))


def test_version(everlearn):
    assert everlearn("--version") == (0, f"everlearn {__version__}\n", "")


def test_ctrl_c_says_how_to_go_on(everlearn, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "run_once", interrupted)
    code, out, err = everlearn("run")
    assert (code, out) == (130, "")
    assert "--resume" in err
    assert "Traceback" not in err


# --- in a process of its own


def process(*arguments, cwd, **environment):
    command = [sys.executable, "-m", "everlearn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment})


def test_a_real_process_keeps_stdout_clean(stream, tmp_path):
    done = process("run", *stream, "--method", "replay", "--out", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "result.json").read_text())
    assert done.stderr == ""


def test_a_real_process_ends_with_one_sentence_and_code_2(stream, tmp_path):
    done = process("run", *stream, "--method", "replai", "--out", "run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("everlearn: unknown method 'replai': did you mean 'replay'?")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_help_needs_no_special_encoding(tmp_path):
    done = process("run", "--help", cwd=tmp_path, PYTHONIOENCODING="ascii", COLUMNS="200")
    assert done.returncode == 0, done.stderr[-300:]
    assert "support set (m)" in " ".join(done.stdout.split())
