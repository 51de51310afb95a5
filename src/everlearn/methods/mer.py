"""MER: meta-experience replay, Reptile over batches in which examples of the stream and of the memory are mixed.

The last m batches before a replay wait for it. Then they are shuffled with what is read from memory and learned as in
MER's algorithm: one SGD step for each example, after every batch θ ← θ_b + β (θ − θ_b), and in the end
θ ← θ_0 + γ (θ − θ_0). All other batches take the plain step of SEQ.
"""

from typing import Any

import torch

from everlearn.batches import Batch
from everlearn.methods.base import Chosen, MethodConfig, Observations, Parts
from everlearn.methods.meta import sgd_step
from everlearn.methods.replay import SparseReplay
from everlearn.methods.reptile import copied, interpolate, put
from everlearn.seeding import generator, generator_state, restore_generator


class MER(SparseReplay):
    """SEQ, and Reptile at every replay."""

    name = "mer"
    summary = "sequential fine-tuning with Reptile over stream and memory, example by example, at every replay"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.waiting: list[Batch] = []
        self._mixing = generator(parts.seed, "mer")

    def observe(self, batch: Batch) -> Observations:
        """A step on the batch, unless it is one of the last before a replay."""
        replayed = self.replayed_batch()
        until_replay = -self.schedule.count % self.schedule.every
        if 0 < until_replay < self.config.support_batches:
            self.waiting.append(batch)
            return {}
        batches = [*self.waiting, batch]
        if replayed is None:
            return self._learn_plainly(batches)
        loss = self.reptile(Batch.concat([*batches, replayed]))
        self._remember(batches)
        return {"replay_loss": loss}

    def finish(self) -> Observations:
        """Batches that waited for a replay which does not come take the plain step."""
        return self._learn_plainly(self.waiting)

    def discard(self, chosen: Chosen) -> None:
        """Take examples out of the batches that wait."""
        kept = [batch.without(chosen(batch)) for batch in self.waiting]
        self.waiting = [batch for batch in kept if len(batch)]

    def reptile(self, examples: Batch) -> torch.Tensor:
        """MER's algorithm over these examples, in random order; the mean loss."""
        mixed = examples.take(self._mixing.permutation(len(examples)))
        start = copied(self.network.trained())
        now, losses = start, []
        for batch in mixed.split(self.config.batch_size):
            began = now
            for example in batch.split(1):
                loss = self.loss(self.network, example, now)
                losses.append(loss.detach())
                now = sgd_step(loss, now, self.config.inner_lr, self.ledger.train)
            now = copied(interpolate(began, now, self.config.mer_beta))
        put(interpolate(start, now, self.config.mer_gamma), self.network.trained())
        return torch.stack(losses).mean()

    def state(self) -> dict[str, Any]:
        """With the batches that wait."""
        waiting = [batch.state() for batch in self.waiting]
        return {**super().state(), "waiting": waiting, "mixing": generator_state(self._mixing)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on waiting."""
        super().restore(state)
        self.waiting = [Batch.from_state(saved) for saved in state["waiting"]]
        restore_generator(self._mixing, state["mixing"])

    def _learn_plainly(self, batches: list[Batch]) -> Observations:
        """The steps of SEQ; what the last one showed."""
        observations: Observations = {}
        for batch in batches:
            loss, gradients = self.gradient(batch)
            self.update(gradients)
            observations = {"loss": loss}
        self._remember(batches)
        return observations

    def _remember(self, batches: list[Batch]) -> None:
        """Write what was learned, and not before: a replay is never mixed with itself."""
        for batch in batches:
            self.memory.write(batch)
        self.waiting = []
