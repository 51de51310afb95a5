"""Meta-MbPA: learns weights from which local adaptation to the memory works well.

At a replay the neighbours of the stream's batch are read from memory; the inner loop adapts to them, and the outer step
takes the batch's gradient at the adapted weights (first order). All other batches take a plain step: the original
retrieves at every one, which sparse replay does not allow. When it is tested, the weights adapt once for a whole test
set, to random examples. What differs from the memory is more likely to be written.
"""

from typing import Any

import numpy as np

from everlearn.batches import Batch, Floats
from everlearn.ledger import Meter
from everlearn.methods.base import MethodConfig, Observations, Parts, Predictor
from everlearn.methods.meta import sgd_step
from everlearn.methods.network import Network, NetworkPredictor, Weights
from everlearn.methods.replay import SparseReplay
from everlearn.methods.retrieval import Keys, MemoryIndex
from everlearn.seeding import generator, generator_state, restore_generator


class MetaMbPA(SparseReplay):
    """SEQ, with a meta-learning step on neighbours at every replay, and a small memory of examples that differ."""

    name = "meta-mbpa"
    summary = "meta-learns, at replays, to adapt to the memory's nearest neighbours; stores examples that differ"
    family = "retrieval"
    test_cost = "⌈K/b⌉ SGD steps on memory, one pass"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        self.keys = Keys(parts.encoder, parts.problem, parts.ledger.train)
        super().__init__(config, parts)
        self._writing, self._testing = (generator(parts.seed, f"meta-mbpa/{use}") for use in ("write", "test"))
        self._searched = MemoryIndex(self.memory)
        self._distances, self._compared = 0.0, 0

    def observe(self, batch: Batch) -> Observations:
        """A plain step, or at a replay one at the weights adapted to the batch's neighbours."""
        keys = self.keys(batch)
        fast: Weights | None = None
        if self.config.replay and self.schedule.is_due():
            slots = self._searched.now().nearest_to_all(keys, self.schedule.size)
            fast = self.adapt(self.network, self.memory.read_at(slots), self.ledger.train)
        loss, gradients = self.gradient(batch, fast, replayed=fast is not None)
        self.update(gradients, replayed=fast is not None)
        self.remember_what_differs(batch, keys)
        return {"loss": loss} if fast is None else {"replay_loss": loss}

    def adapt(self, network: Network, batch: Batch, meter: Meter) -> Weights:
        """The inner loop: one SGD step with rate α for each b examples."""
        fast = network.trained()
        for part in batch.split(self.config.batch_size):
            fast = sgd_step(self.loss(network, part, fast), fast, self.config.inner_lr, meter)
        return fast

    def remember_what_differs(self, batch: Batch, keys: Floats) -> None:
        """Offer each example with a chance in proportion to its distance from the nearest key in memory."""
        if not len(self.memory):  # something to compare with
            self.memory.write(batch.take([0]), [keys[0]])
            batch, keys = batch.take(range(1, len(batch))), keys[1:]
        if not len(batch) or not len(self.memory):
            return
        distances = self._searched.now().index.nearest(keys, 1)[0][:, 0]
        self._distances += float(distances.sum())
        self._compared += len(distances)
        mean = self._distances / self._compared
        chances = self.config.diverse_share * (distances / mean if mean else np.ones_like(distances))
        rows = np.flatnonzero(self._writing.random(len(batch)) < chances)
        self.memory.write(batch.take(rows), list(keys[rows]))

    def bytes_kept(self) -> int:
        """With the encoder that makes the keys, and their copy in the index."""
        return super().bytes_kept() + self.keys.bytes_kept + self._searched.bytes_kept()

    def predictor(self) -> Predictor:
        """Adapted once, to as many random examples as there are neighbours; then it predicts any number."""
        network = self.copy_for_testing()
        if self.config.meta_test and len(self.memory):
            drawn = self.memory.sample(self.config.neighbours, self._testing, self.ledger.test)
            network.load_state_dict(self.adapt(network, drawn, self.ledger.test), strict=False)
        return NetworkPredictor(network, self.problem)

    def state(self) -> dict[str, Any]:
        """With the mean distance and the generators."""
        return {
            **super().state(),
            "distances": self._distances,
            "compared": self._compared,
            "writing": generator_state(self._writing),
            "testing": generator_state(self._testing),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on comparing and drawing."""
        super().restore(state)
        self._distances, self._compared = state["distances"], state["compared"]
        restore_generator(self._writing, state["writing"])
        restore_generator(self._testing, state["testing"])
