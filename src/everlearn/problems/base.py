"""What a problem is: how examples become inputs, which head reads the features, what is lost, what is predicted."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import nn

from everlearn.batches import Batch, Integers, Sequences
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
    def loss(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def rows(self, batch: Batch) -> int:
        """How many sequences, and so logits and terms of the loss, the batch makes: a part's weight in a mean."""

    @abstractmethod
    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The label chosen for each example."""
