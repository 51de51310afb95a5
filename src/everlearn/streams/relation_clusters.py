"""Which relations make up a task: read from a cluster file, or found by K-means over vectors of their names."""

import json
import operator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import UserError
from everlearn.streams import tables
from everlearn.streams.base import Embed, StreamConfig
from everlearn.streams.sampling import DATA_SEED

CLUSTER_FILE = "clusters.json"
CLUSTERS = 10


def find_clusters(config: StreamConfig, folder: Path, relations: list[str], embed: Embed) -> dict[str, list[int]]:
    """The relations of each task, by task name.

    A cluster file wins; without one named, the data folder's own; else K-means over the mean GloVe vectors of the
    names' words, where a GloVe file is given, or over the encoder's vectors of the names.
    """
    path = config.clusters
    if path is None and config.glove is None and (folder / CLUSTER_FILE).is_file():
        path = folder / CLUSTER_FILE
    if path is not None:
        return _read(path, len(relations))
    vectors = _glove_vectors(config.glove, relations) if config.glove else np.asarray(embed(relations))
    return cluster(vectors)


def cluster(vectors: NDArray[np.floating]) -> dict[str, list[int]]:
    """K-means, the clusters numbered by their first relation so that they do not depend on the algorithm's order."""
    from sklearn.cluster import KMeans  # slow to import, and rarely needed

    count = min(CLUSTERS, len(vectors))
    assigned = KMeans(n_clusters=count, n_init=10, random_state=DATA_SEED).fit(vectors).labels_
    groups: dict[int, list[int]] = {}
    for relation, group in enumerate(assigned.tolist()):
        groups.setdefault(group, []).append(relation)
    return {f"c{number}": members for number, members in enumerate(groups.values())}


def _read(path: Path, relations: int) -> dict[str, list[int]]:
    """A JSON object of cluster → numbers of relations, counted from 1; every relation in exactly one cluster."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        clusters = {f"c{name}": [operator.index(n) - 1 for n in content[name]] for name in sorted(content, key=_number)}
    except FileNotFoundError as error:
        raise UserError(f"there is no cluster file {path}: check the path given with --clusters.") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a JSON object of cluster → list of relation numbers: {error}.") from error
    members = [relation for cluster in clusters.values() for relation in cluster]
    for relation in members:
        if not 0 <= relation < relations:
            raise UserError(f"{path} has relation {relation + 1}, which relation_name.txt does not name.")
        if members.count(relation) > 1:
            raise UserError(f"{path} has relation {relation + 1} twice: each belongs to one cluster.")
    missing = sorted(set(range(relations)) - set(members))
    if missing:
        raise UserError(f"{path} lacks relation {missing[0] + 1}: every relation belongs to one cluster.")
    if not all(clusters.values()):
        raise UserError(f"{path} has an empty cluster: give it a relation, or remove it.")
    return clusters


def _number(name: str) -> tuple[bool, int, str]:
    """Sorts numbered clusters by their number: the authors' orders go by it, wherever they stand in the file."""
    return (False, int(name), "") if name.isdecimal() else (True, 0, name)


def _glove_vectors(path: Path, relations: list[str]) -> NDArray[np.floating]:
    """The mean vector of each name's words, from a text file of `word number number …` lines."""
    words = {word for name in relations for word in name.lower().split()}
    vectors: dict[str, NDArray[np.floating]] = {}
    for number, line in enumerate(tables.lines(path), start=1):
        word, _, rest = line.rstrip().partition(" ")
        if word in words:
            try:
                vectors[word] = np.array(rest.split(), dtype=np.float64)
            except ValueError as error:
                raise UserError(f"{path} line {number} is not a word and a vector: pass a GloVe text file.") from error
    widths = {len(vector) for vector in vectors.values()}
    if len(widths) != 1:
        raise UserError(f"{path} holds no vectors of one length for the relations' words: pass a GloVe text file.")
    zero = np.zeros(widths.pop())
    return np.stack([np.mean([vectors.get(w, zero) for w in name.lower().split()], axis=0) for name in relations])
