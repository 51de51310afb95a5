import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from everlearn.config import Config, check_setting, read_config, settings, value_type
from everlearn.defaults import NEAREST, SHORT_STREAM_METHODS
from everlearn.errors import UserError
from everlearn.methods import METHODS, MethodConfig
from everlearn.methods.peer_settings import PeerSettings
from everlearn.settings import help_text


def build(**given: Any) -> Config:
    """On the paper's own benchmark, so that its settings apply."""
    return Config.build({"stream": "textcls", **given})


def refusal(**given: Any) -> str:
    with pytest.raises(UserError) as caught:
        build(**given)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# Defaults


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_defaults_are_the_papers(method: str):
    """Table of appendix A.5, text classification; replay settings of section 5.2. Other papers' methods start from
    there as well, LAMOL with the learning rate of its own, and those that only add up with larger batches."""
    found = build(method=method).flat()
    anml = method in ("anml-er", "anml")
    expected = {
        "lr": 6.25e-5 if method.startswith("lamol") else 3e-5,
        "inner_lr": 3e-3 if anml else 1e-3,
        "meta_lr": 1e-5,
        "support_batches": 5,
        "batch_size": 32 if METHODS[method].takes_back else 16,
        "replay_interval": 9600,
        "replay_rate": 0.01,
        "max_length": 300 if anml else 448,
        "epochs": 2,
        "write_probability": 1.0,
        "memory_capacity": None,
        "dropout": 0.0,
        "clip_norm": None,
        "head_lr": None,
        "replay_gradient": "mean",
    }
    assert {name: found[name] for name in expected} == expected


def test_what_the_user_gives_wins_over_the_defaults_of_stream_and_method():
    assert build(method="anml-er", inner_lr=0.5).method.inner_lr == 0.5
    assert build(method="replay", as_published=True, clip_norm=3.0).method.clip_norm == 3.0
    assert Config.build({"stream": "docstrings", "batch_size": 2}).method.batch_size == 2


def test_a_short_stream_has_settings_of_its_own():
    assert Config.build({"stream": "docstrings"}).method.replay_interval < 9600


def test_every_method_has_working_defaults_on_every_stream():
    for stream in ("docstrings", "textcls", "file"):
        for method in METHODS:
            for published in (False, True):
                config = Config.build({"stream": stream, "method": method, "as_published": published})
                assert config.method.method == method


def test_systems_of_other_papers_start_from_the_method_they_are_closest_to():
    assert set(NEAREST) <= set(METHODS)
    assert set(NEAREST.values()) <= set(SHORT_STREAM_METHODS)
    er_ace, replay = (Config.build({"stream": "docstrings", "method": name}).method for name in ("er-ace", "replay"))
    assert (er_ace.lr, er_ace.head_lr, er_ace.replay_interval) == (replay.lr, replay.head_lr, replay.replay_interval)
    mer = Config.build({"stream": "docstrings", "method": "mer"}).method
    assert (mer.lr, mer.support_batches) == (replay.lr, 2)


def test_what_single_methods_have_for_themselves_is_shown_apart():
    titles = {declared.name: title for title, declared in settings()}
    assert titles["batch_size"] == "How it learns"
    assert titles["ewc_lambda"] == "Settings of single methods"
    names = list(titles)
    assert names.index("ewc_lambda") > names.index("as_published")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ewc_lambda": -1.0}, "ewc_lambda must be at least 0"),
        ({"mer_beta": 1.5}, "mer_beta must lie between 0 and 1"),
        ({"diverse_share": 7.0}, "diverse_share must lie between 0 and 1"),
        ({"writing_weight": -1.0}, "writing_weight must be at least 0"),
        ({"neighbours": 0}, "neighbours must be greater than 0"),
        ({"local_adaptation": "body"}, "local_adaptation must be one of head, full"),
    ],
)
def test_settings_of_single_methods_are_checked(given: dict[str, Any], complaint: str):
    assert complaint in refusal(**given)


@pytest.mark.parametrize(
    "declared",
    [declared for declared in dataclasses.fields(MethodConfig) if value_type(declared)[0] in (int, float)],
    ids=lambda declared: declared.name,
)
def test_no_number_of_a_method_may_be_negative(declared: Any):
    with pytest.raises(UserError, match=f"^{declared.name} must "):
        check_setting(declared.name, -1)


