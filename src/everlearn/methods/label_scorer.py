"""A predictor for methods that score every label by themselves, where others have the problem's head do it."""

from abc import abstractmethod

import torch

from everlearn.batches import Batch, Integers
from everlearn.encoders import Encoder
from everlearn.methods.base import Predictor
from everlearn.methods.network import EXAMPLES_AT_ONCE
from everlearn.problems import Problem


class LabelScorer(Predictor):
    """Scores every label by the feature of an example; the problem chooses among those that are asked for."""

    def __init__(self, encoder: Encoder, problem: Problem) -> None:
        self.encoder, self.problem = encoder, problem

    @abstractmethod
    def score(self, features: torch.Tensor) -> torch.Tensor:
        """A row for each feature, a column for each label."""

    @torch.no_grad()
    def scores(self, batch: Batch) -> torch.Tensor:
        """A row for each example, a column for each label."""
        parts = batch.split(EXAMPLES_AT_ONCE)
        return torch.cat([self.score(self.encoder(self.problem.texts(part))) for part in parts])

    def predict(self, batch: Batch) -> Integers:
        """The label with the largest score."""
        return self.problem.choose(self.scores(batch), batch)
