"""Whether a difference between two rows is more than chance: two-tailed paired t-tests, as in the paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from everlearn.report.study import StudyRow

ENOUGH_PAIRS = 6
"""Fewer pairs than this, and the warning says what size of effect could be found at all."""
LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a comparison. What is undefined is None."""

    first: str
    second: str
    pairs: tuple[str, ...]
    """Which runs were set against each other."""
    difference: float | None
    interval: tuple[float, float] | None
    """95 % confidence interval of the difference."""
    t: float | None
    """The test's statistic; it has one degree of freedom less than there are pairs."""
    effect: float | None
    """Cohen's d of paired samples: the mean difference in units of the differences' standard deviation."""
    p: float | None
    paper_p: float | None
    warning: str | None


def compare_rows(first: StudyRow, second: StudyRow, paper_p: float | None = None) -> PairedTest:
    """Test first − second over the runs they share: equal order and seed.

    A row that is not lifelong has no order: its seeds are set against the other's averages over orders.
    """
    ordered = first.lifelong and second.lifelong
    mine, theirs = (_by_run(row) if ordered else _by_seed(row) for row in (first, second))
    pairs = [key for key in mine if key in theirs]
    if not pairs:
        warning = "no two runs share order and seed" if ordered else "no seed has all its orders in both rows"
        return PairedTest(first.name, second.name, (), None, None, None, None, None, paper_p, warning)
    return _test(first.name, second.name, pairs, [mine[k] for k in pairs], [theirs[k] for k in pairs], paper_p)


def _by_run(row: StudyRow) -> dict[str, float]:
    return {f"order {run['order']} seed {run['seed']}": run["accuracy"] for run in row.runs}


def _by_seed(row: StudyRow) -> dict[str, float]:
    return {f"seed {seed}": value for seed, value in row.by_seed().items()}


def _test(
    first: str, second: str, pairs: Sequence[str], a: Sequence[float], b: Sequence[float], paper_p: float | None
) -> PairedTest:
    differences = [x - y for x, y in zip(a, b, strict=True)]
    count = len(differences)
    mean = math.fsum(differences) / count
    if count < 2:
        warning = "one pair only: nothing can be tested"
        return PairedTest(first, second, tuple(pairs), mean, None, None, None, None, paper_p, warning)
    deviation = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (count - 1))
    if deviation < 1e-12:
        warning = f"all {count} differences are equal: a t-test is not defined"
        return PairedTest(first, second, tuple(pairs), mean, None, None, None, None, paper_p, warning)
    from scipy import stats  # slow to import, and most commands do without

    outcome = stats.ttest_rel(a, b)
    interval = outcome.confidence_interval(1 - LEVEL)
    return PairedTest(
        first,
        second,
        tuple(pairs),
        mean,
        (float(interval.low), float(interval.high)),
        float(outcome.statistic),
        mean / deviation,
        float(outcome.pvalue),
        paper_p,
        _too_few(count),
    )


def _too_few(count: int) -> str | None:
    """What can be found with so few pairs.

    >>> _too_few(3)
    'only 3 pairs: an effect below d = 2.5 could not come out as significant'
    >>> _too_few(15) is None
    True
    """
    if count >= ENOUGH_PAIRS:
        return None
    from scipy import stats

    least = stats.t.ppf(1 - LEVEL / 2, count - 1) / math.sqrt(count)
    return f"only {count} pairs: an effect below d = {least:.1f} could not come out as significant"
