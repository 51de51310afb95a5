"""Ridge regression on a frozen encoder's features: W = (G + λI)⁻¹ Q with G = Σ h hᵀ and Q = Σ h yᵀ."""

import torch

from everlearn.methods.closed_form import SecondOrder
from everlearn.methods.statistics import solve_positive


class Ridge(SecondOrder):
    """Regression onto one-hot labels."""

    name = "ridge"
    summary = "a frozen encoder and ridge regression onto the labels, solved exactly"

    def solve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The regression, which has no bias. Q is the sum of each class's features."""
        penalised = self.moment.sum
        penalised.diagonal().add_(self.config.ridge_penalty)
        return solve_positive(penalised, self.sums.sums.T).T, torch.zeros_like(self.sums.counts)
