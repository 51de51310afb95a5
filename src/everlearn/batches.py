"""Examples as arrays: token ids and targets of different lengths, stored end to end without padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ragged:
    """Rows of integers of different lengths.

    >>> rows = Ragged.from_rows([[1, 2, 3], [], [4]])
    >>> len(rows), rows[0].tolist(), rows.take([2, 0]).values.tolist()
    (3, [1, 2, 3], [4, 1, 2, 3])
    """

    values: Integers
    lengths: Integers

    @classmethod
    def from_rows(cls, rows: Sequence[Any], dtype: npt.DTypeLike = np.int32) -> "Ragged":
        """Lay rows end to end."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        values = np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if rows else np.empty(0, dtype=dtype)
        return cls(values, lengths)

    @classmethod
    def concat(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """All rows of all parts, in order."""
        return cls(np.concatenate([p.values for p in parts]), np.concatenate([p.lengths for p in parts]))

    @cached_property
    def ends(self) -> Integers:
        """Where each row ends in `values`."""
        return np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Integers:
        end = self.ends[index]
        return self.values[end - self.lengths[index] : end]

    def take(self, indices: Sequence[int] | Integers) -> "Ragged":
        """The rows at these positions, in this order."""
        rows = [self[int(i)] for i in indices]
        values = np.concatenate(rows) if rows else self.values[:0]
        return Ragged(values, self.lengths[np.asarray(indices, dtype=np.int64)])


@dataclass(frozen=True)
class Sequences:
    """Token sequences for an encoder, with token types where the encoder tells two segments apart."""

    tokens: Ragged
    types: Ragged | None = None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Batch:
    """Tokenised examples. A target row holds the label and, behind it, what the problem needs beside it."""

    tokens: Ragged
    targets: Ragged

    @classmethod
    def concat(cls, parts: Sequence["Batch"]) -> "Batch":
        """All examples of all parts, in order."""
        return cls(Ragged.concat([p.tokens for p in parts]), Ragged.concat([p.targets for p in parts]))

    @property
    def labels(self) -> Integers:
        """The label of each example."""
        labels: Integers = self.targets.values[self.targets.ends - self.targets.lengths]
        return labels

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, indices: Sequence[int] | Integers) -> "Batch":
        """The examples at these positions."""
        return Batch(self.tokens.take(indices), self.targets.take(indices))

    def split(self, size: int) -> Iterator["Batch"]:
        """Consecutive parts of at most `size` examples."""
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.take(range(start, min(start + size, len(self))))

    def state(self) -> dict[str, Any]:
        """Plain arrays, for a checkpoint."""
        return {
            "tokens": self.tokens.values,
            "token_lengths": self.tokens.lengths,
            "targets": self.targets.values,
            "target_lengths": self.targets.lengths,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Batch":
        """The batch that `state` described."""
        return cls(Ragged(state["tokens"], state["token_lengths"]), Ragged(state["targets"], state["target_lengths"]))
