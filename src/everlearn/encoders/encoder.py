"""Text to vectors: a Hugging Face encoder with its pooling, which counts the tokens that pass through it."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from everlearn.batches import Integers, Ragged, Sequences
from everlearn.encoders.tokenizer import Tokenizer
from everlearn.ledger import Meter
from everlearn.settings import setting

POOLINGS = ("cls", "mean", "pooler")


@dataclass(frozen=True)
class PieceLimits:
    """How much may go through the encoder at once: tokens in all, and padding among them."""

    tokens: int
    padding: float


# On a CPU every padded token costs as much as a real one, and another piece costs about as much as 64 of them. A GPU
# wants few large pieces.
PIECE_LIMITS = {"cpu": PieceLimits(4096, 64), "cuda": PieceLimits(65536, math.inf)}


@dataclass(frozen=True)
class EncoderConfig:
    """The text encoder."""

    encoder: str = setting("minilm", "encoder: minilm, bert, tiny, a Hugging Face name, or a local folder")
    pooling: str = setting("auto", "feature of a text: cls, mean or pooler; auto = the encoder's own")
    max_length: int = setting(448, "longest text in tokens; longer ones are cut")
    dropout: float = setting(0.0, "dropout inside the encoder while learning, the same for every method")
    trained_layers: int | None = setting(None, "train only so many layers at the encoder's top; default: all of it")


class Encoder(nn.Module):
    """Maps token sequences to one vector each."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, pooling: str) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.width: int = model.config.hidden_size  # type: ignore[union-attr, assignment]
        self.meter = Meter()
        """Where the work of this encoder is counted; whoever uses it puts the right meter here."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def counting_on(self, meter: Meter) -> "Encoder":
        """The same encoder, weights shared, whose work is counted on another meter."""
        view = copy.copy(self)
        view.meter = meter
        return view

    def forward(self, sequences: Sequences) -> torch.Tensor:
        """One feature vector for each sequence. Sequences of like length go together, so that little is padded."""
        if not len(sequences):
            return torch.empty(0, self.width, device=self.device)
        lengths = sequences.tokens.lengths
        order = np.argsort(lengths, kind="stable")
        pieces = [self._encode(sequences, piece) for piece in _pieces(order, lengths, PIECE_LIMITS[self.device.type])]
        features = torch.cat(pieces)[torch.from_numpy(np.argsort(order)).to(self.device)]
        self._count(int(lengths.sum()), features)
        return features

    def _encode(self, sequences: Sequences, rows: Integers) -> torch.Tensor:
        tokens, mask = _pad(sequences.tokens, rows, self.tokenizer.pad_id)
        inputs = {"input_ids": tokens.to(self.device), "attention_mask": mask.to(self.device)}
        if sequences.types is not None:
            inputs["token_type_ids"] = _pad(sequences.types, rows, 0)[0].to(self.device)
        return self._pool(self.model(**inputs), inputs["attention_mask"])

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = output.last_hidden_state
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "pooler":
            pooled: torch.Tensor = output.pooler_output
            return pooled
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)

    def _count(self, tokens: int, features: torch.Tensor) -> None:
        meter = self.meter
        meter.tokens_forward += tokens
        if features.requires_grad:

            def count_backward(gradient: torch.Tensor) -> None:
                meter.tokens_backward += tokens

            features.register_hook(count_backward)  # type: ignore[no-untyped-call]


def _pieces(order: Integers, lengths: Integers, limits: PieceLimits) -> Iterator[Integers]:
    """Cut `order` (shortest first) so that no piece of several rows exceeds the limits when padded to its longest.

    >>> [p.tolist() for p in _pieces(np.array([2, 0, 1]), np.array([4, 5, 1]), PieceLimits(tokens=9, padding=1))]
    [[2], [0], [1]]
    >>> [p.tolist() for p in _pieces(np.array([2, 0, 1]), np.array([4, 5, 1]), PieceLimits(tokens=10, padding=3))]
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


def _pad(rows: Ragged, indices: Integers, fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows as a rectangle, no wider than the longest of them, and where it is not padding."""
    width = int(rows.lengths[indices].max())
    padded = np.full((len(indices), width), fill, dtype=np.int64)
    mask = np.arange(width) < rows.lengths[indices][:, None]
    padded[mask] = rows.take(indices).values
    return torch.from_numpy(padded), torch.from_numpy(mask.astype(np.int64))
