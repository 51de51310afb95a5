"""A stream from the user's own file: labelled texts in CSV, TSV or JSON lines, learned in the order they stand in it.

Where a column names tasks, the rows of a task are brought together: the stream goes through the tasks in the order in
which each appears first (or the order asked for), and through a task's rows in the order of the file. Tasks matter for
the evaluation only. The texts stay as they are, but for spaces at their ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import orders, tables
from everlearn.streams.base import Benchmark, StreamConfig, Task
from everlearn.streams.sampling import check_sizes, data_generator
from everlearn.streams.tables import Row, Skipped

DESCRIPTION = "your own labelled texts from a CSV, TSV or JSONL file, in the order of the file (needs --data)"

Groups = Mapping[str, Sequence[Row]]

NO_TASK = "(none)"
"""The task of rows whose task column is empty."""


def load(config: StreamConfig) -> Benchmark:
    """The rows of the file, task after task, with a part of each held out unless there is a separate test file."""
    check_sizes(config)
    if config.data is None:
        raise UserError("the stream file needs --data with a CSV, TSV or JSONL file.")
    path = config.data
    if config.task_column is None and config.order != "1":
        raise UserError(f"the order '{config.order}' needs tasks: name the column that holds them with --task-column.")
    notes: list[str] = []
    groups = _read(path, tables.stem(path), config, notes)
    names = orders.choose(config.order, {"1": list(groups)}, list(groups))
    groups = {name: groups[name] for name in names}
    tests = _read_tests(config, groups, notes)
    labels = _labels(path, groups, tests, notes)
    tasks = tuple(_task(name, groups[name], tests[name] if tests else None, labels, config, notes) for name in names)
    return Benchmark(name=tables.stem(path), labels=tuple(labels), tasks=tasks, shuffle=False, notes=tuple(notes))


def _read(path: Path, whole: str, config: StreamConfig, notes: list[str]) -> dict[str, list[Row]]:
    """Rows by task, in order of first appearance; one task called `whole` where no column names tasks."""
    skipped = Skipped(path.name)
    columns = (config.text_column, config.label_column, config.task_column)
    groups: dict[str, list[Row]] = {}
    for row in tables.labelled_rows(path, *columns, skipped=skipped, strict=config.strict):
        groups.setdefault(whole if config.task_column is None else row.task or NO_TASK, []).append(row)
    notes += skipped.notes()
    if not groups:
        raise UserError(f"{path} has no row with a text and a label: check the columns and the file.")
    return groups


def _read_tests(config: StreamConfig, groups: Groups, notes: list[str]) -> Groups | None:
    if config.test_data is None:
        return None
    path = config.test_data
    tests = _read(path, next(iter(groups)), config, notes)
    for name in groups:
        if name not in tests:
            raise UserError(f"{path} has no rows of the task '{name}': add some, or leave the task out with --order.")
    ignored = sum(len(rows) for name, rows in tests.items() if name not in groups)
    if ignored:
        notes.append(f"left out {ignored:,} rows of {path.name} whose tasks are not trained on")
    return {name: tests[name] for name in groups}


def _labels(path: Path, groups: Groups, tests: Groups | None, notes: list[str]) -> dict[str, int]:
    """Label names and their places, sorted; as numbers where all of them are whole numbers."""
    trained, tested = _label_names(groups), _label_names(tests or {})
    if len(trained) < 2:
        raise UserError(f"{path} has only the label '{min(trained)}': there have to be two or more to tell apart.")
    unseen = _sorted_labels(tested - trained)
    if unseen:
        notes.append(f"labels that occur in the test data only: {', '.join(unseen)}")
    return {label: place for place, label in enumerate(_sorted_labels(trained | tested))}


def _label_names(groups: Groups) -> set[str]:
    return {row.label for rows in groups.values() for row in rows}


def _sorted_labels(names: Iterable[str]) -> list[str]:
    """Labels in order.

    >>> _sorted_labels(["10", "9", "-1"]), _sorted_labels(["10", "9", "b"])
    (['-1', '9', '10'], ['10', '9', 'b'])
    """
    labels = sorted(names)
    if all(label.removeprefix("-").isdecimal() for label in labels):
        labels.sort(key=int)
    return labels


def _task(
    name: str,
    rows: Sequence[Row],
    tests: Sequence[Row] | None,
    labels: Mapping[str, int],
    config: StreamConfig,
    notes: list[str],
) -> Task:
    parts = _parts(rows, _sizes(name, len(rows), tests is None, config, notes), f"file/{name}")
    train, validation, test = ([_example(row, labels) for row in part] for part in parts)
    if tests is not None:
        test = [_example(row, labels) for row in _test_rows(name, tests, config)]
    return Task(name=name, train=train, validation=validation, test=test)


def _sizes(name: str, there: int, hold_out: bool, config: StreamConfig, notes: list[str]) -> tuple[int, int, int]:
    """Rows to train on, to validate with and to hold out for testing; a tenth each of the latter two by default."""
    test = config.test_size or max(1, there // 10) if hold_out else 0
    tenth = there // 10
    if config.val_size is not None:
        val = config.val_size
    elif config.train_size is None:
        val = tenth
    else:
        # Validation gives way to an explicit training size.
        val = max(0, min(tenth, there - test - config.train_size))
        if val < tenth:
            notes.append(f"{name}: {val:,} validation examples are left beside {config.train_size:,} for training")
    train = there - test - val if config.train_size is None else config.train_size
    if train < 1 or train + val + test > there:
        raise UserError(
            f"the task '{name}' has {there:,} rows, too few for {max(1, train):,} to train on, {val:,} for validation "
            f"and {test:,} for testing: ask for less, or give --test-data."
        )
    return train, val, test


def _test_rows(name: str, rows: Sequence[Row], config: StreamConfig) -> Sequence[Row]:
    if config.test_size is None:
        return rows
    if config.test_size > len(rows):
        raise UserError(
            f"the task '{name}' has {len(rows):,} rows in the test data, too few for --test-size {config.test_size}: "
            "ask for less."
        )
    return _parts(rows, (config.test_size,), f"file/{name}/test")[0]


def _parts(rows: Sequence[Row], sizes: Sequence[int], generator: str) -> list[list[Row]]:
    """Disjoint random parts of these sizes; within each, the rows keep their order."""
    shuffled = data_generator(generator).permutation(len(rows))
    parts, start = [], 0
    for size in sizes:
        parts.append([rows[place] for place in np.sort(shuffled[start : start + size])])
        start += size
    return parts


def _example(row: Row, labels: Mapping[str, int]) -> Example:
    return Example(row.text, labels[row.label])
