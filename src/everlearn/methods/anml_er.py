"""ANML-ER: a neuromodulated network with experience replay (paper, section 4.2).

The prediction network (encoder e_W1 and head g_W2) adapts in the inner loop; the neuromodulator h_φ, a frozen
pre-trained encoder under two trained layers, gates its features and is learned in the outer loop only.
"""

import copy
from collections.abc import Sequence

import torch
from torch import nn
from torch.func import functional_call

from everlearn.batches import Batch, Sequences
from everlearn.encoders import Encoder
from everlearn.ledger import Meter
from everlearn.methods.base import Parts
from everlearn.methods.maml_er import MAMLER
from everlearn.methods.meta import sgd_step
from everlearn.methods.network import Network, Weights


class Neuromodulator(nn.Module):
    """h_φ: a gate between 0 and 1 for each feature."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False)
        width = encoder.width
        self.gate = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.Sigmoid())

    @torch.no_grad()
    def read(self, sequences: Sequences) -> torch.Tensor:
        """What the frozen encoder makes of texts: it never changes."""
        features: torch.Tensor = self.encoder(sequences)
        return features

    def forward(self, sequences: Sequences, read: torch.Tensor | None = None) -> torch.Tensor:
        """The gating signal; where it is known what was `read` of the texts, they are not read again."""
        gate: torch.Tensor = self.gate(self.read(sequences) if read is None else read)
        return gate

    def train(self, mode: bool = True) -> "Neuromodulator":
        """The frozen encoder never drops anything out."""
        super().train(mode)
        self.encoder.eval()
        return self


class ModulatedNetwork(Network):
    """f_θ(x) = g_W2(e_W1(x) · h_φ(x))."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__(encoder, head)
        self.modulator = Neuromodulator(encoder).to(encoder.device)

    def features(self, sequences: Sequences, read: torch.Tensor | None = None) -> torch.Tensor:
        """The encoder's features, gated."""
        return self.signals(sequences, read)["after"]

    def forward(self, sequences: Sequences, read: torch.Tensor | None = None) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(self.features(sequences, read))
        return logits

    def signals(self, sequences: Sequences, read: torch.Tensor | None = None) -> Weights:
        """The features before the gate, the gate, and the features after it."""
        before, gate = self.encoder(sequences), self.modulator(sequences, read)
        return {"before": before, "gate": gate, "after": before * gate}


class ANMLER(MAMLER):
    """Fast weights: the prediction network. The neuromodulator stays as it is inside the loop."""

    name = "anml-er"
    summary = "maml-er with a learned gate over the features, driven by a frozen copy of the encoder"

    def build_network(self, parts: Parts) -> Network:
        """The modulated network, unless the ablation takes the modulator away."""
        if not self.config.neuromodulation:
            return super().build_network(parts)
        return ModulatedNetwork(parts.encoder, parts.problem.head(parts.encoder.width))

    def adapt(self, network: Network, support: Sequence[Batch], meter: Meter) -> Weights:
        """θ' = SGD(L, θ, φ, S, α) over the prediction network."""
        if not (isinstance(network, ModulatedNetwork) and support):
            return super().adapt(network, support, meter)
        fast = self.fast_weights(network)
        # The modulator does not change inside the loop, so its encoder reads the whole support set at once.
        read = network.modulator.read(self.problem.sequences(Batch.concat(support)))
        sizes = [self.problem.rows(batch) for batch in support]
        for batch, seen in zip(support, torch.split(read, sizes), strict=True):
            logits = functional_call(network, fast, (self.problem.sequences(batch), seen))
            fast = sgd_step(self.problem.loss(logits, batch), fast, self.config.inner_lr, meter)
        return fast

    def bytes_kept(self) -> int:
        """With the neuromodulator's frozen encoder."""
        network = self.network
        copied = network.modulator.encoder.weight_bytes if isinstance(network, ModulatedNetwork) else 0
        return super().bytes_kept() + copied

    @torch.no_grad()
    def signals(self, batch: Batch) -> Weights:
        """Before, gate and after for each example (the first of its candidates, where it has some)."""
        network = self.copy_for_testing()
        if not isinstance(network, ModulatedNetwork):
            return {}
        shown = [network.signals(self.problem.sequences(batch.take([row]))) for row in range(len(batch))]
        return {name: torch.stack([each[name][0] for each in shown]).cpu() for name in shown[0]}

    def fast_weights(self, network: Network) -> Weights:
        """Everything that learns, except the neuromodulator."""
        return {name: w for name, w in network.trained().items() if not name.startswith("modulator.")}
