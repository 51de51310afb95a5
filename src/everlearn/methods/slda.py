"""SLDA: streaming linear discriminant analysis, with class means and one covariance for all classes."""

import torch

from everlearn.methods.closed_form import SecondOrder
from everlearn.methods.statistics import solve_positive


class SLDA(SecondOrder):
    """NCM, with distances measured by the spread of features within classes."""

    name = "slda"
    summary = "a frozen encoder, class means and one shared covariance: linear discriminant analysis over the stream"

    def solve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Λμ and −½ μᵀΛμ, where Λ is the inverse of the shrunken covariance; every class as likely as any other."""
        means = self.sums.means
        weight = solve_positive(self.covariance(), means.T).T
        return weight, -0.5 * (weight * means).sum(dim=1)

    def covariance(self) -> torch.Tensor:
        """Within classes, shrunk towards a multiple of the identity that has the same trace."""
        means, counts = self.sums.means, self.sums.counts
        between = (means * counts.unsqueeze(1)).T @ means
        within = (self.moment.sum - between) / counts.sum().clamp(min=1.0)
        width, share = len(within), self.config.shrinkage
        # Before two features of a class differ there is no spread at all: then every direction counts the same.
        spread = within.trace() / width
        spread = torch.where(spread > 0, spread, torch.ones_like(spread))
        return (1 - share) * within + share * spread * torch.eye(width, dtype=within.dtype, device=within.device)
