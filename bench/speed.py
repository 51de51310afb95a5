"""How fast everlearn learns and predicts, against the published procedure, in one run on the same texts.

    python bench/speed.py --textcls DIR --fewrel DIR --out results/speed
    python bench/speed.py --textcls DIR --encoders minilm --methods oml-er --parts methods --seconds 20 --out runs/cpu
    python bench/speed.py --render results/speed/speed.json runs/cpu/speed.json --out results/speed

Data folders are those of `everlearn run --stream textcls|fewrel --data DIR`. `bert` means BERT-base's shape with random
weights, which is as fast as the real one; any other name is an encoder as `everlearn run --encoder` takes it, and
NAME=FOLDER one that stands under this name in what is written. Writes `speed.json`, and from it a table and a figure;
`--render` makes these from files alone, wherever they were measured. A second call with the same folder, options and
code, on the same machine, adds what is not there yet: one that was stopped goes on.
"""

import argparse
import itertools
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from machine import machine
from memory_growth import memory_growth
from speed_arms import AT_ONCE, Arms
from speed_clock import Clock
from speed_encoders import SHAPE, bert_shape, named_encoders
from speed_table import render
from speed_targets import PRECISIONS, SEEDS

from everlearn.config import Config
from everlearn.encoders import resolve_precision
from everlearn.experiment import benchmark_for, choose_device
from everlearn.machine import commit
from everlearn.run_folder import write_text
from everlearn.streams import Benchmark, Task

PARTS = ("methods", "prediction", "together", "length", "classes", "memory", "whole", "accuracy")
LONG = ("accuracy",)
"""Parts that take many minutes, and are only measured where they are asked for."""
METHODS = ("seq", "replay", "a-gem", "maml-er", "oml-er", "anml-er")
TOGETHER = ("seq", "oml-er")
FILE = "speed.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--textcls", type=Path, help="folder of the text-classification data")
    parser.add_argument("--fewrel", type=Path, help="folder of the relation-extraction data")
    parser.add_argument("--encoders", default="bert,minilm", help="encoders or NAME=FOLDER, separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, separated by commas")
    parser.add_argument(
        "--parts", default=",".join(part for part in PARTS if part not in LONG), help=f"among {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--vocabulary",
        default="minilm",
        help="encoder, folder or NAME of --encoders whose tokenizer the shape `bert` takes",
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a window is")
    parser.add_argument("--windows", type=int, default=3, help="in how many windows each arm is measured")
    parser.add_argument(
        "--warm-up", type=float, default=4.0, help="the product is warm when it recorded nothing for so many seconds"
    )
    parser.add_argument("--whole-size", type=int, default=115_000, help="examples of each task in the whole run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="what everlearn computes in: fp32 or bf16")
    parser.add_argument("--render", type=Path, nargs="+", help="measure nothing: table and figures of these files")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.render:
        render(options.render, options.out)
        return
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose among {', '.join(PARTS)}")
    if options.windows < 1:
        parser.error(f"--windows must be at least 1, not {options.windows}.")
    options.out.mkdir(parents=True, exist_ok=True)
    measure(options, parts)
    render([options.out / FILE], options.out)


def measure(options: argparse.Namespace, parts: Sequence[str]) -> None:
    """Every part that is asked for and not known yet; each figure is on the disk as soon as it is known."""
    device = choose_device(options.device)
    precision = resolve_precision(options.precision, device)
    encoders = named_encoders(options.encoders)
    figures = begun(options.out / FILE, machine(device, precision), procedure(options))
    clock = Clock(device, options.seconds, options.warm_up, options.windows)
    folders = {"textcls": options.textcls, "fewrel": options.fewrel}
    streams = {name: mixed(name, folder) for name, folder in folders.items() if folder}

    def keep(name: str, work: Callable[[], Any]) -> None:
        if name not in figures:
            figures[name] = work()
            write_text(options.out / FILE, json.dumps(figures, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        for number, (encoder, source) in enumerate(encoders.items()):
            random_weights = source == SHAPE
            if random_weights:
                source = bert_shape(Path(folder), encoders.get(options.vocabulary, options.vocabulary))
            arms = Arms(source, precision, clock, figures["machine"]["peak_flops"])
            if "methods" in parts:
                for (stream, benchmark), method in itertools.product(streams.items(), options.methods.split(",")):
                    keep(f"{encoder}/{stream}/{method}", partial(arms.compare, method, stream, benchmark))
            # Large batches of a large encoder fill a GPU by themselves.
            if "together" in parts and encoder != SHAPE:
                for (stream, benchmark), method, count in itertools.product(streams.items(), TOGETHER, AT_ONCE):
                    keep(
                        f"{encoder}/{stream}/{method}/together/{count}",
                        partial(arms.together, method, stream, benchmark, count),
                    )
            if "accuracy" in parts and "fewrel" in streams and not random_weights:  # which learn nothing
                for seed, computed_in in itertools.product(SEEDS, PRECISIONS):
                    keep(
                        f"{encoder}/accuracy/{computed_in}/{seed}",
                        partial(arms.accuracy, options.fewrel, computed_in, seed),
                    )
            if "textcls" not in streams:
                continue
            if "prediction" in parts:
                keep(f"{encoder}/prediction", partial(arms.prediction, streams["textcls"]))
            if number:  # how cost grows, and how long it takes in all, is measured with the first encoder
                continue
            if "length" in parts:
                keep(f"{encoder}/length", partial(arms.by_length, streams["textcls"]))
            if "classes" in parts:
                keep(f"{encoder}/classes", partial(arms.by_classes, streams["textcls"]))
            if "whole" in parts:
                keep(f"{encoder}/whole", partial(arms.whole_run, options.textcls, options.whole_size))
    if "memory" in parts:
        keep("memory", memory_growth)


def procedure(options: argparse.Namespace) -> dict[str, Any]:
    """The code and the options that figures depend on."""
    names = ("seconds", "warm_up", "windows", "whole_size")
    return {"commit": commit(), **{f"--{name.replace('_', '-')}": getattr(options, name) for name in names}}


def begun(path: Path, here: dict[str, Any], how: dict[str, Any]) -> dict[str, Any]:
    """What an earlier call has measured; figures of two machines, versions or procedures are never mixed."""
    if not path.is_file():
        return {"machine": here, "procedure": how}
    figures: dict[str, Any] = json.loads(path.read_text())
    known = {**figures["machine"], **figures.get("procedure", {})}
    wanted = {**here, **how}
    different = [name for name in wanted if name != "peak_flops" and known.get(name) != wanted[name]]
    if different:
        raise SystemExit(f"{path} was measured with another {', '.join(different)}: choose another folder with --out.")
    return figures


def mixed(stream: str, folder: Path) -> Benchmark:
    """The benchmark as one task with the texts of all, so that lengths and labels are those of the whole stream."""
    benchmark = benchmark_for(Config.build({"stream": stream, "data": folder, "encoder": "tiny"}))
    pool = [example for task in benchmark.tasks for example in task.pool or task.train]
    random.Random(0).shuffle(pool)
    test = [example for task in benchmark.tasks for example in task.test]
    random.Random(1).shuffle(test)
    return replace(benchmark, tasks=(Task("mixed", pool, [], test),), joint_test=True)


if __name__ == "__main__":
    main()
