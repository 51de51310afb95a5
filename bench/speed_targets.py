"""What was aimed at, and how to read from measured figures whether it was reached."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

Figures = Mapping[str, Any]
"""What `speed.json` holds."""
METHODS = {
    "seq": "SEQ",
    "replay": "REPLAY",
    "a-gem": "A-GEM",
    "maml-er": "MAML-ER",
    "oml-er": "OML-ER",
    "anml-er": "ANML-ER",
}
PRECISIONS, SEEDS = ("bf16", "fp32"), (42, 43, 44)
"""The fast way and the plain one, and the seeds with which their accuracy is compared."""
PROBLEMS = {"textcls": "text classification", "fewrel": "relation extraction"}


@dataclass(frozen=True)
class Target:
    """One aim: a figure, the bound it is held to, and the kind of machine it is meant for."""

    what: str
    bound: float
    unit: str
    value: Callable[[Figures], float | None]
    kind: str | None = "cuda"
    """None where every machine will do."""
    at_least: bool = True

    def wanted(self) -> str:
        """The bound, for readers."""
        return f"{'≥' if self.at_least else '≤'} {quantity(self.bound, self.unit)}"

    def met(self, value: float) -> bool:
        """Whether a figure keeps to the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


def quantity(value: float, unit: str) -> str:
    """A figure with its unit, in as many digits as say something.

    >>> quantity(6283.4, "examples/s"), quantity(20, "×"), quantity(0.484, "×")
    ('6,283 examples/s', '20 ×', '0.48 ×')
    """
    decimals = 0 if value >= 100 or value == round(value) else 1 if value >= 1 else 2
    return f"{value:,.{decimals}f} {unit}"


def named(arm: str) -> str:
    """An arm for readers.

    >>> named("bert/fewrel/oml-er")
    'OML-ER, relation extraction'
    """
    _, stream, method = arm.split("/")
    return f"{METHODS[method]}, {PROBLEMS[stream]}"


def figure(figures: Figures, *path: str) -> Any:
    """The figure at the end of a path of keys; None where it was not measured."""
    found: Any = figures
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _at(*path: str) -> Callable[[Figures], float | None]:
    return lambda figures: figure(figures, *path)


def _share(first: tuple[str, ...], second: tuple[str, ...]) -> Callable[[Figures], float | None]:
    """One figure as a multiple of another."""

    def value(figures: Figures) -> float | None:
        a, b = figure(figures, *first), figure(figures, *second)
        return a / b if a is not None and b else None

    return value


def _megabytes(figures: Figures) -> float | None:
    taken = figure(figures, "memory", "1000000", "bytes")
    return None if taken is None else taken / 1e6


def _whole_run(figures: Figures) -> float | None:
    """Seconds of a run of the paper's size; a shorter one says nothing about it."""
    return figure(figures, "bert/whole", "seconds") if figure(figures, "bert/whole", "examples") == 575_000 else None


def accuracies(figures: Figures, encoder: str) -> dict[str, list[float]]:
    """By precision, for the seeds that were measured."""
    found = {p: [figures.get(f"{encoder}/accuracy/{p}/{seed}") for seed in SEEDS] for p in PRECISIONS}
    return {precision: [value for value in values if value is not None] for precision, values in found.items()}


def _noise(figures: Figures) -> float | None:
    """The difference between the fast path's mean accuracy and the plain one's, in standard deviations over seeds."""
    fast, plain = (accuracies(figures, "minilm")[precision] for precision in PRECISIONS)
    if min(len(fast), len(plain)) < len(SEEDS):
        return None
    return abs(fmean(fast) - fmean(plain)) / max(stdev(fast), stdev(plain))


OML_ER = "bert/textcls/oml-er"
SPEED_UPS: dict[str, float] = {
    OML_ER: 20,
    **{f"bert/textcls/{method}": 8 for method in ("anml-er", "maml-er", "seq", "replay")},
    **{f"bert/fewrel/{method}": 10 for method in METHODS},
}
"""How many times as fast as the published procedure each arm should be; there is no such aim for the others."""
TARGETS = (
    Target("OML-ER, training", 6000, "examples/s", _at(OML_ER, "product", "examples_per_second")),
    Target("OML-ER, training, stretch", 10_000, "examples/s", _at(OML_ER, "product", "examples_per_second")),
    *(
        Target(f"{named(arm)}: against the published procedure", times, "×", _at(arm, "ratio"))
        for arm, times in SPEED_UPS.items()
    ),
    Target("prediction", 15_000, "texts/s", _at("bert/prediction", "product")),
    Target("a whole OML-ER run of 575,000 examples, evaluation included", 120, "s", _whole_run, at_least=False),
    Target(
        "GPU memory of OML-ER, as a multiple of the published procedure's",
        0.5,
        "×",
        _share((OML_ER, "product", "peak_bytes"), (OML_ER, "published", "peak_bytes")),
        at_least=False,
    ),
    Target(
        "a read from a memory of 1 M entries, as a multiple of one from 1 k (the same, but for caches)",
        1.5,
        "×",
        _share(("memory", "1000000", "read_milliseconds"), ("memory", "1000", "read_milliseconds")),
        kind=None,
        at_least=False,
    ),
    Target("memory with 1 M entries", 300, "MB", _megabytes, kind=None, at_least=False),
    Target(
        "accuracy of the fast path on fewrel, three seeds: difference from plain fp32",
        1,
        "standard deviations",
        _noise,
        at_least=False,
    ),
    Target("OML-ER with minilm on 2 CPU cores", 3, "×", _at("minilm/textcls/oml-er", "ratio"), kind="cpu"),
)
