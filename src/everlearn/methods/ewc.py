"""Online EWC: elastic weight consolidation, whose importance of weights is measured anew at every replay.

Without task boundaries there is no moment at which a task is complete. So each replay's sample stands for what was
learned so far: the importance (the diagonal of the empirical Fisher information) is a running mean over replays, and
the weights are held where they stood at the last one.
"""

from typing import Any

import torch

from everlearn.batches import Batch
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import Gradients, RowChange, with_rows_changed
from everlearn.methods.replay import SparseReplay


class OnlineEWC(SparseReplay):
    """SEQ under the penalty λ/2 · Σ F (θ − θ*)². The memory is read to measure F, never to learn from."""

    name = "ewc"
    summary = "sequential fine-tuning that holds on to weights which matter for a sample of the memory"
    family = "regularisation"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.importance: Gradients = []
        self.anchor: Gradients = []

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch and the penalty; when it is time, measure what matters."""
        loss, gradients = self.gradient(batch)
        self.memory.write(batch)
        self.update([g + p for g, p in zip(gradients, self.penalty(), strict=True)])
        replayed = self.replayed_batch()
        if replayed is not None:
            self.consolidate(replayed)
        return {"loss": loss}

    @torch.no_grad()
    def penalty(self) -> Gradients:
        """The gradient of the penalty: λ F (θ − θ*)."""
        weights = self.network.trained().values()
        if not self.importance:
            return [torch.zeros_like(weight) for weight in weights]
        return [
            self.config.ewc_lambda * f * (weight - a)
            for f, weight, a in zip(self.importance, weights, self.anchor, strict=True)
        ]

    def consolidate(self, sample: Batch) -> None:
        """F ← γF + (1 − γ)F', where F' is the mean squared gradient of single examples; θ* ← θ."""
        measured: Gradients = []
        for example in sample.split(1):
            _, gradients = self.gradient(example)
            squares = [gradient.square() / len(sample) for gradient in gradients]
            measured = [m + s for m, s in zip(measured, squares, strict=True)] if measured else squares
        keep = self.config.ewc_decay
        if self.importance:
            measured = [keep * f + (1 - keep) * m for f, m in zip(self.importance, measured, strict=True)]
        self.importance = measured
        self.anchor = [weight.detach().clone() for weight in self.network.trained().values()]

    def change_rows(self, change: RowChange) -> None:
        """Those of importance and anchor too: a new label's row is held as the one for labels to come is."""
        super().change_rows(change)
        self.importance = with_rows_changed(self.importance, self.network.trained(), change)
        self.anchor = with_rows_changed(self.anchor, self.network.trained(), change)

    def state(self) -> dict[str, Any]:
        """With importance and anchor."""
        return {**super().state(), "importance": list(self.importance), "anchor": list(self.anchor)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on holding the same weights."""
        super().restore(state)
        device = self.network.encoder.device
        self.importance = [tensor.to(device, copy=True) for tensor in state["importance"]]
        self.anchor = [tensor.to(device, copy=True) for tensor in state["anchor"]]
