"""A small made-up sample in the format of Lifelong FewRel: 12 relations in 10 clusters, 150 training, 40 test lines."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np

RELATIONS = {
    "place of birth": "{a} was born in {b} during a storm",
    "place of death": "{a} died near {b} after an illness",
    "mother": "{a} was raised by her mother {b}",
    "child": "{a} had one child who was named {b}",
    "crosses": "the bridge of {a} spans the river {b}",
    "mouth of the watercourse": "the stream of {a} flows into lake {b}",
    "member of political party": "senator {a} spoke for the party of {b}",
    "record label": "the album of {a} came out with label {b}",
    "sport": "{a} plays the game of {b} for a living",
    "original language": "the film of {a} was shot in the tongue of {b}",
    "constellation": "the star {a} shines in the sky of {b}",
    "military rank": "{a} served in the army as a {b}",
}
"""The names of the relations, in the order of their numbers, and what their sentences look like."""

CLUSTERS = {"0": [1, 2], "1": [3, 4], **{str(k): [k + 3] for k in range(2, 10)}}
"""Numbers of relations, counted from 1 as in the files."""

TRAIN_COUNTS = [13] * 6 + [12] * 6
TEST_COUNTS = [4] * 4 + [3] * 8
"""Sentences of each relation. They differ, so that an average over tasks is not one over sentences."""

_FIRST = ["alma", "bruno", "carla", "dario", "elena", "fabio", "greta", "hugo", "irene", "jonas", "karin", "lukas"]
_SECOND = ["ostend", "parma", "quito", "riga", "sofia", "turin", "ulm", "vaasa", "warsaw", "york", "zagreb", "bern"]
_OPENERS: dict[str, Callable[..., object]] = {"": open, ".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def training_lines() -> list[str]:
    """`relation<TAB>negatives<TAB>sentence`, all relations mixed, each against four others."""
    return _lines(TRAIN_COUNTS, "train", negatives=4, gold_listed=False)


def test_lines() -> list[str]:
    """The same with the relation itself among six candidates; some have another column, as the real ones may."""
    lines = _lines(TEST_COUNTS, "test", negatives=5, gold_listed=True)
    return [f"{line}\t" if number % 7 == 0 else line for number, line in enumerate(lines)]


test_lines.__test__ = False  # type: ignore[attr-defined]  # no test, for all its name


def write_sample(folder: Path, *, clusters: bool = True, ending: str = "") -> Path:
    """Write the files into `folder`, compressed where an ending such as `.xz` says so; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "relation_name.txt").write_text("".join(f"///{name}\n" for name in RELATIONS), encoding="utf-8")
    for name, lines in (("training_data.txt", training_lines()), ("val_data.txt", test_lines())):
        with _OPENERS[ending](folder / f"{name}{ending}", "wt", encoding="utf-8") as file:  # type: ignore[attr-defined]
            file.write("".join(f"{line}\n" for line in lines))
    if clusters:
        (folder / "clusters.json").write_text(json.dumps(CLUSTERS), encoding="utf-8")
    return folder


def _lines(counts: list[int], kind: str, negatives: int, gold_listed: bool) -> list[str]:
    rng = np.random.default_rng([len(kind), negatives])
    lines = []
    for relation, (form, count) in enumerate(zip(RELATIONS.values(), counts, strict=True), start=1):
        for number in range(count):
            # The number makes every sentence different, so that sentences can be told apart.
            sentence = form.format(a=f"{_FIRST[number % 12]} {kind} {number}", b=_SECOND[(relation + number) % 12])
            others = [other for other in range(1, len(RELATIONS) + 1) if other != relation]
            listed = rng.choice(others, size=negatives, replace=False).tolist()
            if gold_listed:
                listed.insert(int(rng.integers(negatives + 1)), relation)
            lines.append(f"{relation}\t{' '.join(map(str, listed))}\t{sentence}")
    return [lines[place] for place in rng.permutation(len(lines))]
