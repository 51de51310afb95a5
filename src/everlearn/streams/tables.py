"""Reads rows from CSV, TSV and JSON-lines files, plain or compressed, one at a time and with their line numbers."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from everlearn.errors import UserError

COMPRESSIONS: Mapping[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_SUFFIXES = (".jsonl", ".ndjson")

STDIN = Path("-")
"""Stands for what is piped in; how that is written has to be said."""

# Longer than any text worth reading, and short enough that a quote left open does not swallow a whole file unnoticed.
LONGEST_FIELD = 16 * 1024 * 1024

# What undecodable bytes become under "surrogateescape".
_UNDECODABLE = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text; `line` is where it ends in its file."""

    line: int
    text: str
    label: str
    task: str = ""


@dataclass
class Skipped:
    """Counts the rows of a file that are left out, and remembers where the first few stood."""

    name: str
    reason: str = "without text or label"
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Count the row at this line."""
        self.count += 1
        if len(self.lines) < 5:
            self.lines.append(line)

    def notes(self) -> list[str]:
        """The sentence for the user; none where nothing was skipped.

        >>> skipped = Skipped("x.csv")
        >>> skipped.add(4); skipped.add(9); skipped.notes()
        ['skipped 2 rows of x.csv without text or label (lines 4, 9)']
        """
        if not self.count:
            return []
        rows, lines = ("row", "line") if self.count == 1 else ("rows", "lines")
        more = ", ..." if self.count > len(self.lines) else ""
        places = ", ".join(map(str, self.lines)) + more
        return [f"skipped {self.count:,} {rows} of {self.name} {self.reason} ({lines} {places})"]


def labelled_rows(
    path: Path,
    text: str,
    label: str,
    task: str | None = None,
    *,
    skipped: Skipped,
    strict: bool = False,
    suffix: str | None = None,
) -> Iterator[Row]:
    """The rows of a file that have a text and a label, in the columns of these names.

    The others are counted in `skipped`; where `strict`, the first of them is an error.
    """
    columns = [text, label] if task is None else [text, label, task]
    for line, values in records(path, columns, suffix):
        row = Row(line, *values)
        if row.text and row.label:
            yield row
        elif strict:
            lacks = text if not row.text else label
            raise UserError(f"line {line} of {path} has no '{lacks}': mend the row, or leave out --strict to skip it.")
        else:
            skipped.add(line)


def records(path: Path, columns: Sequence[str], suffix: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and the values in these columns, in this order, stripped; a missing value is an empty string.

    The file's name says how it is written, unless `suffix` does.
    """
    suffix = suffix or _format(path)
    yield from _json_records(path, columns) if suffix in JSON_SUFFIXES else _csv_records(path, columns, suffix)


def csv_rows(path: Path, suffix: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and all fields of a CSV or TSV file's rows, the header among them where there is one."""
    csv.field_size_limit(max(LONGEST_FIELD, csv.field_size_limit()))
    reader = csv.reader(lines(path), delimiter=DELIMITERS[suffix or _format(path)])
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"line {reader.line_num} of {path} is not valid CSV ({error}): look for a quote that is never closed."
            ) from error
        if row is None:
            return
        if len(row) > 1 or "".join(row).strip():
            yield reader.line_num, row


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, decompressed where its name says so, without byte-order mark and NULs."""
    empty = True
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.isascii() and _UNDECODABLE.search(line):
                raise UserError(f"line {number} of {path} is not valid UTF-8: save the file in the encoding UTF-8.")
            empty = empty and not line.strip()
            yield line.replace("\0", "")
    if empty:
        if path == STDIN:
            raise UserError("nothing came through the pipe: pipe rows into it.")
        raise UserError(f"{path} is empty: give a file with rows in it.")


def plain_or_compressed(folder: Path, name: str) -> Path | None:
    """A file of this name in the folder, as it is or with a suffix that says how it is compressed, if there is one."""
    paths = (folder / f"{name}{ending}" for ending in ("", *COMPRESSIONS))
    return next((path for path in paths if path.is_file()), None)


def stem(path: Path) -> str:
    """The name of a file without the suffixes that say how it is written.

    >>> stem(Path("data/reviews.2024.csv.gz"))
    'reviews.2024'
    """
    return _uncompressed(path).stem


def _uncompressed(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def _format(path: Path) -> str:
    suffix = _uncompressed(path).suffix.lower()
    if suffix in JSON_SUFFIXES or suffix in DELIMITERS:
        return suffix
    known = ", ".join([*DELIMITERS, *JSON_SUFFIXES])
    raise UserError(
        f"cannot tell from its name how {path} is written: it has to end in one of {known}, "
        f"with {', '.join(COMPRESSIONS)} behind it where it is compressed."
    )


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOWrapper]:
    if path == STDIN:
        with io.TextIOWrapper(_piped(), encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield file
        return
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: give a file.")
        if not path.exists():
            raise UserError(f"there is no file {path}: check the path.")
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}.") from error
    compressed = path.suffix.lower() in COMPRESSIONS
    try:
        binary = COMPRESSIONS[path.suffix.lower()](path, "rb") if compressed else path.open("rb")
        # newline="" leaves line ends inside quoted fields as they are, which the csv module asks for.
        with io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            yield file
    except PermissionError as error:
        raise UserError(f"{path} cannot be read: permission is denied.") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if not compressed:
            raise UserError(f"{path} cannot be read: {error}.") from error
        raise UserError(f"{path} is cut short or damaged ({error}): download or compress it again.") from error


def _piped() -> BinaryIO:
    try:
        # Not Python's own reader: a thread that still waits for it when the program ends would hold it.
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:  # no pipe of the system's, as in tests and notebooks
        return sys.stdin.buffer


def _missing_column(path: Path, wanted: str, there: Sequence[str]) -> UserError:
    close = get_close_matches(wanted, there, n=1)
    hint = f" did you mean '{close[0]}'? Its" if close else " its"
    return UserError(f"{path} has no column '{wanted}':{hint} columns are: {', '.join(there) or 'none'}.")


def _csv_records(path: Path, columns: Sequence[str], suffix: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv_rows(path, suffix)
    header = [name.strip() for name in next(rows, (0, []))[1]]
    for column in columns:
        if column not in header:
            raise _missing_column(path, column, header)
    positions = [header.index(column) for column in columns]
    for line, row in rows:
        yield line, [row[position].strip() if position < len(row) else "" for position in positions]


def _json_records(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    # Any one object may lack a key; only a key that no object has is a column that is not there.
    unseen, keys = set(columns), dict[str, None]()
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        item = _json_object(path, number, line)
        if unseen:
            keys.update(dict.fromkeys(item))
            unseen.difference_update(item)
        yield number, [_json_text(path, number, column, item.get(column)) for column in columns]
    for column in columns:
        if column in unseen:
            raise _missing_column(path, column, list(keys))


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"line {number} of {path} is not valid JSON ({error}): each line has to be an object."
        ) from error
    if not isinstance(item, dict):
        raise UserError(
            f"line {number} of {path} is not a JSON object: each line has to be of the form "
            '{"text": "...", "label": "..."}.'
        )
    return item


def _json_text(path: Path, number: int, column: str, value: Any) -> str:
    """A value as text: JSON's own spelling for numbers, true and false; empty for null and NaN."""
    if isinstance(value, str):
        # JSON can escape half a character, which no encoding can write and no tokenizer read.
        return value.encode("utf-8", "replace").decode().strip()
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise UserError(f"'{column}' in line {number} of {path} is a list or an object: give one text or number.")
