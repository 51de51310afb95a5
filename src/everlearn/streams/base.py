"""What a benchmark is: tasks in an order, each with examples to learn from and to be tested on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.examples import Example
from everlearn.settings import setting

Embed = Callable[[Sequence[str]], NDArray[np.floating]]
"""Gives texts vectors; a stream that groups labels by meaning is handed one."""


@dataclass(frozen=True)
class StreamConfig:
    """Where the examples come from."""

    stream: str = setting("docstrings", "the stream to learn from (see `everlearn list streams`)")
    data: Path | None = setting(None, "folder or file that holds the stream's data")
    test_data: Path | None = setting(None, "separate test file, for the stream `file`; without it a part is held out")
    order: str = setting("1", "which of the stream's orders, or task names separated by commas")
    train_size: int | None = setting(None, "training examples per task (fewrel: in all); default: the stream's own")
    val_size: int | None = setting(None, "validation examples per task (fewrel: in all); default: the stream's own")
    test_size: int | None = setting(None, "test examples per task (fewrel: in all); default: the stream's own")
    text_column: str = setting("text", "column that holds the text, for the stream `file`")
    label_column: str = setting("label", "column that holds the label, for the stream `file`")
    task_column: str | None = setting(
        None, "column that names the task, for the stream `file`: rows are grouped by it, and evaluated per task"
    )
    clusters: Path | None = setting(None, "cluster file (fewrel); default: the data folder's own, else K-means")
    glove: Path | None = setting(None, "GloVe text file to find clusters with (fewrel)")
    split: str = setting(
        "test", "what to evaluate on: test, or validation while choosing settings", choices=("test", "validation")
    )
    strict: bool = setting(False, "stop at the first row without text or label instead of skipping it")


@dataclass(frozen=True)
class Task:
    """A stretch of the stream. Its name is for the schedule and the evaluation; no method ever sees it."""

    name: str
    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    pool: Sequence[Example] | None = None
    """The training examples as they are when all tasks are known at once, where that makes a difference."""


@dataclass(frozen=True)
class Benchmark:
    """Tasks in the order they arrive, and the names of the labels."""

    name: str
    labels: tuple[str, ...]
    tasks: tuple[Task, ...]
    problem: str = "classification"
    shuffle: bool = True
    """Whether a task's examples are shuffled with the run's seed (a file keeps the order it came in)."""
    joint_test: bool = False
    """Whether all tasks are tested in one set (accuracy over all examples) or each in its own (macro average)."""
    notes: tuple[str, ...] = ()
    """What the user should be told about the data: rows skipped, sizes smaller than asked for."""
