"""Local adaptation: for each example that is tested, a copy of the weights learns from its neighbours in memory.

L steps of SGD on the mean loss of the K neighbours and λ‖θ − θ₀‖²; then the example is predicted and the copy is
discarded. `FullAdaptation` adapts all weights, one example after the other. `HeadAdaptation` adapts the head alone, of
many examples at once, and sends each neighbour through the encoder only once.
"""

from abc import abstractmethod

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from everlearn.batches import Batch, Integers
from everlearn.ledger import Meter
from everlearn.methods.base import MethodConfig, Predictor
from everlearn.methods.meta import sgd_step
from everlearn.methods.network import Network, Weights
from everlearn.methods.retrieval import KeyedMemory, Keys
from everlearn.problems import Problem
from everlearn.transfer import on_device

TESTED_AT_ONCE = 64


class LocalAdaptation(Predictor):
    """Finds the neighbours of what it is to predict; a subclass adapts to them."""

    def __init__(
        self, network: Network, problem: Problem, memory: KeyedMemory, keys: Keys, config: MethodConfig, meter: Meter
    ) -> None:
        self.network, self.problem, self.memory, self.keys = network.eval(), problem, memory, keys
        self.config, self.meter = config, meter

    @abstractmethod
    def adapted_logits(self, batch: Batch, slots: Integers) -> torch.Tensor:
        """The logits of each example after adapting to the entries in its row of `slots`."""

    def logits(self, batch: Batch) -> torch.Tensor:
        """The logits of all examples, each by weights of its own."""
        found = []
        for part in batch.split(TESTED_AT_ONCE):
            _, slots = self.memory.index.nearest(self.keys(part), self.config.neighbours)
            found.append(self.adapted_logits(part, slots))
        return torch.cat(found)

    def predict(self, batch: Batch) -> Integers:
        """The label chosen for each example."""
        return self.problem.predict(self.logits(batch), batch)


class FullAdaptation(LocalAdaptation):
    """All weights adapt, for one example at a time."""

    def adapted_logits(self, batch: Batch, slots: Integers) -> torch.Tensor:
        """One after the other."""
        return torch.cat([self._alone(batch.take([row]), own) for row, own in enumerate(slots)])

    def _alone(self, example: Batch, slots: Integers) -> torch.Tensor:
        neighbours = self.memory.view.take(slots, self.meter)
        start = self.network.trained()
        weights: Weights = dict(start)
        for _ in range(self.config.local_steps):
            logits = functional_call(self.network, weights, (self.problem.sequences(neighbours),))
            moved = torch.stack([(weights[name] - start[name].detach()).square().sum() for name in weights]).sum()
            loss = self.problem.losses(logits, neighbours).mean() + self.config.local_penalty * moved
            weights = sgd_step(loss, weights, self.config.local_lr, self.meter)
        with torch.no_grad():
            answer: torch.Tensor = functional_call(self.network, weights, (self.problem.sequences(example),))
        return answer


class HeadAdaptation(LocalAdaptation):
    """Heads adapt, as many at once as there are examples."""

    def adapted_logits(self, batch: Batch, slots: Integers) -> torch.Tensor:
        """Heads as one tensor, an example each."""
        neighbours = self.memory.view.take(slots.ravel(), self.meter)
        features, present = self._features(slots, neighbours)
        head = self.network.head
        assert isinstance(head, nn.Linear)
        first = {"weight": head.weight.detach(), "bias": head.bias.detach()}
        heads = {name: value.expand(len(batch), *value.shape).clone().requires_grad_() for name, value in first.items()}
        for _ in range(self.config.local_steps):
            logits = (features @ heads["weight"].mT + heads["bias"].unsqueeze(1))[present]
            losses = self.problem.losses(logits, neighbours).view(slots.shape).mean(dim=1)
            moved = torch.stack([(heads[name] - first[name]).square().sum() for name in first]).sum()
            # A sum over examples: none of them changes what the others' heads learn.
            heads = sgd_step(losses.sum() + self.config.local_penalty * moved, heads, self.config.local_lr, self.meter)
        self.meter.inner_steps += self.config.local_steps * (len(batch) - 1)  # a step of each head, not of all together
        with torch.no_grad():
            own = self.network.features(self.problem.sequences(batch))
            owners = on_device(np.repeat(np.arange(len(batch)), self.problem.row_counts(batch)), own.device)
            return torch.einsum("rcd,rd->rc", heads["weight"][owners], own) + heads["bias"][owners]

    @torch.no_grad()
    def _features(self, slots: Integers, neighbours: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """What each example's head reads, padded to the most rows that one has, and where it is not padding."""
        _, first, place = np.unique(slots.ravel(), return_index=True, return_inverse=True)
        counts = self.problem.row_counts(neighbours)
        once = self.network.features(self.problem.sequences(neighbours.take(first)))
        starts = np.cumsum(counts[first]) - counts[first]
        rows = np.concatenate([np.arange(n) + starts[p] for p, n in zip(place, counts, strict=True)])
        lengths = counts.reshape(slots.shape).sum(axis=1)
        present = on_device(np.arange(lengths.max()) < lengths[:, None], once.device)
        padded = torch.zeros(*present.shape, once.shape[1], dtype=once.dtype, device=once.device)
        padded[present] = once[on_device(rows, once.device)]
        return padded, present
