"""What a classifier knows at one moment: predictions that later learning does not change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.batches import Batch, Floats
from everlearn.classifier.labels import Label
from everlearn.encoders import Tokenizer
from everlearn.errors import UserError
from everlearn.examples import UNLABELLED, Example
from everlearn.methods import Predictor, ScoringPredictor
from everlearn.problems import Problem


@dataclass(frozen=True)
class Ranked:
    """A label, and how likely it is where the method says so."""

    label: Label
    probability: float | None


@dataclass(frozen=True)
class Snapshot:
    """Predicts with one state of the model; may be used in another thread while the model goes on learning."""

    predictor: Predictor
    problem: Problem
    tokenizer: Tokenizer
    names: dict[int, Label]
    """The labels by their numbers; those that were forgotten are not among them."""
    counts: Mapping[Label, int]
    """How many examples of each it goes by."""

    @property
    def classes(self) -> list[Label]:
        """The labels it chooses from, sorted."""
        return sorted(self.names.values())

    def tokenise(self, texts: Sequence[str]) -> Batch:
        """Texts as a batch without labels."""
        return self.problem.tokenise([Example(text, UNLABELLED) for text in texts], self.tokenizer)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """A row a text and a column for each of `classes`, adding up to one."""
        if not isinstance(self.predictor, ScoringPredictor):
            raise UserError("this method gives labels only: choose another where probabilities are needed.")
        return self._probabilities(self.predictor, self.tokenise(texts))

    def ranked(self, texts: Sequence[str], most: int) -> list[list[Ranked]]:
        """The likeliest labels of each text, the best first; only one, of unknown probability, where a method says no
        more."""
        if not isinstance(self.predictor, ScoringPredictor):
            return [[Ranked(label, None)] for label in self.predict(texts)]
        classes = self.classes
        best = [(shares, (-shares).argsort(kind="stable")[:most].tolist()) for shares in self.probabilities(texts)]
        return [[Ranked(classes[place], float(shares[place])) for place in places] for shares, places in best]

    def predict(self, texts: Sequence[str]) -> list[Label]:
        """The label chosen for each text."""
        return self.predict_batch(self.tokenise(texts))

    def predict_batch(self, batch: Batch) -> list[Label]:
        """The label chosen for each example of a batch."""
        if not len(batch):
            return []
        if isinstance(self.predictor, ScoringPredictor):
            classes = self.classes
            return [classes[best] for best in self._probabilities(self.predictor, batch).argmax(axis=1)]
        return [self.names[number] for number in self.predictor.predict(batch).tolist()]

    def _probabilities(self, predictor: ScoringPredictor, batch: Batch) -> Floats:
        classes = self.classes
        shares = np.zeros((len(batch), len(classes)))
        places = {name: place for place, name in enumerate(classes)}
        # What was forgotten has no name any more; and what was only announced so far has no column yet.
        named = [(n, places[self.names[number]]) for n, number in enumerate(predictor.labels) if number in self.names]
        if len(batch) and named:
            columns, own = zip(*named, strict=True)
            shares[:, own] = predictor.probabilities(batch)[:, columns]
        totals = shares.sum(axis=1, keepdims=True)
        # A forgotten label may have taken all there was: then nothing is known, and every label is as likely.
        known = np.divide(shares, totals, out=np.full_like(shares, 1 / len(classes)), where=totals > 0)
        # Laplace's rule of succession: whatever a method claims, few examples make nothing certain.
        counts = np.array([self.counts[name] for name in classes])
        seen = counts > 0
        tempered: Floats = (counts.sum() * known + seen) / max(counts.sum() + seen.sum(), 1)
        return tempered if seen.any() else known
