"""A predictor for methods that score every label by themselves, where others have the problem's head do it."""

from abc import abstractmethod

import numpy as np
import torch

from everlearn.batches import Batch, Floats, Integers
from everlearn.encoders import Encoder
from everlearn.examples import UNLABELLED
from everlearn.methods.base import ScoringPredictor
from everlearn.methods.network import EXAMPLES_AT_ONCE
from everlearn.problems import Problem


class LabelScorer(ScoringPredictor):
    """Scores every label by the feature of an example; the problem chooses among those that are asked for."""

    def __init__(self, encoder: Encoder, problem: Problem) -> None:
        self.encoder, self.problem = encoder, problem
        self.labels = tuple(problem.labels)

    @abstractmethod
    def score(self, features: torch.Tensor) -> torch.Tensor:
        """A row for each feature, a column for each label number there is."""

    @torch.no_grad()
    def _scores(self, batch: Batch) -> torch.Tensor:
        parts = batch.split(EXAMPLES_AT_ONCE)
        return torch.cat([self.score(self.encoder(self.problem.texts(part))) for part in parts])

    def scores(self, batch: Batch) -> Floats:
        """A row for each example, a column for each label; minus infinity for labels never seen."""
        scores: Floats = self._scores(batch)[:, list(self.labels)].cpu().numpy()
        return scores

    def predict(self, batch: Batch) -> Integers:
        """The label with the largest score; none while there are no labels."""
        return self.problem.choose(self._scores(batch), batch) if self.labels else np.full(len(batch), UNLABELLED)
