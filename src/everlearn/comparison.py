"""Several methods on one stream: the same data and seeds for each, one table, one figure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.experiment import benchmark_for
from everlearn.progress import Screen
from everlearn.report.figure import accuracy_over_stream
from everlearn.report.results import ResultDict
from everlearn.report.table import comparison_markdown
from everlearn.run import run
from everlearn.run_folder import PARTIAL, write_text

FIGURE, TABLE, RESULTS = "accuracy.png", "table.md", "results.json"


def compare_methods(
    given: Mapping[str, Any], methods: Sequence[str], seeds: Sequence[int], out: Path, resume: bool, screen: Screen
) -> list[ResultDict]:
    """Run every method with every seed in a folder of its own under `out`; their results, in that order."""
    for name, values in (("method", methods), ("seed", seeds)):
        if not values or len(set(values)) < len(values):
            raise UserError(f"name at least one {name}, and each only once.")
    # All configurations first: a mistake in the last one should not cost the time of the others.
    configs = {
        f"{method}-seed{seed}": Config.build({**given, "method": method, "seed": seed})
        for seed in seeds
        for method in methods
    }
    _check_folder(out, configs, resume)
    benchmark = benchmark_for(next(iter(configs.values())))
    screen.say_all(benchmark.notes)
    results: list[ResultDict] = []
    for name, config in configs.items():
        result = run(config, out / name, resume, screen, benchmark)
        cost = result["ledger"]["train"]["seconds"] + result["ledger"]["test"]["seconds"]
        screen.say(f"{name}: accuracy {result['accuracy']:.1%} ({cost:,.0f} s)")
        results.append(cast(ResultDict, result))
    write_text(out / RESULTS, json.dumps(results, indent=2) + "\n")
    write_text(out / TABLE, comparison_markdown(results) + "\n")
    accuracy_over_stream(results, out / FIGURE)
    return results


def _check_folder(out: Path, configs: Mapping[str, Config], resume: bool) -> None:
    """Refuse a folder that holds something else before anything is computed."""
    try:
        if not out.exists():
            return
        if not out.is_dir():
            raise UserError(f"the output folder {out} is a file: choose another name.")
        names = sorted(path.name for path in out.iterdir() if not path.name.endswith(PARTIAL))
    except OSError as error:
        raise UserError(f"the output folder {out} cannot be used: {error.strerror}.") from error
    foreign = [name for name in names if name not in {*configs, FIGURE, TABLE, RESULTS}]
    if foreign:
        raise UserError(f"the output folder {out} holds other files ({', '.join(foreign[:3])}): choose a new one.")
    if names and not resume:
        raise UserError(f"the output folder {out} already holds this comparison: pass --resume to go on with it.")
