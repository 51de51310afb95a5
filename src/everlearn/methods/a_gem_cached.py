"""A-GEM with a cached reference: the gradient of the last replay goes on guarding every step until the next."""

from typing import Any

import torch

from everlearn.batches import Batch
from everlearn.methods.a_gem import project
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import Gradients, RowChange, with_rows_changed
from everlearn.methods.replay import SparseReplay


class CachedAGEM(SparseReplay):
    """A-GEM reads as often as sparse replay allows, and checks every step against what it read last."""

    name = "a-gem-cached"
    summary = "a-gem whose last reference gradient is used at every step"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.reference: Gradients = []

    def observe(self, batch: Batch) -> Observations:
        """Step on the part of the batch's gradient that does not hurt what was last read from memory."""
        loss, gradients = self.gradient(batch)
        replayed = self.replayed_batch()
        if replayed is not None:
            _, self.reference = self.gradient(replayed, replayed=True)
        observations: dict[str, float | torch.Tensor] = {"loss": loss}
        if self.reference:
            gradients, violated = project(gradients, self.reference)
            observations["violation"] = violated.float()
        self.memory.write(batch)
        self.update(gradients, replayed=replayed is not None)
        return observations

    def change_rows(self, change: RowChange) -> None:
        """The reference's too."""
        super().change_rows(change)
        self.reference = with_rows_changed(self.reference, self.network.trained(), change)

    def state(self) -> dict[str, Any]:
        """With the reference."""
        return {**super().state(), "reference": list(self.reference)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the same reference."""
        super().restore(state)
        self.reference = [gradient.to(self.network.encoder.device, copy=True) for gradient in state["reference"]]
