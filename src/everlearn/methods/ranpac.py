"""RanPAC: ridge regression on a random layer over a frozen encoder, h = ReLU(xR)."""

from typing import Any

import torch

from everlearn.methods.base import MethodConfig, Parts
from everlearn.methods.ridge import Ridge
from everlearn.seeding import generator
from everlearn.transfer import on_device


class RanPAC(Ridge):
    """Ridge, after a wide random layer that makes classes easier to separate by a plane."""

    name = "ranpac"
    summary = "ridge on a wide layer of random features"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        drawn = generator(parts.seed, "ranpac").standard_normal((self.encoder.width, config.random_features))
        self.projection = on_device(drawn, self.encoder.device)

    def width(self) -> int:
        """Of the random layer."""
        return self.config.random_features

    def expand(self, features: torch.Tensor) -> torch.Tensor:
        """ReLU(xR)."""
        return (features @ self.projection).relu()

    def state(self) -> dict[str, Any]:
        """With the random layer."""
        return {**super().state(), "projection": self.projection}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the same random layer."""
        super().restore(state)
        self.projection = state["projection"].to(self.encoder.device, copy=True)
