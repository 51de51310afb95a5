"""The order in which a benchmark's tasks arrive: one of its named orders, or the user's own list of tasks."""

from collections.abc import Mapping, Sequence

from everlearn.errors import UserError, unknown


def choose(order: str, named: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> list[str]:
    """The tasks that `order` stands for: the name of an order, or task names separated by commas.

    A list of the user's own may leave tasks out, but names each at most once.

    >>> named = {"1": ["sun", "moon"], "2": ["moon", "sun"]}
    >>> choose("2", named, ["moon", "sun"])
    ['moon', 'sun']
    >>> choose(" sun, ", named, ["moon", "sun"])
    ['sun']
    >>> choose("3", named, ["moon", "sun"])
    Traceback (most recent call last):
    everlearn.errors.UserError: there is no order 3: choose one of 1, 2, or name tasks, separated by commas (moon, sun).
    """
    wanted = order.strip()
    if wanted in named:
        return list(named[wanted])
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    # A task may itself be called by a number, so a number is only a wrong order when no task has that name.
    if not names or (len(names) == 1 and names[0].isdecimal() and names[0] not in tasks):
        choices = f"choose one of {', '.join(named)}, or name" if named else "name"
        what = f"no order {wanted}" if wanted else "no order without a name"
        raise UserError(f"there is {what}: {choices} tasks, separated by commas ({', '.join(tasks)}).")
    for position, name in enumerate(names):
        if name not in tasks:
            raise unknown("task", name, tasks)
        if name in names[:position]:
            raise UserError(f"the order names the task '{name}' twice: give each task at most once.")
    return names
