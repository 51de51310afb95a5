"""Several methods on one stream: the same data and seeds for each, one table, one figure."""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.experiment import benchmark_for, draws_on_its_own
from everlearn.progress import Screen
from everlearn.report.figure import accuracy_over_stream
from everlearn.report.results import ResultDict
from everlearn.report.table import comparison_markdown
from everlearn.run import run
from everlearn.run_folder import PARTIAL, write_text
from everlearn.transfer import own_queue

FIGURE, TABLE, RESULTS = "accuracy.png", "table.md", "results.json"


def compare_methods(
    given: Mapping[str, Any],
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    resume: bool,
    screen: Screen,
    together: int = 1,
) -> list[ResultDict]:
    """Run every method with every seed in a folder of its own under `out`; their results, in that order.

    `together` runs go on at once, each in a thread of its own.
    """
    for name, values in (("method", methods), ("seed", seeds)):
        if not values or len(set(values)) < len(values):
            raise UserError(f"name at least one {name}, and each only once.")
    # All configurations first: a mistake in the last one should not cost the time of the others.
    configs = {
        f"{method}-seed{seed}": Config.build({**given, "method": method, "seed": seed})
        for seed in seeds
        for method in methods
    }
    if together < 1:
        raise UserError(f"--together must be at least 1, not {together}.")
    if together > 1 and not all(map(draws_on_its_own, configs.values())):
        raise UserError("--together does not go with dropout, or with methods that write texts: leave it out.")
    _check_folder(out, configs, resume)
    benchmark = benchmark_for(next(iter(configs.values())))
    screen.say_all(benchmark.notes)
    quiet = Screen(quiet=True)  # one terminal cannot show the progress of several

    def one(name: str) -> ResultDict:
        shown, alone = (screen, True) if together == 1 else (quiet, False)
        result = run(configs[name], out / name, resume, shown, benchmark, alone=alone, at_once=together)
        cost = sum(result["ledger"][work]["seconds"] for work in ("train", "watch", "test"))
        screen.say(f"{name}: accuracy {result['accuracy']:.1%} ({cost:,.0f} s)")
        return cast(ResultDict, result)

    results = list(map(one, configs)) if together == 1 else _several_at_once(one, list(configs), together)
    write_text(out / RESULTS, json.dumps(results, indent=2) + "\n")
    write_text(out / TABLE, comparison_markdown(results) + "\n")
    accuracy_over_stream(results, out / FIGURE)
    return results


def _several_at_once(work: Callable[[str], ResultDict], names: Sequence[str], count: int) -> list[ResultDict]:
    """What the work makes of each name, in that order; the first error, once the others are done."""
    waiting, results, errors = deque(names), dict[str, ResultDict](), list[Exception]()

    def work_off() -> None:
        with own_queue(), suppress(IndexError):
            while not errors:
                name = waiting.popleft()
                try:
                    results[name] = work(name)
                except Exception as error:
                    errors.append(error)

    # Threads that do not keep the program alive: Ctrl-C ends it at once.
    threads = [threading.Thread(target=work_off, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[name] for name in names]


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
