"""How an example lies in memory: one `bytes` object that holds its target's size, its target and its token ids.

That costs about 40 bytes beside the data, lets an entry be replaced by one of any length, and makes a read take only
as long as the sample.
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from everlearn.batches import Batch, Integers, Ragged

_TARGET = np.dtype(np.int32)
_SIZE, _POINTER = 2, 8


def pack(batch: Batch, token_dtype: npt.DTypeLike) -> Iterator[bytes]:
    """The examples of a batch as entries."""
    tokens, targets = batch.tokens.values.astype(token_dtype), batch.targets.values.astype(_TARGET)
    sizes = batch.targets.lengths.tolist()
    rows = zip(_cut(targets, batch.targets.lengths), _cut(tokens, batch.tokens.lengths), sizes, strict=True)
    return (size.to_bytes(_SIZE, "little") + target + text for target, text, size in rows)


def _cut(values: Integers, lengths: Integers) -> Iterator[bytes]:
    return cut(values.tobytes(), lengths * values.itemsize)


def unpack(entries: Sequence[bytes], token_dtype: npt.DTypeLike) -> Batch:
    """Entries as a batch."""
    tokens, targets = [], []
    for entry in entries:
        size = int.from_bytes(entry[:_SIZE], "little")
        start = _SIZE + size * _TARGET.itemsize
        targets.append(np.frombuffer(entry, _TARGET, count=size, offset=_SIZE))
        tokens.append(np.frombuffer(entry, token_dtype, offset=start))
    return Batch(Ragged.from_rows(tokens, token_dtype), Ragged.from_rows(targets, _TARGET))


def footprint(entry: bytes) -> int:
    """What an entry takes up, the interpreter's own overhead and the reference to it included."""
    return sys.getsizeof(entry) + _POINTER


def cut(data: bytes, lengths: Integers) -> Iterator[bytes]:
    """Entries that were laid end to end, apart again."""
    start = 0
    for length in lengths.tolist():
        yield data[start : start + length]
        start += length
