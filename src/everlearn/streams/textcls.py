"""The paper's text-classification benchmark: AGNews, Yelp, Amazon, DBpedia and Yahoo in turn, 33 classes in all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import orders, tables
from everlearn.streams.base import Benchmark, StreamConfig, Task
from everlearn.streams.cleaning import SENTENCE_JOIN, SPACE_JOIN, clean, join
from everlearn.streams.sampling import check_sizes, data_generator, sample
from everlearn.streams.tables import Row, Skipped

DESCRIPTION = "AGNews, Yelp, Amazon, DBpedia and Yahoo in the paper's four orders, 33 classes (needs --data)"

TRAIN_SIZE, VAL_SIZE, TEST_SIZE = 115_000, 5_000, 7_600

HOW_TO_GET = "`everlearn data get textcls --out DIR` downloads the data"


@dataclass(frozen=True)
class DataSet:
    """One of the five: where its files are, how its fields become a text, what its classes are called."""

    name: str
    csv_folder: str
    text_fields: int
    separator: str
    classes: tuple[str, ...]
    first_label: int
    """The place of its first class among the 33; Yelp and Amazon share theirs, as both are stars."""


_STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
_AG = ("World", "Sports", "Business", "Sci/Tech")
_DBPEDIA = (
    *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"),
    *("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
)
_YAHOO = (
    *("Society & Culture", "Science & Mathematics", "Health", "Education & Reference", "Computers & Internet"),
    *("Sports", "Business & Finance", "Entertainment & Music", "Family & Relationships", "Politics & Government"),
)

SETS = {
    data_set.name: data_set
    for data_set in (
        DataSet("yelp", "yelp_review_full_csv", 1, SENTENCE_JOIN, _STARS, 0),
        DataSet("amazon", "amazon_review_full_csv", 2, SENTENCE_JOIN, _STARS, 0),
        DataSet("ag", "ag_news_csv", 2, SENTENCE_JOIN, _AG, 5),
        DataSet("dbpedia", "dbpedia_csv", 2, SENTENCE_JOIN, _DBPEDIA, 9),
        DataSet("yahoo", "yahoo_answers_csv", 3, SPACE_JOIN, _YAHOO, 23),
    )
}

# Both AGNews and Yahoo have a class "Sports", so the name of the set goes before.
LABELS = (*_STARS, *(f"{name}: {topic}" for name in ("ag", "dbpedia", "yahoo") for topic in SETS[name].classes))

ORDERS: Mapping[str, Sequence[str]] = {
    "1": ("yelp", "ag", "dbpedia", "amazon", "yahoo"),
    "2": ("dbpedia", "yahoo", "ag", "amazon", "yelp"),
    "3": ("yelp", "yahoo", "amazon", "dbpedia", "ag"),
    "4": ("ag", "yelp", "amazon", "yahoo", "dbpedia"),
}


def load(config: StreamConfig) -> Benchmark:
    """The data sets of the chosen order, sampled to the sizes asked for, by default the paper's."""
    check_sizes(config)
    names = orders.choose(config.order, ORDERS, list(SETS))
    notes: list[str] = []
    # Every file is looked for before the first is read, as reading can take a minute.
    files = _files(config, names)
    tasks = tuple(_task(SETS[name], *files[name], config, notes) for name in names)
    return Benchmark(name="textcls", labels=LABELS, tasks=tasks, notes=tuple(notes))


def check_files(config: StreamConfig) -> None:
    """Refuse data that is not there, without reading it."""
    _files(config, orders.choose(config.order, ORDERS, list(SETS)))


def _files(config: StreamConfig, names: Sequence[str]) -> dict[str, tuple[Path, Path]]:
    """The files of each data set, for training and for testing."""
    folder = _folder(config)
    return {name: (_find(folder, SETS[name], "train"), _find(folder, SETS[name], "test")) for name in names}


def _folder(config: StreamConfig) -> Path:
    if config.data is None:
        raise UserError(f"the stream textcls needs --data with the folder that holds its files; {HOW_TO_GET}.")
    folder = config.data
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: pass the one that holds the textcls files; {HOW_TO_GET}.")
    return folder


def _find(folder: Path, data_set: DataSet, split: str) -> Path:
    plain = (f"{data_set.name}.{split}.jsonl", f"{data_set.csv_folder}/{split}.csv")
    for name in plain:
        for compression in ("", *tables.COMPRESSIONS):
            path = folder / f"{name}{compression}"
            if path.is_file():
                return path
    endings = ", ".join(tables.COMPRESSIONS)
    raise UserError(
        f"{folder} has no {split} file of {data_set.name}: looked for {plain[0]} and {plain[1]}, "
        f"also with {endings} behind; {HOW_TO_GET}."
    )


