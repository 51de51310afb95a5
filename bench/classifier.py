"""Which method a classifier should have by default: short streams on a CPU, labels that are not known in advance.

    python bench/classifier.py --out results/classifier       # about 15 minutes on 2 cores
    python bench/classifier.py --encoder tiny --seeds 42 --methods slda,ncm --out /tmp/classifier

Each method learns `docstrings`, task after task, through `LifelongClassifier` with its own defaults. The labels of the
last task are new: they are taught in ever larger portions, to see after how many examples each is known. And each
starts from nothing, to see what it makes of its very first examples.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from everlearn import LifelongClassifier, __version__
from everlearn.examples import Example
from everlearn.streams import Benchmark, StreamConfig, load_benchmark, one_pass

ALONG = ", encoder trained along"
PLAIN = ", features as they are"
METHODS = ("slda", f"slda{PLAIN}", "ranpac", "ridge", "ncm", "replay", "er-ace", "oml-er", "seq", f"replay{ALONG}")
NEW_EXAMPLES = (1, 2, 4, 8, 16, 32)
"""Examples of each new label after which the model is tested."""
FIRST_EXAMPLES = (4, 16)
DRAWINGS = 5
"""So few examples are not the same ones twice."""


def columns(examples: Sequence[Example]) -> tuple[list[str], list[int]]:
    """Texts and labels, as the classifier wants them."""
    return [example.text for example in examples], [example.label for example in examples]


def portions(examples: Sequence[Example]) -> list[list[Example]]:
    """The examples in portions after which there have been 1, 2, 4 ... of each label, and what is left of them."""
    cut: list[list[Example]] = [[] for _ in range(len(NEW_EXAMPLES) + 1)]
    seen: dict[int, int] = defaultdict(int)
    for example in examples:
        seen[example.label] += 1
        cut[sum(seen[example.label] > count for count in NEW_EXAMPLES)].append(example)
    return cut


def make(name: str, seed: int, encoder: str) -> LifelongClassifier:
    """The classifier of a row."""
    return LifelongClassifier(
        method=name.partition(",")[0],
        seed=seed,
        encoder=encoder,
        freeze_encoder=not name.endswith(ALONG),
        settings={"unit_features": False} if name.endswith(PLAIN) else None,
    )


def beginning(name: str, seed: int, encoder: str, benchmark: Benchmark) -> dict[int, float]:
    """Accuracy on the labels met after the very first examples, of all tasks mixed; means over several drawings."""
    train = [example for task in benchmark.tasks for example in task.train]
    validation = [example for task in benchmark.tasks for example in task.validation]
    found: dict[int, list[float]] = {count: [] for count in FIRST_EXAMPLES}
    for drawing in range(DRAWINGS):
        drawn = random.Random(f"{seed} {drawing}").sample(train, max(FIRST_EXAMPLES))
        for count in FIRST_EXAMPLES:
            classifier = make(name, seed, encoder).partial_fit(*columns(drawn[:count]))
            known = {example.label for example in drawn[:count]}
            found[count].append(classifier.score(*columns([e for e in validation if e.label in known])))
    return {count: statistics.mean(shares) for count, shares in found.items()}


def measure(name: str, seed: int, encoder: str, benchmark: Benchmark) -> dict[str, Any]:
    """One method, one seed."""
    new = {example.label for example in benchmark.tasks[-1].train}
    stream = [example for batch in one_pass(benchmark, 1, seed) for example in batch]
    validation = [example for task in benchmark.tasks for example in task.validation]
    test = [example for task in benchmark.tasks for example in task.test]
    classifier = make(name, seed, encoder)
    seconds = 0.0
    curve = {}
    first = [example for example in stream if example.label not in new]
    for count, portion in zip(
        (0, *NEW_EXAMPLES, None), [first, *portions([e for e in stream if e.label in new])], strict=True
    ):
        start = time.perf_counter()
        classifier.partial_fit(*columns(portion))
        seconds += time.perf_counter() - start
        if count is not None:
            curve[count] = {
                "new": classifier.score(*columns([e for e in validation if e.label in new])) if count else 0.0,
                "old": classifier.score(*columns([e for e in validation if e.label not in new])),
            }
    start = time.perf_counter()
    classifier.snapshot()
    snapshot = time.perf_counter() - start
    start = time.perf_counter()
    right = classifier.score(*columns(test))
    prediction = time.perf_counter() - start
    return {
        "method": name,
        "seed": seed,
        "validation": classifier.score(*columns(validation)),
        "test": right,
        "new_labels": curve,
        "first_examples": beginning(name, seed, encoder, benchmark),
        "learning_ms_per_example": 1000 * seconds / len(stream),
        "snapshot_ms": 1000 * snapshot,
        "prediction_ms_per_text": 1000 * prediction / len(test),
        "forward_passes_per_example": classifier.learner_.ledger.train.memory_reads / len(stream) + 1,
    }


def table(runs: Sequence[dict[str, Any]]) -> str:
    """One row for each method: means over the seeds, the best on validation data first."""

    def over_seeds(name: str, read: Any) -> list[float]:
        return [read(run) for run in runs if run["method"] == name]

    def percent(values: list[float]) -> str:
        spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
        return f"{100 * statistics.mean(values):.1f}{spread}"

    names = sorted({run["method"] for run in runs}, key=lambda n: -sum(over_seeds(n, lambda r: r["validation"])))
    lines = [
        "| method | validation | test | after the first 4, 16 examples | new labels after 1, 4, 16 examples | "
        "old labels then | ms to learn one | ms for a new snapshot |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for name in names:
        first = [over_seeds(name, lambda run, c=count: run["first_examples"][c]) for count in FIRST_EXAMPLES]
        new = [over_seeds(name, lambda run, c=count: run["new_labels"][c]["new"]) for count in (1, 4, 16)]
        lines.append(
            f"| {name} | {percent(over_seeds(name, lambda r: r['validation']))} "
            f"| {percent(over_seeds(name, lambda r: r['test']))} "
            f"| {' · '.join(f'{100 * statistics.mean(values):.0f}' for values in first)} "
            f"| {' · '.join(f'{100 * statistics.mean(values):.0f}' for values in new)} "
            f"| {100 * statistics.mean(over_seeds(name, lambda r: r['new_labels'][16]['old'])):.0f} "
            f"| {statistics.median(over_seeds(name, lambda r: r['learning_ms_per_example'])):.1f} "
            f"| {statistics.median(over_seeds(name, lambda r: r['snapshot_ms'])):.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[42, 43, 44])
    chosen = parser.parse_args()
    benchmark = load_benchmark(StreamConfig(), lambda _: None)
    runs = []
    for name in chosen.methods:
        for seed in chosen.seeds:
            runs.append(measure(name, seed, chosen.encoder, benchmark))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    machine = {
        "everlearn": __version__,
        "encoder": chosen.encoder,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "results.json").write_text(json.dumps({**machine, "runs": runs}, indent=2) + "\n")
    (chosen.out / "table.md").write_text(table(runs))
    print(table(runs))


if __name__ == "__main__":
    main()
