"""EA-EMR: embedding alignment with episodic memory replay.

Each example is stored with the feature it had when it came. A linear aligner above the encoder keeps the space of
features in place: each replay refits it to lead the features that stored examples have now to those they had then.
Negatives of replayed examples are resampled from all relations seen: `--refresh-negatives`, on by default for this
method where there are candidates.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Floats, Sequences
from everlearn.encoders import Encoder
from everlearn.methods.base import Observations, Parts
from everlearn.methods.network import Network, Weights, in_evaluation
from everlearn.methods.replay import SparseReplay
from everlearn.transfer import on_device

ALIGNER_RATE = 1e-4


class AlignedNetwork(Network):
    """f(x) = g(A e(x)), where the aligner A is fitted apart from the rest."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__(encoder, head)
        self.aligner = nn.Linear(encoder.width, encoder.width, bias=False, device=encoder.device)
        nn.init.eye_(self.aligner.weight)

    def features(self, sequences: Sequences) -> torch.Tensor:
        """The encoder's features, aligned."""
        aligned: torch.Tensor = self.aligner(self.encoder(sequences))
        return aligned

    def trained(self) -> Weights:
        """What learns from the loss: everything but the aligner."""
        return {name: weight for name, weight in super().trained().items() if not name.startswith("aligner.")}


class EAEMR(SparseReplay):
    """REPLAY with an aligner."""

    name = "ea-emr"
    summary = "replay, with a linear layer that keeps features where stored examples had them"
    family = "relations"
    network: AlignedNetwork

    def build_network(self, parts: Parts) -> Network:
        """With the aligner between encoder and head."""
        return AlignedNetwork(parts.encoder, parts.problem.head(parts.encoder.width))

    def observe(self, batch: Batch) -> Observations:
        """Step on the batch, remember it with its features; when it is time, replay and align."""
        features: list[torch.Tensor] = []
        loss, gradients = self.gradient_of(self._losses(batch, features))
        own = torch.cat(features)[on_device(self.problem.right_rows(batch), features[0].device)]
        self.memory.write(batch, list(own.float().cpu().numpy()))
        self.update(gradients)
        if not (self.config.replay and self.schedule.is_due()):
            return {"loss": loss}
        replayed, stored = self.memory.read_noted(self.schedule.size)
        replay_loss, gradients = self.gradient(replayed, replayed=True)
        self.update(gradients, replayed=True)
        return {"loss": loss, "replay_loss": replay_loss, "distance": self.align(replayed, stored)}

    def align(self, batch: Batch, stored: list[Floats]) -> torch.Tensor:
        """Fit the aligner to lead these examples' features to the stored ones; how far they were apart before."""
        sequences, rows = self.problem.sequences(batch), self.problem.right_rows(batch)
        types = None if sequences.types is None else sequences.types.take(rows)
        with torch.no_grad(), in_evaluation(self.network):
            now = self.network.encoder(Sequences(sequences.tokens.take(rows), types))
        then = torch.from_numpy(np.stack(stored)).to(now)
        aligner = self.network.aligner
        optimiser = torch.optim.Adam(aligner.parameters(), lr=ALIGNER_RATE)
        first: torch.Tensor | None = None
        for _ in range(self.config.aligner_steps):
            distance = functional.mse_loss(aligner(now), then)
            first = distance.detach() if first is None else first
            optimiser.zero_grad()
            distance.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            self.ledger.train.optimiser_steps += 1
        aligner.weight.grad = None
        assert first is not None, "an aligner takes at least one step"
        return first

    def count_trained(self) -> None:
        """With the aligner, which learns too."""
        super().count_trained()
        self.ledger.parameters_trained += self.network.aligner.weight.numel()

    def state(self) -> dict[str, Any]:
        """With the aligner."""
        return {**super().state(), "aligner": self.network.aligner.weight}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the same aligner."""
        super().restore(state)
        with torch.no_grad():
            self.network.aligner.weight.copy_(state["aligner"])

    def _losses(self, batch: Batch, kept: list[torch.Tensor]) -> Iterator[torch.Tensor]:
        for part, share in self.parts(batch):
            features = self.network.features(self.problem.sequences(part))
            kept.append(features.detach())
            yield share * self.problem.loss(self.network.head(features), part)
