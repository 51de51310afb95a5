"""REPLAY: sequential training with sparse experience replay (paper, section 4.3)."""

from typing import Any

from everlearn.batches import Batch
from everlearn.episodes import ReplaySchedule, replay_size, steps_between_replays
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import GradientMethod


class SparseReplay(GradientMethod):
    """Writes the stream to memory and knows when to read it: every ⌈R_I / b⌉ steps."""

    replays = True

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        every = steps_between_replays(config.replay_interval, config.batch_size)
        size = replay_size(config.replay_interval, config.replay_rate)
        self.schedule = ReplaySchedule(every, size, self.memory, self.ledger.train)

    def replayed_batch(self) -> Batch | None:
        """⌊r · R_I⌋ examples from memory when it is time for them."""
        return self.schedule.draw_if_due() if self.config.replay else None

    def state(self) -> dict[str, Any]:
        """With the step count, so that replays stay on schedule."""
        return {**super().state(), "steps": self.schedule.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        super().restore(state)
        self.schedule.count = state["steps"]


class Replay(SparseReplay):
    """SEQ, and one more step on a random sample of the memory after every R_I examples."""

    name = "replay"
    summary = "sequential fine-tuning with one step on a memory sample after every R_I examples"
    family = "replay"

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch, remember it, and step on old examples when it is time."""
        loss, gradients = self.gradient(batch)
        self.remember(batch)  # before the step: a policy may ask how surprising the batch is
        self.update(gradients)
        replayed = self.replayed_batch()
        if replayed is None:
            return {"loss": loss}
        replay_loss, gradients = self.gradient(replayed, replayed=True)
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss}

    def remember(self, batch: Batch) -> None:
        """Write the batch to memory."""
        self.memory.write(batch)