def _task(data_set: DataSet, train_file: Path, test_file: Path, config: StreamConfig, notes: list[str]) -> Task:
    wanted = (config.train_size or TRAIN_SIZE) + (VAL_SIZE if config.val_size is None else config.val_size)
    drawn = _draw(data_set, train_file, wanted, f"textcls/{data_set.name}", config, notes)
    train_size, val_size = _split_sizes(data_set.name, len(drawn), config, notes)
    # The test rows have a generator of their own, so that they stay the same whatever the training size is.
    test = _draw(data_set, test_file, config.test_size or TEST_SIZE, f"textcls/{data_set.name}/test", config, notes)
    if config.test_size is not None and len(test) < config.test_size:
        raise _too_few(data_set.name, "test", len(test), f"--test-size {config.test_size}")
    if config.test_size is None and len(test) < TEST_SIZE:
        notes.append(f"{data_set.name}: {len(test):,} test examples (the paper has {TEST_SIZE:,})")
    return Task(
        name=data_set.name,
        train=_examples(data_set, drawn[:train_size]),
        validation=_examples(data_set, drawn[train_size : train_size + val_size]),
        test=_examples(data_set, test),
    )


def _split_sizes(name: str, there: int, config: StreamConfig, notes: list[str]) -> tuple[int, int]:
    """How many of the drawn rows are for training and for validation, where they may be fewer than wanted."""
    train, val = config.train_size, config.val_size
    if train is not None and val is not None:
        if there < train + val:
            raise _too_few(name, "training", there, f"--train-size {train} and --val-size {val}")
        return train, val
    if train is not None:
        if there < train:
            raise _too_few(name, "training", there, f"--train-size {train}")
        if there < train + VAL_SIZE:
            notes.append(f"{name}: {there - train:,} validation examples are left beside {train:,} for training")
        return train, min(VAL_SIZE, there - train)
    if val is not None:
        if there <= val:
            raise _too_few(name, "training", there, f"--val-size {val} besides examples to train on")
        train = min(TRAIN_SIZE, there - val)
    elif there < TRAIN_SIZE + VAL_SIZE:
        val = there * VAL_SIZE // (TRAIN_SIZE + VAL_SIZE)
        train = there - val
    else:
        return TRAIN_SIZE, VAL_SIZE
    if train < TRAIN_SIZE:
        paper = f"the paper has {TRAIN_SIZE:,} and {VAL_SIZE:,}"
        notes.append(f"{name}: {train:,} training and {val:,} validation examples ({paper})")
    return train, val


def _too_few(name: str, split: str, there: int, asked: str) -> UserError:
    return UserError(f"{name} has {there:,} usable {split} rows, too few for {asked}: ask for less.")


def _draw(
    data_set: DataSet, path: Path, size: int, generator: str, config: StreamConfig, notes: list[str]
) -> list[tuple[Row, int]]:
    in_csv = tables.stem(path) in ("train", "test")
    if in_csv:
        skipped = Skipped(f"{data_set.csv_folder}/{path.name}", "with an empty field")
        rows = _csv_rows(data_set, path, skipped, config.strict)
    else:
        skipped = Skipped(path.name)
        rows = _json_rows(data_set, path, skipped, config.strict)
    drawn, there = sample(rows, size, data_generator(generator))
    notes += skipped.notes()
    if not there:
        raise UserError(f"{path} has no row with a text and a label: check that it is the right file.")
    return drawn


def _json_rows(data_set: DataSet, path: Path, skipped: Skipped, strict: bool) -> Iterator[tuple[Row, int]]:
    for row in tables.labelled_rows(path, "text", "label", skipped=skipped, strict=strict):
        yield row, _class_of(data_set, path, row, first=0)


def _csv_rows(data_set: DataSet, path: Path, skipped: Skipped, strict: bool) -> Iterator[tuple[Row, int]]:
    """Rows of the data sets' own layout: no header, the label first and counted from one, then the text's parts.

    A row with an empty part is dropped, as the paper's code does; it is part of the benchmark, so never an error. A row
    without a label, or without any text, is one where `strict`.
    """
    for line, (label, *parts) in tables.csv_rows(path):
        if len(parts) != data_set.text_fields:
            raise UserError(
                f"line {line} of {path} has {len(parts) + 1} fields, but {data_set.name} has a label and "
                f"{data_set.text_fields} for the text: check that it is the right file."
            )
        filled = [bool(part.strip()) for part in parts]
        if strict and not (label.strip() and any(filled)):
            raise UserError(f"line {line} of {path} has no label or no text: mend it, or leave out --strict.")
        if label.strip() and all(filled):
            row = Row(line, join(parts, data_set.separator), label.strip())
            yield row, _class_of(data_set, path, row, first=1)
        else:
            skipped.add(line)


def _class_of(data_set: DataSet, path: Path, row: Row, first: int) -> int:
    last = first + len(data_set.classes) - 1
    if not row.label.isdecimal() or not first <= int(row.label) <= last:
        raise UserError(
            f"line {row.line} of {path} has the label '{row.label}', but the labels of {data_set.name} go from {first} "
            f"to {last}: check that it is the right file."
        )
    return int(row.label) - first


def _examples(data_set: DataSet, rows: Sequence[tuple[Row, int]]) -> list[Example]:
    # A text that is nothing but a URL would be cleaned away altogether; it stays as it is.
    return [Example(clean(row.text) or row.text, data_set.first_label + place) for row, place in rows]
