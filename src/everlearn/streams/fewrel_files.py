"""The files of Lifelong FewRel: names of relations, and sentences with their relation and candidates."""

import re
from collections.abc import Iterator
from pathlib import Path

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import tables

RELATIONS, TRAINING, TEST = "relation_name.txt", "training_data.txt", "val_data.txt"

NO_CANDIDATES = "noNegativeAnswer"
"""What stands in place of the candidates where the data's makers had none."""


def find_files(folder: Path) -> None:
    """Refuse a folder that lacks one of the files, without reading any."""
    for name in (RELATIONS, TRAINING, TEST):
        _find(folder, name)


def read_relations(folder: Path) -> list[str]:
    """The names of the relations; line n names relation n."""
    path = _find(folder, RELATIONS)
    names: list[str] = []
    lines: dict[str, int] = {}
    for number, line in _numbered_lines(path):
        _, mark, name = line.rpartition("///")
        name = name.strip()
        if not mark or not name:
            raise UserError(f"{path} line {number} names no relation: a line reads ///name.")
        # To most tokenizers these are no differences, so that the two would always score the same.
        plain = " ".join(name.casefold().split())
        if plain in lines:
            raise UserError(
                f"{path} line {number} names the relation '{name}' again, after line {lines[plain]}: give each a name "
                "that differs in more than capitals and blanks."
            )
        lines[plain] = number
        names.append(name)
    if len(names) < 2:
        raise UserError(f"{path} names {len(names)} relations: at least two are needed.")
    return names


def read_sentences(
    folder: Path, name: str, relations: int, gold_among_candidates: bool
) -> tuple[list[Example], list[str]]:
    """The sentences of a file, plain or compressed, and notes about lines that were skipped.

    A line holds the relation's number, the candidates' numbers and the words, between tabs. Training lines list the
    negatives only, test lines the relation itself among them.
    """
    path = _find(folder, name)
    examples: list[Example] = []
    skipped = tables.Skipped(path.name, "without candidates")
    for number, line in _numbered_lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) < 3 or not columns[2].strip() or "".join(columns[3:]).strip():
            raise UserError(f"{path} line {number} is not `relation<TAB>candidates<TAB>sentence`: mend or remove it.")
        where = f"{path} line {number}"
        own = _ids(columns[0], relations, where)
        if len(own) != 1:
            raise UserError(f"{where} has {len(own)} relations in front: give it one.")
        if columns[1].strip() == NO_CANDIDATES:
            skipped.add(number)
            continue
        gold, candidates = own[0], _ids(columns[1], relations, where)
        if len(set(candidates)) < len(candidates) or not candidates:
            raise UserError(f"{where} lists a candidate twice, or none: mend or remove it.")
        if candidates == [gold]:
            raise UserError(f"{where} has no candidate but its own relation: mend or remove it.")
        if (gold in candidates) != gold_among_candidates:
            fault = "misses its own relation among" if gold_among_candidates else "has its own relation among"
            raise UserError(f"{where} {fault} the candidates: mend or remove it.")
        ordered = tuple(candidates) if gold_among_candidates else (gold, *candidates)
        examples.append(Example(columns[2].strip(), gold, ordered))
    if not examples:
        raise UserError(f"{path} holds no sentence: check the file.")
    return examples, skipped.notes()


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """A file's lines, without empty ones behind the last."""
    empty: list[tuple[int, str]] = []
    for number, line in enumerate(tables.lines(path), start=1):
        empty.append((number, line))
        if line.strip():
            yield from empty
            empty = []


def _ids(text: str, relations: int, where: str) -> list[int]:
    """Numbers of relations, counted from 0 as labels are."""
    words = text.split()
    if not all(re.fullmatch("-?[0-9]{1,9}", word) for word in words):
        raise UserError(f"{where} has something other than numbers of relations: '{text}'.")
    numbers = [int(word) for word in words]
    for number in numbers:
        if not 1 <= number <= relations:
            raise UserError(
                f"{where} has relation {number}, which relation_name.txt does not name (it names {relations})."
            )
    return [number - 1 for number in numbers]


def _find(folder: Path, name: str) -> Path:
    path = tables.plain_or_compressed(folder, name)
    if path is None:
        raise UserError(f"there is no {name} in {folder}, plain or compressed: pass the folder of Lifelong FewRel.")
    return path
