"""MbPA++: replay while learning, and local adaptation to nearest neighbours for each example that is tested."""

from everlearn.batches import Batch
from everlearn.methods.base import MethodConfig, Parts, Predictor
from everlearn.methods.local_adaptation import FullAdaptation, HeadAdaptation
from everlearn.methods.network import NetworkPredictor
from everlearn.methods.replay import Replay
from everlearn.methods.retrieval import Keys, MemoryIndex


class MbPA(Replay):
    """REPLAY; each example is stored with its key, the feature that the encoder gave it before it learned anything."""

    name = "mbpa++"
    summary = "replay, and at test time a few steps on each example's nearest neighbours in memory"
    family = "retrieval"
    test_cost = "L steps on K neighbours for each example"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        self.keys = Keys(parts.encoder, parts.problem, parts.ledger.train)
        super().__init__(config, parts)
        self._searched = MemoryIndex(self.memory)

    def remember(self, batch: Batch) -> None:
        """With the keys."""
        self.memory.write(batch, list(self.keys(batch)))

    def bytes_kept(self) -> int:
        """With the encoder that makes the keys, and their copy in the index."""
        return super().bytes_kept() + self.keys.bytes_kept + self._searched.bytes_kept()

    def predictor(self) -> Predictor:
        """The network of this moment and the memory of this moment."""
        network, meter = self.copy_for_testing(), self.ledger.test
        if not len(self.memory):
            return NetworkPredictor(network, self.problem)
        kind = HeadAdaptation if self.config.local_adaptation == "head" else FullAdaptation
        return kind(network, self.problem, self._searched.now(), self.keys.counting_on(meter), self.config, meter)
