"""Meta-training and meta-testing, Algorithms 1 and 2 of the paper, shared by OML-ER, ANML-ER and MAML-ER."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from everlearn.batches import Batch
from everlearn.episodes import Episode, EpisodeBuilder, ReplaySchedule, episodes_between_replays, replay_size
from everlearn.ledger import Meter
from everlearn.methods.base import Chosen, MethodConfig, Observations, Parts, Predictor
from everlearn.methods.gradient import GradientMethod
from everlearn.methods.network import Network, NetworkPredictor, Weights
from everlearn.seeding import generator, generator_state, restore_generator


class MetaMethod(GradientMethod):
    """First-order meta-learning in episodes; a subclass says which weights are fast and how they adapt."""

    family = "meta-learning"
    test_cost = "m SGD steps on memory, one pass"
    meta = True
    replays = True

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        every = episodes_between_replays(config.replay_interval, config.batch_size, config.support_batches)
        size = replay_size(config.replay_interval, config.replay_rate)
        schedule = ReplaySchedule(every, size, self.memory, self.ledger.train) if config.replay else None
        self.episodes = EpisodeBuilder(config.support_batches, schedule, self.memory)
        # Testing draws from the memory with a generator of its own: it must not change what is learned.
        self._meta_testing = generator(parts.seed, "meta-test")

    def learning_rate(self) -> float:
        """β, the rate of the outer loop."""
        return self.config.meta_lr

    @abstractmethod
    def adapt(self, network: Network, support: Sequence[Batch], meter: Meter) -> Weights:
        """The inner loop: one SGD step with rate α on the fast weights for each batch of the support set."""

    def observe(self, batch: Batch) -> Observations:
        """Learn whenever an episode is complete."""
        episode = self.episodes.add(batch)
        return self.learn(episode) if episode else {}

    def finish(self) -> Observations:
        """Learn from the short last episode."""
        episode = self.episodes.finish()
        return self.learn(episode) if episode else {}

    def learn(self, episode: Episode) -> Observations:
        """Algorithm 1, the updates: W' = SGD(L, φ, W, S, α), then θ ← Adam(L(φ, W', Q), β)."""
        with self.ledger.train.phase("support"):
            fast = self.adapt(self.network, episode.support, self.ledger.train)
        # First order: the gradient is taken at the adapted weights and applied to the slow ones.
        loss, gradients = self.gradient(episode.query, fast, replayed=episode.replayed)
        self.update(gradients, replayed=episode.replayed)
        return {"replay_loss" if episode.replayed else "loss": loss}

    def discard(self, chosen: Chosen) -> None:
        """Take examples out of the half-built episode."""
        self.episodes.discard(chosen)

    def predictor(self) -> Predictor:
        """Algorithm 2: adapt a copy on m random batches of the memory, predict with it, discard it."""
        network = self.copy_for_testing()
        size = self.config.support_batches * self.config.batch_size
        if self.config.meta_test and len(self.memory):
            drawn = self.memory.sample(size, self._meta_testing, self.ledger.test)
            fast = self.adapt(network, list(drawn.split(self.config.batch_size)), self.ledger.test)
            network.load_state_dict(fast, strict=False)
        return NetworkPredictor(network, self.problem)

    def state(self) -> dict[str, Any]:
        """With the half-built episode."""
        testing = generator_state(self._meta_testing)
        return {**super().state(), "episodes": self.episodes.state(), "meta_testing": testing}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on in the middle of an episode."""
        super().restore(state)
        self.episodes.restore(state["episodes"])
        restore_generator(self._meta_testing, state["meta_testing"])


def sgd_step(loss: torch.Tensor, weights: Weights, rate: float, meter: Meter) -> Weights:
    """New weights, one step down the gradient of `loss`, cut off from the graph of the old ones (first order)."""
    meter.inner_steps += 1
    before = list(weights.values())
    gradients = torch.autograd.grad(loss, before, materialize_grads=True)
    with torch.no_grad():
        after = torch._foreach_add(before, gradients, alpha=-rate)
    return {name: weight.requires_grad_() for name, weight in zip(weights, after, strict=True)}
