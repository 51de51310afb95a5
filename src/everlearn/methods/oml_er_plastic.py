"""OML-ER with a plastic head: differentiable Hebbian plasticity in place of the inner loop's SGD (paper, section 8).

The head reads (W + A ⊙ H) h + c. In the inner loop the Hebbian trace H moves towards what the head read where it was to
answer yes; no loss and no gradient is needed there. What all texts of a batch have in common says nothing about their
labels, and features are as long as an encoder likes them: so it is the covariance rule, over features of length one,
that moves the row of output k, H_k ← (1 − η) H_k + η · mean of (h − h̄) over the texts it is right for; a row without
any only fades. The outer loop learns W and c, how plastic each connection is (A), and how fast the trace moves (η),
the last through the trace itself.
"""

from collections.abc import Sequence

import torch
from torch import nn

from everlearn.batches import Batch
from everlearn.episodes import Episode
from everlearn.ledger import Meter
from everlearn.methods.base import Observations, Parts
from everlearn.methods.meta import MetaMethod
from everlearn.methods.network import Network, Weights

FIRST_PLASTICITY = 1.0
FIRST_RATE = 0.5
TRACE, RATE = "head.trace", "head.rate_logit"


class PlasticHead(nn.Linear):
    """A linear head with a fast, Hebbian part. The trace is empty except while it is being used."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__(head.in_features, head.out_features, device="meta")
        self.weight, self.bias = head.weight, head.bias
        self.plasticity = nn.Parameter(torch.full_like(head.weight, FIRST_PLASTICITY))
        self.rate_logit = nn.Parameter(torch.tensor(FIRST_RATE).logit())
        self.trace: torch.Tensor
        self.register_buffer("trace", torch.zeros_like(head.weight))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Slow and fast part together."""
        return nn.functional.linear(features, self.weight + self.plasticity * self.trace, self.bias)

    def imprint(self, trace: torch.Tensor, features: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """The trace after a batch: each output's row moves towards what sets apart the features it is right for."""
        rate = self.rate_logit.sigmoid()
        directions = nn.functional.normalize(features, dim=1)
        found = wanted.T @ (directions - directions.mean(dim=0))
        return (1 - rate) * trace + rate * found / wanted.sum(dim=0).clamp(min=1).unsqueeze(1)


class PlasticOMLER(MetaMethod):
    """Fast weights: the head's Hebbian trace."""

    name = "oml-er-plastic"
    summary = "oml-er whose head adapts by Hebbian traces with learned plasticity in place of SGD"
    test_cost = "m Hebbian updates from memory, one pass"

    def build_network(self, parts: Parts) -> Network:
        """The encoder and the plastic head."""
        head = parts.problem.head(parts.encoder.width)
        assert isinstance(head, nn.Linear)
        return Network(parts.encoder, PlasticHead(head))

    def adapt(self, network: Network, support: Sequence[Batch], meter: Meter) -> Weights:
        """The trace that the support set leaves, still joined to the rate it was made with."""
        head = network.head
        assert isinstance(head, PlasticHead)
        trace = head.trace
        if support:
            with torch.no_grad():
                features = network.features(self.problem.sequences(Batch.concat(support)))
            sizes = [self.problem.rows(batch) for batch in support]
            for batch, seen in zip(support, torch.split(features, sizes), strict=True):
                meter.inner_steps += 1
                trace = head.imprint(trace, seen, self.problem.wanted(batch, len(trace)).to(seen))
        return {TRACE: trace}

    def learn(self, episode: Episode) -> Observations:
        """The outer step: at the trace for all that is slow, and through the trace for the rate."""
        trace = self.adapt(self.network, episode.support, self.ledger.train)[TRACE]
        at = {TRACE: trace.detach().requires_grad_()}
        loss, (*gradients, through_trace) = self.gradient(episode.query, at, replayed=episode.replayed)
        if trace.requires_grad:
            slow = self.network.trained()
            (rate,) = torch.autograd.grad(trace, [slow[RATE]], through_trace)
            gradients[list(slow).index(RATE)] = rate
        self.update(gradients, replayed=episode.replayed)
        return {"replay_loss" if episode.replayed else "loss": loss}
