"""Sequences end to end in one row, without padding, and attention that stays within each of them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from everlearn.batches import Integers, Sequences

ATTENTION = "everlearn_packed"
"""The name under which transformers' models find `packed_attention`."""


@dataclass(frozen=True)
class Shape:
    """Room for packed sequences: tokens in all, sequences, and the longest of them."""

    tokens: int
    sequences: int
    longest: int

    @classmethod
    def of(cls, lengths: Integers) -> "Shape":
        """Exactly the room that sequences of these lengths need."""
        return cls(int(lengths.sum()), len(lengths), int(lengths.max()))

    def rounded(self) -> "Shape":
        """A little more room, so that few different shapes occur: at most an eighth of the tokens is added.

        >>> Shape(tokens=1750, sequences=16, longest=300).rounded()
        Shape(tokens=1792, sequences=32, longest=512)
        """
        step = max(64, 2 ** int(math.log2(self.tokens)) // 8)
        tokens = -(-self.tokens // step) * step
        # Kernels only take it for the most they may expect: two steps are enough.
        longest = 128 if self.longest <= 128 else max(512, 2 ** math.ceil(math.log2(self.longest)))
        # Tokens that are left over are given to sequences of their own, behind the real ones.
        needed = self.sequences + -(-(tokens - self.tokens) // longest)
        return Shape(tokens, 2 ** math.ceil(math.log2(max(needed, 16))), longest)


def pack(sequences: Sequences, shape: Shape, first_position: int) -> Integers:
    """Ids, positions and types of all tokens, and where sequences begin and end, as one array for one transfer."""
    packed = np.zeros(3 * shape.tokens + shape.sequences + 1, dtype=np.int32)
    ids, positions, types = packed[: 3 * shape.tokens].reshape(3, -1)
    real = len(sequences.tokens.values)
    ids[:real] = sequences.tokens.values
    positions[:real] = sequences.tokens.positions()
    # Tokens that are left over all stand at the first position: the shape is longer than some encoders have positions.
    positions += first_position
    if sequences.types is not None:
        types[:real] = sequences.types.values
    ends = packed[3 * shape.tokens + 1 :]
    ends[: len(sequences)] = sequences.tokens.ends
    left_over = np.arange(1, shape.sequences - len(sequences) + 1) * shape.longest
    ends[len(sequences) :] = np.minimum(real + left_over, shape.tokens)
    return packed


class Packed:
    """What `pack` made, on the device, taken apart again."""

    def __init__(self, shape: Shape, buffer: torch.Tensor) -> None:
        self.shape = shape
        self.buffer = buffer
        self.ids, self.positions, self.types = buffer[: 3 * shape.tokens].view(3, 1, -1)
        self.bounds = buffer[3 * shape.tokens :]
        """Where each sequence begins, and where the last one ends."""


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention within each sequence, called by a transformers model in place of its own."""
    if sliding_window is not None:
        raise ValueError("some of its layers attend within a window only")
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        # Views whose gradients are views again: an index would be copied back into zeros.
        q, k, v = (states.transpose(1, 2).squeeze(0) for states in (query, key, value))
        bounds, longest = cu_seq_lens_q, max_length_q
        attended = varlen_attn(q, k, v, bounds, bounds, longest, longest, scale=scaling)
        assert isinstance(attended, torch.Tensor)
        return attended.unsqueeze(0), None
    # Where there is no kernel for it: the same by a mask, as a reference.
    owner = torch.bucketize(torch.arange(query.shape[2]), cu_seq_lens_q[1:], right=True)
    mask = owner[:, None] == owner[None, :]
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return attended.transpose(1, 2), None
