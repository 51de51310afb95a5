"""MLLRE: lifelong relation extraction by Reptile: θ ← θ₀ + ε (θ − θ₀) after every R_I examples.

The original does so after every task. Here, without tasks, the replay's rhythm takes their place.
"""

from typing import Any

from everlearn.batches import Batch
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import RowChange, with_rows_changed
from everlearn.methods.replay import Replay
from everlearn.methods.reptile import copied, interpolate, put


class MLLRE(Replay):
    """REPLAY, whose weights are drawn back towards where they stood at the replay before."""

    name = "mllre"
    summary = "replay, and Reptile over all steps between two replays"
    family = "relations"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.anchor = copied(self.network.trained())
        self.steps = 0

    def observe(self, batch: Batch) -> Observations:
        """As REPLAY; then, when it is time, part of the way from θ₀."""
        observations = super().observe(batch)
        self.steps += 1
        if self.steps % self.schedule.every == 0:
            trained = self.network.trained()
            put(interpolate(self.anchor, trained, self.config.mllre_epsilon), trained)
            self.anchor = copied(trained)
        return observations

    def change_rows(self, change: RowChange) -> None:
        """Those of θ₀ too."""
        super().change_rows(change)
        changed = with_rows_changed(self.anchor.values(), self.anchor, change)
        self.anchor = dict(zip(self.anchor, changed, strict=True))

    def state(self) -> dict[str, Any]:
        """With θ₀."""
        return {**super().state(), "anchor": dict(self.anchor), "since_start": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from the same θ₀."""
        super().restore(state)
        put(state["anchor"], self.anchor)
        self.steps = state["since_start"]
