"""ER-ACE: replay with an asymmetric loss, in which new examples do not push old classes away."""

from collections.abc import Collection
from typing import Any

import torch

from everlearn.batches import Batch
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import Gradients
from everlearn.methods.replay import SparseReplay


class ERACE(SparseReplay):
    """REPLAY, but a batch of the stream is learned among its own classes and those never seen, and a replay among all
    classes seen."""

    name = "er-ace"
    summary = "replay whose stream loss leaves out the classes that are not in the batch"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.seen: set[int] = set()

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch, remember it, and step on old examples when it is time."""
        present = set(batch.labels.tolist())
        others = self.seen - present
        taking_part = [label for label in self.problem.contenders if label not in others]
        loss, gradients = self.gradient_among(batch, taking_part)
        self.update(gradients)
        self.seen |= present
        self.memory.write(batch)
        replayed = self.replayed_batch()
        if replayed is None:
            return {"loss": loss}
        replay_loss, gradients = self.gradient_among(replayed, self.seen, replayed=True)
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss}

    def gradient_among(
        self, batch: Batch, labels: Collection[int], replayed: bool = False
    ) -> tuple[torch.Tensor, Gradients]:
        """Loss and gradient as if there were no other labels than these."""
        return self.gradient_of(
            share * self.problem.loss(self.network(self.problem.sequences(part)), part, among=labels)
            for part, share in self.parts(batch, replayed)
        )

    def forget(self, label: int) -> None:
        """It has not been seen then."""
        super().forget(label)
        self.seen.discard(label)

    def state(self) -> dict[str, Any]:
        """With the classes seen."""
        return {**super().state(), "seen": sorted(self.seen)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on knowing them."""
        super().restore(state)
        self.seen = set(state["seen"])
