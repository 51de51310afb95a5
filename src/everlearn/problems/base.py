"""What a problem is: how examples become inputs, which head reads the features, what is lost, what is predicted."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import torch
from torch import nn

from everlearn.batches import Batch, Integers, Sequences
from everlearn.encoders import Tokenizer
from everlearn.examples import Example


class Problem(ABC):
    """A method asks the problem for all of this and never needs to know which problem it is."""

    room: int = 0
    """How many tokens are kept free behind a text for what the problem puts there."""
    label_names: Sequence[str]
    """What the labels are called, in words."""

    @abstractmethod
    def tokenise(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Examples as arrays; this is what methods see and the memory stores."""

    @abstractmethod
    def sequences(self, batch: Batch) -> Sequences:
        """What has to go through the encoder."""

    @abstractmethod
    def head(self, width: int) -> nn.Module:
        """A fresh head over features of this width."""

    @abstractmethod
    def loss(self, logits: torch.Tensor, batch: Batch, among: Collection[int] | None = None) -> torch.Tensor:
        """The mean loss of a batch; with `among`, as if there were no other labels than these."""

    @abstractmethod
    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The loss of each example."""

    @abstractmethod
    def wanted(self, batch: Batch, outputs: int) -> torch.Tensor:
        """What a head of so many outputs should answer, a row for each sequence: large for yes, small for no."""

    @abstractmethod
    def row_counts(self, batch: Batch) -> Integers:
        """How many sequences, and so logits, each example makes."""

    @abstractmethod
    def right_rows(self, batch: Batch) -> Integers:
        """For each example the one of its sequences that holds the right answer, by its place in the batch's."""

    def rows(self, batch: Batch) -> int:
        """How many sequences, and so logits and terms of the loss, the batch makes: a part's weight in a mean."""
        return int(self.row_counts(batch).sum())

    @abstractmethod
    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The label chosen for each example."""

    # For methods that compare whole examples, or have scores of their own for every label.

    @abstractmethod
    def texts(self, batch: Batch) -> Sequences:
        """The examples themselves, one sequence each, with nothing beside them."""

    @abstractmethod
    def choices(self, batch: Batch) -> list[Integers]:
        """The labels among which each example's is to be chosen."""

    @abstractmethod
    def choose(self, scores: torch.Tensor, batch: Batch) -> Integers:
        """The label with the largest score among each example's choices; `scores` has a column for each label."""
