import dataclasses

import numpy as np
import pytest

from everlearn.examples import Example
from everlearn.seeding import generator, generator_state, restore_generator
from everlearn.streams import Benchmark, Stream, one_pass, pooled, task_ends
from support import small_benchmark


def texts(stream: Stream) -> list[str]:
    return [example.text for batch in stream for example in batch]


def all_texts(benchmark: Benchmark) -> list[str]:
    return [example.text for task in benchmark.tasks for example in task.train]


# One pass


def test_each_example_is_handed_out_exactly_once(benchmark_of_three: Benchmark):
    seen = texts(one_pass(benchmark_of_three, 5, seed=1))
    assert sorted(seen) == sorted(all_texts(benchmark_of_three))
    assert len(set(seen)) == len(seen) == 48


def test_a_stream_that_has_ended_hands_out_nothing_more(benchmark_of_three: Benchmark):
    stream = one_pass(benchmark_of_three, 5, seed=1)
    assert not stream.ended
    list(stream)
    assert stream.ended
    assert list(stream) == []
    assert list(iter(stream)) == []
    with pytest.raises(StopIteration):
        next(stream)


def test_a_second_loop_goes_on_and_does_not_begin_again(benchmark_of_three: Benchmark):
    stream = one_pass(benchmark_of_three, 4, seed=1)
    first = next(iter(stream))
    rest = texts(stream)
    assert not {example.text for example in first} & set(rest)
    assert len(first) + len(rest) == 48


def test_there_is_no_way_back(benchmark_of_three: Benchmark):
    stream = one_pass(benchmark_of_three, 4, seed=1)
    next(stream)
    next(stream)
    with pytest.raises(ValueError, match="does not go back"):
        stream.skip_to(4)
    assert stream.cursor == 8
    for forbidden in ("__getitem__", "reset", "seek", "rewind"):
        assert not hasattr(stream, forbidden)
    with pytest.raises(AttributeError):
        stream.cursor = 0  # type: ignore[misc]


def test_the_cursor_counts_examples(benchmark_of_three: Benchmark):
    stream = one_pass(benchmark_of_three, 10, seed=1)
    assert stream.length == 48
    cursors = [stream.cursor for _ in stream]
    assert cursors == [10, 20, 30, 40, 48]


@pytest.mark.parametrize("batches", [0, 1, 3, 4])
def test_skipping_to_a_cursor_goes_on_with_the_same_examples(batches: int, benchmark_of_three: Benchmark):
    whole = one_pass(benchmark_of_three, 15, seed=1)
    for _ in range(batches):
        next(whole)
    resumed = one_pass(benchmark_of_three, 15, seed=1)
    resumed.skip_to(whole.cursor)
    assert texts(resumed) == texts(whole)


# Order


def test_tasks_come_one_after_the_other(benchmark_of_three: Benchmark):
    seen = texts(one_pass(benchmark_of_three, 4, seed=1))
    start = 0
    for task, end in zip(benchmark_of_three.tasks, task_ends(benchmark_of_three), strict=True):
        assert sorted(seen[start:end]) == sorted(example.text for example in task.train)
        start = end
    assert start == 48


def test_a_batch_may_hold_the_end_of_one_task_and_the_start_of_the_next():
    batches = list(one_pass(small_benchmark(train=10), 8, seed=1))
    assert [len(batch) for batch in batches] == [8, 8, 8, 6]
    labels = [{example.label for example in batch} for batch in batches]
    assert labels[1] & {0, 1}
    assert labels[1] & {2, 3}


def test_the_same_seed_gives_the_same_order(benchmark_of_three: Benchmark):
    assert texts(one_pass(benchmark_of_three, 4, seed=1)) == texts(one_pass(benchmark_of_three, 4, seed=1))


def test_the_batch_size_does_not_change_the_order(benchmark_of_three: Benchmark):
    assert texts(one_pass(benchmark_of_three, 4, seed=1)) == texts(one_pass(benchmark_of_three, 7, seed=1))


def test_orders_differ_among_seeds(benchmark_of_three: Benchmark):
    orders = {tuple(texts(one_pass(benchmark_of_three, 4, seed=seed))) for seed in range(10)}
    assert len(orders) == 10


def test_every_task_is_really_shuffled(benchmark_of_three: Benchmark):
    seen = texts(one_pass(benchmark_of_three, 4, seed=1))
    for number, task in enumerate(benchmark_of_three.tasks):
        assert seen[16 * number : 16 * (number + 1)] != [example.text for example in task.train]


def test_a_benchmark_that_says_so_keeps_its_order_with_every_seed():
    benchmark = small_benchmark(shuffle=False)
    for seed in (1, 2):
        assert texts(one_pass(benchmark, 5, seed)) == all_texts(benchmark)


# The pool, for the upper bound


def test_the_pool_is_handed_out_once_an_epoch_in_a_new_order_each_time(benchmark_of_three: Benchmark):
    stream = pooled(benchmark_of_three, 8, seed=1, epochs=3)
    assert stream.length == 3 * 48
    seen = texts(stream)
    epochs = [seen[start : start + 48] for start in (0, 48, 96)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(all_texts(benchmark_of_three))
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_pool_mixes_the_tasks(benchmark_of_three: Benchmark):
    first_third = texts(pooled(benchmark_of_three, 8, seed=1, epochs=1))[:16]
    owners = {task.name for task in benchmark_of_three.tasks for example in task.train if example.text in first_third}
    assert owners == {"task0", "task1", "task2"}


def test_the_pool_follows_the_seed(benchmark_of_three: Benchmark):
    one, same, other = (texts(pooled(benchmark_of_three, 8, seed=seed, epochs=1)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


# No task ids


def test_an_example_has_nothing_that_names_a_task():
    assert [field.name for field in dataclasses.fields(Example)] == ["text", "label", "candidates"]
    example = Example("a", 0)
    assert not [name for name in dir(example) if "task" in name.lower()]
    with pytest.raises((AttributeError, TypeError)):  # and there is no room to write one onto it
        object.__setattr__(example, "task", "ag")


def test_a_batch_of_the_stream_is_a_plain_list_of_examples(benchmark_of_three: Benchmark):
    batch = next(one_pass(benchmark_of_three, 4, seed=1))
    assert type(batch) is list
    assert {type(example) for example in batch} == {Example}


# Owners of random choices


def test_owners_draw_different_numbers_from_one_seed():
    drawn = [generator(1, name).random(4).tolist() for name in ("stream", "memory/write", "memory/read", "meta-test")]
    assert len({tuple(numbers) for numbers in drawn}) == 4


def test_a_generator_goes_on_from_its_state():
    drawing = generator(1, "stream")
    drawing.random(3)
    state = generator_state(drawing)
    expected = drawing.random(5)
    other = generator(2, "memory")
    restore_generator(other, state)
    np.testing.assert_array_equal(other.random(5), expected)
