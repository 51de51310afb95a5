"""Exact nearest neighbours by Euclidean distance: FAISS where it is installed, else scikit-learn, which is slower."""

import importlib.util
from typing import Any

import numpy as np

from everlearn.batches import Floats, Integers


class Neighbours:
    """An index over keys."""

    def __init__(self, keys: Floats) -> None:
        self._count = len(keys)
        keys = np.ascontiguousarray(keys, dtype=np.float32)
        self._bytes = keys.nbytes
        self._faiss = importlib.util.find_spec("faiss") is not None
        self._index: Any = _faiss_index(keys) if self._faiss else _sklearn_index(keys)

    @property
    def bytes_kept(self) -> int:
        """What the index's own copy of the keys takes up."""
        return self._bytes

    def nearest(self, queries: Floats, count: int) -> tuple[Floats, Integers]:
        """For each query the distances to its nearest keys, no more than there are, and their places, nearest first."""
        queries, count = np.ascontiguousarray(queries, dtype=np.float32), min(count, self._count)
        if self._faiss:
            squares, places = self._index.search(queries, count)
            return np.sqrt(np.maximum(squares, 0)), places
        distances, places = self._index.kneighbors(queries, n_neighbors=count)
        return distances, places


def _faiss_index(keys: Floats) -> Any:
    import faiss

    index = faiss.IndexFlatL2(keys.shape[1])
    index.add(keys)
    return index


def _sklearn_index(keys: Floats) -> Any:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(algorithm="brute").fit(keys)
