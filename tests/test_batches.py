import numpy as np
import pytest

from everlearn.batches import Batch, Ragged, Sequences


def batch_of(*rows: tuple[list[int], list[int]]) -> Batch:
    return Batch(
        Ragged.from_rows([tokens for tokens, _ in rows], np.uint16), Ragged.from_rows([target for _, target in rows])
    )


@pytest.fixture
def batch() -> Batch:
    return batch_of(([1, 2, 3], [7]), ([4], [8, 9, 10]), ([5, 6], [11]), ([], [12]))


def rows(ragged: Ragged) -> list[list[int]]:
    return [ragged[i].tolist() for i in range(len(ragged))]


def test_rows_come_back_as_they_went_in():
    given = [[1, 2, 3], [], [4], [], [5, 6]]
    assert rows(Ragged.from_rows(given)) == given


def test_no_rows_are_rows_too():
    empty = Ragged.from_rows([], np.uint16)
    assert len(empty) == 0
    assert empty.values.dtype == np.uint16


def test_the_type_of_the_numbers_is_kept():
    for dtype in (np.uint16, np.uint32, np.int32):
        made = Ragged.from_rows([[1], [2, 3]], dtype)
        assert made.values.dtype == dtype
        assert made.take([1]).values.dtype == dtype
        assert made.take([]).values.dtype == dtype


def test_take_follows_the_order_asked_for_and_may_repeat():
    ragged = Ragged.from_rows([[1, 2], [], [3]])
    assert rows(ragged.take([2, 0, 2, 1])) == [[3], [1, 2], [3], []]
    assert rows(ragged.take(np.array([], dtype=np.int64))) == []


def test_concat_keeps_the_order_of_parts_and_rows():
    parts = [Ragged.from_rows([[1], [2, 3]]), Ragged.from_rows([[]]), Ragged.from_rows([[4]])]
    assert rows(Ragged.concat(parts)) == [[1], [2, 3], [], [4]]


def test_labels_are_the_first_number_of_each_target(batch: Batch):
    assert batch.labels.tolist() == [7, 8, 11, 12]
    assert batch.take([3, 1]).labels.tolist() == [12, 8]
    assert batch.take([]).labels.tolist() == []


def test_take_keeps_tokens_and_targets_together(batch: Batch):
    taken = batch.take([2, 1])
    assert rows(taken.tokens) == [[5, 6], [4]]
    assert rows(taken.targets) == [[11], [8, 9, 10]]


@pytest.mark.parametrize(("size", "lengths"), [(1, [1, 1, 1, 1]), (3, [3, 1]), (4, [4]), (9, [4])])
def test_split_gives_every_example_once(batch: Batch, size: int, lengths: list[int]):
    parts = list(batch.split(size))
    assert [len(part) for part in parts] == lengths
    whole = Batch.concat(parts)
    assert rows(whole.tokens) == rows(batch.tokens)
    assert rows(whole.targets) == rows(batch.targets)


def test_a_batch_survives_its_state(batch: Batch):
    again = Batch.from_state(batch.state())
    assert rows(again.tokens) == rows(batch.tokens)
    assert rows(again.targets) == rows(batch.targets)
    assert again.tokens.values.dtype == np.uint16


def test_sequences_count_their_rows(batch: Batch):
    assert len(Sequences(batch.tokens)) == len(batch) == 4
