"""Low-rank adapters (LoRA): an encoder that learns by small changes to its attention, while its own weights stay.

For each query and value projection W of the attention, W + BA is used, where A has few rows and B few columns. B starts
at zero, so that at first nothing changes. To the encoder this is nothing but other weights, so that adapters work with
whatever way it computes.
"""

import math

import torch
from torch import nn

from everlearn.batches import Sequences
from everlearn.encoders import Encoder
from everlearn.errors import UserError
from everlearn.methods.network import Network, Weights

# What the families of transformers call the two projections.
_PROJECTIONS = {"query", "value", "query_proj", "value_proj", "q_proj", "v_proj", "q_lin", "v_lin", "q", "v"}


class Adapters(nn.Module):
    """A and B for each of the encoder's projections that may learn."""

    def __init__(self, encoder: Encoder, rank: int) -> None:
        super().__init__()
        layout = encoder.skeleton.learned
        shapes = {
            name: shape
            for name, shape in zip(layout.names, layout.shapes, strict=True)
            if name.endswith(".weight") and name.split(".")[-2] in _PROJECTIONS
        }
        if not shapes:
            raise UserError(
                "this encoder's query and value projections cannot be told apart: choose another --encoder, or "
                "--gem-gradients head."
            )
        self.names = tuple(shapes)
        self.inner = nn.ParameterList(torch.empty(rank, inputs) for _, inputs in shapes.values())
        """A of each projection, drawn as the weights of a linear layer are."""
        self.outer = nn.ParameterList(torch.zeros(outputs, rank) for outputs, _ in shapes.values())
        """B of each projection."""
        for weight in self.inner:
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))

    def forward(self) -> Weights:
        """BA for each projection, by the name that the encoder has for it."""
        return {name: b @ a for name, a, b in zip(self.names, self.inner, self.outer, strict=True)}


class AdaptedNetwork(Network):
    """An encoder that is frozen but for its adapters, and the problem's head."""

    def __init__(self, encoder: Encoder, head: nn.Module, rank: int) -> None:
        super().__init__(encoder.requires_grad_(False), head)
        self.adapters = Adapters(encoder, rank).to(encoder.device)

    def features(self, sequences: Sequences) -> torch.Tensor:
        """What the encoder makes of its weights with the changes."""
        weights = self.encoder.skeleton.learned.changed(self.encoder.weights, self.adapters())
        features: torch.Tensor = self.encoder(sequences, weights)
        return features