def test_the_methods_page_says_where_every_default_of_a_single_method_comes_from():
    page = (Path(__file__).parent.parent / "docs" / "methods.md").read_text(encoding="utf-8")
    _, table = page.split("| setting | default | where it comes from |")
    explained = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert {declared.name for declared in dataclasses.fields(PeerSettings)} <= explained


def test_a_method_that_writes_its_own_examples_needs_a_schedule_that_works():
    assert "--no-replay" in refusal(method="lamol", replay_interval=50)


def test_every_setting_has_a_name_of_its_own_and_a_help_text():
    names = [declared.name for _, declared in settings()]
    assert len(names) == len(set(names))
    for title, declared in settings():
        assert title
        assert help_text(declared)
    assert set(names) == set(build().flat())


# as_published


@pytest.mark.parametrize("method", sorted(METHODS))
def test_as_published_follows_the_authors_code(method: str):
    config = build(method=method, as_published=True)
    meta = METHODS[method].meta
    assert config.encoder.pooling == "pooler"
    assert config.method.replay_gradient == "sum"
    assert config.encoder.dropout == (0.0 if meta else 0.1)  # its meta methods never switch dropout on
    assert config.method.clip_norm == (25.0 if method == "replay" else None)
    assert config.method.clip_replay_only == (method == "replay")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_as_published_changes_nothing_else(method: str):
    plain, published = build(method=method).flat(), build(method=method, as_published=True).flat()
    changed = {name for name in plain if plain[name] != published[name]}
    assert changed <= {"as_published", "pooling", "replay_gradient", "dropout", "clip_norm", "clip_replay_only"}


# Files


def test_a_configuration_survives_a_yaml_file(tmp_path: Path):
    config = build(method="anml-er", data=tmp_path, order="3", lr=3e-5, memory_capacity=100, as_published=True, seed=7)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.flat()))
    again = Config.build(read_config(path))
    assert again == config
    assert isinstance(again.stream.data, Path)


def test_numbers_that_yaml_reads_as_text_are_numbers(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "stream: textcls\nlr: 3e-5\ninner_lr: 1e-2\nreplay_rate: 1\nbatch_size: '8'\norder: 2\nhead_lr: null\n"
    )
    given = read_config(path)
    assert given["lr"] == "3e-5"  # the trap
    config = Config.build(given)
    assert config.method.lr == 3e-5
    assert config.method.inner_lr == 0.01
    assert config.method.replay_rate == 1.0
    assert type(config.method.replay_rate) is float
    assert config.method.batch_size == 8
    assert config.stream.order == "2"
    assert config.method.head_lr is None


@pytest.mark.parametrize(
    ("content", "told"),
    [("- a\n- b\n", "name: value"), ("just words", "name: value"), ("", "name: value"), ("a: [", "cannot be read")],
)
def test_a_file_that_is_no_configuration_is_refused(content: str, told: str, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=told) as caught:
        read_config(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="there is no configuration file"):
        read_config(tmp_path / "none.yaml")


