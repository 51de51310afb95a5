"""DER++: dark experience replay, which also holds on to what was once answered.

Each example is stored with the logits that the network gave it when it came. A replay asks for the same logits again
and for the right label: α · MSE + β · CE, both over one draw.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from everlearn.batches import Batch, Floats
from everlearn.errors import UserError
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.replay import SparseReplay
from everlearn.transfer import on_device


class DERPlusPlus(SparseReplay):
    """REPLAY, with the stored logits as a second target."""

    name = "der++"
    summary = "replay that asks for the stored logits as well as for the label"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        if self.memory.refreshes:
            raise UserError(
                "der++ compares a replayed example with the logits that its candidates once had: leave out "
                "--refresh-negatives."
            )

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch, remember it with its logits, and step on old examples when it is time."""
        answers: list[torch.Tensor] = []
        loss, gradients = self.gradient_of(self._stream_losses(batch, answers))
        counts = self.problem.row_counts(batch).tolist()
        notes = [logits.flatten().float().cpu().numpy() for logits in torch.split(torch.cat(answers), counts)]
        self.memory.write(batch, notes)
        self.update(gradients)
        if not (self.config.replay and self.schedule.is_due()):
            return {"loss": loss}
        replayed, stored = self.memory.read_noted(self.schedule.size)
        replay_loss, gradients = self.gradient_of(self._replay_losses(replayed, stored))
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss}

    def forget(self, label: int) -> None:
        """What was once answered about the label is let go too, or replays would lead its row back there."""
        super().forget(label)
        self.memory.change_notes(lambda note: self.problem.renewed(torch.tensor(note), label).numpy())

    def distance(self, logits: torch.Tensor, batch: Batch, stored: list[Floats]) -> torch.Tensor:
        """From the stored logits, as far as there were any: columns that the head has grown since have nothing to keep.

        New columns come last, so what was stored is the beginning of an example's logits.
        """
        sizes = self.problem.row_counts(batch) * logits.shape[1]
        starts = np.cumsum(sizes) - sizes
        places = np.concatenate([start + np.arange(len(once)) for start, once in zip(starts, stored, strict=True)])
        once = torch.from_numpy(np.concatenate(stored)).to(logits)
        return functional.mse_loss(logits.flatten()[on_device(places, logits.device)], once)

    def _stream_losses(self, batch: Batch, answers: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        for part, share in self.parts(batch):
            logits = self.network(self.problem.sequences(part))
            answers.append(logits.detach())
            yield share * self.problem.loss(logits, part)

    def _replay_losses(self, batch: Batch, stored: list[Floats]) -> Iterator[torch.Tensor]:
        start, summed = 0, self.config.replay_gradient == "sum"
        answers = sum(map(len, stored))
        for part, share in self.parts(batch, replayed=True):
            logits = self.network(self.problem.sequences(part))
            once = stored[start : start + len(part)]
            start += len(part)
            # A mean over stored answers, of which an example may have fewer than the head has columns by now.
            own = 1.0 if summed else sum(map(len, once)) / answers
            distance, label = self.distance(logits, part, once), self.problem.loss(logits, part)
            yield own * self.config.der_alpha * distance + share * self.config.der_beta * label
