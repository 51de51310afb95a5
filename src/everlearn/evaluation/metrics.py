"""The measures of lifelong learning, as pure functions over accuracies.

Most of them read an accuracy matrix R of shape (K + 1, K) for K tasks, with entries in [0, 1]. Row 0 is measured
before any learning, row i after the i-th task of the stream; column j is the test set of the j-th task. Tasks are
counted from 1 in the formulas, so R[j, j] is the accuracy on task j right after learning it.

No function changes its input. What is undefined (such as forgetting with one task) is None, never NaN.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray


def macro_average(per_task: Mapping[str, float]) -> float:
    """The mean over tasks, each task counting the same however many examples its test set has.

    >>> macro_average({"news": 0.5, "reviews": 1.0})
    0.75
    """
    if not per_task:
        raise ValueError("macro average of no tasks: give the accuracy of at least one")
    return float(np.mean(list(per_task.values())))


def seen_average(per_task_row: Mapping[str, float], seen: Collection[str]) -> float:
    """The macro average over the tasks in `seen` only: those the stream has begun so far.

    >>> seen_average({"news": 0.5, "reviews": 1.0, "questions": 0.0}, ["news", "reviews"])
    0.75
    """
    missing = [task for task in seen if task not in per_task_row]
    if missing:
        raise ValueError(f"no accuracy for the seen tasks {missing}")
    return macro_average({task: per_task_row[task] for task in seen})


def anytime_accuracy(points: Sequence[float]) -> float | None:
    """The mean over evaluation points of the mean accuracy over the tasks seen by then; None without points.

    >>> anytime_accuracy([0.25, 0.5, 0.75])
    0.5
    """
    return float(np.mean(points)) if len(points) else None


def learning_accuracy(matrix: ArrayLike) -> float:
    """The mean of R[j, j]: how well each task was known right after it was learned.

    >>> R = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    >>> round(learning_accuracy(R), 6)  # (0.8 + 0.7 + 0.9) / 3
    0.8
    """
    return float(_right_after(_checked(matrix)).mean())


def forgetting_per_task(matrix: ArrayLike) -> list[float]:
    """For each task j < K, max over rows l = j .. K-1 of R[l, j], minus R[K, j]; empty with one task.

    Rows before row j do not count: what was never learned cannot be forgotten. A negative value is a task that ended
    better than it ever was.

    >>> R = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    >>> [round(lost, 6) for lost in forgetting_per_task(R)]  # max(0.8, 0.9) - 0.5, 0.7 - 0.6
    [0.4, 0.1]
    """
    accuracy = _checked(matrix)
    tasks = accuracy.shape[1]
    return [float(accuracy[j:tasks, j - 1].max() - accuracy[tasks, j - 1]) for j in range(1, tasks)]


def forgetting(matrix: ArrayLike) -> float | None:
    """The mean of `forgetting_per_task`; None with one task.

    >>> R = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    >>> round(forgetting(R), 6)  # (0.4 + 0.1) / 2
    0.25
    """
    per_task = forgetting_per_task(matrix)
    return float(np.mean(per_task)) if per_task else None


def backward_transfer(matrix: ArrayLike) -> float | None:
    """The mean over tasks j < K of R[K, j] - R[j, j]: what later tasks did to earlier ones; None with one task.

    >>> R = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    >>> round(backward_transfer(R), 6)  # ((0.5 - 0.8) + (0.6 - 0.7)) / 2
    -0.2
    """
    accuracy = _checked(matrix)
    change = (accuracy[-1] - _right_after(accuracy))[:-1]
    return float(change.mean()) if change.size else None


def forward_transfer(matrix: ArrayLike) -> float | None:
    """The mean over tasks j >= 2 of R[j-1, j] - R[0, j]: what earlier tasks did for later ones; None with one task.

    >>> R = [[0.1, 0.2, 0.3], [0.8, 0.3, 0.3], [0.9, 0.7, 0.4], [0.5, 0.6, 0.9]]
    >>> round(forward_transfer(R), 6)  # ((0.3 - 0.2) + (0.4 - 0.3)) / 2
    0.1
    """
    accuracy = _checked(matrix)
    just_before = np.diagonal(accuracy)  # entry (i, i) counted from 0 is R[j-1, j] for task j = i + 1
    gain = (just_before - accuracy[0])[1:]
    return float(gain.mean()) if gain.size else None


def violations_per_region(events: Iterable[tuple[int, bool]], task_ends: Sequence[int]) -> list[int]:
    """How often a constraint was violated while each task was learned (A-GEM's projections).

    An event is (examples seen, violated). It belongs to the first region whose end is at least its examples seen;
    `task_ends` holds the cumulative number of examples at which each task ends.

    >>> violations_per_region([(5, True), (10, True), (11, True), (15, False)], task_ends=[10, 20])
    [2, 1]
    """
    if any(later < earlier for earlier, later in pairwise(task_ends)):
        raise ValueError(f"task ends must not decrease: {list(task_ends)}")
    counts = [0] * len(task_ends)
    for examples_seen, violated in events:
        region = bisect_left(task_ends, examples_seen)
        if region == len(counts):
            raise ValueError(f"an event at {examples_seen} examples lies beyond the last task end")
        counts[region] += bool(violated)
    return counts


def _right_after(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """R[j, j] for every task j."""
    return np.diagonal(accuracy, offset=-1)


def _checked(matrix: ArrayLike) -> NDArray[np.float64]:
    """The matrix as an array, after making sure that it is one the formulas hold for."""
    accuracy = np.asarray(matrix, dtype=np.float64)
    if accuracy.ndim != 2 or accuracy.shape[1] < 1 or accuracy.shape[0] != accuracy.shape[1] + 1:
        raise ValueError(f"an accuracy matrix has shape (K + 1, K) with K >= 1, not {accuracy.shape}")
    if not np.all((accuracy >= 0) & (accuracy <= 1)):  # false for NaN, too
        raise ValueError("an accuracy matrix holds numbers from 0 to 1 only")
    return accuracy