# Impossible settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"replay_interval": 50, "replay_rate": 0.01}, "less than one example"),
        ({"replay_rate": 0.0}, "less than one example"),
        ({"replay_interval": 15}, "smaller than batch_size"),
        ({"support_batches": 0}, "support_batches must be greater than 0, not 0"),
        ({"support_batches": -1}, "support_batches"),
        ({"batch_size": 0}, "batch_size must be greater than 0"),
        ({"batch_size": -16}, "batch_size"),
        ({"replay_interval": -1}, "replay_interval"),
        ({"replay_rate": -0.1}, "replay_rate must lie between 0 and 1"),
        ({"replay_rate": 1.5}, "replay_rate must lie between 0 and 1"),
        ({"write_probability": -0.1}, "write_probability must lie between 0 and 1"),
        ({"write_probability": 1.1}, "write_probability must lie between 0 and 1"),
        ({"dropout": 2}, "dropout must lie between 0 and 1"),
        ({"lr": 0}, "lr must be greater than 0"),
        ({"lr": -1e-5}, "lr must be greater than 0"),
        ({"inner_lr": -1}, "inner_lr must be greater than 0"),
        ({"meta_lr": 0}, "meta_lr must be greater than 0"),
        ({"head_lr": -1}, "head_lr must be greater than 0"),
        ({"clip_norm": 0}, "clip_norm must be greater than 0"),
        ({"max_length": 0}, "max_length must be"),
        ({"max_length": 2}, "max_length must be"),  # room for the two special tokens alone
        ({"micro_batch": 0}, "micro_batch must be greater than 0"),
        ({"epochs": 0}, "epochs must be greater than 0"),
        ({"eval_every": 0}, "eval_every must be greater than 0"),
        ({"eval_sample": -5}, "eval_sample must be greater than 0"),
        ({"log_every": 0}, "log_every must be greater than 0"),
        ({"checkpoint_every": -1}, "checkpoint_every must be"),
        ({"memory_capacity": 0}, "memory_capacity must be"),
        ({"memory_capacity": -3}, "memory_capacity must be"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda"),
        ({"split": "train"}, "split must be one of test, validation"),
        ({"replay_gradient": "max"}, "replay_gradient must be one of mean, sum"),
        ({"gem_gradients": "all"}, "gem_gradients must be one of head, lora"),
        ({"lora_rank": 0}, "lora_rank must be greater than 0"),
        ({"method": "gem", "gem_gradients": "lora", "freeze_encoder": True}, "which freeze_encoder forbids"),
        ({"method": "omler"}, "did you mean 'oml-er'"),
        ({"seed": -1}, "seed"),
        ({"lr": float("nan")}, "lr"),
        ({"meta_lr": "inf"}, "meta_lr"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_with_the_reason(given: dict[str, Any], told: str):
    assert told in refusal(**given)


@pytest.mark.parametrize("method", ["seq", "mtl"])
def test_replay_settings_do_not_matter_to_methods_that_do_not_replay(method: str):
    assert build(method=method, replay_interval=4, replay_rate=0.0).method.replay_interval == 4


def test_without_replay_its_size_does_not_matter():
    assert build(method="oml-er", replay=False, replay_rate=0.0).method.replay_rate == 0.0


def test_the_smallest_settings_that_can_work_do():
    config = build(replay_interval=100, replay_rate=0.01, support_batches=1, write_probability=0.0, checkpoint_every=0)
    assert config.method.support_batches == 1


@pytest.mark.parametrize(
    ("name", "closest"), [("leaning_rate_inner", None), ("inner_lrr", "inner_lr"), ("seeds", "seed")]
)
def test_an_unknown_setting_is_refused_with_the_closest_one(name: str, closest: str | None):
    message = refusal(**{name: 1})
    assert f"'{name}'" in message
    if closest:
        assert f"did you mean '{closest}'" in message


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"batch_size": "many"}, "batch_size must be a whole number, not 'many'"),
        ({"batch_size": 1.5}, "batch_size must be a whole number, not 1.5"),
        ({"batch_size": "1.5"}, "batch_size must be a whole number"),
        ({"batch_size": True}, "batch_size must be a whole number, not True"),
        ({"batch_size": None}, "batch_size must be a whole number, not None"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"lr": [1e-3]}, "lr must be a number"),
        ({"lr": False}, "lr must be a number"),
        ({"lr": None}, "lr must be a number"),
        ({"replay": "yes"}, "replay must be true or false, not 'yes'"),
        ({"replay": 1}, "replay must be true or false, not 1"),
        ({"method": None}, "method must be a text, not None"),
        ({"order": ["ag"]}, "order must be a text"),
        ({"data": {"a": 1}}, "data must be a path"),
        ({"encoder": True}, "encoder must be a text"),
    ],
    ids=str,
)
def test_values_of_the_wrong_type_are_refused(given: dict[str, Any], told: str):
    assert told in refusal(**given)


def test_a_number_where_a_path_is_meant_is_a_name_or_a_mistake_but_no_crash():
    try:
        config = build(data=5)
    except UserError:
        return
    assert config.stream.data == Path("5")


# Differences


def test_differences_name_what_differs_and_nothing_else():
    one, other = build(lr=1e-3, seed=1), build(lr=2e-3, seed=2)
    assert one.differences(one) == []
    assert sorted(one.differences(other)) == ["lr: 0.001, not 0.002", "seed: 1, not 2"]


def test_differences_between_methods_include_their_own_defaults():
    found = build(method="oml-er").differences(build(method="anml-er"))
    assert [line.partition(":")[0] for line in found] == ["method", "inner_lr", "max_length"]
