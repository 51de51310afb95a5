"""OML-ER: online meta-learning with experience replay (paper, section 4.1).

The encoder (the representation learning network, φ) is frozen in the inner loop, where only the linear head (the
prediction learning network, W) takes a step on each support batch. The outer loop learns both.
"""

from collections.abc import Sequence

import torch
from torch.func import functional_call

from everlearn.batches import Batch
from everlearn.ledger import Meter
from everlearn.methods.meta import MetaMethod, sgd_step
from everlearn.methods.network import Network, Weights


class OMLER(MetaMethod):
    """Fast weights: the head alone."""

    name = "oml-er"
    summary = "meta-learning whose inner loop adapts the head only, with sparse replay as the query set"

    def adapt(self, network: Network, support: Sequence[Batch], meter: Meter) -> Weights:
        """W' = SGD(L, φ, W, S, α)."""
        fast: Weights = dict(network.head.named_parameters())
        if support:
            # The encoder does not change inside the loop, so the whole support set goes through it at once.
            with torch.no_grad():
                features = network.features(self.problem.sequences(Batch.concat(support)))
            sizes = [self.problem.rows(batch) for batch in support]
            for batch, seen in zip(support, torch.split(features, sizes), strict=True):
                logits = functional_call(network.head, fast, (seen,))
                fast = sgd_step(self.problem.loss(logits, batch), fast, self.config.inner_lr, meter)
        return {f"head.{name}": weight for name, weight in fast.items()}
