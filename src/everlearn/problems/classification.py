"""Classification: one softmax over all classes, shared by every task (paper, section 5.2)."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Floats, Integers, Ragged, Sequences
from everlearn.encoders import Tokenizer
from everlearn.examples import Example
from everlearn.problems.base import Problem
from everlearn.transfer import on_device


class Classification(Problem):
    """Choose one of `classes` labels."""

    def __init__(self, classes: int, names: Sequence[str] | None = None) -> None:
        self.classes = classes
        self._names = () if names is None else names

    def tokenise(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Token ids, and the label as a target row of one."""
        tokens = tokenizer([example.text for example in examples])
        return Batch(tokens, Ragged.from_rows([[example.label] for example in examples]))

    def sequences(self, batch: Batch) -> Sequences:
        """The texts themselves."""
        return Sequences(batch.tokens)

    def head(self, width: int) -> nn.Module:
        """A linear layer from the feature to the classes."""
        return nn.Linear(width, self.classes)

    def columns(self, labels: Iterable[int]) -> list[int]:
        """The columns of the head that stand for these labels."""
        return list(labels)

    def loss(self, logits: torch.Tensor, batch: Batch, among: Collection[int] | None = None) -> torch.Tensor:
        """Cross-entropy over all classes, or over those that take part."""
        if among is not None:
            absent = np.ones(logits.shape[1], dtype=np.bool_)
            absent[self.columns(among)] = False
            logits = logits.masked_fill(on_device(absent, logits.device), -torch.inf)
        return functional.cross_entropy(logits, self._right(batch, logits.device))

    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Cross-entropy of each example."""
        return functional.cross_entropy(logits, self._right(batch, logits.device), reduction="none")

    def wanted(self, batch: Batch, outputs: int) -> torch.Tensor:
        """One for the label's class, zero for the others."""
        return functional.one_hot(self._right(batch, torch.device("cpu")), outputs)

    def _right(self, batch: Batch, device: torch.device) -> torch.Tensor:
        return on_device(np.array(self.columns(batch.labels.tolist()), dtype=np.int64), device)

    def row_counts(self, batch: Batch) -> Integers:
        """One an example."""
        return np.ones(len(batch), dtype=np.int64)

    def right_rows(self, batch: Batch) -> Integers:
        """The only one there is."""
        return np.arange(len(batch))

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The class with the largest logit."""
        predicted: Integers = logits.argmax(dim=1).cpu().numpy()
        return predicted

    def texts(self, batch: Batch) -> Sequences:
        """What goes through the encoder anyway."""
        return self.sequences(batch)

    def choices(self, batch: Batch) -> list[Integers]:
        """All classes."""
        return [np.array(self.labels, dtype=np.int64)] * len(batch)

    def choose(self, scores: torch.Tensor, batch: Batch) -> Integers:
        """The class with the largest score."""
        chosen: Integers = scores.argmax(dim=1).cpu().numpy()
        return chosen

    @property
    def labels(self) -> Sequence[int]:
        """Every class."""
        return range(self.classes)

    @property
    def label_names(self) -> Sequence[str]:
        """The names given, and numbers for whatever has none."""
        return [self._names[label] if label < len(self._names) else str(label) for label in self.labels]

    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """The logits themselves."""
        scores: Floats = logits.float().cpu().numpy()
        return scores
