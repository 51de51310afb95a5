"""Lifelong FewRel: sentences whose relation is to be chosen among candidates, in tasks of related relations.

Paper, section 5.1. What counts as seen is decided here, once, when the tasks are put in order: a learner is given
sentences and candidates and is told nothing about tasks.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import orders
from everlearn.streams.base import Benchmark, Embed, StreamConfig, Task
from everlearn.streams.fewrel_files import TEST, TRAINING, find_files, read_relations, read_sentences
from everlearn.streams.relation_clusters import find_clusters
from everlearn.streams.sampling import check_sizes, data_generator

DESCRIPTION = "Lifelong FewRel: choose a sentence's relation among candidates; 80 relations in 10 tasks, five orders"

VALIDATION_SIZE = 4800
"""Training sentences held out while settings are chosen; the paper then trains on all of them."""

# The five orders of the authors' code at seed 42: entry k is the position of cluster k in the stream.
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
    relations = read_relations(folder)
    clusters = find_clusters(config, folder, relations, embed)
    names = orders.choose(config.order, _orders(list(clusters)), list(clusters))
    wanted = {relation for name in names for relation in clusters[name]}
    train, train_notes = read_sentences(folder, TRAINING, len(relations), gold_among_candidates=False)
    test, test_notes = read_sentences(folder, TEST, len(relations), gold_among_candidates=True)
    train = [example for example in train if example.label in wanted]
    validation: list[Example] = []
    if config.split == "validation":
        held_out = VALIDATION_SIZE if config.val_size is None else config.val_size
        validation, train = _divide(train, held_out, "validation")
    if config.train_size is not None:
        train, _ = _divide(train, config.train_size, "training")
    test = [example for example in test if example.label in wanted]
    if config.test_size is not None:
        test, _ = _divide(test, config.test_size, "test")
    return Benchmark(
        name="fewrel",
        labels=tuple(relations),
        tasks=_tasks({name: clusters[name] for name in names}, train, validation, test),
        problem="ranking",
        joint_test=True,
        notes=(*train_notes, *test_notes),
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
    clusters: dict[str, list[int]],
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
) -> tuple[Task, ...]:
    owner = {relation: name for name, relations in clusters.items() for relation in relations}
    parts: list[dict[str, list[Example]]] = []
    for examples in (train, validation, test):
        by_task: dict[str, list[Example]] = defaultdict(list)
        for example in examples:
            by_task[owner[example.label]].append(example)
        parts.append(by_task)
    tasks: list[Task] = []
    seen: set[int] = set()
    for name, relations in clusters.items():
        seen.update(relations)
        trained, validated, tested = (part[name] for part in parts)
        if not trained:
            raise UserError(f"no training sentence is left for the task '{name}': raise --train-size, or leave it out.")
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


def _divide(examples: list[Example], size: int, name: str) -> tuple[list[Example], list[Example]]:
    """`size` examples drawn with the data's own seed, and the rest, both in the order of the file.

    Every relation gets one first, as long as there is room, so that small tasks do not vanish from small samples.
    """
    if size > len(examples):
        raise UserError(
            f"fewrel has {len(examples)} sentences to draw {name} sentences from, not {size}: ask for fewer."
        )
    order = data_generator(f"fewrel/{name}").permutation(len(examples)).tolist()
    firsts: dict[int, int] = {}
    for i in order:
        firsts.setdefault(examples[i].label, i)
    drawn = set(list(dict.fromkeys([*firsts.values(), *order]))[:size])
    taken = [example for i, example in enumerate(examples) if i in drawn]
    return taken, [example for i, example in enumerate(examples) if i not in drawn]
