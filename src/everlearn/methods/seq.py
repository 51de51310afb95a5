"""SEQ: plain training on the stream, batch after batch, without replay (paper, section 4.3)."""

from everlearn.batches import Batch
from everlearn.methods.base import Observations
from everlearn.methods.gradient import GradientMethod


class Seq(GradientMethod):
    """One optimiser step for each batch of the stream."""

    name = "seq"
    summary = "plain sequential fine-tuning: learns what is in front of it and forgets the rest"
    family = "baseline"

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch."""
        loss, gradients = self.gradient(batch)
        self.update(gradients)
        return {"loss": loss}
