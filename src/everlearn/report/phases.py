"""Where the time of a run went, from its own counters."""

from collections.abc import Mapping
from typing import Any

# The phases that a ledger counts, in the order in which a step goes through them, and what they are.
PHASES = {
    "data": "waiting for the next batch",
    "memory": "writing to and reading from memory",
    "support": "adapting on support sets",
    "gradient": "losses and gradients",
    "optimiser": "steps on the slow weights",
}


def time_spent(ledger: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Each phase of learning, what is left of it, and evaluation, in seconds.

    >>> learned = {"seconds": 5.0, "phases": {"data": 1.0, "gradient": 3.0}}
    >>> ledger = {"train": learned, "watch": {"seconds": 1.5}, "test": {"seconds": 0.5}}
    >>> for name, seconds in time_spent(ledger):
    ...     print(f"{name}: {seconds:.0f}")
    waiting for the next batch: 1
    losses and gradients: 3
    other learning: 1
    evaluation: 2
    """
    spent = ledger["train"]["phases"]
    known = [(PHASES[name], spent[name]) for name in PHASES if name in spent]
    rest = ledger["train"]["seconds"] - sum(spent.values())
    evaluation = ledger["watch"]["seconds"] + ledger["test"]["seconds"]
    return [*known, ("other learning", max(rest, 0.0)), ("evaluation", evaluation)]
