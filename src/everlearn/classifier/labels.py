"""The user's labels and the numbers they have inside, in the order in which they first appeared."""

from collections.abc import Iterable
from typing import Any

Label = str | int

FORGOTTEN = "forgotten"
"""What a label is called that was forgotten."""


class Labels:
    """Numbers labels. A label that is forgotten gives its number up for good: if it comes again, it is a new one.

    >>> labels = Labels()
    >>> labels.number("refund"), labels.number("delivery"), labels.number("refund"), labels.known
    (0, 1, 0, ['delivery', 'refund'])
    >>> labels.forget("refund"), labels.number("refund"), labels.name(0)
    (0, 2, None)
    """

    def __init__(self) -> None:
        self._names: list[Label | None] = []
        self._numbers: dict[Label, int] = {}
        self.spoken: list[str] = []
        """What a method that reads labels as text is told, by number; the list is the same at all times."""

    @property
    def known(self) -> list[Label]:
        """All labels, sorted, as scikit-learn has them."""
        return sorted(self._numbers)

    @property
    def kind(self) -> type | None:
        """Whether labels are texts or whole numbers; None while there are none."""
        return type(next(iter(self._numbers))) if self._numbers else None

    def __contains__(self, label: Label) -> bool:
        return label in self._numbers

    def number(self, label: Label) -> int:
        """The label's number; a label that is new gets the next one."""
        if label not in self._numbers:
            self._numbers[label] = len(self._names)
            self._names.append(label)
            self.spoken.append(str(label))
        return self._numbers[label]

    def name(self, number: int) -> Label | None:
        """The label of a number; None for one that was forgotten."""
        return self._names[number]

    def forget(self, label: Label) -> int:
        """Give up a label; the number it had."""
        number = self._numbers.pop(label)
        self._names[number] = None
        self.spoken[number] = FORGOTTEN
        return number

    def state(self) -> list[Label | None]:
        """The names by number."""
        return list(self._names)

    def restore(self, names: Iterable[Any]) -> None:
        """Become the labels that were saved."""
        self._names = list(names)
        self.spoken[:] = [FORGOTTEN if name is None else str(name) for name in self._names]
        self._numbers = {name: number for number, name in enumerate(self._names) if name is not None}
