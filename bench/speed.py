"""How fast everlearn learns and predicts, against the published procedure, in one run on the same texts.

    python bench/speed.py --textcls DIR --fewrel DIR --out results/speed
    python bench/speed.py --textcls DIR --encoders minilm --methods oml-er --seconds 20 --out results/speed-cpu

Data folders are those of `everlearn run --stream textcls|fewrel --data DIR`. `bert` means BERT-base's shape with random
weights, which is as fast as the real one; any other name is an encoder as `everlearn run --encoder` takes it. Writes
`speed.json`.
"""

import argparse
import gc
import itertools
import json
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from published import Published, Settings

from everlearn.batches import Batch, Ragged
from everlearn.config import Config
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.examples import Example
from everlearn.experiment import benchmark_for, build_experiment, choose_device
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.run import run
from everlearn.streams import Benchmark, Task

METHODS = ("seq", "replay", "a-gem", "maml-er", "oml-er", "anml-er")
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
    parser.add_argument("--parts", default="methods,prediction,growth", help="methods, prediction, growth, whole")
    parser.add_argument("--vocabulary", default="minilm", help="encoder whose tokenizer the shape `bert` takes")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each arm is measured")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    device = choose_device(options.device)
    parts = options.parts.split(",")
    figures: dict[str, Any] = {"machine": machine(device), "seconds_per_arm": options.seconds}
    folders = {"textcls": options.textcls, "fewrel": options.fewrel}
    streams = {name: mixed(name, folder) for name, folder in folders.items() if folder}

    def keep(name: str, value: Any) -> None:
        figures[name] = value
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "speed.json").write_text(json.dumps(figures, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        for encoder in options.encoders.split(","):
            source = bert_shape(Path(folder), options.vocabulary) if encoder == "bert" else encoder
            arms = Arms(source, device, options.seconds)
            if "methods" in parts:
                for (stream, benchmark), method in itertools.product(streams.items(), options.methods.split(",")):
                    keep(f"{encoder}/{stream}/{method}", arms.compare(method, stream, benchmark))
            if "prediction" in parts and "textcls" in streams:
                keep(f"{encoder}/prediction", arms.prediction(streams["textcls"]))
            if "growth" in parts and "textcls" in streams:
                keep(f"{encoder}/length", arms.by_length(streams["textcls"]))
                keep(f"{encoder}/classes", arms.by_classes(streams["textcls"]))
            if "whole" in parts and "textcls" in streams:
                keep(f"{encoder}/whole", arms.whole_run(options.textcls))
    if "growth" in parts:
        keep("memory", memory_growth())


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "bf16_peak_flops": peak(device) if on_gpu else None,
    }


def peak(device: torch.device, size: int = 8192) -> float:
    """Operations a second in a large bf16 matrix product: what can be had on this device."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    return 20 * 2 * size**3 / (time.perf_counter() - start)


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

    def __init__(self, encoder: str, device: torch.device, seconds: float) -> None:
        self.encoder, self.device, self.seconds = encoder, device, seconds

    def compare(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, Any]:
        product = self.product(method, stream, benchmark)
        published = self.published(method, stream, benchmark)
        ratio = product["examples_per_second"] / published["examples_per_second"]
        print(
            f"{stream} {method}: {product['examples_per_second']:,.0f} against "
            f"{published['examples_per_second']:,.0f} examples/s, {ratio:.1f} x; memory "
            f"{product['peak_bytes'] / 1e9:.1f} against {published['peak_bytes'] / 1e9:.1f} GB; "
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

        figures = self._measure(observe, begun)
        tokens = ledger.tokens_forward + 2 * ledger.tokens_backward
        experiment.stream.close()
        share = figures["examples_per_second"] * tokens / experiment.stream.cursor
        weights = experiment.method.network.encoder.named_weights()
        parameters = sum(weight.numel() for name, weight in weights.items() if "embeddings" not in name)
        # A pass forward costs two operations a weight and token, a pass backward four.
        return {**figures, "tokens_per_second": share, "flops": 2 * parameters * share}

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

        return self._measure(observe, begun)

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

    def by_length(self, benchmark: Benchmark) -> dict[str, float]:
        """OML-ER at different lengths to which texts are cut; 32 repeats of each text make them long enough."""
        task = benchmark.tasks[0]
        long = [replace(example, text=f"{example.text} " * 32) for example in task.train[:4000]]
        lengthened = replace(benchmark, tasks=(replace(task, train=long),))
        return {
            str(length): self.product("oml-er", "textcls", lengthened, max_length=length)["examples_per_second"]
            for length in (32, 64, 128, 256, 448)
        }

    def by_classes(self, benchmark: Benchmark) -> dict[str, float]:
        """OML-ER with different numbers of classes."""
        figures = {}
        for classes in (10, 100, 1000, 10_000):
            task = benchmark.tasks[0]
            relabelled = [replace(e, label=number % classes) for number, e in enumerate(task.train)]
            labels = tuple(map(str, range(classes)))
            test = [replace(e, label=0) for e in task.test]
            many = replace(benchmark, labels=labels, tasks=(replace(task, train=relabelled, test=test),))
            figures[str(classes)] = self.product("oml-er", "textcls", many)["examples_per_second"]
        return figures

    def whole_run(self, folder: Path, per_task: int = 115_000, tested: int = 7_600) -> dict[str, Any]:
        """A whole OML-ER run at the paper's size, texts repeated to make it, evaluations after every task included."""
        self._clear()
        config = Config.build({"stream": "textcls", "data": folder, "encoder": self.encoder, "method": "oml-er"})
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
        figures = {"seconds": time.perf_counter() - start, "ledger": result["ledger"]}
        print(f"whole run: {figures['seconds']:.0f} s", flush=True)
        return figures

    def _measure(self, observe: Callable[[], int], begun: float) -> dict[str, Any]:
        """Examples a second once everything is warm, and what getting warm cost."""
        warm, first = 0, time.perf_counter()
        while time.perf_counter() - first < self.seconds:
            warm += observe()
        self._wait()
        warmed = time.perf_counter()
        rate = self._rate(observe)
        return {
            "examples_per_second": rate,
            "start_up_seconds": max(0.0, warmed - begun - warm / rate),
            "peak_bytes": torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else 0,
        }

    def _rate(self, work: Callable[[], int]) -> float:
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            done += work()
        self._wait()
        return done / (time.perf_counter() - start)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _clear(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)


def in_batches(examples: Sequence[Example], size: int) -> Iterator[list[Example]]:
    endless = itertools.cycle(examples)
    while True:
        yield list(itertools.islice(endless, size))


def memory_growth() -> dict[str, dict[str, float]]:
    """Time of a read of 96 examples and bytes taken, for memories of different sizes."""
    rng = np.random.default_rng(0)
    figures = {}
    for entries in (1_000, 10_000, 100_000, 1_000_000):
        ledger = Ledger()
        memory = Memory(MemoryConfig(), np.uint16, ledger, seed=0)
        lengths = rng.integers(20, 200, size=1000)
        tokens = Ragged(rng.integers(0, 30_000, size=int(lengths.sum())).astype(np.uint16), lengths)
        batch = Batch(tokens, Ragged.from_rows([[number % 33] for number in range(1000)]))
        for _ in range(entries // 1000):
            memory.write(batch)
        start = time.perf_counter()
        for _ in range(100):
            memory.read(96)
        figures[str(entries)] = {
            "read_milliseconds": (time.perf_counter() - start) * 10,
            "bytes": ledger.memory_bytes,
        }
    return figures


if __name__ == "__main__":
    main()
