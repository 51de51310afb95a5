"""What a stream is made of, counted from its examples."""

from everlearn.report.tasks import TaskDict
from everlearn.streams import Benchmark, Task


def describe_tasks(benchmark: Benchmark) -> list[TaskDict]:
    """One entry for each task, in the order of the stream."""
    return [_describe(task) for task in benchmark.tasks]


def _describe(task: Task) -> TaskDict:
    lengths = [len(example.text.split()) for example in task.train]
    return {
        "task": task.name,
        "classes": len({example.label for example in task.train}),
        "train": len(task.train),
        "validation": len(task.validation),
        "test": len(task.test),
        "mean_words": sum(lengths) / len(lengths),
        "most_words": max(lengths),
        "mean_candidates": sum(len(example.candidates) for example in task.train) / len(task.train),
    }
