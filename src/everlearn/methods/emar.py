"""EMAR: episodic memory activation and reconsolidation, by prototypes.

An example is compared with labels, not read by a head: on the stream with the features of the labels' names, at a
replay with prototypes of all labels in memory: the mean of a label's examples in the sample averaged with its name.
An example's own label is represented without the example: it would find itself. Prototypes over the memory also
predict.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Integers, Ragged, Sequences
from everlearn.memory import Judgement
from everlearn.methods.base import MethodConfig, Observations, Parts, Predictor
from everlearn.methods.label_scorer import LabelScorer
from everlearn.methods.network import EXAMPLES_AT_ONCE, Network, Weights
from everlearn.methods.replay import SparseReplay
from everlearn.problems import Problem
from everlearn.seeding import generator, generator_state, restore_generator
from everlearn.transfer import on_device

TEMPERATURE = 0.1
"""Cosines lie between −1 and 1: divided by this they can make a softmax sure of itself."""


class EMAR(SparseReplay):
    """Trains the encoder alone, by similarities."""

    name = "emar"
    summary = "compares examples with label names, and at replays with prototypes of the memory"
    family = "relations"
    replays_candidates = False
    test_cost = "prototypes from a few examples of each label, one pass"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self._name_labels()
        self._testing = generator(parts.seed, "emar/test")

    def build_network(self, parts: Parts) -> Network:
        """The encoder, with nothing above it."""
        return Network(parts.encoder, nn.Identity())

    def grow(self) -> None:
        """Names for new labels; there are no rows that could grow."""
        super().grow()
        self._name_labels()

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch, remember it, and when it is time step on prototypes."""
        loss, gradients = self.gradient(batch)
        self.memory.write(batch)
        self.update(gradients)
        replayed = self.replayed_batch()
        if replayed is None:
            return {"loss": loss}
        replay_loss, gradients = self.gradient_of([self.prototype_loss(replayed)])
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss}

    def loss(self, network: Network, batch: Batch, weights: Weights | None = None) -> torch.Tensor:
        """Cross-entropy over the names that each example may be given."""
        return functional.cross_entropy(*self._compared(network, batch))

    def prototype_loss(self, batch: Batch) -> torch.Tensor:
        """Cross-entropy over the prototypes of all labels in memory, each example left out of its own label's."""
        labels = np.union1d(self.memory.view().labels, batch.labels)
        features, names = self._encode(self.network, batch, labels)
        targets = on_device(np.searchsorted(labels, batch.labels), features.device)
        similar = similarity(features, prototypes(features, targets, names))
        own = functional.cosine_similarity(features, without_oneself(features, targets, names)) / TEMPERATURE
        is_own = functional.one_hot(targets, len(names)).bool()
        return functional.cross_entropy(torch.where(is_own, own.unsqueeze(1), similar), targets)

    def parts(self, batch: Batch, replayed: bool = False) -> list[tuple[Batch, float]]:
        """By examples: each is compared once, with however many names."""
        return [(part, len(part) / len(batch)) for part in batch.split(self.config.micro_batch)]

    def judge_part(self, part: Batch) -> Judgement:
        """What the names make of examples."""
        logits, targets = self._compared(self.network, part)
        losses = functional.cross_entropy(logits, targets, reduction="none")
        return Judgement(losses.cpu().numpy(), (logits.argmax(dim=1) == targets).cpu().numpy())

    @torch.no_grad()
    def predictor(self) -> Predictor:
        """Prototypes from some examples of each label; a label without any has its name alone."""
        network = self.copy_for_testing()
        view = self.memory.view()
        order = self._testing.permutation(len(view))
        labels = view.labels[order]
        chosen = [order[labels == label][: self.config.prototype_examples] for label in np.unique(labels)]
        names = network.features(Sequences(self.names))
        if not chosen:
            return PrototypePredictor(network, self.problem, names)
        batch = view.take(np.concatenate(chosen), self.ledger.test)
        features = torch.cat([network.features(self.problem.texts(p)) for p in batch.split(EXAMPLES_AT_ONCE)])
        owners = on_device(self._places(batch.labels), features.device)
        return PrototypePredictor(network, self.problem, prototypes(features, owners, names))

    def state(self) -> dict[str, Any]:
        """With the generator of tests."""
        return {**super().state(), "testing": generator_state(self._testing)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on drawing."""
        super().restore(state)
        restore_generator(self._testing, state["testing"])

    def _compared(self, network: Network, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Similarities to the names in play, minus infinity where one is no choice, and the place of the right one."""
        choices = self.problem.choices(batch)
        labels = np.unique(np.concatenate(choices))
        features, names = self._encode(network, batch, labels)
        allowed = on_device(np.stack([np.isin(labels, own) for own in choices]), features.device)
        places = on_device(np.searchsorted(labels, batch.labels), features.device)
        return similarity(features, names).masked_fill(~allowed, -torch.inf), places

    def _encode(self, network: Network, batch: Batch, labels: Integers) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of the examples and of these labels' names, in one pass."""
        texts = self.problem.texts(batch).tokens
        features = network.features(Sequences(Ragged.concat([texts, self.names.take(self._places(labels))])))
        return features[: len(batch)], features[len(batch) :]

    def _name_labels(self) -> None:
        """Tokenise what the labels are called, in their order."""
        self.names = self.network.encoder.tokenizer(list(self.problem.label_names))
        self._place = {label: place for place, label in enumerate(self.problem.labels)}

    def _places(self, labels: Integers) -> Integers:
        """Where these labels stand among all."""
        return np.array([self._place[label] for label in labels.tolist()], dtype=np.int64)


def similarity(features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The cosine of each with each, as logits."""
    return functional.normalize(features, dim=1) @ functional.normalize(others, dim=1).T / TEMPERATURE


def prototypes(features: torch.Tensor, labels: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """For each name its mean with the mean of its label's features; the name alone where there are none.

    >>> features, names = torch.tensor([[2.0], [4.0]]), torch.tensor([[1.0], [7.0]])
    >>> prototypes(features, torch.tensor([0, 0]), names).tolist()
    [[2.0], [7.0]]
    """
    members = functional.one_hot(labels, len(names)).to(features.dtype)
    counts = members.sum(dim=0).unsqueeze(1)
    means = members.T @ features / counts.clamp(min=1.0)
    return torch.where(counts > 0, (means + names) / 2, names)


def without_oneself(features: torch.Tensor, labels: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """For each example the prototype of its label from the others; the name alone where there are none.

    >>> features, names = torch.tensor([[2.0], [4.0], [5.0]]), torch.tensor([[1.0], [7.0]])
    >>> without_oneself(features, torch.tensor([0, 0, 1]), names).tolist()
    [[2.5], [1.5], [7.0]]
    """
    members = functional.one_hot(labels, len(names)).to(features.dtype)
    others = (members.sum(dim=0)[labels] - 1).unsqueeze(1)
    means = ((members.T @ features)[labels] - features) / others.clamp(min=1.0)
    return torch.where(others > 0, (means + names[labels]) / 2, names[labels])


class PrototypePredictor(LabelScorer):
    """The label whose prototype is most similar."""

    def __init__(self, network: Network, problem: Problem, prototypes: torch.Tensor) -> None:
        super().__init__(network.encoder, problem)
        self._prototypes = prototypes

    def score(self, features: torch.Tensor) -> torch.Tensor:
        """Similarities, each in the column of its label's number."""
        similar = similarity(features, self._prototypes)
        scores = similar.new_full((len(features), max(self.labels) + 1), -torch.inf)
        scores[:, list(self.labels)] = similar
        return scores
