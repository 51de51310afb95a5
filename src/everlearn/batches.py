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
        chosen = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[chosen]
        places = np.repeat(self.ends[chosen] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        return Ragged(self.values[places], lengths)

    def positions(self) -> Integers:
        """Where in its own row each value stands.

        >>> Ragged.from_rows([[7, 8, 9], [], [7, 8]]).positions().tolist()
        [0, 1, 2, 0, 1]
        """
        return np.arange(len(self.values)) - np.repeat(self.ends - self.lengths, self.lengths)


def interleave(first: Ragged, second: Ragged) -> Ragged:
    """Each row of the first with the same row of the second behind it.

    >>> interleave(Ragged.from_rows([[1, 2], [3]]), Ragged.from_rows([[8], [9]])).values.tolist()
    [1, 2, 8, 3, 9]
    """
    lengths = first.lengths + second.lengths
    values = np.empty(lengths.sum(), dtype=np.result_type(first.values, second.values))
    behind = Ragged(values, lengths).positions() >= np.repeat(first.lengths, lengths)
    values[~behind], values[behind] = first.values, second.values
    return Ragged(values, lengths)


@dataclass(frozen=True)
class Sequences:
    """Token sequences for an encoder, with token types where the encoder tells two segments apart."""

    tokens: Ragged
    types: Ragged | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, indices: Sequence[int] | Integers) -> "Sequences":
        """The sequences at these positions."""
        return Sequences(self.tokens.take(indices), self.types.take(indices) if self.types is not None else None)


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

    def without(self, indices: Sequence[int] | Integers) -> "Batch":
        """All examples but those at these positions."""
        return self.take(np.setdiff1d(np.arange(len(self)), np.asarray(indices, dtype=np.int64)))

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
