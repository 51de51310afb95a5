"""The two arms of the speed benchmark: everlearn as it is, and the published procedure, on the same texts."""

import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from machine import wait
from published import Published, Settings

from everlearn.config import Config
from everlearn.encoders import Encoder, EncoderConfig, load_encoder
from everlearn.examples import Example
from everlearn.experiment import Experiment, benchmark_for, build_experiment
from everlearn.run import run
from everlearn.streams import Benchmark
from everlearn.transfer import own_queue

PAPER = {
    "textcls": Settings(batch_size=16, replay_interval=9600, length=448),
    "fewrel": Settings(batch_size=4, replay_interval=1600, length=64),
}


AT_ONCE = (1, 2, 4, 8)
"""How many runs share a process."""
LONGEST_WARM_UP = 90.0
"""Seconds after which an arm is measured though it is still recording."""


class Arms:
    """Measures one encoder on one device."""

    def __init__(
        self, encoder: str, device: torch.device, precision: str, seconds: float, warm_up: float, peak: float
    ) -> None:
        self.encoder, self.device, self.peak = encoder, device, peak
        self.given = {"encoder": encoder, "device": device.type, "precision": precision}
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
        experiment = self._experiment(method, stream, benchmark, **settings)
        ledger = experiment.ledger.train
        figures = self._measure(partial(observe, experiment), begun, self.warm_up, partial(recordings, experiment))
        experiment.stream.close()
        examples = figures["examples_per_second"] / experiment.stream.cursor
        weights = experiment.method.network.encoder.named_weights()
        parameters = sum(weight.numel() for name, weight in weights.items() if "embeddings" not in name)
        # A pass forward costs two operations a weight and token, a pass backward four; attention itself is left out.
        flops = 2 * parameters * (ledger.tokens_forward + 2 * ledger.tokens_backward) * examples
        tokens = ledger.tokens_forward * examples
        return {**figures, "tokens_per_second": tokens, "flops": flops, "share_of_peak": flops / self.peak}

    def together(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, dict[str, float]]:
        """Examples a second of several runs in one process, each in a thread with a queue of its own, and of all."""
        figures = {}
        for count in AT_ONCE:
            self._clear()
            begun = time.perf_counter()
            experiments = [self._experiment(method, stream, benchmark) for _ in range(count)]
            start, rates = threading.Barrier(count), []

            def learn(own: Experiment, begun: float, start: threading.Barrier, rates: list[float]) -> None:
                try:
                    with own_queue():
                        self._warm_up(partial(observe, own), begun, self.warm_up, partial(recordings, own))
                        start.wait()
                        rates.append(self._rate(partial(observe, own)))
                except BaseException:
                    start.abort()  # the others would wait for ever
                    raise

            threads = [threading.Thread(target=learn, args=(own, begun, start, rates)) for own in experiments]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for own in experiments:
                own.stream.close()
            if len(rates) < count:
                raise SystemExit(f"{method} cannot be measured with {count} runs at once: see above.")
            figures[str(count)] = {"examples_per_second": sum(rates), "slowest": min(rates)}
            print(f"{stream} {method}, {count} at once: {sum(rates):,.0f} examples/s in all", flush=True)
        return figures

    def _experiment(self, method: str, stream: str, benchmark: Benchmark, **settings: Any) -> Experiment:
        config = Config.build({"stream": stream, "method": method, **self.given, **settings})
        task = replace(benchmark.tasks[0], train=list(benchmark.tasks[0].train) * 40, test=benchmark.tasks[0].test[:20])
        return build_experiment(config, replace(benchmark, tasks=(task,)))

    def published(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, Any]:
        self._clear()
        begun = time.perf_counter()
        settings = PAPER[stream]
        arm = self._published_arm(method, benchmark, settings)
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
        config = Config.build({"stream": "textcls", "method": "seq", **self.given})
        size = 16384 if self.device.type == "cuda" else 256
        texts = list(itertools.islice(itertools.cycle(benchmark.tasks[0].test), size))
        small = replace(benchmark, tasks=(replace(benchmark.tasks[0], test=texts),))
        experiment = build_experiment(config, small)
        experiment.stream.close()
        batch, predictor = experiment.test_sets[0].batch, experiment.method.predictor()
        predictor.predict(batch.take(range(64)))
        rate = self._rate(lambda: len(predictor.predict(batch)))
        published = self._published_arm("seq", benchmark, PAPER["textcls"])
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

    def accuracy(self, folder: Path, precision: str, seed: int) -> float:
        """OML-ER's accuracy on relation extraction, the fast way (bf16) or the plain one (fp32)."""
        settings = {"stream": "fewrel", "data": folder, **self.given, "precision": precision}
        config = Config.build({**settings, "method": "oml-er", "seed": seed})
        accuracy: float = run(config)["accuracy"]
        print(f"accuracy, {precision}, seed {seed}: {accuracy:.1%}", flush=True)
        return accuracy

    def whole_run(self, folder: Path, per_task: int) -> dict[str, Any]:
        """A whole OML-ER run, texts repeated to make it as long as the paper's; every task's evaluation included."""
        self._clear()
        tested = min(7_600, per_task)
        settings = {"stream": "textcls", "data": folder, **self.given}
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

    def _published_arm(self, method: str, benchmark: Benchmark, settings: Settings) -> Published:
        encoder = load_encoder(EncoderConfig(encoder=self.encoder, precision="fp32", pooling="cls"), self.device)
        ranks = benchmark.problem == "ranking"
        model, tokenizer = encoder.whole_model(), encoder.tokenizer._tokenizer
        return Published(method, model, tokenizer, benchmark.labels, ranks, settings)

    def _measure(
        self, observe: Callable[[], int], begun: float, warm_up: float, recorded: Callable[[], int] = lambda: 0
    ) -> dict[str, Any]:
        """Examples a second once everything is warm, and what getting warm cost."""
        warm, known = self._warm_up(observe, begun, warm_up, recorded)
        warmed = time.perf_counter()
        rate = self._rate(observe)
        return {
            "examples_per_second": rate,
            "start_up_seconds": max(0.0, warmed - begun - warm / rate),
            "shapes_recorded": known,
            "peak_bytes": torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None,
        }

    def _warm_up(
        self, observe: Callable[[], int], begun: float, warm_up: float, recorded: Callable[[], int]
    ) -> tuple[int, int]:
        """Observe until nothing was recorded for `warm_up` seconds; how many examples that took, and recordings.

        Each shape is recorded when it comes again, and until the last one was, the rate is that of recording.
        """
        warm, known, since = 0, recorded(), time.perf_counter()
        while (now := time.perf_counter()) - since < warm_up and now - begun < LONGEST_WARM_UP:
            warm += observe()
            if recorded() > known:
                known, since = recorded(), time.perf_counter()
        wait(self.device)
        return warm, known

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


def observe(experiment: Experiment) -> int:
    """Learn from the next batch; how many examples it had."""
    batch = next(experiment.stream)
    experiment.method.observe(batch)
    return len(batch)


def recordings(experiment: Experiment) -> int:
    """How many passes through its encoders were recorded so far."""
    encoders = [part for part in experiment.method.network.modules() if isinstance(part, Encoder)]
    return sum(encoder.fast_path.recordings for encoder in encoders if encoder.fast_path)


def in_batches(examples: Sequence[Example], size: int) -> Iterator[list[Example]]:
    endless = itertools.cycle(examples)
    while True:
        yield list(itertools.islice(endless, size))


def lengthened(text: str, words: int) -> str:
    """The text again and again, until it has so many words."""
    own = text.split() or ["word"]
    return " ".join(itertools.islice(itertools.cycle(own), words))
