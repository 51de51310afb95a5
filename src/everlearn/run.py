"""The one-pass loop: take the next batch, learn from it, and once in a while evaluate, write a line, save."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from everlearn import __version__, checkpoint
from everlearn.config import Config
from everlearn.encoders import resolve_precision
from everlearn.evaluation.evaluator import evaluate
from everlearn.experiment import Experiment, benchmark_for, build_experiment
from everlearn.ledger import Meter
from everlearn.machine import computed_with
from everlearn.methods import Observations
from everlearn.progress import Screen
from everlearn.recorder import Recorder
from everlearn.run_folder import RunFolder
from everlearn.streams import Benchmark, Task, fingerprint


def run(
    config: Config,
    out: Path | None = None,
    resume: bool = False,
    screen: Screen | None = None,
    benchmark: Benchmark | None = None,
    profiled: bool = False,
    alone: bool = True,
    at_once: int = 1,
) -> dict[str, Any]:
    """Learn from a stream as configured; what came out, as in `result.json`.

    With `profiled`, each phase waits for the device, so that its time is its own: slower, but it shows what takes long.
    Where the run is not `alone` in this process, nobody knows how much of the GPU's memory it takes, and none is noted.
    How many runs go on `at_once` is noted, since it decides about the times.
    """
    screen = screen or Screen(quiet=True)
    folder = RunFolder(out) if out else None
    if folder:
        folder.check(config, resume)
        if finished := folder.finished():
            screen.say(f"{folder.path} holds this run, finished earlier: showing its result")
            return finished
    if benchmark is None:
        benchmark = benchmark_for(config)
        screen.say_all(benchmark.notes)
    experiment = build_experiment(config, benchmark)
    screen.say_all(experiment.notes)
    if profiled and experiment.device.type == "cuda":
        experiment.ledger.train.settle = partial(torch.cuda.synchronize, experiment.device)
    recorder = Recorder(folder, config.run.log_every, watched=not screen.quiet)
    if folder:
        folder.create(config)
        _resume(folder, experiment, recorder, screen)
    try:
        _learn(config, experiment, recorder, folder, screen, alone)
    finally:
        experiment.stream.close()
        recorder.close()
    result = _result(config, benchmark, experiment, at_once)
    if folder:
        folder.finish(result)
    return result


def _learn(
    config: Config,
    experiment: Experiment,
    recorder: Recorder,
    folder: RunFolder | None,
    screen: Screen,
    alone: bool,
) -> None:
    stream, method, history, ledger = experiment.stream, experiment.method, experiment.history, experiment.ledger

    def note(observations: Observations) -> None:
        if "violation" in observations:
            history.add_check(stream.cursor, bool(observations["violation"]))
        means = recorder.observe(stream.cursor, observations)
        tracker.advance(stream.cursor, means.get("loss") if means else None)

    def test(sample: int | None = None) -> None:
        # What earlier evaluations took: `test` holds the cost of the last one alone, which is the one at the end.
        ledger.watch.take(ledger.test)
        _settle_device(experiment.device, ledger.train, alone)
        scores = evaluate(method, experiment.test_sets, ledger.test, sample)
        _settle_device(experiment.device, ledger.test, alone)
        add = history.add_sample if sample else history.add_row
        recorder.evaluated(stream.cursor, add(stream.cursor, scores))

    each_task = config.run.eval_tasks and method.lifelong
    if stream.ended:
        return  # resumed from the last checkpoint: everything is done but writing the result
    with screen.track(config.method.method, stream.length, stream.cursor) as tracker:
        # Before the first batch: what the untrained network can do, which forward transfer is measured against.
        if each_task and stream.cursor == 0:
            test()
        while stream.cursor < stream.length:
            before = stream.cursor
            with ledger.train.timed():
                with ledger.train.phase("data"):
                    batch = next(stream)
                ledger.train.stream_examples += len(batch)
                method.meet(batch)
                note(method.observe(batch))
            # Once in a while: evaluate on everything where a task ended, on a sample where the user asked for it.
            if method.lifelong:
                ends = history.ends_between(before, stream.cursor) if each_task else []
                for _ in ends:
                    test()
                elsewhere = not ends and not stream.ended
                if elsewhere and _passed(config.run.eval_every, before, stream.cursor):
                    test(config.run.eval_sample)
            # Once in a while: save. The end of the stream is saved below, when everything is learned.
            if folder and _passed(config.run.checkpoint_every, before, stream.cursor) and not stream.ended:
                _save(folder, experiment, recorder)
        with ledger.train.timed():
            note(method.finish())
            recorder.settle(stream.cursor)
        test()
    if folder and config.run.checkpoint_every:
        _save(folder, experiment, recorder)


def _passed(every: int | None, before: int, now: int) -> bool:
    """Whether a multiple of `every` lies in (before, now].

    >>> _passed(100, 96, 112), _passed(100, 112, 128), _passed(None, 0, 1)
    (True, False, False)
    """
    return bool(every) and before // every != now // every  # type: ignore[operator]


def _settle_device(device: torch.device, meter: Meter, alone: bool) -> None:
    """Count queued work and peak memory on the meter of the phase that caused them."""
    if device.type != "cuda":
        return
    with meter.timed():
        torch.cuda.current_stream(device).synchronize()  # the queue of this run: others may have theirs
    if alone:
        meter.peak_device_bytes = max(meter.peak_device_bytes, torch.cuda.max_memory_allocated(device))
        torch.cuda.reset_peak_memory_stats(device)


def _save(folder: RunFolder, experiment: Experiment, recorder: Recorder) -> None:
    state = {"experiment": experiment.state(), "recorder": recorder.state()}
    checkpoint.save(folder.checkpoints, experiment.stream.cursor, state)


def _resume(folder: RunFolder, experiment: Experiment, recorder: Recorder, screen: Screen) -> None:
    """Go on from the newest good checkpoint, or from the beginning where there is none."""
    saved = checkpoint.load_newest(folder.checkpoints, screen.say)
    if saved is None:
        recorder.start_over()
        return
    examples, state = saved
    experiment.restore(state["experiment"])
    recorder.restore(state["recorder"])
    screen.say(f"going on after {examples:,} examples")


def _result(config: Config, benchmark: Benchmark, experiment: Experiment, at_once: int) -> dict[str, Any]:
    """Everything worth knowing about a run that has ended."""
    experiment.ledger.method_bytes = experiment.method.bytes_kept()
    return {
        "everlearn": __version__,
        "method": config.method.method,
        "lifelong": experiment.method.lifelong,
        "stream": benchmark.name,
        "data": fingerprint(benchmark),
        "order": config.stream.order,
        "encoder": config.encoder.encoder,
        "seed": config.run.seed,
        "split": config.stream.split,
        "device": experiment.device.type,
        "precision": resolve_precision(config.encoder.precision, experiment.device),
        "computed_with": {**computed_with(experiment.device), "runs_at_once": at_once},
        **experiment.history.summary(),
        **_signals(config.run.keep_signals, experiment),
        "tasks": [_task(task, benchmark.labels) for task in benchmark.tasks],
        "ledger": experiment.ledger.as_dict(),
        "notes": [*benchmark.notes, *experiment.notes],
    }


def _task(task: Task, names: Sequence[str]) -> dict[str, Any]:
    """What a task held; where tasks are groups that were computed, nobody could tell later."""
    labels = sorted({example.label for example in task.train})
    own = [names[label] for label in labels]
    return {"task": task.name, "classes": len(labels), "train": len(task.train), "labels": own}


def _signals(examples: int, experiment: Experiment) -> dict[str, Any]:
    """What goes on inside the method for the first test texts, where somebody wants to look at it."""
    if not examples:
        return {}
    batch = experiment.test_sets[0].batch
    shown = experiment.method.signals(batch.take(range(min(examples, len(batch)))))
    return (
        {"signals": {name: values.double().numpy().round(4).tolist() for name, values in shown.items()}}
        if shown
        else {}
    )
