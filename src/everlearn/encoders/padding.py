"""Sequences as rectangles: like lengths together, cut into pieces, padded to the longest of a piece."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from everlearn.batches import Integers, Ragged


@dataclass(frozen=True)
class PieceLimits:
    """How much may go through the encoder at once: tokens in all, and padding among them."""

    tokens: int
    padding: float


# On a CPU every padded token costs as much as a real one, and another piece costs about as much as 64 of them. A GPU
# wants few large pieces.
PIECE_LIMITS = {"cpu": PieceLimits(4096, 64), "cuda": PieceLimits(65536, math.inf)}


def cut_into_pieces(order: Integers, lengths: Integers, limits: PieceLimits) -> Iterator[Integers]:
    """Cut `order` (shortest first) so that no piece of several rows exceeds the limits when padded to its longest.

    >>> order, lengths = np.array([2, 0, 1]), np.array([4, 5, 1])
    >>> [piece.tolist() for piece in cut_into_pieces(order, lengths, PieceLimits(tokens=9, padding=1))]
    [[2], [0], [1]]
    >>> [piece.tolist() for piece in cut_into_pieces(order, lengths, PieceLimits(tokens=10, padding=3))]
    [[2, 0], [1]]
    """
    start, real = 0, 0
    for stop, length in enumerate(lengths[order].tolist()):
        padded = (stop + 1 - start) * length
        if stop > start and (padded > limits.tokens or padded - real - length > limits.padding):
            yield order[start:stop]
            start, real = stop, 0
        real += length
    yield order[start:]


def pad(rows: Ragged, indices: Integers, fill: int) -> tuple[Integers, Integers]:
    """The rows as a rectangle, no wider than the longest of them, and where it is not padding."""
    lengths = rows.lengths[indices]
    padded = np.full((len(indices), int(lengths.max())), fill, dtype=np.int64)
    mask = np.arange(padded.shape[1]) < lengths[:, None]
    padded[mask] = rows.take(indices).values
    return padded, mask.astype(np.int64)
