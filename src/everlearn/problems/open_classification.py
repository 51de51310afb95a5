"""Classification whose labels are not known in advance: each gets its row of the head when it first appears.

One more row, the first, stands for all labels yet to come. It learns as the rows of a head with all classes would
before their first example: every example of another label pushes it down. A new label starts as a copy of it, with the
optimiser's moments, so that it has no advantage over what is known.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from everlearn.batches import Batch, Floats, Integers
from everlearn.examples import UNLABELLED
from everlearn.problems.classification import Classification

TO_COME = 1
"""How many rows stand before those of the labels that have been met."""


class OpenClassification(Classification):
    """One softmax over the labels met so far, in the order in which the stream first showed them."""

    def __init__(self, names: Sequence[str] | None = None) -> None:
        """`names` holds what a label is called, by its number; it is looked up when the label is met."""
        super().__init__(0, names)
        self._rows: dict[int, int] = {}

    @property
    def labels(self) -> Sequence[int]:
        """Every label met so far."""
        return list(self._rows)

    @property
    def contenders(self) -> Sequence[int]:
        """With the row for labels to come, which takes part in every loss as a closed head's unseen classes do."""
        return [UNLABELLED, *self._rows]

    def meet(self, batch: Batch) -> bool:
        """Give each label that is new the next row."""
        for label in batch.labels.tolist():
            self._rows.setdefault(label, TO_COME + len(self._rows))
        grown = len(self._rows) > self.classes
        self.classes = len(self._rows)
        return grown

    def head(self, width: int) -> nn.Module:
        """All zero: nothing speaks for or against any label."""
        # Not drawn first: the run's generator would move with the number of labels.
        head: nn.Linear = nn.utils.skip_init(nn.Linear, width, TO_COME + self.classes)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for weight in head.parameters():
                weight.zero_()
        return head

    def grown(self, rows: torch.Tensor) -> torch.Tensor:
        """With a copy of the row for labels to come for each label that has none yet."""
        missing = TO_COME + self.classes - len(rows)
        return torch.cat([rows, rows[:TO_COME].expand(missing, *rows.shape[1:])])

    def renewed(self, rows: torch.Tensor, label: int) -> torch.Tensor:
        """With the label's row as if it had only now been met; what is older than the label has none."""
        row = self._rows[label]
        if row < len(rows):
            rows = rows.clone()
            rows[row] = rows[0]
        return rows

    def columns(self, labels: Iterable[int]) -> list[int]:
        """The rows that the labels were given when they were met; the first for labels to come."""
        return [0 if label == UNLABELLED else self._rows[label] for label in labels]

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The label with the largest logit; none while no label has been met."""
        known = logits[:, TO_COME:]
        if not known.shape[1]:
            return np.full(len(batch), UNLABELLED)
        return np.array(self.labels)[super().predict(known, batch)]

    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """The logits of the labels met."""
        return super().scores(logits[:, TO_COME:], batch)

    def state(self) -> dict[str, Any]:
        """The labels, in order."""
        return {"labels": list(self._rows)}

    def restore(self, state: dict[str, Any]) -> None:
        """Know the saved labels, and no others."""
        self._rows = {label: TO_COME + place for place, label in enumerate(state["labels"])}
        self.classes = len(self._rows)
