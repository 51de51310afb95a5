import pytest

from everlearn.errors import UserError
from everlearn.streams.orders import choose

NAMED = {"1": ("a", "b", "c"), "2": ("c", "b", "a")}
TASKS = ["a", "b", "c"]


def test_a_named_order_is_taken_as_it_stands():
    assert choose("2", NAMED, TASKS) == ["c", "b", "a"]


def test_a_list_of_tasks_may_leave_some_out_and_has_spaces_and_empty_places():
    assert choose(" c ,, a,", NAMED, TASKS) == ["c", "a"]


def test_a_task_may_be_called_by_a_number():
    assert choose("2024", {"1": ("2023", "2024")}, ["2023", "2024"]) == ["2024"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("5", "there is no order 5: choose one of 1, 2"),
        ("", "no order without a name"),
        (" , ", "there is no order ,"),
        ("a,bb", "unknown task 'bb'"),
        ("a,b,a", "names the task 'a' twice"),
        ("a,7", "unknown task '7'"),
    ],
)
def test_orders_that_do_not_exist_are_explained(order, message):
    with pytest.raises(UserError, match=message):
        choose(order, NAMED, TASKS)


def test_without_named_orders_the_tasks_are_offered():
    with pytest.raises(UserError, match=r"there is no order 1: name tasks, separated by commas \(a, b, c\)"):
        choose("1", {}, TASKS)
