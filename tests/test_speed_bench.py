"""The benchmark of speed at a tiny size: what it writes, and what its table makes of figures."""

import copy
import json
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import BertConfig

from everlearn.streams import textcls
from support import labelled_texts, tiny_encoder
from test_report import png_size
from test_textcls_stream import write_jsonl

ROOT = Path(__file__).parent.parent
SEEDS = (42, 43, 44)
ARM = {"examples_per_second": 100.0, "tokens_per_second": 1e4, "peak_bytes": 4_000_000_000, "start_up_seconds": 1.0}
MACHINE = {
    **dict.fromkeys(("device", "everlearn", "torch", "cuda", "transformers", "python"), "x"),
    "kind": "cuda",
    "cores": 2,
    "threads": 1,
    "precision": "bf16",
    "peak_flops": 1e12,
}


@pytest.fixture
def bench(monkeypatch):
    """The modules of the folder, which is no package."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    import speed
    import speed_table

    yield speed, speed_table
    for path in (ROOT / "bench").glob("*.py"):
        sys.modules.pop(path.stem, None)


def arms(times: float) -> dict:
    """An arm in which the product is so many times as fast."""
    product = {**ARM, "examples_per_second": 100 * times, "share_of_peak": 0.2, "peak_bytes": 1_900_000_000}
    return {"product": product, "published": ARM, "ratio": times}


def outcome(page: str, what: str) -> tuple[str, str]:
    """What the table says was reached, and whether that is enough."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {what} |")]
    reached, met = line.strip("| ").split(" | ")[-2:]
    return reached, met


def test_a_tiny_measurement_from_command_to_table(tmp_path, bench, monkeypatch):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for name in textcls.SETS:
        write_jsonl(data, name, "train", 240)
        write_jsonl(data, name, "test", 30)
    shared = ["speed.py", "--textcls", str(data), "--device", "cpu", "--out", str(out), "--encoders", "tiny"]
    small = [
        "--seconds",
        "0.02",
        "--warm-up",
        "0.02",
        "--windows",
        "2",
        "--whole-size",
        "40",
        "--methods",
        "seq,oml-er",
    ]
    monkeypatch.setattr("memory_growth.READS", 2)

    def measure(*options: str) -> dict:
        monkeypatch.setattr(sys, "argv", [*shared, *small, *options])
        bench[0].main()
        return json.loads((out / "speed.json").read_text())

    relations = str(ROOT / "recipes" / "sample" / "fewrel")
    monkeypatch.setattr("speed.AT_ONCE", (1, 2))
    first = measure("--fewrel", relations, "--parts", "methods,prediction,together")
    for arm in ("tiny/textcls/seq", "tiny/textcls/oml-er", "tiny/fewrel/seq", "tiny/fewrel/oml-er"):
        for side in ("product", "published"):
            assert first[arm][side]["examples_per_second"] > 0
            assert first[arm][side]["tokens_per_second"] > 0
            assert first[arm][side]["start_up_seconds"] >= 0
            assert first[arm][side]["replays"] >= 0
            assert len(first[arm][side]["windows"]) == 2
        assert first[arm]["product"]["share_of_peak"] > 0
        assert first[f"{arm}/together/1"]["slowest"] > 0
        at_once = first[f"{arm}/together/2"]
        assert at_once["examples_per_second"] > at_once["slowest"] > 0
        assert len(at_once["windows"]) == 2
    # What a later call measures is added, and nothing that is there is lost.
    second = measure("--parts", "length,classes,whole")
    assert {name: second[name] for name in first} == first
    assert list(second["tiny/length"]) == ["32", "64", "128", "256", "448"]
    assert list(second["tiny/classes"]) == ["10", "100", "1000", "10000"]
    assert second["tiny/whole"]["examples"] == 200
    # One that was stopped goes on: what is known is not measured again.
    del second["tiny/fewrel/oml-er"], second["tiny/fewrel/seq/together/2"]
    (out / "speed.json").write_text(json.dumps(second))
    third = measure("--fewrel", relations, "--parts", "methods,together")
    assert third.pop("tiny/fewrel/oml-er")["ratio"] > 0
    assert third.pop("tiny/fewrel/seq/together/2")["slowest"] > 0
    assert third == second
    page = (out / "speed.md").read_text()
    assert "### Training: tiny, relation extraction" in page
    assert "### OML-ER by classes: tiny" in page
    assert "### Runs at once in one process: SEQ, tiny, relation extraction" in page
    assert png_size(out / "speed-cpu.png")[0] > 1000

    with pytest.raises(SystemExit, match="another precision"):
        measure("--precision", "bf16")
    with pytest.raises(SystemExit, match="another --windows"):
        measure("--windows", "3")
    older = {**second, "procedure": {**second["procedure"], "commit": "older"}}
    (out / "speed.json").write_text(json.dumps(older))
    with pytest.raises(SystemExit, match="another commit"):
        measure("--parts", "prediction")
    del older["procedure"]
    (out / "speed.json").write_text(json.dumps(older))
    with pytest.raises(SystemExit, match="another commit, --seconds"):
        measure("--parts", "prediction")
    elsewhere = {**second, "machine": {**second["machine"], "device": "another"}}
    (out / "speed.json").write_text(json.dumps(elsewhere))
    with pytest.raises(SystemExit, match="another device"):
        measure("--parts", "prediction")


