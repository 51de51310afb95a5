"""How an example lies in memory: one `bytes` object that holds its target, a note and its token ids.

A note is a row of numbers that a method wants to find beside the example, such as what it once answered; most write
none. That costs about 40 bytes beside the data, lets an entry be replaced by one of any length, and makes a read take
only as long as the sample.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from everlearn.batches import Batch, Floats, Integers, Ragged

_TARGET, _NOTE = np.dtype(np.int32), np.dtype(np.float32)
_SIZE, _POINTER = 2, 8
_HEADER = 2 * _SIZE


def pack(batch: Batch, token_dtype: npt.DTypeLike, notes: Sequence[Floats] | None = None) -> Iterator[bytes]:
    """The examples of a batch as entries, with a note each where there are notes."""
    noted = [note.astype(_NOTE).tobytes() for note in notes] if notes else [b""] * len(batch)
    targets = _cut(batch.targets.values.astype(_TARGET), batch.targets.lengths)
    tokens = _cut(batch.tokens.values.astype(token_dtype), batch.tokens.lengths)
    for target, note, text in zip(targets, noted, tokens, strict=True):
        yield _size(target, _TARGET) + _size(note, _NOTE) + target + note + text


def _cut(values: Integers, lengths: Integers) -> Iterator[bytes]:
    return cut(values.tobytes(), lengths * values.itemsize)


def _size(part: bytes, dtype: np.dtype[Any]) -> bytes:
    return (len(part) // dtype.itemsize).to_bytes(_SIZE, "little")


def unpack(entries: Sequence[bytes], token_dtype: npt.DTypeLike) -> Batch:
    """Entries as a batch."""
    tokens, targets = [], []
    for entry in entries:
        size, noted = _sizes(entry)
        start = _HEADER + size * _TARGET.itemsize + noted * _NOTE.itemsize
        targets.append(np.frombuffer(entry, _TARGET, count=size, offset=_HEADER))
        tokens.append(np.frombuffer(entry, token_dtype, offset=start))
    return Batch(Ragged.from_rows(tokens, token_dtype), Ragged.from_rows(targets, _TARGET))


def labels(entries: Sequence[bytes]) -> Integers:
    """The label of each entry."""
    found = (int.from_bytes(entry[_HEADER : _HEADER + _TARGET.itemsize], "little", signed=True) for entry in entries)
    return np.fromiter(found, dtype=np.int64, count=len(entries))


def notes(entries: Sequence[bytes]) -> list[Floats]:
    """The note of each entry."""
    found = []
    for entry in entries:
        size, noted = _sizes(entry)
        found.append(np.frombuffer(entry, _NOTE, count=noted, offset=_HEADER + size * _TARGET.itemsize))
    return found


def with_note(entry: bytes, note: Floats) -> bytes:
    """The entry with another note of the same length."""
    size, noted = _sizes(entry)
    start = _HEADER + size * _TARGET.itemsize
    return entry[:start] + note.astype(_NOTE).tobytes() + entry[start + noted * _NOTE.itemsize :]


def _sizes(entry: bytes) -> tuple[int, int]:
    """How many numbers the target and the note have."""
    return int.from_bytes(entry[:_SIZE], "little"), int.from_bytes(entry[_SIZE:_HEADER], "little")


def footprint(entry: bytes) -> int:
    """What an entry takes up, the interpreter's own overhead and the reference to it included."""
    return sys.getsizeof(entry) + _POINTER


def cut(data: bytes, lengths: Integers) -> Iterator[bytes]:
    """Entries that were laid end to end, apart again."""
    start = 0
    for length in lengths.tolist():
        yield data[start : start + length]
        start += length
