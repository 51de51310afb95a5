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

from everlearn.batches import Batch, Integers, Ragged, Sequences
from everlearn.encoders import Tokenizer
from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.problems.base import Problem

SHORTEST_SENTENCE = 3
"""Two tokens are the encoder's own marks, so that three leave room for one."""
UNDECIDED = -1
"""The prediction where two candidates share the largest score: no label, so never a hit."""


class Ranking(Problem):
    """Choose among an example's candidates. A target row holds the label and, behind it, all candidates."""

    def __init__(self, names: Sequence[str], tokenizer: Tokenizer) -> None:
        self.label_names = names
        self._seconds = tokenizer.second_segments(names)
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
        pairs = [(row, candidate) for row in range(len(batch)) for candidate in _candidates(batch, row).tolist()]
        sentences, seconds = batch.tokens, self._seconds
        tokens = [np.concatenate([sentences[row], seconds.tokens[candidate]]) for row, candidate in pairs]
        if seconds.types is None:
            return Sequences(Ragged.from_rows(tokens))
        types = [
            np.concatenate([np.zeros(sentences.lengths[row], np.uint8), seconds.types[candidate]])
            for row, candidate in pairs
        ]
        return Sequences(Ragged.from_rows(tokens), Ragged.from_rows(types, np.uint8))

    def head(self, width: int) -> nn.Module:
        """One logit a pair."""
        return nn.Linear(width, 1)

    def loss(self, logits: torch.Tensor, batch: Batch, among: Collection[int] | None = None) -> torch.Tensor:
        """Binary cross-entropy, averaged over all pairs, or over those whose candidate takes part."""
        losses = _pair_losses(logits, batch)
        if among is not None:
            candidates = np.concatenate(self.choices(batch))
            losses = losses[torch.from_numpy(np.isin(candidates, list(among))).to(losses.device)]
        return losses.mean()

    def losses(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The mean over each example's pairs."""
        counts = torch.from_numpy(self.row_counts(batch)).to(logits.device)
        owners = torch.repeat_interleave(torch.arange(len(batch), device=logits.device), counts)
        sums = torch.zeros(len(batch), dtype=logits.dtype, device=logits.device)
        return sums.index_add(0, owners, _pair_losses(logits, batch)) / counts

    def wanted(self, batch: Batch, outputs: int) -> torch.Tensor:
        """One for the pair with the label, minus one for the others: there is only one output to tell them apart."""
        right = torch.from_numpy(np.concatenate(_right(batch))).unsqueeze(1)
        return 2 * right.to(torch.int64) - 1

    def row_counts(self, batch: Batch) -> Integers:
        """One a pair."""
        return batch.targets.lengths - 1

    def right_rows(self, batch: Batch) -> Integers:
        """The pair with the label."""
        starts = np.cumsum(self.row_counts(batch)) - self.row_counts(batch)
        places = [int(np.flatnonzero(right)[0]) for right in _right(batch)]
        return starts + np.array(places, dtype=np.int64)

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The candidate with the largest logit; none where the largest is shared."""
        counts = batch.targets.lengths - 1
        predicted = np.full(len(batch), UNDECIDED, dtype=np.int64)
        scores = np.split(logits.squeeze(1).float().cpu().numpy(), np.cumsum(counts)[:-1])
        for row, score in enumerate(scores):
            best = np.flatnonzero(score == score.max())
            if len(best) == 1:
                predicted[row] = _candidates(batch, row)[best[0]]
        return predicted

    def texts(self, batch: Batch) -> Sequences:
        """The sentences without their candidates."""
        return Sequences(batch.tokens)

    def choices(self, batch: Batch) -> list[Integers]:
        """The candidates."""
        return [_candidates(batch, row) for row in range(len(batch))]

    def choose(self, scores: torch.Tensor, batch: Batch) -> Integers:
        """The candidate with the largest score; none where the largest is shared."""
        rows = np.repeat(np.arange(len(batch)), self.row_counts(batch))
        candidates = np.concatenate(self.choices(batch)).astype(np.int64)
        own = scores[torch.from_numpy(rows).to(scores.device), torch.from_numpy(candidates).to(scores.device)]
        return self.predict(own.unsqueeze(1), batch)


def _candidates(batch: Batch, row: int) -> Integers:
    return batch.targets[row][1:]


def _right(batch: Batch) -> list[npt.NDArray[np.bool_]]:
    """For each example which of its candidates is the label."""
    return [_candidates(batch, row) == label for row, label in enumerate(batch.labels)]


def _pair_losses(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    targets = torch.from_numpy(np.concatenate(_right(batch))).to(logits)
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), targets, reduction="none")
