"""SLDA: streaming linear discriminant analysis, with class means and one covariance for all classes."""

import torch

from everlearn.methods.closed_form import SecondOrder
from everlearn.methods.statistics import solve_positive

NO_SPREAD = 1e-6
"""Variance in proportion to the mean square of the features, below which it is nothing but rounding."""
ROUNDING = 1e-9
"""What is added to variances in the same proportion: what has none may come out a little below zero."""


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
        means, counts, moment = self.sums.means, self.sums.counts, self.moment.sum
        rows, width = max(self.moment.rows, 1), len(moment)
        within = (moment - (means * counts.unsqueeze(1)).T @ means) / rows
        size, spread = moment.trace() / (rows * width), within.trace() / width
        identity = torch.eye(width, dtype=moment.dtype, device=moment.device)
        if spread <= NO_SPREAD * size:
            return identity  # no two features of a class differ yet: every direction counts the same
        fixed = self.config.shrinkage
        share = shrinkage_for(within, rows) if fixed is None else fixed
        return (1 - share) * within + (share * spread + ROUNDING * size) * identity


def shrinkage_for(covariance: torch.Tensor, rows: int) -> float | torch.Tensor:
    """The share of the identity that comes closest to the true covariance of features that are normally distributed.

    This is the oracle approximating shrinkage of Chen et al. (2010), as scikit-learn computes it. Few rows need much
    of it: with as many rows as features, a covariance that is hardly shrunk predicts worse than with a few of them.
    """
    mean_square = covariance.square().mean()
    mean_variance = covariance.trace() / len(covariance)
    most = (rows + 1) * (mean_square - mean_variance.square() / len(covariance))
    return ((mean_square + mean_variance.square()) / most).clamp(max=1.0) if most > 0 else 1.0
