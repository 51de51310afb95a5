"""What the evaluations of a run add up to: the accuracy matrix, the curve, and the figures from both."""

from collections.abc import Collection, Sequence
from typing import Any

from everlearn.evaluation import metrics
from everlearn.evaluation.evaluator import Scores


class History:
    """Collects evaluations and constraint checks as the stream goes by."""

    def __init__(self, tasks: Sequence[str], task_ends: Sequence[int], joint: bool) -> None:
        self.tasks = list(tasks)
        self.task_ends = list(task_ends)
        self._joint = joint
        self._rows: list[dict[str, Any]] = []
        self._curve: list[dict[str, Any]] = []
        self._checks: list[tuple[int, bool]] = []

    def add_row(self, examples: int, scores: Scores) -> dict[str, Any]:
        """An evaluation on the full test sets: before the stream, or at the end of a task."""
        self._rows.append({"examples": examples, **self._measured(scores, self.tasks)})
        learned = self.tasks[: len(self._rows) - 1]
        return self._add_point(examples, scores, learned) if learned else self._rows[-1]

    def add_sample(self, examples: int, scores: Scores) -> dict[str, Any]:
        """An evaluation in between, on a sample."""
        starts = [0, *self.task_ends[:-1]]
        begun = [task for task, start in zip(self.tasks, starts, strict=True) if start < examples]
        return self._add_point(examples, scores, begun)

    def ends_between(self, before: int, now: int) -> list[int]:
        """The ends of tasks in (before, now], the last task's left out: that is the end of the stream."""
        return [end for end in self.task_ends[:-1] if before < end <= now]

    def add_check(self, examples: int, violated: bool) -> None:
        """A constraint was checked (A-GEM)."""
        self._checks.append((examples, violated))

    def summary(self) -> dict[str, Any]:
        """The figures of a run that has ended, for `result.json`."""
        final = self._rows[-1]
        result: dict[str, Any] = {"accuracy": final["accuracy"], "per_task": final["per_task"]}
        matrix = [[row["per_task"][task] for task in self.tasks] for row in self._rows]
        whole = len(matrix) == len(self.tasks) + 1
        for name in ("forgetting", "backward_transfer", "learning_accuracy", "forward_transfer"):
            result[name] = getattr(metrics, name)(matrix) if whole else None
        result["anytime_accuracy"] = metrics.anytime_accuracy([p["accuracy"] for p in self._curve]) if whole else None
        result["matrix"] = (
            {"examples": [row["examples"] for row in self._rows], "tasks": self.tasks, "accuracy": matrix}
            if whole
            else None
        )
        result["curve"] = self._curve
        result["task_ends"] = self.task_ends
        if self._checks:
            counts = metrics.violations_per_region(self._checks, self.task_ends)
            result["violations"] = dict(zip(self.tasks, counts, strict=True))
            checks = metrics.violations_per_region([(examples, True) for examples, _ in self._checks], self.task_ends)
            result["checks_per_task"] = dict(zip(self.tasks, checks, strict=True))
        return result

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"rows": self._rows, "curve": self._curve, "checks": self._checks}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what was saved."""
        self._rows, self._curve = state["rows"], state["curve"]
        self._checks = [(examples, violated) for examples, violated in state["checks"]]

    def _add_point(self, examples: int, scores: Scores, seen: Collection[str]) -> dict[str, Any]:
        self._curve.append({"examples": examples, **self._measured(scores, seen)})
        return self._curve[-1]

    def _measured(self, scores: Scores, averaged: Collection[str]) -> dict[str, Any]:
        """Accuracy per task, and over the tasks in `averaged`: their mean, or that of all their examples."""
        per_task = {task: score.accuracy for task, score in scores.items()}
        if self._joint:
            counted = [score for task, score in scores.items() if task in averaged]
            accuracy = sum(s.right * s.weight / s.tested for s in counted) / sum(s.weight for s in counted)
        else:
            accuracy = metrics.seen_average(per_task, averaged)
        return {"accuracy": accuracy, "per_task": per_task}
