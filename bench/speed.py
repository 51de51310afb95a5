"""How fast everlearn learns and predicts, against the published procedure, in one run on the same texts.

    python bench/speed.py --textcls DIR --fewrel DIR --out results/speed
    python bench/speed.py --textcls DIR --encoders minilm --methods oml-er --parts methods --seconds 20 --out runs/cpu
    python bench/speed.py --render results/speed/speed.json runs/cpu/speed.json --out results/speed

Data folders are those of `everlearn run --stream textcls|fewrel --data DIR`. `bert` means BERT-base's shape with random
weights, which is as fast as the real one; any other name is an encoder as `everlearn run --encoder` takes it. Writes
`speed.json`, and from it a table and a figure; `--render` makes these from files alone, wherever they were measured. A
second call with the same folder, on the same machine, adds its parts to those that are there.
"""

import argparse
import gc
import itertools
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import transformers
from published import Published, Settings
from speed_table import render

import everlearn
from everlearn.batches import Batch, Ragged
from everlearn.config import Config
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.examples import Example
from everlearn.experiment import benchmark_for, build_experiment, choose_device
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.run import run
from everlearn.streams import Benchmark, Task

PARTS = ("methods", "prediction", "length", "classes", "memory", "whole", "accuracy")
LONG = ("accuracy",)
"""Parts that take many minutes, and are only measured where they are asked for."""
METHODS = ("seq", "replay", "a-gem", "maml-er", "oml-er", "anml-er")
FILE = "speed.json"
ENTRIES = (1_000, 10_000, 100_000, 1_000_000)
READS = 1000
"""So many reads from a memory are timed."""
PAPER = {
    "textcls": Settings(batch_size=16, replay_interval=9600, length=448),
    "fewrel": Settings(batch_size=4, replay_interval=1600, length=64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--textcls", type=Path, help="folder of the text-classification data")
    parser.add_argument("--fewrel", type=Path, help="folder of the relation-extraction data")
    parser.add_argument("--encoders", default="bert,minilm", help="encoders, separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, separated by commas")
    parser.add_argument(
        "--parts", default=",".join(part for part in PARTS if part not in LONG), help=f"among {', '.join(PARTS)}"
    )
    parser.add_argument("--vocabulary", default="minilm", help="encoder whose tokenizer the shape `bert` takes")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each arm is measured")
    parser.add_argument("--warm-up", type=float, default=4.0, help="seconds in which the product may record its shapes")
    parser.add_argument("--whole-size", type=int, default=115_000, help="examples of each task in the whole run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--render", type=Path, nargs="+", help="measure nothing: table and figures of these files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.render:
        render(options.render, options.out)
        return
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose among {', '.join(PARTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    measure(options, parts)
    render([options.out / FILE], options.out)


def measure(options: argparse.Namespace, parts: Sequence[str]) -> None:
    """Every part that is asked for; each figure is on the disk as soon as it is known."""
    device = choose_device(options.device)
    figures = begun(options.out / FILE, machine(device))
    peak = figures["machine"]["peak_flops"]
    folders = {"textcls": options.textcls, "fewrel": options.fewrel}
    streams = {name: mixed(name, folder) for name, folder in folders.items() if folder}

    def keep(name: str, value: Any) -> None:
        figures[name] = value
        (options.out / FILE).write_text(json.dumps(figures, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        for number, encoder in enumerate(options.encoders.split(",")):
            source = bert_shape(Path(folder), options.vocabulary) if encoder == "bert" else encoder
            arms = Arms(source, device, options.seconds, options.warm_up, peak)
            if "methods" in parts:
                for (stream, benchmark), method in itertools.product(streams.items(), options.methods.split(",")):
                    keep(f"{encoder}/{stream}/{method}", arms.compare(method, stream, benchmark))
            if "accuracy" in parts and "fewrel" in streams and encoder != "bert":  # random weights learn nothing
                keep(f"{encoder}/accuracy", arms.accuracy(options.fewrel))
            if "textcls" not in streams:
                continue
            if "prediction" in parts:
                keep(f"{encoder}/prediction", arms.prediction(streams["textcls"]))
            if number:  # how cost grows, and how long it takes in all, is measured with the first encoder
                continue
            if "length" in parts:
                keep(f"{encoder}/length", arms.by_length(streams["textcls"]))
            if "classes" in parts:
                keep(f"{encoder}/classes", arms.by_classes(streams["textcls"]))
            if "whole" in parts:
                keep(f"{encoder}/whole", arms.whole_run(options.textcls, options.whole_size))
    if "memory" in parts:
        keep("memory", memory_growth())


def begun(path: Path, here: dict[str, Any]) -> dict[str, Any]:
    """What an earlier call has measured; figures of two machines are never mixed."""
    if not path.is_file():
        return {"machine": here}
    figures = json.loads(path.read_text())
    different = [name for name in here if name != "peak_flops" and figures["machine"].get(name) != here[name]]
    if different:
        raise SystemExit(f"{path} was measured with another {', '.join(different)}: choose another folder with --out.")
    return figures


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    on_gpu = device.type == "cuda"
    return {
        "kind": device.type,
        "device": torch.cuda.get_device_name(device) if on_gpu else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "everlearn": everlearn.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if on_gpu else None,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "peak_flops": peak_flops(device),
    }


def processor() -> str:
    """The CPU's name, which Linux keeps in a file."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def peak_flops(device: torch.device) -> float:
    """Operations a second in a large matrix product, bf16 on a GPU and fp32 on a CPU: what can be had here."""
    on_gpu = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if on_gpu else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    wait(device)
    start = time.perf_counter()
    for _ in range(20):
        a @ b
    wait(device)
    return 20 * 2 * size**3 / (time.perf_counter() - start)


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bert_shape(folder: Path, vocabulary: str) -> str:
    """A folder with BERT-base's shape, random weights and another encoder's tokenizer."""
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig()).save_pretrained(folder / "bert-shape")
    tokenizer = load_encoder(EncoderConfig(encoder=vocabulary), torch.device("cpu")).tokenizer
    tokenizer._tokenizer.save_pretrained(folder / "bert-shape")
    return str(folder / "bert-shape")


def mixed(stream: str, folder: Path) -> Benchmark:
    """The benchmark as one task with the texts of all, so that lengths and labels are those of the whole stream."""
    benchmark = benchmark_for(Config.build({"stream": stream, "data": folder, "encoder": "tiny"}))
    pool = [example for task in benchmark.tasks for example in task.pool or task.train]
    random.Random(0).shuffle(pool)
    test = [example for task in benchmark.tasks for example in task.test]
    random.Random(1).shuffle(test)
    return replace(benchmark, tasks=(Task("mixed", pool, [], test),), joint_test=True)


class Arms:
    """Measures one encoder on one device."""

    def __init__(self, encoder: str, device: torch.device, seconds: float, warm_up: float, peak: float) -> None:
        self.encoder, self.device, self.peak = encoder, device, peak
        self.seconds, self.warm_up = seconds, warm_up

    def compare(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, Any]:
        product = self.product(method, stream, benchmark)
        published = self.published(method, stream, benchmark)
        ratio = product["examples_per_second"] / published["examples_per_second"]
        print(
            f"{stream} {method}: {product['examples_per_second']:,.0f} against "
            f"{published['examples_per_second']:,.0f} examples/s, {ratio:.1f} x; "
            f"start-up {product['start_up_seconds']:.1f} s",
            flush=True,
        )
        return {"product": product, "published": published, "ratio": ratio}

    def product(self, method: str, stream: str, benchmark: Benchmark, **settings: Any) -> dict[str, Any]:
        self._clear()
        begun = time.perf_counter()
        config = Config.build(
            {"stream": stream, "method": method, "encoder": self.encoder, "device": self.device.type, **settings}
        )
        task = replace(benchmark.tasks[0], train=list(benchmark.tasks[0].train) * 40, test=benchmark.tasks[0].test[:20])
        experiment = build_experiment(config, replace(benchmark, tasks=(task,)))
        ledger = experiment.ledger.train

        def observe() -> int:
            batch = next(experiment.stream)
            experiment.method.observe(batch)
            return len(batch)

        figures = self._measure(observe, begun, self.warm_up)
        experiment.stream.close()
        examples = figures["examples_per_second"] / experiment.stream.cursor
        weights = experiment.method.network.encoder.named_weights()
        parameters = sum(weight.numel() for name, weight in weights.items() if "embeddings" not in name)
        # A pass forward costs two operations a weight and token, a pass backward four; attention itself is left out.
        flops = 2 * parameters * (ledger.tokens_forward + 2 * ledger.tokens_backward) * examples
        tokens = ledger.tokens_forward * examples
        return {**figures, "tokens_per_second": tokens, "flops": flops, "share_of_peak": flops / self.peak}

    def published(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, Any]:
        self._clear()
        begun = time.perf_counter()
        settings = PAPER[stream]
        encoder = load_encoder(EncoderConfig(encoder=self.encoder, precision="fp32", pooling="cls"), self.device)
        arm = Published(
            method,
            encoder.whole_model(),
            encoder.tokenizer._tokenizer,
            benchmark.labels,
            benchmark.problem == "ranking",
            settings,
        )
        batches = in_batches(benchmark.tasks[0].train, settings.batch_size)

        def observe() -> int:
            batch = next(batches)
            arm.observe(batch)
            return len(batch)

        figures = self._measure(observe, begun, min(1.0, self.warm_up))
        return {**figures, "tokens_per_second": figures["examples_per_second"] * arm.tokens / arm.examples}

    def prediction(self, benchmark: Benchmark) -> dict[str, Any]:
        """Texts a second through a predictor, against the published way: padded, sixteen at a time."""
        self._clear()
        config = Config.build(
            {"stream": "textcls", "method": "seq", "encoder": self.encoder, "device": self.device.type}
        )
        size = 16384 if self.device.type == "cuda" else 256
        texts = list(itertools.islice(itertools.cycle(benchmark.tasks[0].test), size))
        small = replace(benchmark, tasks=(replace(benchmark.tasks[0], test=texts),))
        experiment = build_experiment(config, small)
        experiment.stream.close()
        batch, predictor = experiment.test_sets[0].batch, experiment.method.predictor()
        predictor.predict(batch.take(range(64)))
        rate = self._rate(lambda: len(predictor.predict(batch)))
        encoder = load_encoder(EncoderConfig(encoder=self.encoder, precision="fp32", pooling="cls"), self.device)
        published = Published(
            "seq", encoder.whole_model(), encoder.tokenizer._tokenizer, benchmark.labels, False, PAPER["textcls"]
        )
        batches = in_batches(texts, 16)
        other = self._rate(lambda: len(published.predict(next(batches))))
        print(f"prediction: {rate:,.0f} against {other:,.0f} texts/s", flush=True)
        return {"product": rate, "published": other, "ratio": rate / other}

    def by_length(self, benchmark: Benchmark) -> dict[str, dict[str, Any]]:
        """OML-ER at different lengths; each text is repeated until it has so many words, which are as many tokens."""
        task, figures = benchmark.tasks[0], {}
        for length in (32, 64, 128, 256, 448):
            long = [replace(example, text=lengthened(example.text, length)) for example in task.train[:4000]]
            stretched = replace(benchmark, tasks=(replace(task, train=long),))
            figures[str(length)] = self.product("oml-er", "textcls", stretched, max_length=length)
        return figures

    def by_classes(self, benchmark: Benchmark) -> dict[str, dict[str, Any]]:
        """OML-ER with different numbers of classes."""
        figures = {}
        for classes in (10, 100, 1000, 10_000):
            task = benchmark.tasks[0]
            relabelled = [replace(e, label=number % classes) for number, e in enumerate(task.train)]
            labels = tuple(map(str, range(classes)))
            test = [replace(e, label=0) for e in task.test]
            many = replace(benchmark, labels=labels, tasks=(replace(task, train=relabelled, test=test),))
            figures[str(classes)] = self.product("oml-er", "textcls", many)
        return figures

    def accuracy(self, folder: Path) -> dict[str, list[float]]:
        """OML-ER's accuracy on relation extraction over three seeds, the fast way and the plain one."""
        shared = {"stream": "fewrel", "data": folder, "encoder": self.encoder, "device": self.device.type}
        return {
            precision: [
                run(Config.build({**shared, "method": "oml-er", "precision": precision, "seed": seed}))["accuracy"]
                for seed in (42, 43, 44)
            ]
            for precision in ("bf16", "fp32")
        }

    def whole_run(self, folder: Path, per_task: int) -> dict[str, Any]:
        """A whole OML-ER run, texts repeated to make it as long as the paper's; every task's evaluation included."""
        self._clear()
        tested = min(7_600, per_task)
        settings = {"stream": "textcls", "data": folder, "encoder": self.encoder, "device": self.device.type}
        config = Config.build({**settings, "method": "oml-er"})
        benchmark = benchmark_for(config)
        tasks = tuple(
            replace(
                task,
                train=list(itertools.islice(itertools.cycle(task.train), per_task)),
                test=list(itertools.islice(itertools.cycle(task.test), tested)),
            )
            for task in benchmark.tasks
        )
        start = time.perf_counter()
        result = run(config, benchmark=replace(benchmark, tasks=tasks))
        figures = {"examples": per_task * len(tasks), "seconds": time.perf_counter() - start}
        print(f"whole run: {figures['seconds']:.0f} s", flush=True)
        return {**figures, "ledger": result["ledger"]}

    def _measure(self, observe: Callable[[], int], begun: float, warm_up: float) -> dict[str, Any]:
        """Examples a second once everything is warm, and what getting warm cost."""
        warm, first = 0, time.perf_counter()
        while time.perf_counter() - first < warm_up:
            warm += observe()
        wait(self.device)
        warmed = time.perf_counter()
        rate = self._rate(observe)
        return {
            "examples_per_second": rate,
            "start_up_seconds": max(0.0, warmed - begun - warm / rate),
            "peak_bytes": torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None,
        }

    def _rate(self, work: Callable[[], int]) -> float:
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            done += work()
        wait(self.device)
        return done / (time.perf_counter() - start)

    def _clear(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)


def in_batches(examples: Sequence[Example], size: int) -> Iterator[list[Example]]:
    endless = itertools.cycle(examples)
    while True:
        yield list(itertools.islice(endless, size))


def lengthened(text: str, words: int) -> str:
    """The text again and again, until it has so many words."""
    own = text.split() or ["word"]
    return " ".join(itertools.islice(itertools.cycle(own), words))


def memory_growth() -> dict[str, dict[str, float]]:
    """Median time of a read of 96 examples and bytes taken, for memories of different sizes."""
    rng = np.random.default_rng(0)
    figures = {}
    for entries in ENTRIES:
        ledger = Ledger()
        memory = Memory(MemoryConfig(), np.uint16, ledger, seed=0)
        lengths = rng.integers(20, 200, size=1000)
        tokens = Ragged(rng.integers(0, 30_000, size=int(lengths.sum())).astype(np.uint16), lengths)
        batch = Batch(tokens, Ragged.from_rows([[number % 33] for number in range(1000)]))
        for _ in range(entries // 1000):
            memory.write(batch)
        seconds = []
        for _ in range(READS):
            start = time.perf_counter()
            memory.read(96)
            seconds.append(time.perf_counter() - start)
        figures[str(entries)] = {"read_milliseconds": 1000 * median(seconds), "bytes": ledger.memory_bytes}
    return figures


if __name__ == "__main__":
    main()
