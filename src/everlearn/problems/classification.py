"""Classification: one softmax over all classes, shared by every task (paper, section 5.2)."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Floats, Integers, Ragged, Sequences
from everlearn.encoders import Tokenizer
from everlearn.examples import Example
from everlearn.problems.base import Problem


class Classification(Problem):
    """Choose one of `classes` labels."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

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

    def loss(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Cross-entropy over all classes."""
        labels = torch.from_numpy(batch.labels.astype("int64")).to(logits.device)
        return functional.cross_entropy(logits, labels)

    def rows(self, batch: Batch) -> int:
        """One an example."""
        return len(batch)

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The class with the largest logit."""
        predicted: Integers = logits.argmax(dim=1).cpu().numpy()
        return predicted

    @property
    def labels(self) -> Sequence[int]:
        """Every class."""
        return range(self.classes)

    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """The logits themselves."""
        scores: Floats = logits.float().cpu().numpy()
        return scores
