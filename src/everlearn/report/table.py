"""The comparison table: what each method reached, beside what it cost, for the terminal and for Markdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from everlearn.report.results import MethodRuns, ResultDict, Spread, by_method, bytes_held, describe

UNDEFINED = "–"


@dataclass(frozen=True)
class Row:
    """The cells of one method, in the order of `COLUMNS`."""

    cells: tuple[str, ...]
    lifelong: bool


def comparison_rows(results: Sequence[ResultDict]) -> list[Row]:
    """One row per method, those that are not lifelong last: the one source of cells for every format."""
    return [Row(tuple(cell(method) for cell in COLUMNS.values()), method.lifelong) for method in by_method(results)]


def comparison_table(results: Sequence[ResultDict]) -> Table:
    """The table for the terminal; a line sets off the upper bounds from the lifelong methods."""
    table = Table(
        title=escape(describe(results)),
        title_justify="left",
        title_style="",
        box=box.HORIZONTALS,
        show_edge=False,
        padding=0,
    )
    for header in COLUMNS:
        table.add_column(
            header.replace(" ", "\n"),
            justify="left" if header == "method" else "right",
            style="bold" if header == "method" else "",
            overflow="fold",
            no_wrap=header not in MAY_WRAP,
        )
    previous: Row | None = None
    for row in comparison_rows(results):
        if previous and previous.lifelong and not row.lifelong:
            table.add_section()
        table.add_row(*map(escape, row.cells))
        previous = row
    return table


def comparison_markdown(results: Sequence[ResultDict]) -> str:
    """The same table as Markdown, ending in a newline; numbers are aligned to the right."""
    alignment = (":--", *["--:"] * (len(COLUMNS) - 1))
    lines = [tuple(COLUMNS), alignment, *(row.cells for row in comparison_rows(results))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{describe(results)}\n\n{table}\n"


def percent(value: Spread | None) -> str:
    """A fraction in per cent with one decimal, and its deviation.

    >>> percent(Spread(0.7312, 0.0049)), percent(Spread(-0.0001, None)), percent(None)
    ('73.1±0.5', '0.0', '–')
    """
    if value is None:
        return UNDEFINED
    mean = f"{round(100 * value.mean, 1) + 0.0:.1f}"  # adding 0.0 turns -0.0 into 0.0
    return mean if value.std is None else f"{mean}±{100 * value.std:.1f}"


def count(number: float) -> str:
    """A count in three significant digits.

    >>> count(0), count(950), count(1_150), count(46_000), count(999_999), count(4_100_000_000)
    ('0', '950', '1.15k', '46.0k', '1.00M', '4.10G')
    """
    if round(number) < 1000:
        return f"{round(number)}"
    scaled, suffixes = float(number), iter("kMGTP")
    suffix = ""
    while float(f"{scaled:.3g}") >= 1000:
        scaled, suffix = scaled / 1000, next(suffixes)
    decimals = 3 - len(f"{float(f'{scaled:.3g}'):.0f}")
    return f"{scaled:.{decimals}f}{suffix}"


def duration(seconds: float) -> str:
    """A time in the two units that matter.

    >>> duration(0.02), duration(4.25), duration(59.99), duration(185), duration(3_725), duration(200_000)
    ('<0.1s', '4.2s', '1m00s', '3m05s', '1h02m', '55h33m')
    """
    if seconds < 0.1:
        return "<0.1s"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest}s"
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def _mean(method: MethodRuns, value: Callable[[ResultDict], float]) -> float:
    """Costs are shown as means alone: their deviation over seeds is close to nothing and would crowd the table."""
    return fmean(value(run) for run in method.runs)


Phase = Literal["train", "test"]
Counted = Literal["stream_examples", "memory_reads", "examples_generated", "optimiser_steps", "inner_steps"]


def _counted(method: MethodRuns, phase: Phase, what: Counted) -> float:
    return _mean(method, lambda run: run["ledger"][phase][what])


def _accuracy(method: MethodRuns) -> str:
    return percent(method.over_seeds(lambda run: run["accuracy"]))


def _forgetting(method: MethodRuns) -> str:
    return percent(method.over_seeds(lambda run: run["forgetting"]))


def _learning_accuracy(method: MethodRuns) -> str:
    return percent(method.over_seeds(lambda run: run["learning_accuracy"]))


def _replay_rate(method: MethodRuns) -> str:
    return f"{100 * _mean(method, lambda run: run['ledger']['replay_rate']):.2f}%"


def _train_tokens(method: MethodRuns) -> str:
    return count(
        _mean(method, lambda run: run["ledger"]["train"]["tokens_forward"] + run["ledger"]["train"]["tokens_backward"])
    )


def _memory(method: MethodRuns) -> str:
    if not method.lifelong:
        return "the pool"
    entries = _mean(method, lambda run: run["ledger"]["memory_entries"])
    megabytes = _mean(method, bytes_held) / 1e6
    return f"{count(entries)} / {megabytes:.1f}MB" if entries or megabytes else "0"


def _optimiser_steps(method: MethodRuns) -> str:
    steps, inner = (round(_counted(method, "train", kind)) for kind in ("optimiser_steps", "inner_steps"))
    return f"{steps:,} + {inner:,}" if inner else f"{steps:,}"


def _generated(method: MethodRuns) -> str:
    made, given = _counted(method, "train", "examples_generated"), _counted(method, "train", "stream_examples")
    return f"{100 * made / given:.2f}%" if made else UNDEFINED


def _test_adaptation(method: MethodRuns) -> str:
    reads, steps = (_counted(method, "test", kind) for kind in ("memory_reads", "inner_steps"))
    return f"{count(reads)} / {count(steps)}" if reads or steps else UNDEFINED


def _train_time(method: MethodRuns) -> str:
    return duration(_mean(method, lambda run: run["ledger"]["train"]["seconds"]))


def _test_time(method: MethodRuns) -> str:
    return duration(_mean(method, lambda run: run["ledger"]["test"]["seconds"]))


def _test_tokens(method: MethodRuns) -> str:
    return count(
        _mean(method, lambda run: run["ledger"]["test"]["tokens_forward"] + run["ledger"]["test"]["tokens_backward"])
    )


def _weights_trained(method: MethodRuns) -> str:
    return count(_mean(method, lambda run: run["ledger"]["parameters_trained"]))


def _device_memory(method: MethodRuns) -> str:
    taken = _mean(method, lambda run: run["ledger"]["peak_device_bytes"])
    return f"{taken / 1e9:.2f}GB" if taken else UNDEFINED


COLUMNS: dict[str, Callable[[MethodRuns], str]] = {
    "method": lambda method: method.label,
    "accuracy": _accuracy,
    "forgetting": _forgetting,
    "learning accuracy": _learning_accuracy,
    "replay rate": _replay_rate,
    "train tokens": _train_tokens,
    "memory": _memory,
    "optim. steps": _optimiser_steps,
    "train time": _train_time,
    "test time": _test_time,
}
"""Header and how its cell is made. Accuracies and forgetting are in per cent; tokens are forward plus backward.

Memory is the examples stored, and the bytes of these and of whatever else the method keeps; steps are the optimiser's,
and those of an inner loop behind them.
"""

MORE_COLUMNS: dict[str, Callable[[MethodRuns], str]] = {
    "generated": _generated,
    "test tokens": _test_tokens,
    "test reads / steps": _test_adaptation,
    "weights trained": _weights_trained,
    "GPU memory": _device_memory,
}
"""What a page has room for and a terminal has not: the rest of what a method pays."""

MAY_WRAP = {"method", "memory", "optim. steps"}
"""Columns whose cells still read well on two lines, so that the table fits a terminal of 80 columns."""
