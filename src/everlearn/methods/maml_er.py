"""MAML-ER: first-order MAML with experience replay, ANML-ER without its neuromodulation (paper, section 7)."""

from collections.abc import Sequence

from everlearn.batches import Batch
from everlearn.ledger import Meter
from everlearn.methods.meta import MetaMethod, sgd_step
from everlearn.methods.network import Network, Weights


class MAMLER(MetaMethod):
    """Fast weights: the encoder and the head."""

    name = "maml-er"
    summary = "meta-learning whose inner loop adapts encoder and head, with sparse replay as the query set"

    def adapt(self, network: Network, support: Sequence[Batch], meter: Meter) -> Weights:
        """θ' = SGD(L, θ, S, α) over all fast weights."""
        fast = self.fast_weights(network)
        for batch in support:
            fast = sgd_step(self.loss(network, batch, fast), fast, self.config.inner_lr, meter)
        return fast

    def fast_weights(self, network: Network) -> Weights:
        """The weights that take the inner steps."""
        return network.trained()
