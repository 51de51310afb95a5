"""LAMOL: a language model that answers questions and rehearses on examples that it writes itself.

The loss is that of the answer and, with weight λ, that of writing the whole example. Every R_I examples of the stream
the model writes ⌊r · R_I⌋ examples and learns from those that can be read. LAMOL-real is the control: it stores real
examples and reads them back.
"""

from typing import Any

import numpy as np
import torch

from everlearn.batches import Batch, Integers
from everlearn.episodes import replay_size, steps_between_replays
from everlearn.examples import UNLABELLED
from everlearn.memory import Judgement
from everlearn.methods.base import MethodConfig, Observations, Parts, Predictor
from everlearn.methods.gradient import GradientMethod
from everlearn.methods.language import LanguageNetwork
from everlearn.methods.network import Network, Weights, in_evaluation
from everlearn.methods.replay import Replay
from everlearn.problems import Problem
from everlearn.seeding import generator, generator_state, restore_generator

ANSWERED_AT_ONCE = 128


class LanguageMethod(GradientMethod):
    """Trains a language model where others train an encoder and a head."""

    family = "generative"
    replays_candidates = False
    test_cost = "one pass and a few tokens of answer"
    network: LanguageNetwork

    def build_network(self, parts: Parts) -> Network:
        """The causal language model that `--encoder` names."""
        return LanguageNetwork(parts.encoder, self._labels())

    def loss(self, network: Network, batch: Batch, weights: Weights | None = None) -> torch.Tensor:
        """Answering, and λ times writing."""
        assert isinstance(network, LanguageNetwork)
        answering = network.answer_losses(batch.tokens, batch.labels).mean()
        return answering + self.config.writing_weight * network.writing_losses(batch.tokens, batch.labels).mean()

    def grow(self) -> None:
        """New labels are new answers: their names are all that is needed."""
        self.network.name_labels(self._labels())

    def forget(self, label: int) -> None:
        """What a language model has learned from a label cannot be told apart."""

    def parts(self, batch: Batch, replayed: bool = False) -> list[tuple[Batch, float]]:
        """By examples: a text is read once, however many candidates it has."""
        return [(part, len(part) / len(batch)) for part in batch.split(self.config.micro_batch)]

    def judge_part(self, part: Batch) -> Judgement:
        """How badly each answer was foreseen, and whether it is the one given."""
        losses = self.network.answer_losses(part.tokens, part.labels).cpu().numpy()
        return Judgement(losses, self.network.answers(part.tokens, self.problem.choices(part)) == part.labels)

    def predictor(self) -> Predictor:
        """The model as it is now."""
        network = self.copy_for_testing()
        assert isinstance(network, LanguageNetwork)
        return AnswerPredictor(network, self.problem)

    def _labels(self) -> dict[int, str]:
        return dict(zip(self.problem.labels, self.problem.label_names, strict=True))


class LAMOL(LanguageMethod):
    """Stores nothing: what it rehearses it writes itself."""

    name = "lamol"
    summary = "a language model that answers, and rehearses on examples that it writes itself"
    generates = True

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.every = steps_between_replays(config.replay_interval, config.batch_size)
        self.size = replay_size(config.replay_interval, config.replay_rate)
        self.steps = 0
        self._writing = generator(parts.seed, "lamol")

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch; when it is time, on made-up examples."""
        loss, gradients = self.gradient(batch)
        self.update(gradients)
        self.steps += 1
        if not self.config.replay or self.steps % self.every:
            return {"loss": loss}
        rehearsed = self.rehearsal()
        if not len(rehearsed):
            return {"loss": loss, "readable": 0.0}
        replay_loss, gradients = self.gradient(rehearsed, replayed=True)
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss, "readable": len(rehearsed) / self.size}

    def rehearsal(self) -> Batch:
        """Up to ⌊r · R_I⌋ examples of the model's own."""
        self.ledger.train.replays += 1
        self.ledger.train.examples_generated += self.size
        with in_evaluation(self.network):
            return self.network.write(self.size, int(self._writing.integers(2**62)))

    def state(self) -> dict[str, Any]:
        """With the count of steps."""
        return {**super().state(), "steps": self.steps, "writing": generator_state(self._writing)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        super().restore(state)
        self.steps = state["steps"]
        restore_generator(self._writing, state["writing"])


class LAMOLReal(LanguageMethod, Replay):
    """The same model with REPLAY's memory."""

    name = "lamol-real"
    summary = "lamol's language model with real examples from memory in place of written ones"


class AnswerPredictor(Predictor):
    """Asks a language model."""

    def __init__(self, network: LanguageNetwork, problem: Problem) -> None:
        self.network, self.problem = network.eval(), problem
        self.labels = list(problem.labels)

    def predict(self, batch: Batch) -> Integers:
        """The label answered to each text, none while there are no labels; texts of like length are asked together."""
        if not self.labels:
            return np.full(len(batch), UNLABELLED)
        order = np.argsort(batch.tokens.lengths, kind="stable")
        found = [
            self.network.answers(part.tokens, self._choices(part)) for part in batch.take(order).split(ANSWERED_AT_ONCE)
        ]
        predicted = np.empty(len(batch), dtype=np.int64)
        predicted[order] = np.concatenate(found)
        return predicted

    def _choices(self, batch: Batch) -> list[Integers]:
        """Without labels that the problem has met since."""
        return [own[np.isin(own, self.labels)] for own in self.problem.choices(batch)]
