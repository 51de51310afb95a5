"""Settings that single methods have for themselves; docs/methods.md says where the defaults come from."""

from dataclasses import dataclass

from everlearn.settings import setting


@dataclass(frozen=True)
class PeerSettings:
    """Settings of single methods."""

    shrinkage: float = setting(1e-4, "share of the identity in the covariance (slda)")
    ridge_penalty: float = setting(1.0, "λ, what is added to the features' second moment (ridge, ranpac)")
    random_features: int = setting(10_000, "width of the random layer (ranpac)")