def test_an_encoder_from_a_folder_is_measured_and_shown_under_its_name(tmp_path, bench, monkeypatch):
    """And BERT's shape takes its vocabulary from there, where nothing else is installed."""
    data, out, model = tmp_path / "data", tmp_path / "out", tmp_path / "models" / "mine"
    data.mkdir()
    for name in textcls.SETS:
        write_jsonl(data, name, "train", 60)
        write_jsonl(data, name, "test", 6)
    encoder = tiny_encoder()
    encoder.whole_model().save_pretrained(model)
    encoder.tokenizer._tokenizer.save_pretrained(model)
    small = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    monkeypatch.setattr("speed_encoders.BertConfig", lambda: small)
    given = ["--textcls", data, "--device", "cpu", "--out", out, "--parts", "methods", "--methods", "oml-er"]
    short = ["--seconds", "0.02", "--warm-up", "0.02", "--windows", "1"]
    encoders = ["--encoders", f"minilm={model},{model},bert", "--vocabulary", "minilm"]
    monkeypatch.setattr(sys, "argv", ["speed.py", *map(str, [*given, *short, *encoders])])
    bench[0].main()
    figures = json.loads((out / "speed.json").read_text())
    arms = [key for key in figures if "/" in key]
    assert arms == ["minilm/textcls/oml-er", "mine/textcls/oml-er", "bert/textcls/oml-er"]
    page = (out / "speed.md").read_text()
    for name in ("minilm", "mine", "BERT-base's shape"):
        assert f"### Training: {name}, text classification" in page
    assert outcome(page, "OML-ER with minilm on 2 CPU cores")[1] in ("met", "**missed**")
    assert png_size(out / "speed-cpu.png")[0] > 1000


@pytest.mark.parametrize(
    ("listed", "said"), [("a=x,b/a", "two are called 'a'"), ("=x", "NAME=FOLDER"), ("a/b=x", "a/b=x")]
)
def test_encoders_without_a_name_of_their_own_are_refused(bench, listed, said):
    with pytest.raises(SystemExit, match=said):
        bench[0].named_encoders(listed)


def test_an_arm_is_warm_when_it_records_no_more(bench):
    clock = sys.modules["speed_clock"].Clock(torch.device("cpu"), 0.01, 0.2, 3)
    begun, recorded, observed = time.perf_counter(), [], []

    def observe() -> int:
        time.sleep(0.05)
        observed.append(time.perf_counter() - begun)
        if len(observed) <= 8:  # for twice as long as is waited for the next one
            recorded.append(observed[-1])
        return 1

    found = clock.measure(observe, begun, 0.2, lambda: len(recorded), lambda: len(observed))
    assert found["shapes_recorded"] == 8
    assert observed[-1] - recorded[-1] >= 0.2
    # Each window holds one piece of work; what came before them is not counted.
    assert found["replays"] == len(found["windows"]) == 3
    assert found["examples_per_second"] == sorted(found["windows"])[1]


def test_the_clock_of_the_warm_up_starts_when_everything_is_built(bench, monkeypatch):
    monkeypatch.setattr("speed_clock.LONGEST_WARM_UP", 0.1)
    clock = sys.modules["speed_clock"].Clock(torch.device("cpu"), 0.01, 1.0, 1)
    built, observed = time.perf_counter() - 60, []
    clock.measure(lambda: observed.append(time.sleep(0.01)) or 1, built, 1.0)
    assert len(observed) > 3


