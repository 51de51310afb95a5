"""ER-ACE: replay with an asymmetric loss, in which new examples do not push old classes away.

Where examples come with candidates, those of the stream are compared with each other's labels in place of the old
candidates that are left out: one logit serves all relations, and without anything to say no to it would learn yes.
"""

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
        """Remember the batch, step on it, and step on old examples when it is time."""
        self.memory.write(batch)
        present = set(batch.labels.tolist())
        others = self.seen - present
        taking_part = [label for label in self.problem.contenders if label not in others]
        losses = {"loss": self.step_among(self.problem.narrowed(batch, taking_part, beside=present), taking_part)}
        self.seen |= present
        replayed = self.replayed_batch()
        if replayed is not None:
            narrowed = self.problem.narrowed(replayed, self.seen)
            losses["replay_loss"] = self.step_among(narrowed, self.seen, replayed=True)
        return {name: loss for name, loss in losses.items() if loss is not None}

    def step_among(self, batch: Batch, labels: Collection[int], replayed: bool = False) -> torch.Tensor | None:
        """Step as if there were no other labels than these; the loss, unless there is nothing left to learn."""
        if not len(batch):
            return None
        loss, gradients = self.gradient_among(batch, labels, replayed)
        self.update(gradients, replayed=replayed)
        return loss

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
