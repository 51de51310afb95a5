"""Which relations make up a task: read from a cluster file, or found by K-means over vectors of their names."""

import json
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import UserError
from everlearn.streams import tables
from everlearn.streams.base import Embed, StreamConfig
from everlearn.streams.sampling import DATA_SEED

CLUSTER_FILE = "clusters.json"
CLUSTERS = 10

AUTHORS_NAMES = {f"c{number}" for number in range(CLUSTERS)}
"""What the tasks are called where a file numbers its clusters as the authors' code does."""

LONGEST_NUMBER = 9
"""Digits in the number of a cluster or a relation: more than any data has, and few enough to be read and shown."""

Clusters = dict[str, list[int]]
"""The relations of each task, counted from 0, by the task's name."""


def find_clusters(config: StreamConfig, folder: Path, relations: list[str], embed: Embed) -> tuple[Clusters, list[str]]:
    """The relations of each task, and notes about where they come from.

    A cluster file wins; without one named, the data folder's own; else K-means over the mean GloVe vectors of the
    names' words, where a GloVe file is given, or over the encoder's vectors of the names.
    """
    path = config.clusters
    if path is None and config.glove is None:
        path = tables.plain_or_compressed(folder, CLUSTER_FILE)
    if path is not None:
        clusters = _read(path, len(relations))
        return clusters, _numbering_notes(path, clusters)
    if config.glove:
        vectors, notes = _glove_vectors(config.glove, relations)
        source = "GloVe's"
    else:
        vectors, notes = np.asarray(embed(relations)), []
        source = "the encoder's"
    numbers_differ = (
        f"tasks are groups of relations found with {source} vectors of their names, numbered by their first relation: "
        "orders 1 to 5 are the authors' only with the authors' clusters (--clusters)"
    )
    return cluster(vectors), [numbers_differ, *notes]


def cluster(vectors: NDArray[np.floating]) -> Clusters:
    """K-means, the clusters numbered by their first relation so that they do not depend on the algorithm's order."""
    from sklearn.cluster import KMeans  # slow to import, and rarely needed

    count = min(CLUSTERS, len(vectors))
    if (different := len(np.unique(vectors, axis=0))) < count:
        raise UserError(
            f"the relations' names have only {different} different vectors, too few for {count} tasks: "
            "pass a cluster file with --clusters, or other vectors."
        )
    assigned = KMeans(n_clusters=count, n_init=10, random_state=DATA_SEED).fit(vectors).labels_
    groups: dict[int, list[int]] = {}
    for relation, group in enumerate(assigned.tolist()):
        groups.setdefault(group, []).append(relation)
    return {f"c{number}": members for number, members in enumerate(groups.values())}


def _read(path: Path, relations: int) -> Clusters:
    """A JSON object of cluster → numbers of relations, counted from 1; every relation in exactly one cluster."""
    if not path.exists():
        raise UserError(f"there is no cluster file {path}: check the path given with --clusters.")
    text = "".join(tables.lines(path))
    try:
        content = json.loads(text, object_pairs_hook=_each_once, parse_int=_short)
        clusters = {_task(name): [_relation(n) for n in content[name]] for name in sorted(content, key=_number)}
        if len(clusters) < len(content):
            raise ValueError("a number and c with that number are the same cluster")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a JSON object of cluster → list of relation numbers: {error}.") from error
    for name in clusters:
        if not name or name != name.strip() or "," in name:
            raise UserError(
                f"{path} has a cluster {name!r}, which --order cannot name: give it a name without commas "
                "and without blanks around it."
            )
    members = [relation for cluster in clusters.values() for relation in cluster]
    for relation in members:
        if not 0 <= relation < relations:
            raise UserError(
                f"{path} has relation {relation + 1}, which relation_name.txt does not name (it names {relations})."
            )
        if members.count(relation) > 1:
            raise UserError(f"{path} has relation {relation + 1} twice: each belongs to one cluster.")
    missing = sorted(set(range(relations)) - set(members))
    if missing:
        raise UserError(f"{path} lacks relation {missing[0] + 1}: every relation belongs to one cluster.")
    if not all(clusters.values()):
        raise UserError(f"{path} has an empty cluster: give it a relation, or remove it.")
    return clusters


def _numbering_notes(path: Path, clusters: Clusters) -> list[str]:
    """A note where the five orders hold, but for clusters that are plainly not numbered as the authors' are.

    Names are all there is to go by: other groups under the authors' numbers look the same.
    """
    if len(clusters) != CLUSTERS or clusters.keys() == AUTHORS_NAMES:
        return []
    return [
        f"the ten clusters of {path} are not numbered 0 to 9: orders 1 to 5, which go by the authors' numbers of their "
        f"clusters, count these as {', '.join(clusters)} and are not the authors'"
    ]


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no cluster may silently take another's place."""
    content = dict(members)
    if len(content) < len(members):
        raise ValueError("a cluster stands in it twice")
    return content


def _relation(number: Any) -> int:
    """Counted from 0."""
    if isinstance(number, bool):
        raise TypeError("true and false are no numbers")
    return operator.index(number) - 1


def _task(name: str) -> str:
    return f"c{name}" if name.isdecimal() else name


def _number(name: str) -> tuple[bool, int, str]:
    """Sorts numbered clusters by their number: the authors' orders go by it, wherever they stand in the file."""
    return (False, _short(name), "") if name.isdecimal() else (True, 0, name)


def _short(number: str) -> int:
    if len(number.lstrip("-")) > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER} digits")
    return int(number)


def _glove_vectors(path: Path, relations: list[str]) -> tuple[NDArray[np.floating], list[str]]:
    """The mean vector of each name's words, from a text file of `word number number …` lines, and what it lacks.

    A word that has no vector counts as zero, as in the authors' code.
    """
    names = [name.lower().split() for name in relations]
    wanted = {word for words in names for word in words}
    vectors: dict[str, NDArray[np.floating]] = {}
    width = 0
    for number, line in enumerate(tables.lines(path), start=1):
        if number == 1 and re.fullmatch(r"[0-9]+\s+[0-9]+\s*", line):
            raise UserError(
                f"{path} line 1 counts words and numbers, as word2vec's files do and GloVe's do not: remove that line."
            )
        if "\t" in line:
            raise UserError(f"{path} line {number} has a tab in it: set single blanks between a word and its numbers.")
        fields = line.rstrip("\r\n ").split(" ")
        width = width or len(fields) - 1
        if len(fields) <= width and fields[0] in wanted:
            raise UserError(f"{path} line {number} has fewer than {width} numbers: pass a whole GloVe text file.")
        word = " ".join(fields[:-width]) if width else ""  # some entries have a space in them
        if word in wanted:
            vectors[word] = _vector(fields[-width:], f"{path} line {number}")
    for name, words in zip(relations, names, strict=True):
        if not vectors.keys() & set(words):
            raise UserError(f"{path} has no vector for any word of the relation '{name}': pass a GloVe text file.")
    zero = np.zeros(width)
    lacking = sorted(wanted - vectors.keys())
    notes = [f"{path} has no vectors for {len(lacking)} words, such as '{lacking[0]}'"] if lacking else []
    return np.stack([np.mean([vectors.get(word, zero) for word in words], axis=0) for words in names]), notes


def _vector(numbers: Sequence[str], where: str) -> NDArray[np.floating]:
    try:
        vector = np.array(numbers, dtype=np.float64)
    except ValueError:
        vector = np.array([np.nan])
    if not np.isfinite(vector).all():
        raise UserError(f"{where} is not a word and a vector of numbers: pass a GloVe text file.")
    return vector
