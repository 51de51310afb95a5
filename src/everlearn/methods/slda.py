"""SLDA: streaming linear discriminant analysis, with class means and one covariance for all classes."""

import torch

from everlearn.methods.closed_form import SecondOrder

NO_SPREAD = 1e-6
"""Variance in proportion to the mean square of the features, below which it is nothing but rounding."""
ROUNDING = 1e-9
"""What is added to variances in the same proportion: what has none may come out a little below zero."""

LAST_SHARES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
"""Of the mean variance, what is added to each where the covariance has no factor."""

SCORE_TEMPERATURE = 3.0
"""By what scores are divided with `shrunken_means`, to make sane probabilities of them: features are not normally
distributed, and on validation texts of the embedded stream the likelihood is greatest about here."""


class SLDA(SecondOrder):
    """NCM, with distances measured by the spread of features within classes."""

    name = "slda"
    summary = "a frozen encoder, class means and one shared covariance: linear discriminant analysis over the stream"

    def solve(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Λμ and −½ μᵀΛμ, where Λ is the inverse of the shrunken covariance; every class as likely as any other."""
        factor = factorised(self.covariance())
        means = self.sums.means
        if self.config.shrunken_means:
            means = self.shrunken(means, factor)
        weight = torch.cholesky_solve(means.T, factor).T
        bias = -0.5 * (weight * means).sum(dim=1)
        return (weight / SCORE_TEMPERATURE, bias / SCORE_TEMPERATURE) if self.config.shrunken_means else (weight, bias)

    def shrunken(self, means: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """Means drawn towards the mean of everything, the more the fewer examples they come from.

        A mean of n features has an error of size tr(ΛΣ)/n, and the squared length of −½ μᵀΛμ counts it as if it were
        distance: a label that has just appeared is held to be far from any text. So each mean keeps the share
        s / (s + tr(ΛΣ)/n) of its distance, where s is how far true means are apart, estimated over all classes.
        """
        counts = self.sums.counts
        centre = (means * counts.unsqueeze(1)).sum(dim=0) / counts.sum().clamp(min=1.0)
        away = means - centre
        distances = (away * torch.cholesky_solve(away.T, factor).T).sum(dim=1)
        errors = torch.cholesky_solve(self.within(), factor).trace() / counts.clamp(min=1.0)
        signal = ((distances - errors) * counts).sum() / counts.sum().clamp(min=1.0)
        if signal <= 0:
            return means  # too few examples to tell how far apart means are
        return centre + away * (signal / (signal + errors)).unsqueeze(1)

    def within(self) -> torch.Tensor:
        """The covariance within classes, as it is."""
        means, counts = self.sums.means, self.sums.counts
        return (self.moment.sum - (means * counts.unsqueeze(1)).T @ means) / max(self.moment.rows, 1)

    def covariance(self) -> torch.Tensor:
        """Within classes, shrunk towards a multiple of the identity that has the same trace."""
        within, rows = self.within(), max(self.moment.rows, 1)
        width = len(within)
        size, spread = self.moment.sum.trace() / (rows * width), within.trace() / width
        identity = torch.eye(width, dtype=within.dtype, device=within.device)
        if spread <= NO_SPREAD * size:
            # No two features of a class differ yet: every direction counts the same, and as much as features do.
            return identity * (size if size > 0 else 1.0)
        fixed = self.config.shrinkage
        share = shrinkage_for(within, rows) if fixed is None else fixed
        return (1 - share) * within + (share * spread + ROUNDING * size) * identity


def factorised(covariance: torch.Tensor) -> torch.Tensor:
    """The Cholesky factor. Where texts were taken back, rounding may leave a covariance that has none: then of the
    closest one that has, among those with more of the identity."""
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    variance = covariance.diagonal().mean().clamp(min=torch.finfo(covariance.dtype).tiny)
    for share in (0.0, *LAST_SHARES):
        found = torch.linalg.cholesky_ex(covariance + share * variance * identity)
        if not found.info:
            break
    factor: torch.Tensor = found.L
    return factor


def shrinkage_for(covariance: torch.Tensor, rows: int) -> float | torch.Tensor:
    """The share of the identity that comes closest to the true covariance of features that are normally distributed.

    This is the oracle approximating shrinkage of Chen et al. (2010), as scikit-learn computes it. Few rows need much
    of it: with as many rows as features, a covariance that is hardly shrunk predicts worse than with a few of them.
    """
    mean_square = covariance.square().mean()
    mean_variance = covariance.trace() / len(covariance)
    most = (rows + 1) * (mean_square - mean_variance.square() / len(covariance))
    return ((mean_square + mean_variance.square()) / most).clamp(max=1.0) if most > 0 else 1.0
