"""Ranking: score each pair of sentence and candidate, and choose the candidate with the largest score.

Paper, section 5.2, relation extraction: pairs joined by the encoder's separator, one logit a pair, binary
cross-entropy over all pairs.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Floats, Integers, Ragged, Sequences, interleave
from everlearn.encoders import Tokenizer
from everlearn.errors import UserError
from everlearn.examples import UNLABELLED, Example
from everlearn.problems.base import Problem
from everlearn.transfer import on_device

SHORTEST_SENTENCE = 3
"""Two tokens are the encoder's own marks, so that three leave room for one."""


class Ranking(Problem):
    """Choose among an example's candidates. A target row holds the label and, behind it, all candidates."""

    def __init__(self, names: Sequence[str], tokenizer: Tokenizer) -> None:
        self._names = names
        self._seconds = tokenizer.second_segments(names)
        _check_different(names, self._seconds.tokens)
        self.room = int(self._seconds.tokens.lengths.max())
        if tokenizer.max_length - self.room < SHORTEST_SENTENCE:
            raise UserError(
                f"max_length ({tokenizer.max_length}) leaves no room for a sentence beside the longest label's name "
                f"({self.room} tokens): raise --max-length."
            )

    def tokenise(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """The sentences' token ids; candidates stay numbers until a pair is needed."""
        tokens = tokenizer([example.text for example in examples], room=self.room)
        return Batch(tokens, Ragged.from_rows([[example.label, *example.candidates] for example in examples]))

    def sequences(self, batch: Batch) -> Sequences:
        """Every sentence with every one of its candidates."""
        candidates = _candidates(batch)
        rows = np.repeat(np.arange(len(batch)), candidates.lengths)
        sentences, seconds = batch.tokens.take(rows), self._seconds
        tokens = interleave(sentences, seconds.tokens.take(candidates.values))
        if seconds.types is None:
            return Sequences(tokens)
        first = Ragged(np.zeros(len(sentences.values), np.uint8), sentences.lengths)
        return Sequences(tokens, interleave(first, seconds.types.take(candidates.values)))

    def head(self, width: int) -> nn.Module:
        """One logit a pair."""
        return nn.Linear(width, 1)

    def loss(self, logits: torch.Tensor, batch: Batch, among: Collection[int] | None = None) -> torch.Tensor:
        """Binary cross-entropy, averaged over all pairs."""
        return _pair_losses(logits, batch).mean()

    def narrowed(self, batch: Batch, among: Collection[int], beside: Collection[int] = ()) -> Batch:
        """With other candidates: those it has that take part, and all that are to stand beside them."""
        rows, targets = [], []
        for row, (gold, own) in enumerate(zip(batch.labels.tolist(), self.choices(batch), strict=True)):
            left = dict.fromkeys([*(label for label in own.tolist() if label in among), *sorted(beside), gold])
            if len(left) > 1:
                rows.append(row)
                targets.append([gold, *left])
        return Batch(batch.tokens.take(rows), Ragged.from_rows(targets))

    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The mean over each example's pairs."""
        counts = on_device(self.row_counts(batch), logits.device)
        owners = torch.repeat_interleave(torch.arange(len(batch), device=logits.device), counts)
        sums = torch.zeros(len(batch), dtype=logits.dtype, device=logits.device)
        return sums.index_add(0, owners, _pair_losses(logits, batch)) / counts

    def wanted(self, batch: Batch, outputs: int) -> torch.Tensor:
        """One for the pair with the label, zero for the others."""
        return torch.from_numpy(_right(batch)).unsqueeze(1).to(torch.int64)

    def row_counts(self, batch: Batch) -> Integers:
        """One a pair."""
        return batch.targets.lengths - 1

    def right_rows(self, batch: Batch) -> Integers:
        """The pair with the label."""
        starts = np.cumsum(self.row_counts(batch)) - self.row_counts(batch)
        rights = np.split(_right(batch), starts[1:])
        return starts + np.array([int(np.flatnonzero(right)[0]) for right in rights], dtype=np.int64)

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The candidate with the largest logit; none where the largest is shared."""
        candidates = _candidates(batch)
        predicted = np.full(len(batch), UNLABELLED, dtype=np.int64)
        scores = np.split(logits.squeeze(1).float().cpu().numpy(), candidates.ends[:-1])
        for row, score in enumerate(scores):
            best = np.flatnonzero(score == score.max())
            if len(best) == 1:
                predicted[row] = candidates[row][best[0]]
        return predicted

    def texts(self, batch: Batch) -> Sequences:
        """The sentences without their candidates."""
        return Sequences(batch.tokens)

    @property
    def labels(self) -> Sequence[int]:
        """Every label that has a name."""
        return range(len(self._seconds))

    @property
    def label_names(self) -> Sequence[str]:
        """The names given."""
        return self._names

    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """The logit of each candidate."""
        scores = np.full((len(batch), len(self.labels)), -np.inf, dtype=np.float32)
        candidates = _candidates(batch)
        rows = np.repeat(np.arange(len(batch)), candidates.lengths)
        scores[rows, candidates.values] = logits.squeeze(1).float().cpu().numpy()
        return scores

    def choices(self, batch: Batch) -> list[Integers]:
        """The candidates."""
        candidates = _candidates(batch)
        return [candidates[row] for row in range(len(batch))]

    def choose(self, scores: torch.Tensor, batch: Batch) -> Integers:
        """The candidate with the largest score; none where the largest is shared."""
        rows = np.repeat(np.arange(len(batch)), self.row_counts(batch))
        candidates = _candidates(batch).values.astype(np.int64)
        own = scores[on_device(rows, scores.device), on_device(candidates, scores.device)]
        return self.predict(own.unsqueeze(1), batch)


def _check_different(names: Sequence[str], tokens: Ragged) -> None:
    """Names of equal tokens would have equal scores, and a shared score is never a hit."""
    found: dict[bytes, str] = {}
    for row, name in enumerate(names):
        key = tokens[row].tobytes()
        if key in found:
            raise UserError(
                f"the labels '{found[key]}' and '{name}' are the same to the encoder's tokenizer: rename one of them, "
                "or choose another encoder."
            )
        found[key] = name


def _candidates(batch: Batch) -> Ragged:
    """A target row without the label in front."""
    targets = batch.targets
    return Ragged(targets.values[targets.positions() > 0], targets.lengths - 1)


def _right(batch: Batch) -> npt.NDArray[np.bool_]:
    """For each pair whether its candidate is the label."""
    candidates = _candidates(batch)
    right: npt.NDArray[np.bool_] = candidates.values == np.repeat(batch.labels, candidates.lengths)
    return right


def _pair_losses(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    targets = on_device(_right(batch), logits.device).to(logits.dtype)
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), targets, reduction="none")
