"""Tested differences as cells: which two rows, over which runs, and what came out. One source for all formats."""

from collections.abc import Sequence

from everlearn.report.statistics import PairedTest
from everlearn.report.table import UNDEFINED

CAPTION = (
    "Differences in points: two-tailed paired t-tests over runs of equal order and seed, or over the averages of equal "
    "seeds where a row has no order; n pairs, not corrected for their number; d is the mean difference in units of the "
    "differences' standard deviation."
)
HEADER = ("difference", "over", "n", "points", "95 % interval", "t", "p", "d", "paper's p", "warning")


def comparison_cells(test: PairedTest) -> tuple[str, ...]:
    """The cells below `HEADER`.

    >>> runs = ("order 1 seed 42", "order 1 seed 43")
    >>> comparison_cells(PairedTest("A", "B", runs, 0.041, (0.02, 0.06), 2.62, 1.31, 0.0061, None, None))
    ('A − B', 'order 1 × seeds 42, 43', '2', '+4.1', '+2.0 to +6.0', '2.62', '0.006', '1.31', '–', '')
    """
    return (
        difference(test),
        runs_in_short(test.pairs) or UNDEFINED,
        str(len(test.pairs)),
        UNDEFINED if test.difference is None else points(test.difference),
        " to ".join(map(points, test.interval)) if test.interval else UNDEFINED,
        _signed(test.t),
        UNDEFINED if test.p is None else p_value(test.p),
        _signed(test.effect),
        UNDEFINED if test.paper_p is None else p_value(test.paper_p),
        test.warning or "",
    )


def difference(test: PairedTest) -> str:
    """One row less another; a name that has a minus in it stands in brackets.

    >>> difference(PairedTest("ANML-ER", "ANML-ER − replay", (), None, None, None, None, None, None, None))
    'ANML-ER − (ANML-ER − replay)'
    """
    first, second = (f"({name})" if " − " in name else name for name in (test.first, test.second))
    return f"{first} − {second}"


def runs_in_short(pairs: Sequence[str]) -> str:
    """Which runs make the pairs, orders with the same seeds together.

    >>> runs_in_short(["order 1 seed 42", "order 1 seed 43", "order 2 seed 42", "order 2 seed 43"])
    'orders 1, 2 × seeds 42, 43'
    >>> runs_in_short(["order 1 seed 42", "order 1 seed 43", "order 2 seed 42"]), runs_in_short(["seed 42"])
    ('order 1 × seeds 42, 43; order 2 × seed 42', 'seed 42')
    """
    seeds: dict[str, list[str]] = {}
    for pair in pairs:
        order, _, seed = pair.rpartition("seed ")
        seeds.setdefault(order.removeprefix("order ").strip(), []).append(seed)
    orders: dict[tuple[str, ...], list[str]] = {}
    for order, own in seeds.items():
        orders.setdefault(tuple(own), []).append(order)
    parts = []
    for own_seeds, own_orders in orders.items():
        named = [_listed("order", own_orders)] if own_orders != [""] else []
        parts.append(" × ".join([*named, _listed("seed", own_seeds)]))
    return "; ".join(parts)


def points(difference: float) -> str:
    """A difference of accuracies in percentage points.

    >>> points(0.0412), points(-0.1), points(-0.00001)
    ('+4.1', '−10.0', '+0.0')
    """
    return f"{round(100 * difference, 1) + 0.0:+.1f}".replace("-", "−")


def p_value(p: float) -> str:
    """Three decimals, or the order of magnitude where that says more.

    >>> p_value(0.0061), p_value(0.00008)
    ('0.006', '8e-05')
    """
    return f"{p:.3f}" if p >= 0.0005 else f"{p:.0e}"


def _signed(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.2f}".replace("-", "−")


def _listed(name: str, values: Sequence[str]) -> str:
    return f"{name}{'s' if len(values) > 1 else ''} {', '.join(values)}"
