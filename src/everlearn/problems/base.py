"""What a problem is: how examples become inputs, which head reads the features, what is lost, what is predicted."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import nn

from everlearn.batches import Batch, Floats, Integers, Sequences
from everlearn.encoders import Tokenizer
from everlearn.examples import Example


class Problem(ABC):
    """A method asks the problem for all of this and never needs to know which problem it is."""

    room: int = 0
    """How many tokens are kept free behind a text for what the problem puts there."""

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
        """The mean loss of a batch; with `among`, as if there were no other labels than these.

        Where examples come with candidates of their own, `narrowed` sees to that.
        """

    def narrowed(self, batch: Batch, among: Collection[int], beside: Collection[int] = ()) -> Batch:
        """What is left to learn if there are no other labels than `among`.

        Where examples come with candidates of their own, these are cut down to `among`, and each example is compared
        with the labels `beside` too; one that has nothing left to be compared with teaches nothing, and goes.
        """
        return batch

    @abstractmethod
    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The loss of each example."""

    @abstractmethod
    def wanted(self, batch: Batch, outputs: int) -> torch.Tensor:
        """What a head of so many outputs should answer, a row for each sequence: one for yes, zero for no."""

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

    @property
    @abstractmethod
    def labels(self) -> Sequence[int]:
        """The labels there are to choose from, in the order of the columns of `scores`."""

    @property
    @abstractmethod
    def label_names(self) -> Sequence[str]:
        """What they are called, in words, in the same order."""

    @property
    def contenders(self) -> Sequence[int]:
        """All that a loss is over: the labels, and `UNLABELLED` where something stands for labels to come."""
        return self.labels

    @abstractmethod
    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """A row an example and a column a label, larger for what is likelier; -inf for what is out of the question."""

    def meet(self, batch: Batch) -> bool:
        """Whether the batch showed labels that were not known before; from now on they are (open classes)."""
        return False

    def grown(self, rows: torch.Tensor) -> torch.Tensor:
        """A tensor with a row for each row of the head, with more for labels that have been met since."""
        return rows

    def renewed(self, rows: torch.Tensor, label: int) -> torch.Tensor:
        """Such a tensor in which nothing speaks of this label any more, as far as a row is its own."""
        return rows

    def state(self) -> dict[str, Any]:
        """What changes while a stream goes by."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
