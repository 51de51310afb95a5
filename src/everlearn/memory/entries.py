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


def pack(batch: Batch, row: int, token_dtype: npt.DTypeLike) -> bytes:
    """One example of a batch as an entry."""
    target = batch.targets[row].astype(_TARGET)
    size = len(target).to_bytes(_SIZE, "little")
    return size + target.tobytes() + batch.tokens[row].astype(token_dtype).tobytes()


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
