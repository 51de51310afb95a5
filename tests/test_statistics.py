"""Paired t-tests, against SciPy by another route and against what can be worked out by hand."""

import math

import pytest
from scipy import stats

from everlearn.report.comparisons import HEADER, comparison_cells
from everlearn.report.statistics import ENOUGH_PAIRS, compare_rows
from everlearn.report.study import StudyRow


def row(name, accuracies, lifelong=True):
    """A row with runs {(order, seed): accuracy}."""
    runs = tuple(
        {"order": order, "seed": seed, "accuracy": accuracy, "lifelong": lifelong}
        for (order, seed), accuracy in accuracies.items()
    )
    orders = tuple(dict.fromkeys(order for order, _ in accuracies))
    seeds = tuple(dict.fromkeys(seed for _, seed in accuracies))
    return StudyRow(name, {}, orders, seeds, runs, {}, {})


KEYS = [(order, seed) for order in "1234" for seed in (42, 43, 44)]
FIRST = dict(zip(KEYS, [0.70, 0.72, 0.69, 0.75, 0.71, 0.73, 0.74, 0.70, 0.72, 0.76, 0.73, 0.71], strict=True))
SECOND = dict(zip(KEYS, [0.68, 0.71, 0.70, 0.70, 0.69, 0.70, 0.71, 0.69, 0.70, 0.72, 0.70, 0.72], strict=True))


def test_the_test_is_the_one_sample_test_of_the_differences():
    found = compare_rows(row("A", FIRST), row("B", SECOND), paper_p=0.008)
    differences = [FIRST[key] - SECOND[key] for key in KEYS]
    expected = stats.ttest_1samp(differences, 0.0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.t == pytest.approx(expected.statistic)
    mean = sum(differences) / 12
    deviation = math.sqrt(sum((d - mean) ** 2 for d in differences) / 11)
    assert found.difference == pytest.approx(mean)
    assert found.effect == pytest.approx(mean / deviation)
    half = stats.t.ppf(0.975, 11) * deviation / math.sqrt(12)
    assert found.interval == pytest.approx((mean - half, mean + half))
    assert found.warning is None
    assert found.pairs[0] == "order 1 seed 42"
    assert len(found.pairs) == 12
    cells = dict(zip(HEADER, comparison_cells(found), strict=True))
    assert cells["difference"] == "A − B"
    assert cells["over"] == "orders 1, 2, 3, 4 × seeds 42, 43, 44"
    assert (cells["n"], cells["paper's p"], cells["warning"]) == ("12", "0.008", "")
    assert cells["t"] == f"{expected.statistic:.2f}"


def test_only_runs_of_equal_order_and_seed_are_paired():
    partly = {key: value for key, value in SECOND.items() if key[1] != 44}
    found = compare_rows(row("A", FIRST), row("B", partly))
    assert len(found.pairs) == 8
    assert all("seed 44" not in pair for pair in found.pairs)
    shuffled = dict(reversed(list(SECOND.items())))
    assert compare_rows(row("A", FIRST), row("B", shuffled)).p == compare_rows(row("A", FIRST), row("B", SECOND)).p


def test_a_row_without_orders_is_paired_by_seed_with_averages():
    bound = row("MTL", {("1", 42): 0.80, ("1", 43): 0.81, ("1", 44): 0.79}, lifelong=False)
    found = compare_rows(row("A", FIRST), bound)
    assert found.pairs == ("seed 42", "seed 43", "seed 44")
    averages = [sum(FIRST[order, seed] for order in "1234") / 4 for seed in (42, 43, 44)]
    assert found.difference == pytest.approx(sum(averages) / 3 - 0.80)
    assert "only 3 pairs" in found.warning


def test_rows_of_different_orders_have_no_pairs():
    """Orders 1 and 2 against orders 3 and 4, of the same seeds: averages by seed would hide that nothing is paired."""
    first = row("A", {key: value for key, value in FIRST.items() if key[0] in "12"})
    second = row("B", {key: value for key, value in SECOND.items() if key[0] in "34"})
    found = compare_rows(first, second)
    assert (found.pairs, found.difference, found.p) == ((), None, None)
    assert found.warning == "no two runs share order and seed"
    assert dict(zip(HEADER, comparison_cells(found), strict=True))["over"] == "–"


def test_two_rows_without_orders_are_paired_by_seed():
    bounds = [
        row(name, {(order, seed): value for seed, value in enumerate(values)}, lifelong=False)
        for name, order, values in (("MTL", "1", (0.80, 0.82)), ("MTL, longer", "2", (0.81, 0.86)))
    ]
    found = compare_rows(*bounds)
    assert found.pairs == ("seed 0", "seed 1")
    assert found.difference == pytest.approx(-0.025)


def test_without_a_complete_seed_a_bound_is_compared_with_nothing():
    partly = row("A", {("1", 42): 0.7, ("2", 43): 0.7})
    found = compare_rows(partly, row("MTL", {("1", 42): 0.80}, lifelong=False))
    assert found.warning == "no seed has all its orders in both rows"


@pytest.mark.parametrize("count", range(ENOUGH_PAIRS + 2))
def test_too_few_runs_are_said_to_be_too_few(count):
    keys = KEYS[:count]
    found = compare_rows(row("A", {k: FIRST[k] for k in keys}), row("B", {k: SECOND[k] for k in keys}))
    assert (found.warning is not None) == (count < ENOUGH_PAIRS)
    assert (found.p is not None) == (count >= 2)
    cells = dict(zip(HEADER, comparison_cells(found), strict=True))
    assert cells["n"] == str(count)
    assert bool(cells["warning"]) == (count < ENOUGH_PAIRS)
    assert (cells["t"] == "–") == (cells["p"] == "–") == (count < 2)


def test_equal_differences_have_no_test():
    same = compare_rows(row("A", FIRST), row("B", FIRST))
    assert same.difference == 0
    assert same.p is None
    assert "all 12 differences are equal" in same.warning
