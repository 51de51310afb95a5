"""Lifelong FewRel: sentences whose relation is to be chosen among candidates, in tasks of related relations.

Paper, section 5.1. What counts as seen is decided here, once, when the tasks are put in order: a learner is given
sentences and candidates and is told nothing about tasks.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import orders
from everlearn.streams.base import Benchmark, Embed, StreamConfig, Task
from everlearn.streams.fewrel_files import TEST, TRAINING, find_files, read_relations, read_sentences
from everlearn.streams.relation_clusters import Clusters, find_clusters
from everlearn.streams.sampling import check_sizes, data_generator

DESCRIPTION = (
    "Lifelong FewRel: choose a sentence's relation among candidates; 80 relations in 10 tasks, five orders "
    "(needs --data)"
)

VALIDATION_SIZE = 4800
"""Training sentences held out while settings are chosen; the paper then trains on all of them."""

# The five orders of the authors' code at seed 42, by its own numbers of the clusters: entry k is the position of
# cluster k in the stream.
ORDERS = {
    "1": (7, 3, 2, 8, 5, 6, 9, 4, 0, 1),
    "2": (3, 5, 2, 4, 1, 8, 7, 0, 6, 9),
    "3": (7, 5, 0, 2, 4, 9, 1, 6, 3, 8),
    "4": (7, 8, 3, 0, 2, 9, 1, 4, 5, 6),
    "5": (9, 6, 7, 3, 0, 2, 4, 8, 5, 1),
}


def load(config: StreamConfig, embed: Embed) -> Benchmark:
    """The benchmark, its tasks in the order asked for. Sizes are for all tasks together, as in the paper."""
    check_sizes(config)
    folder = _folder(config)
    find_files(folder)
    relations = read_relations(folder)
    # Sentences first: a relation that has no name is missing in their lines, whatever a cluster file says.
    train, train_notes = read_sentences(folder, TRAINING, len(relations), gold_among_candidates=False)
    test, test_notes = read_sentences(folder, TEST, len(relations), gold_among_candidates=True)
    clusters, cluster_notes = find_clusters(config, folder, relations, embed)
    names = orders.choose(config.order, _orders(list(clusters)), list(clusters))
    owners = {relation: name for name in names for relation in clusters[name]}
    train = [example for example in train if example.label in owners]
    validation: list[Example] = []
    if config.split == "validation":
        held_out = VALIDATION_SIZE if config.val_size is None else config.val_size
        if held_out:  # a validation set may be empty; what then tests on it says so
            validation, train = _divide(train, held_out, owners, "validation", "--val-size")
    if config.train_size is not None:
        train, _ = _divide(train, config.train_size, owners, "training", "--train-size")
    test = [example for example in test if example.label in owners]
    if config.test_size is not None:
        test, _ = _divide(test, config.test_size, owners, "test", "--test-size")
    return Benchmark(
        name="fewrel",
        labels=tuple(relations),
        tasks=_tasks({name: clusters[name] for name in names}, owners, train, validation, test),
        problem="ranking",
        joint_test=True,
        notes=(*cluster_notes, *train_notes, *test_notes),
    )


def check_files(config: StreamConfig) -> None:
    """Refuse data that is not there, without reading it."""
    find_files(_folder(config))


def _folder(config: StreamConfig) -> Path:
    if config.data is None or not config.data.is_dir():
        what = "needs --data with the folder" if config.data is None else f"found no folder {config.data}: pass the one"
        raise UserError(
            f"the stream fewrel {what} that holds relation_name.txt, training_data.txt and val_data.txt "
            "of Lifelong FewRel (Wang et al., 2019)."
        )
    return config.data


def _orders(names: list[str]) -> dict[str, list[str]]:
    """The five orders for ten clusters; for another number of clusters only the order of the clusters themselves."""
    if len(names) != len(ORDERS["1"]):
        return {"1": names}
    return {
        order: [name for _, name in sorted(zip(positions, names, strict=True))] for order, positions in ORDERS.items()
    }


def _tasks(
    clusters: Clusters,
    owners: Mapping[int, str],
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
) -> tuple[Task, ...]:
    parts: list[dict[str, list[Example]]] = []
    for examples in (train, validation, test):
        by_task: dict[str, list[Example]] = defaultdict(list)
        for example in examples:
            by_task[owners[example.label]].append(example)
        parts.append(by_task)
    tasks: list[Task] = []
    seen: set[int] = set()
    for name, relations in clusters.items():
        seen.update(relations)
        trained, validated, tested = (part[name] for part in parts)
        if not trained:
            raise UserError(
                f"no training sentence is left for the task '{name}': leave it out of --order, or hold out fewer "
                "with --val-size."
            )
        narrowed = [keep_seen_candidates(example, seen) for example in trained]
        tasks.append(Task(name, narrowed, validated, tested, pool=trained))
    return tuple(tasks)


def keep_seen_candidates(example: Example, seen: set[int]) -> Example:
    """The example without candidates that were not seen yet; if no negative is left, the last two stay.

    >>> keep_seen_candidates(Example("…", 1, (1, 5, 6, 7)), {1, 6}).candidates
    (1, 6)
    >>> keep_seen_candidates(Example("…", 1, (1, 5, 6, 7)), {1}).candidates
    (1, 6, 7)
    """
    negatives = [candidate for candidate in example.candidates if candidate != example.label]
    kept = [candidate for candidate in negatives if candidate in seen] or negatives[-2:]
    return replace(example, candidates=(example.label, *kept))


def _divide(
    examples: list[Example], size: int, owners: Mapping[int, str], name: str, option: str
) -> tuple[list[Example], list[Example]]:
    """`size` examples drawn with the data's own seed, and the rest, both in the order of the file.

    Every task gets one first, then every relation as long as there is room, so that none vanishes from small samples.
    """
    if size > len(examples):
        raise UserError(
            f"fewrel has {len(examples)} sentences to draw {name} sentences from, not {size}: lower {option}."
        )
    order = data_generator(f"fewrel/{name}").permutation(len(examples)).tolist()
    of_tasks: dict[str, int] = {}
    of_relations: dict[int, int] = {}
    for place in order:
        of_tasks.setdefault(owners[examples[place].label], place)
        of_relations.setdefault(examples[place].label, place)
    if size < len(of_tasks):
        raise UserError(f"{size} {name} sentences are too few for {len(of_tasks)} tasks: raise {option} to as many.")
    drawn = set(list(dict.fromkeys([*of_tasks.values(), *of_relations.values(), *order]))[:size])
    taken = [example for place, example in enumerate(examples) if place in drawn]
    return taken, [example for place, example in enumerate(examples) if place not in drawn]
