"""The network every gradient method trains, an encoder under a head, and the predictor made from it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.func import functional_call

from everlearn.batches import Batch, Floats, Integers, Sequences
from everlearn.encoders import Encoder
from everlearn.ledger import Meter
from everlearn.methods.base import ScoringPredictor
from everlearn.problems import Problem

Weights = dict[str, torch.Tensor]
"""Parameters by name, as `torch.func.functional_call` takes them."""


class Network(nn.Module):
    """f_θ(x) = g_W(h_φ(x)): a text encoder and the problem's head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head.to(encoder.device)

    def features(self, sequences: Sequences) -> torch.Tensor:
        """What the head reads."""
        features: torch.Tensor = self.encoder(sequences)
        return features

    def forward(self, sequences: Sequences) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(self.features(sequences))
        return logits

    def logits_at(self, weights: Weights, sequences: Sequences) -> torch.Tensor:
        """Logits with some of the weights replaced."""
        logits: torch.Tensor = functional_call(self, weights, (sequences,))
        return logits

    def trained(self) -> Weights:
        """The parameters that learn."""
        return {name: weight for name, weight in self.named_parameters() if weight.requires_grad}

    def count_on(self, meter: Meter) -> None:
        """Count the work of every encoder in here on this meter."""
        for module in self.modules():
            if isinstance(module, Encoder):
                module.meter = meter


@contextmanager
def in_evaluation(network: Network) -> Iterator[None]:
    """Without dropout inside, whatever the network was doing before and goes on to do."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


EXAMPLES_AT_ONCE = 2048
"""How many examples a predictor turns into sequences at a time: enough to sort by length, not a whole test set."""


class NetworkPredictor(ScoringPredictor):
    """Predicts with a network that nobody else changes."""

    def __init__(self, network: Network, problem: Problem) -> None:
        self.network = network.eval()
        self.problem = problem
        self.labels = tuple(problem.labels)

    @torch.no_grad()
    def logits(self, batch: Batch) -> torch.Tensor:
        """The network's output for each example."""
        return torch.cat([self.network(self.problem.sequences(part)) for part in batch.split(EXAMPLES_AT_ONCE)])

    def predict(self, batch: Batch) -> Integers:
        """The label chosen for each example."""
        return self.problem.predict(self.logits(batch), batch)

    def scores(self, batch: Batch) -> Floats:
        """The logits, by label."""
        return self.problem.scores(self.logits(batch), batch)
