"""Results as `result.json` holds them, and how several of them come together: one group of runs per method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal, NotRequired, TypedDict

from everlearn.errors import UserError


class CountsDict(TypedDict):
    """What one kind of work of a run has cost."""

    stream_examples: int
    memory_writes: int
    memory_reads: int
    replays: int
    replays_skipped: int
    examples_generated: int
    tokens_forward: int
    tokens_backward: int
    optimiser_steps: int
    inner_steps: int
    seconds: float


class LedgerDict(TypedDict):
    """What a whole run has cost."""

    train: CountsDict
    watch: CountsDict
    """Evaluations on the way."""
    test: CountsDict
    """The one at the end."""
    replay_rate: float
    memory_entries: int
    memory_bytes: int
    method_bytes: int
    parameters_trained: int
    peak_device_bytes: int


class MatrixDict(TypedDict):
    """Accuracy per task (columns) before learning and after each task (rows)."""

    examples: list[int]
    tasks: list[str]
    accuracy: list[list[float]]


class CurvePointDict(TypedDict):
    """One evaluation during the stream; `accuracy` is over the tasks seen so far."""

    examples: int
    accuracy: float
    per_task: dict[str, float]


class TaskSizeDict(TypedDict):
    """How large a task is."""

    task: str
    classes: int
    train: int
    labels: NotRequired[list[str]]
    """The names of its classes."""


class ComputedWithDict(TypedDict):
    """The machine and the versions of a run."""

    processor: str
    torch: str
    transformers: str
    python: str
    commit: str | None
    runs_at_once: int


class ResultDict(TypedDict):
    """One finished run. Accuracies are fractions; what is undefined is None."""

    everlearn: NotRequired[str]
    method: str
    stream: str
    data: str
    """The fingerprint of what was learned and tested."""
    encoder: str
    order: int | str
    seed: int
    split: str
    accuracy: float
    per_task: dict[str, float]
    forgetting: float | None
    backward_transfer: float | None
    learning_accuracy: float | None
    forward_transfer: float | None
    anytime_accuracy: float | None
    matrix: MatrixDict | None
    curve: list[CurvePointDict]
    task_ends: list[int]
    lifelong: bool
    ledger: LedgerDict
    device: NotRequired[str]
    precision: NotRequired[str]
    computed_with: NotRequired[ComputedWithDict]
    notes: NotRequired[list[str]]
    """What the run had to say, such as that texts are cut."""
    violations: NotRequired[dict[str, int]]
    checks_per_task: NotRequired[dict[str, int]]
    signals: NotRequired[dict[str, list[list[float]]]]
    tasks: NotRequired[list[TaskSizeDict]]


@dataclass(frozen=True)
class Spread:
    """A mean over runs, with the sample standard deviation where there are at least two."""

    mean: float
    std: float | None


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean and sample standard deviation (n - 1) over runs; None when the value is undefined in any of them.

    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, std=1.0)
    >>> spread([1.0])
    Spread(mean=1.0, std=None)
    >>> spread([1.0, None]) is None
    True
    """
    defined = [value for value in values if value is not None]
    if not defined or len(defined) < len(values):
        return None
    return Spread(fmean(defined), stdev(defined) if len(defined) > 1 else None)


def bytes_held(run: ResultDict) -> int:
    """What a run held in the end beside its network: the memory's examples, and whatever else the method keeps."""
    return run["ledger"]["memory_bytes"] + run["ledger"]["method_bytes"]


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one method, which differ in seed or order only."""

    method: str
    lifelong: bool
    runs: tuple[ResultDict, ...]

    @property
    def label(self) -> str:
        """The method's name for readers; one that sees all tasks at once says so."""
        return self.method if self.lifelong else f"{self.method} (not lifelong)"

    def over_seeds(self, value: Callable[[ResultDict], float | None]) -> Spread | None:
        """The mean over the orders of each seed first, then mean and deviation over seeds.

        None when the value is undefined in any run.
        """
        means = [spread([value(run) for run in own]) for own in runs_by_seed(self.runs).values()]
        return spread([mean.mean if mean else None for mean in means])


def runs_by_seed(runs: Sequence[ResultDict]) -> dict[int, list[ResultDict]]:
    """The runs of each seed, which differ in order only, by rising seed."""
    found: dict[int, list[ResultDict]] = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        found.setdefault(run["seed"], []).append(run)
    return found


def by_method(results: Sequence[ResultDict]) -> list[MethodRuns]:
    """Groups by method, in order of first appearance, with the methods that are not lifelong last."""
    _check_comparable(results)
    groups: dict[str, list[ResultDict]] = {}
    for result in results:
        groups.setdefault(result["method"], []).append(result)
    methods = [MethodRuns(method, runs[0]["lifelong"], tuple(runs)) for method, runs in groups.items()]
    return sorted(methods, key=lambda method: not method.lifelong)


def describe(results: Sequence[ResultDict]) -> str:
    """One line that says what was compared, for titles: stream, order, encoder, split, number of seeds."""
    groups = by_method(results)
    orders = orders_of(results)
    first = results[0]
    parts = [first["stream"], f"order{'s' if len(orders) > 1 else ''} {', '.join(orders)}"]
    parts += [first["encoder"], f"{first['split']} split"]
    most, fewest = (pick(len(runs_by_seed(group.runs)) for group in groups) for pick in (max, min))
    if most > 1:
        seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
        parts.append(f"mean ± std over {seeds} seeds")
    return " · ".join(parts)


def orders_of(results: Sequence[ResultDict]) -> list[str]:
    """The task orders of the lifelong runs (of all runs when none is lifelong): the others see no order."""
    lifelong = [result for result in results if result["lifelong"]] or results
    return sorted({str(result["order"]) for result in lifelong})


def _check_comparable(results: Sequence[ResultDict]) -> None:
    """Refuse to average what is not the same measurement."""
    if not results:
        raise UserError("no results to compare: give at least one finished run.")
    fields: tuple[Literal["stream", "encoder", "split"], ...] = ("stream", "encoder", "split")
    for field in fields:
        values = sorted({result[field] for result in results})
        if len(values) > 1:
            raise UserError(
                f"the results differ in {field} ({', '.join(values)}): compare runs of one {field} at a time."
            )
    if len({frozenset(result["per_task"]) for result in results}) > 1:
        raise UserError("the results cover different tasks: compare runs over the same tasks.")
    seen: set[tuple[str, str, int]] = set()
    for result in results:
        run = (result["method"], str(result["order"]), result["seed"])
        if run in seen:
            raise UserError("two results of '{}' have order {} and seed {}: leave one of them out.".format(*run))
        seen.add(run)
