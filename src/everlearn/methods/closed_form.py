"""A frozen encoder under a head that is computed, not trained: sums over the stream, and one solve when it is tested.

Sums do not depend on the order of what is summed, so these methods cannot forget, whatever the order of the stream.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import normalize

from everlearn.batches import Batch
from everlearn.methods.base import Method, MethodConfig, Observations, Parts, Predictor
from everlearn.methods.label_scorer import LabelScorer
from everlearn.methods.network import EXAMPLES_AT_ONCE
from everlearn.methods.statistics import ClassSums, SecondMoment


@dataclass(frozen=True)
class LinearHead:
    """A score for each label; minus infinity for labels never seen."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        """One row of scores for each row of features."""
        return features @ self.weight.T + self.bias


class ClosedForm(Method):
    """Adds up what a subclass needs of the features, and solves for the head once something was observed."""

    family = "closed form"
    freezes_encoder = True
    takes_back = True

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.encoder = parts.encoder.counting_on(self.ledger.train).eval()
        self.sums = ClassSums(self.width(), len(parts.problem.label_names), self.encoder.device)
        self._solved: LinearHead | None = None

    def width(self) -> int:
        """Of the features that the head reads."""
        return self.encoder.width

    def read(self, features: torch.Tensor) -> torch.Tensor:
        """What the head reads, out of the encoder's features, in double precision."""
        features = features.double()
        return self.expand(normalize(features) if self.config.unit_features else features)

    def expand(self, features: torch.Tensor) -> torch.Tensor:
        """More features made of these."""
        return features

    def absorb(self, features: torch.Tensor) -> None:
        """Add what is needed beside the sum and the count of each class."""

    def release(self, features: torch.Tensor) -> None:
        """Take back what `absorb` added."""

    @abstractmethod
    def solve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias of the head, a row for each label."""

    @torch.no_grad()
    def observe(self, batch: Batch) -> Observations:
        """Add the batch to the sums."""
        features = self._features(batch)
        self.sums.add(features, batch.labels)
        self.absorb(features)
        self._solved = None
        return {"classes": (self.sums.counts > 0).sum()}  # read when somebody looks: the device is not waited for

    @torch.no_grad()
    def take_back(self, batch: Batch) -> None:
        """Subtract the batch from the sums: but for rounding, as if it had never been observed."""
        for part in batch.split(EXAMPLES_AT_ONCE):
            features = self._features(part)
            self.sums.subtract(features, part.labels)
            self.release(features)
        self._solved = None

    def forget(self, label: int) -> None:
        """Let go of the label's sum and count."""
        self.sums.clear(label)
        self._solved = None

    def _features(self, batch: Batch) -> torch.Tensor:
        return self.read(self.encoder(self.problem.texts(batch)))

    @torch.no_grad()
    def predictor(self) -> Predictor:
        """The head of this moment."""
        if self._solved is None:
            weight, bias = self.solve()
            self._solved = LinearHead(weight, bias.masked_fill(self.sums.counts == 0, -torch.inf))
        return ClosedFormPredictor(self, self._solved)

    def state(self) -> dict[str, Any]:
        """The sums."""
        return {"sums": self.sums.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on adding."""
        self.sums.restore(state["sums"])
        self._solved = None


class SecondOrder(ClosedForm):
    """Adds up how features vary together, too: G = Σ h hᵀ."""

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.moment = SecondMoment(self.width(), self.encoder.device)

    def absorb(self, features: torch.Tensor) -> None:
        """Add to G."""
        self.moment.add(features)

    def release(self, features: torch.Tensor) -> None:
        """Subtract from G."""
        self.moment.subtract(features)

    def forget(self, label: int) -> None:
        """Take the label's mean out of G; how its features varied around it cannot be told from the rest."""
        if label < len(self.sums.counts) and self.sums.counts[label] > 0:
            self.moment.flatten(self.sums.sums[label : label + 1] / self.sums.counts[label].sqrt())
        super().forget(label)

    def state(self) -> dict[str, Any]:
        """With G."""
        return {**super().state(), "moment": self.moment.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on adding."""
        super().restore(state)
        self.moment.restore(state["moment"])


class ClosedFormPredictor(LabelScorer):
    """Scores with a head that was solved for."""

    def __init__(self, method: ClosedForm, head: LinearHead) -> None:
        super().__init__(method.encoder.counting_on(method.ledger.test), method.problem)
        self._read = method.read  # the same at all times: nothing that is learned goes into it
        self._head = head

    def score(self, features: torch.Tensor) -> torch.Tensor:
        """The head's scores, in double precision as the sums are."""
        return self._head(self._read(features))
