"""Random search for a method's settings on the validation split; one JSON line per run, best last.

    python bench/choose_settings.py --methods seq,replay,oml-er --runs 40 --out results/docstrings/search.jsonl

Settings are drawn from the space below with a fixed seed, so a search can be repeated and added to. Only validation
data is looked at; what is chosen goes into `everlearn/defaults.py`.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from everlearn.config import Config, read_config
from everlearn.errors import UserError
from everlearn.run import run
from everlearn.streams import load_benchmark

STEPS: dict[str, list[Any]] = {"batch_size": [4, 8, 16], "head_lr": [1e-3, 3e-3, 1e-2]}
REPLAYS: dict[str, list[Any]] = {"replay_interval": [20, 40, 80], "replay_rate": [0.1]}
PLAIN: dict[str, list[Any]] = {**STEPS, "head_lr": [3e-3, 1e-2, 3e-2], "lr": [3e-6, 1e-5, 3e-5, 1e-4]}
META: dict[str, list[Any]] = {
    **STEPS,
    **REPLAYS,
    "head_lr": [3e-3, 1e-2, 3e-2],
    "support_batches": [1, 2, 3],
    "meta_lr": [3e-6, 1e-5, 3e-5, 1e-4],
}
SPACES: dict[str, dict[str, list[Any]]] = {
    "seq": PLAIN,
    "mtl": PLAIN,
    "replay": {**PLAIN, **REPLAYS},
    "a-gem": {**PLAIN, **REPLAYS},
    "oml-er": {**META, "inner_lr": [3e-2, 1e-1, 3e-1, 1.0]},
    "maml-er": {**META, "inner_lr": [1e-3, 3e-3, 1e-2, 3e-2]},
    "anml-er": {**META, "inner_lr": [1e-3, 3e-3, 1e-2, 3e-2]},
}


def draw(method: str, number: int) -> dict[str, Any]:
    """The settings of the `number`-th run of a method."""
    rng = random.Random(f"{method}/{number}")
    return {name: rng.choice(values) for name, values in SPACES[method].items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", required=True, help="methods, separated by commas")
    parser.add_argument("--runs", type=int, default=20, help="runs per method")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, to divide a search")
    parser.add_argument("--step", type=int, default=1, help="take every step-th run, to divide a search")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no run after this time")
    parser.add_argument("--config", type=Path, help="YAML file of settings that stay fixed")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines are appended here")
    options = parser.parse_args()
    fixed = {**(read_config(options.config) if options.config else {}), "split": "validation"}
    start = time.monotonic()
    benchmark = load_benchmark(Config.build(fixed).stream)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    methods = options.methods.split(",")
    for number in range(options.first, options.runs, options.step):
        for method in methods:
            if time.monotonic() - start > 60 * options.minutes:
                return
            drawn = draw(method, number)
            try:
                result = run(Config.build({**drawn, **fixed, "method": method}), benchmark=benchmark)
            except UserError as error:  # a draw that cannot work, such as fewer examples between replays than a batch
                print(f"{method} {number}: {error}", flush=True)
                continue
            figures = {key: result[key] for key in ("accuracy", "learning_accuracy", "forgetting", "per_task")}
            line = {"method": method, "number": number, **figures, "settings": {**drawn, **fixed}}
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{method} {number}: {result['accuracy']:.3f} {drawn}", flush=True)


if __name__ == "__main__":
    main()
