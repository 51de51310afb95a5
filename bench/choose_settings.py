"""Random search for a method's settings on the validation split; one JSON line per run.

    python bench/choose_settings.py --methods seq,oml-er --runs 40 --out results/docstrings/search.jsonl
    python bench/choose_settings.py --methods seq,oml-er --again results/docstrings/search.jsonl --runs 8 \\
        --seeds 42,43,44 --out results/docstrings/finalists.jsonl

Settings are drawn from the space below, the n-th of a method always the same, so a search can be repeated and added
to; the best are run again with more seeds. Only validation data is looked at; what is chosen goes into
`everlearn/defaults.py`.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from everlearn.config import Config, read_config
from everlearn.errors import UserError
from everlearn.experiment import benchmark_for
from everlearn.run import run

HEAD: dict[str, list[Any]] = {"batch_size": [4, 8, 16, 32], "head_lr": [1e-3, 3e-3, 1e-2, 3e-2]}
REPLAYS: dict[str, list[Any]] = {"replay_interval": [20, 40, 80, 160], "replay_rate": [0.1]}
PLAIN: dict[str, list[Any]] = {**HEAD, "lr": [3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4]}
META: dict[str, list[Any]] = {
    **HEAD,
    **REPLAYS,
    "support_batches": [1, 2, 3],
    "meta_lr": [3e-7, 1e-6, 3e-6, 1e-5, 3e-5],
}
SPARSE: dict[str, list[Any]] = {**PLAIN, **REPLAYS}
INNER: dict[str, list[Any]] = {"inner_lr": [1e-3, 3e-3, 1e-2, 3e-2]}
SPACES: dict[str, dict[str, list[Any]]] = {
    "seq": PLAIN,
    "mtl": PLAIN,
    "replay": {**PLAIN, **REPLAYS},
    "a-gem": {**PLAIN, **REPLAYS},
    "oml-er": {**META, "inner_lr": [3e-2, 1e-1, 3e-1, 1.0]},
    "maml-er": {**META, "inner_lr": [1e-3, 3e-3, 1e-2, 3e-2]},
    "anml-er": {**META, "inner_lr": [1e-3, 3e-3, 1e-2, 3e-2]},
    "oml": {**META, "inner_lr": [3e-2, 1e-1, 3e-1, 1.0]},
    "anml": {**META, **INNER},
    "oml-er-plastic": META,
    "er-ace": SPARSE,
    "der++": {**SPARSE, "der_alpha": [0.03, 0.1, 0.3, 1.0], "der_beta": [0.3, 0.5, 1.0]},
    "a-gem-cached": SPARSE,
    "gem": {**SPARSE, "gem_groups": [2, 5, 10]},
    "mer": {**SPARSE, **INNER, "support_batches": [1, 2, 4], "mer_beta": [0.03, 0.1, 0.3, 1.0]},
    "ewc": {**SPARSE, "ewc_lambda": [1.0, 10.0, 100.0, 1e3, 1e4]},
    "mbpa++": {**SPARSE, "local_lr": [1e-3, 1e-2, 1e-1], "local_steps": [10, 20, 30]},
    "meta-mbpa": {**SPARSE, **INNER, "diverse_share": [0.1]},
    "ea-emr": {**SPARSE, "aligner_steps": [5, 20, 50]},
    "mllre": {**SPARSE, "mllre_epsilon": [0.4, 0.5, 0.6]},
    "emar": SPARSE,
    "slda": {"shrinkage": [1e-4, 1e-3, 1e-2, 3e-2, 1e-1]},
    "ridge": {"ridge_penalty": [1e-2, 1e-1, 1.0, 10.0, 100.0]},
    "ranpac": {"ridge_penalty": [1e2, 1e3, 1e4, 1e5], "random_features": [1000, 2000]},
}


def draw(method: str, number: int) -> dict[str, Any]:
    """The settings of the `number`-th run of a method."""
    rng = random.Random(f"{method}/{number}")
    return {name: rng.choice(values) for name, values in SPACES[method].items()}


def best_of(path: Path, method: str, count: int) -> list[dict[str, Any]]:
    """The different settings with which a method did best in an earlier search."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ranked = sorted((line for line in lines if line["method"] == method), key=lambda line: -float(line["accuracy"]))
    unique = {json.dumps(line["drawn"], sort_keys=True): line["drawn"] for line in ranked}
    return list(unique.values())[:count]


def jobs(options: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """What to run: fresh draws, or the best of an earlier search again with more seeds."""
    methods = options.methods.split(",")
    if options.again:
        return [
            (method, {**drawn, "seed": seed})
            for seed in map(int, options.seeds.split(","))
            for method in methods
            for drawn in best_of(options.again, method, options.runs)
        ]
    return [(method, draw(method, number)) for number in range(options.runs) for method in methods]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", required=True, help="methods, separated by commas")
    parser.add_argument("--runs", type=int, default=20, help="settings per method")
    parser.add_argument("--again", type=Path, help="run the best settings of this search again, with --seeds")
    parser.add_argument("--seeds", default="42", help="seeds for --again, separated by commas")
    parser.add_argument("--first", type=int, default=0, help="number of the first job, to divide a search")
    parser.add_argument("--step", type=int, default=1, help="take every step-th job, to divide a search")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no run after this time")
    parser.add_argument("--config", type=Path, help="YAML file of settings that stay fixed")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines are appended here")
    options = parser.parse_args()
    fixed = {**(read_config(options.config) if options.config else {}), "split": "validation"}
    start = time.monotonic()
    benchmark = benchmark_for(Config.build(fixed))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for method, drawn in jobs(options)[options.first :: options.step]:
        if time.monotonic() - start > 60 * options.minutes:
            return
        try:
            config = Config.build({**drawn, **fixed, "method": method})
        except UserError as error:  # a draw that cannot work, such as fewer examples between replays than a batch
            print(f"{method}: {error}", flush=True)
            continue
        result = run(config, benchmark=benchmark)
        figures = {key: result[key] for key in ("accuracy", "learning_accuracy", "forgetting", "per_task")}
        line = {"method": method, **figures, "drawn": drawn, "fixed": fixed}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{method}: {result['accuracy']:.3f} {drawn}", flush=True)


if __name__ == "__main__":
    main()
