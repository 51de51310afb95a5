"""A-GEM with sparse replay: keeps a step from pointing against old examples (paper, sections 4.3 and A.6)."""

import torch

from everlearn.batches import Batch
from everlearn.methods.base import Observations
from everlearn.methods.gradient import Gradients
from everlearn.methods.replay import SparseReplay


class AGEM(SparseReplay):
    """SEQ, but every ⌈R_I / b⌉ steps the gradient is checked against that of a random sample of the memory."""

    name = "a-gem"
    summary = "sequential fine-tuning whose gradient is projected, at replays, not to point against the memory's"
    family = "replay"

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch; when it is time, on the part of its gradient that does not hurt the memory."""
        loss, gradients = self.gradient(batch)
        replayed = self.replayed_batch()
        observations: dict[str, float | torch.Tensor] = {"loss": loss}
        if replayed is not None:
            _, reference = self.gradient(replayed, replayed=True)
            gradients, violated = project(gradients, reference)
            observations["violation"] = violated.float()
        self.memory.write(batch)
        self.update(gradients, replayed=replayed is not None)
        return observations


def project(gradients: Gradients, reference: Gradients) -> tuple[Gradients, torch.Tensor]:
    """g − (g·r / r·r) r where g·r < 0, all parameters taken as one vector; and whether that was so.

    Nothing is asked of the device, which would have to be waited for: it chooses by itself.

    >>> g, r = [torch.tensor([1.0, -2.0])], [torch.tensor([0.0, 1.0])]
    >>> project(g, r)
    ([tensor([1., 0.])], tensor(True))
    """
    product = _dot(gradients, reference)
    scale, stays = product / _dot(reference, reference), product >= 0
    pairs = zip(gradients, reference, strict=True)
    # Where the reference is zero, what is not chosen is not a number.
    return [torch.where(stays, g, g - scale * r) for g, r in pairs], ~stays


def _dot(a: Gradients, b: Gradients) -> torch.Tensor:
    return torch.stack([(x * y).sum() for x, y in zip(a, b, strict=True)]).sum()
