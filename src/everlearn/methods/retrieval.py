"""What retrieval methods share: keys from a frozen copy of the encoder, and the memory found by them."""

import copy

import numpy as np
import torch

from everlearn.batches import Batch, Floats, Integers
from everlearn.encoders import Encoder
from everlearn.ledger import Meter
from everlearn.memory import Memory, MemoryView
from everlearn.methods.neighbours import Neighbours
from everlearn.methods.network import EXAMPLES_AT_ONCE
from everlearn.problems import Problem


class Keys:
    """Keys that mean the same throughout a run: the features of the encoder as it was in the beginning."""

    def __init__(self, encoder: Encoder, problem: Problem, meter: Meter) -> None:
        self._encoder = copy.deepcopy(encoder).requires_grad_(False).eval()
        self._encoder.meter = meter
        self._problem = problem

    def counting_on(self, meter: Meter) -> "Keys":
        """The same keys, whose work is counted on another meter."""
        view = copy.copy(self)
        view._encoder = self._encoder.counting_on(meter)
        return view

    @property
    def bytes_kept(self) -> int:
        """What the copy takes up."""
        return self._encoder.weight_bytes

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Floats:
        """One key an example."""
        parts = [self._encoder(self._problem.texts(part)) for part in batch.split(EXAMPLES_AT_ONCE)]
        keys: Floats = torch.cat(parts).float().cpu().numpy()
        return keys


class KeyedMemory:
    """The memory of one moment, with an index over the keys that were noted beside its entries."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view
        self.index = Neighbours(np.stack(view.notes))

    def nearest_to_all(self, keys: Floats, count: int) -> Integers:
        """The `count` entries that are nearest to any of these keys, each once."""
        distances, slots = self.index.nearest(keys, count)
        by_distance = slots.ravel()[np.argsort(distances.ravel(), kind="stable")]
        _, first = np.unique(by_distance, return_index=True)
        return by_distance[np.sort(first)][:count]


class MemoryIndex:
    """A memory with an index over it, which is made anew when the memory has changed since it was last asked for."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._keyed: tuple[int, KeyedMemory] | None = None

    def bytes_kept(self) -> int:
        """What an index over the memory as it is takes up beside it.

        It is made to be counted: whether one happens to be there depends on where a run was interrupted.
        """
        return self.now().index.bytes_kept if len(self._memory) else 0

    def now(self) -> KeyedMemory:
        """The memory as it is."""
        if self._keyed is None or self._keyed[0] != self._memory.changes:
            self._keyed = self._memory.changes, KeyedMemory(self._memory.view())
        return self._keyed[1]
