"""The two arms of the speed benchmark: everlearn as it is, and the published procedure, on the same texts."""

import gc
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from published import Published, Settings
from speed_clock import Clock

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


class Arms:
    """Measures one encoder on one device."""

    def __init__(self, encoder: str, precision: str, clock: Clock, peak: float) -> None:
        self.encoder, self.clock, self.peak = encoder, clock, peak
        self.device = clock.device
        self.given = {"encoder": encoder, "device": self.device.type, "precision": precision}

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
        work, recorded = partial(observe, experiment), partial(recordings, experiment)
        figures = self.clock.measure(work, begun, self.clock.warm_up, recorded, lambda: ledger.replays)
        experiment.stream.close()
        examples = figures["examples_per_second"] / experiment.stream.cursor
        weights = experiment.method.network.encoder.named_weights()
        parameters = sum(weight.numel() for name, weight in weights.items() if "embeddings" not in name)
        # A pass forward costs two operations a weight and token, a pass backward four; attention itself is left out.
        flops = 2 * parameters * (ledger.tokens_forward + 2 * ledger.tokens_backward) * examples
        tokens = ledger.tokens_forward * examples
        return {**figures, "tokens_per_second": tokens, "flops": flops, "share_of_peak": flops / self.peak}

    def together(self, method: str, stream: str, benchmark: Benchmark, count: int) -> dict[str, Any]:
        """Examples a second of several runs in one process, each in a thread with a queue of its own, and of all."""
        self._clear()
        experiments = [self._experiment(method, stream, benchmark) for _ in range(count)]
        start = threading.Barrier(count)
        rates: list[list[float]] = []

        def learn(own: Experiment) -> None:
            work = partial(observe, own)
            try:
                with own_queue():
                    self.clock.until_warm(work, self.clock.warm_up, partial(recordings, own))
                    found = []
                    for _ in range(self.clock.windows):
                        start.wait()  # the windows of all are the same
                        found.append(self.clock.rate(work))
                    rates.append(found)
            except BaseException:
                start.abort()  # the others would wait for ever
                raise

        threads = [threading.Thread(target=learn, args=(own,)) for own in experiments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for own in experiments:
            own.stream.close()
        if len(rates) < count:
            raise SystemExit(f"{method} cannot be measured with {count} runs at once: see above.")
        windows = [sum(found) for found in zip(*rates, strict=True)]
        print(f"{stream} {method}, {count} at once: {median(windows):,.0f} examples/s in all", flush=True)
        return {"examples_per_second": median(windows), "windows": windows, "slowest": min(map(median, rates))}

    def _experiment(self, method: str, stream: str, benchmark: Benchmark, **settings: Any) -> Experiment:
        config = Config.build({"stream": stream, "method": method, **self.given, **settings})
        task = replace(benchmark.tasks[0], train=list(benchmark.tasks[0].train) * 40, test=benchmark.tasks[0].test[:20])
        return build_experiment(config, replace(benchmark, tasks=(task,)))

    def published(self, method: str, stream: str, benchmark: Benchmark) -> dict[str, Any]:
        self._clear()
        begun = time.perf_counter()
        settings = self._published_settings(method, stream)
        arm = self._published_arm(method, benchmark, settings)
        batches = in_batches(benchmark.tasks[0].train, settings.batch_size)

        def observe() -> int:
            batch = next(batches)
            arm.observe(batch)
            return len(batch)

        figures = self.clock.measure(observe, begun, min(1.0, self.clock.warm_up), replays=lambda: arm.replays)
        return {**figures, "tokens_per_second": figures["examples_per_second"] * arm.tokens / arm.examples}

    def prediction(self, benchmark: Benchmark) -> dict[str, Any]:
        """Raw texts a second through a predictor, against the published way: padded, sixteen at a time."""
        self._clear()
        size = 16384 if self.device.type == "cuda" else 256
        texts = list(itertools.islice(itertools.cycle(benchmark.tasks[0].test), size))
        experiment = self._experiment("seq", "textcls", benchmark)
        experiment.stream.close()
        problem, tokenizer = experiment.problem, experiment.method.network.encoder.tokenizer
        predictor = experiment.method.predictor()

        def predict() -> int:
            return len(predictor.predict(problem.tokenise(texts, tokenizer)))

        predict()
        ours = self.clock.rates(predict)
        published = self._published_arm("seq", benchmark, self._published_settings("seq", "textcls"))
        batches = in_batches(texts, 16)
        theirs = self.clock.rates(lambda: len(published.predict(next(batches))))
        product, other = median(ours), median(theirs)
        print(f"prediction: {product:,.0f} against {other:,.0f} texts/s", flush=True)
        windows = {"product": ours, "published": theirs}
        return {"product": product, "published": other, "ratio": product / other, "windows": windows}

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

    def _published_settings(self, method: str, stream: str) -> Settings:
        """The paper's, with no longer texts than the product reads: ANML-ER has a length of its own (appendix A.5)."""
        read = Config.build({"stream": stream, "method": method, **self.given}).encoder.max_length
        return replace(PAPER[stream], length=min(PAPER[stream].length, read))

    def _published_arm(self, method: str, benchmark: Benchmark, settings: Settings) -> Published:
        encoder = load_encoder(EncoderConfig(encoder=self.encoder, precision="fp32", pooling="cls"), self.device)
        ranks = benchmark.problem == "ranking"
        model, tokenizer = encoder.whole_model(), encoder.tokenizer._tokenizer
        return Published(method, model, tokenizer, benchmark.labels, ranks, settings)

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
