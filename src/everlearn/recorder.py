"""Keeps the numbers of a run: lines of `metrics.jsonl` and TensorBoard events."""

import contextlib
import json
import math
from itertools import chain
from typing import Any

import torch

from everlearn.errors import UserError
from everlearn.events import EventFile
from everlearn.methods import Observations
from everlearn.run_folder import RunFolder


class Recorder:
    """Averages what methods observe between two lines.

    Without a folder it writes nothing; where nobody is watching either, it does not wait for the device in order to
    read, and only makes sure at evaluations that the numbers are still finite.
    """

    def __init__(self, folder: RunFolder | None, every: int, watched: bool = True) -> None:
        self._folder = folder
        self._every = every
        self._wanted = watched or folder is not None
        self._pending: dict[str, list[Any]] = {}
        self._written_at = 0
        self._events: EventFile | None = None

    def observe(self, examples: int, observations: Observations) -> dict[str, float] | None:
        """Note a step; every now and then the means since the last time, which are also written down."""
        for name, value in observations.items():
            self._pending.setdefault(name, []).append(value)
        if examples - self._written_at < self._every:
            return None
        if self._wanted:
            return self.settle(examples)
        # A sum is finite where all its parts are, and takes no room that grows with the stream.
        self._pending, self._written_at = {name: [sum(values)] for name, values in self._pending.items()}, examples
        return None

    def settle(self, examples: int) -> dict[str, float] | None:
        """The means of what is waiting, written down; None if nothing is."""
        if not self._pending:
            return None
        means = {name: math.fsum(values) / len(values) for name, values in self._settled().items()}
        self._pending, self._written_at = {}, examples
        if not all(map(math.isfinite, means.values())):
            raise UserError(
                f"the loss is no longer a finite number after {examples} examples: lower the learning rates."
            )
        self._write(examples, means)
        return means

    def evaluated(self, examples: int, evaluation: dict[str, Any]) -> None:
        """Write an evaluation down."""
        if not self._wanted:
            self.settle(examples)  # the device was waited for anyway
        scores = {f"accuracy/{task}": value for task, value in evaluation["per_task"].items()}
        self._write(examples, {"accuracy": evaluation["accuracy"], **scores})

    def state(self) -> dict[str, Any]:
        """What is not yet written, and how long the file is."""
        size = self._folder.metrics.stat().st_size if self._folder and self._folder.metrics.exists() else 0
        return {"pending": self._settled(), "written_at": self._written_at, "size": size}

    def restore(self, state: dict[str, Any]) -> None:
        """Cut off lines that were written after the checkpoint: they will be written again."""
        self._pending, self._written_at = state["pending"], state["written_at"]
        self._cut(state["size"])

    def start_over(self) -> None:
        """A run without a checkpoint begins again, and so does its file."""
        self._cut(0)

    def close(self) -> None:
        """Finish the event file."""
        if self._events is not None:
            # Every event has been flushed: a disk that is full now must not hide the error it caused earlier.
            with contextlib.suppress(OSError):
                self._events.close()

    def _cut(self, size: int) -> None:
        if self._folder and self._folder.metrics.exists():
            with self._folder.metrics.open("r+b") as file:
                file.truncate(size)

    def _settled(self) -> dict[str, list[float]]:
        """Plain numbers instead of tensors; this waits for the device, once."""
        tensors = [value for value in chain(*self._pending.values()) if isinstance(value, torch.Tensor)]
        read = iter(torch.stack(tensors).tolist() if tensors else ())
        return {
            name: [next(read) if isinstance(value, torch.Tensor) else float(value) for value in values]
            for name, values in self._pending.items()
        }

    def _write(self, examples: int, numbers: dict[str, float]) -> None:
        if self._folder is None:
            return
        try:
            with self._folder.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"examples": examples, **numbers}) + "\n")
            if self._events is None:
                self._events = EventFile(self._folder.tensorboard, first_step=examples)
            self._events.add(examples, numbers)
        except OSError as error:
            raise UserError(f"could not write to {self._folder.path}: {error.strerror}.") from error
