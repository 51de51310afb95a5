"""Sums over features that closed-form heads are computed from, in double precision, on the encoder's device."""

from typing import Any

import torch

from everlearn.batches import Integers
from everlearn.transfer import on_device

ROWS_AT_ONCE = 512
"""Features that are collected before they go into a second moment: the product of few rows takes as long as of many."""


class ClassSums:
    """The sum and the count of each label's features; there is room for as many labels as were promised or seen."""

    def __init__(self, width: int, labels: int, device: torch.device) -> None:
        self.sums = torch.zeros(max(labels, 1), width, dtype=torch.float64, device=device)
        self.counts = torch.zeros(len(self.sums), dtype=torch.float64, device=device)

    def add(self, features: torch.Tensor, labels: Integers) -> None:
        """Add each row to its label; a label may occur any number of times."""
        self._count(features, labels, 1)

    def subtract(self, features: torch.Tensor, labels: Integers) -> None:
        """Take rows back that were added; what is left of a label without rows is rounding, and goes too."""
        self._count(features, labels, -1)
        self.sums[self.counts == 0] = 0

    def _count(self, features: torch.Tensor, labels: Integers, sign: int) -> None:
        if (more := int(labels.max()) + 1 - len(self.sums)) > 0:
            self.sums = torch.nn.functional.pad(self.sums, (0, 0, 0, more))
            self.counts = torch.nn.functional.pad(self.counts, (0, more))
        own = on_device(labels.astype("int64"), self.sums.device)
        members = sign * torch.nn.functional.one_hot(own, len(self.counts)).to(self.sums.dtype)
        self.sums += members.T @ features
        self.counts += members.sum(dim=0)

    def clear(self, label: int) -> None:
        """As if the label had never been seen."""
        if label < len(self.counts):
            self.sums[label], self.counts[label] = 0, 0

    @property
    def means(self) -> torch.Tensor:
        """Zero for labels never seen."""
        return self.sums / self.counts.clamp(min=1.0).unsqueeze(1)

    def state(self) -> dict[str, Any]:
        """Sums and counts."""
        return {"sums": self.sums, "counts": self.counts}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from saved sums."""
        self.sums, self.counts = (state[name].to(self.sums.device, copy=True) for name in ("sums", "counts"))


class SecondMoment:
    """G = Σ h hᵀ over all features."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.rows = 0
        """How many features are in it."""
        self._sum = torch.zeros(width, width, dtype=torch.float64, device=device)
        self._waiting = torch.zeros(0, width, dtype=torch.float64, device=device)

    def add(self, features: torch.Tensor) -> None:
        """Add the product of each row with itself."""
        self.rows += len(features)
        self._waiting = torch.cat([self._waiting, features])
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._sum = self.sum
            self._waiting = self._waiting[:0]

    def subtract(self, features: torch.Tensor) -> None:
        """Take rows back that were added; what is left of no rows is rounding, and goes too."""
        self.rows -= len(features)
        self.flatten(features)
        if not self.rows:
            self._sum.zero_()

    def flatten(self, directions: torch.Tensor) -> None:
        """Take the product of each row with itself out of G; how many features are in it stays as it is."""
        # Nothing may go on waiting: a row that is taken back must not be found there.
        self._sum = torch.addmm(self.sum, directions.T, directions, alpha=-1)
        self._waiting = self._waiting[:0]

    @property
    def sum(self) -> torch.Tensor:
        """With the rows that still wait; they go on waiting, so that looking changes nothing, rounding included."""
        return torch.addmm(self._sum, self._waiting.T, self._waiting)

    def state(self) -> dict[str, Any]:
        """The sum and what waits."""
        return {"rows": self.rows, "sum": self._sum, "waiting": self._waiting}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved sum."""
        self.rows = state["rows"]
        self._sum, self._waiting = (state[name].to(self._sum.device, copy=True) for name in ("sum", "waiting"))


def solve_positive(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """X in matrix · X = right, for a matrix that is symmetric and positive definite."""
    solved: torch.Tensor = torch.cholesky_solve(right, torch.linalg.cholesky(matrix))
    return solved