@pytest.mark.parametrize("method", ["replay", "a-gem", "anml-er"])
def test_the_published_procedure_counts_its_replays_and_leaves_the_modulator_alone(bench, method):
    published, encoder = sys.modules["published"], tiny_encoder(pooling="cls")
    settings = published.Settings(batch_size=4, replay_interval=16, length=32, replay_rate=0.5, lr=1e-2)
    labels = ["yes", "no"]
    arm = published.Published(method, encoder.whole_model(), encoder.tokenizer._tokenizer, labels, False, settings)
    before = {name: weight.clone() for name, weight in arm.network.named_parameters()}
    texts = labelled_texts(32, [0, 1])
    for start in range(0, 32, 4):
        arm.observe(texts[start : start + 4])
    assert arm.replays == {"replay": 2, "a-gem": 2, "anml-er": 1}[method]
    moved = {name.partition(".")[0] for name, w in arm.network.named_parameters() if not torch.equal(w, before[name])}
    assert moved == ({"encoder", "head", "gate"} if method == "anml-er" else {"encoder", "head"})


@pytest.mark.parametrize(
    ("method", "stream", "length"), [("oml-er", "textcls", 448), ("anml-er", "textcls", 300), ("anml-er", "fewrel", 64)]
)
def test_both_arms_cut_texts_at_the_same_length(bench, method, stream, length):
    clock = sys.modules["speed_clock"].Clock(torch.device("cpu"), 0.01, 0.2, 3)
    arms = sys.modules["speed_arms"].Arms("tiny", "fp32", clock, 1.0)
    assert arms._published_settings(method, stream).length == length


def test_the_memory_is_measured_at_every_size(bench, monkeypatch):
    monkeypatch.setattr("memory_growth.READS", 2)
    monkeypatch.setattr("memory_growth.ENTRIES", (1000, 3000))
    found = bench[0].memory_growth()
    assert list(found) == ["1000", "3000"]
    assert 2.9 < found["3000"]["bytes"] / found["1000"]["bytes"] < 3.1
    assert found["1000"]["read_milliseconds"] > 0


def test_every_target_stands_beside_what_was_reached(bench):
    memory = {
        "1000": {"read_milliseconds": 0.20, "bytes": 3e5},
        "1000000": {"read_milliseconds": 0.22, "bytes": 3.1e8},
    }
    gpu = {
        "machine": MACHINE,
        "bert/textcls/oml-er": arms(61.0),
        "bert/textcls/seq": arms(7.9),
        "bert/fewrel/oml-er": arms(10.0),
        "bert/whole": {"examples": 575_000, "seconds": 119.0},
        **{f"minilm/accuracy/bf16/{seed}": accuracy for seed, accuracy in zip(SEEDS, (0.58, 0.60, 0.59), strict=True)},
        **{f"minilm/accuracy/fp32/{seed}": accuracy for seed, accuracy in zip(SEEDS, (0.59, 0.61, 0.60), strict=True)},
        "memory": memory,
    }
    cpu = {"machine": {**MACHINE, "kind": "cpu"}, "minilm/textcls/oml-er": arms(2.5)}
    page = bench[1].page({"cuda": gpu, "cpu": cpu})
    assert outcome(page, "OML-ER, training") == ("6,100 examples/s", "met")
    assert outcome(page, "OML-ER, training, stretch") == ("6,100 examples/s", "**missed**")
    assert outcome(page, "OML-ER, text classification: against the published procedure") == ("61 ×", "met")
    assert outcome(page, "SEQ, text classification: against the published procedure") == ("7.9 ×", "**missed**")
    assert outcome(page, "OML-ER, relation extraction: against the published procedure") == ("10 ×", "met")
    assert outcome(page, "REPLAY, text classification: against the published procedure") == ("not measured", "–")
    assert outcome(page, "a whole OML-ER run of 575,000 examples, evaluation included") == ("119 s", "met")
    assert outcome(page, "GPU memory of OML-ER, as a multiple of the published procedure's") == ("0.47 ×", "met")
    assert outcome(page, "memory with 1 M entries") == ("310 MB", "**missed**")
    assert outcome(page, "OML-ER with minilm on 2 CPU cores") == ("2.5 ×", "**missed**")
    noise = "accuracy of the fast path on fewrel, three seeds: difference from plain fp32"
    assert outcome(page, noise) == ("1 standard deviations", "met")
    assert "| accuracy on fewrel by seed, minilm | bf16: 58.0 60.0 59.0, fp32: 59.0 61.0 60.0 |" in page
    del gpu["minilm/accuracy/fp32/44"]  # two seeds against three say nothing
    assert outcome(bench[1].page({"cuda": gpu}), noise) == ("not measured", "–")
    short = copy.deepcopy(gpu)
    short["bert/whole"]["examples"] = 1000
    page = bench[1].page({"cuda": short})
    assert outcome(page, "a whole OML-ER run of 575,000 examples, evaluation included") == ("not measured", "–")
