"""The measures of lifelong learning, against numbers worked out by hand."""

import numpy as np
import pytest

from everlearn.evaluation import metrics

MATRIX = np.array([[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]])
ONE_TASK = np.array([[0.25], [0.75]])
OVER_MATRIX = [
    metrics.learning_accuracy,
    metrics.forgetting,
    metrics.forgetting_per_task,
    metrics.backward_transfer,
    metrics.forward_transfer,
]


def test_three_tasks_by_hand():
    assert metrics.learning_accuracy(MATRIX) == pytest.approx(0.8)
    assert metrics.forgetting_per_task(MATRIX) == pytest.approx([0.4, 0.1])
    assert metrics.forgetting(MATRIX) == pytest.approx(0.25)
    assert metrics.backward_transfer(MATRIX) == pytest.approx(-0.2)
    assert metrics.forward_transfer(MATRIX) == pytest.approx(0.1)


def test_one_task_leaves_transfer_undefined():
    assert metrics.learning_accuracy(ONE_TASK) == 0.75
    assert metrics.forgetting_per_task(ONE_TASK) == []
    assert metrics.forgetting(ONE_TASK) is None
    assert metrics.backward_transfer(ONE_TASK) is None
    assert metrics.forward_transfer(ONE_TASK) is None


@pytest.mark.parametrize("measure", OVER_MATRIX)
def test_input_is_left_as_it_was(measure):
    matrix = MATRIX.copy()
    measure(matrix)
    measure(matrix)
    np.testing.assert_array_equal(matrix, MATRIX)


@pytest.mark.parametrize("measure", OVER_MATRIX)
def test_read_only_input_is_accepted(measure):
    matrix = MATRIX.copy()
    matrix.flags.writeable = False
    measure(matrix)


@pytest.mark.parametrize("measure", [m for m in OVER_MATRIX if m is not metrics.forgetting_per_task])
def test_results_are_plain_floats(measure):
    assert type(measure(MATRIX)) is float


def test_accuracy_before_a_task_is_learned_is_not_forgotten():
    # Task 2 is at 0.9 by luck before it is learned; only rows from its own on count.
    matrix = [[0.0, 0.9], [0.5, 0.9], [0.5, 0.4]]
    assert metrics.forgetting(matrix) == 0.0
    three = [[0, 0.9, 0], [0.5, 0.9, 0], [0.5, 0.6, 0], [0.5, 0.4, 1]]
    assert metrics.forgetting_per_task(three) == pytest.approx([0.0, 0.2])


def test_last_row_does_not_count_as_its_own_maximum():
    # The task ends better than it ever was: forgetting is negative, not zero.
    assert metrics.forgetting([[0.0, 0.0], [0.5, 0.0], [0.75, 0.5]]) == -0.25


def test_forward_transfer_tells_apart_methods_that_differ_before_learning_a_task():
    one, other = MATRIX.copy(), MATRIX.copy()
    other[1, 1] = 0.5  # better prepared for task 2, all else equal
    assert metrics.forward_transfer(one) == pytest.approx(0.1)
    assert metrics.forward_transfer(other) == pytest.approx(0.2)


def test_forward_transfer_depends_on_the_row_before_learning():
    lucky = MATRIX.copy()
    lucky[0, 2] = 0.4
    assert metrics.forward_transfer(lucky) == pytest.approx(0.05)


def test_first_task_does_not_enter_forward_transfer():
    matrix = MATRIX.copy()
    matrix[0, 0] = 0.9
    assert metrics.forward_transfer(matrix) == metrics.forward_transfer(MATRIX)


@pytest.mark.parametrize("measure", OVER_MATRIX)
@pytest.mark.parametrize(
    "malformed",
    [
        np.zeros((3, 3)),
        np.zeros((2, 3)),
        np.zeros((1, 0)),
        np.zeros(3),
        np.array([[0.1], [np.nan]]),
        np.array([[0.1], [np.inf]]),
        np.array([[0.1], [1.5]]),
        np.array([[0.1], [-0.5]]),
    ],
)
def test_malformed_matrices_are_refused(measure, malformed):
    with pytest.raises(ValueError, match="accuracy matrix"):
        measure(malformed)


def test_averages_over_tasks():
    per_task = {"a": 0.2, "b": 0.4, "c": 0.9}
    assert metrics.macro_average(per_task) == pytest.approx(0.5)
    assert metrics.seen_average(per_task, ["a", "b"]) == pytest.approx(0.3)
    assert metrics.seen_average(per_task, per_task.keys()) == metrics.macro_average(per_task)
    assert per_task == {"a": 0.2, "b": 0.4, "c": 0.9}


def test_averages_over_nothing_are_refused():
    with pytest.raises(ValueError, match="no tasks"):
        metrics.macro_average({})
    with pytest.raises(ValueError, match="no tasks"):
        metrics.seen_average({"a": 0.2}, [])
    with pytest.raises(ValueError, match=r"\['b'\]"):
        metrics.seen_average({"a": 0.2}, ["a", "b"])


def test_anytime_accuracy():
    points = [0.2, 0.4, 0.9]
    assert metrics.anytime_accuracy(points) == pytest.approx(0.5)
    assert points == [0.2, 0.4, 0.9]
    assert metrics.anytime_accuracy([]) is None


def test_violations_are_counted_in_their_region():
    events = [(0, True), (10, True), (11, True), (12, False), (20, True), (21, True), (30, False)]
    assert metrics.violations_per_region(events, [10, 20, 30]) == [2, 2, 1]
    assert metrics.violations_per_region([], [10, 20]) == [0, 0]


def test_violations_outside_the_stream_are_refused():
    with pytest.raises(ValueError, match="beyond the last"):
        metrics.violations_per_region([(21, True)], [10, 20])
    with pytest.raises(ValueError, match="decrease"):
        metrics.violations_per_region([], [20, 10])
